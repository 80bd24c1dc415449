//! `gpuwise serve` by TLS.

use super::broker::Daemon;
use rcgen::{CertifiedKey, generate_simple_self_signed};

#[test]
fn requests_go_by_tls_where_there_is_a_certificate() {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(vec!["127.0.0.1".into()]).expect("a certificate");
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (certificate, key) = (file("cert.pem"), file("key.pem"));
    std::fs::write(&certificate, cert.pem()).expect("writes");
    std::fs::write(&key, signing_key.serialize_pem()).expect("writes");
    let daemon = Daemon::start(&["--tls-cert", &certificate, "--tls-key", &key]);
    assert!(daemon.url.starts_with("https://"), "{}", daemon.url);
    let asked = daemon
        .command(&["tenant", "create", "vision"])
        .env("GPUWISE_CA_FILE", &certificate)
        .output()
        .expect("runs");
    let errors = String::from_utf8_lossy(&asked.stderr).into_owned();
    assert!(asked.status.success(), "{errors}");
    // Whoever does not trust its authority does not send it a token.
    let stranger = daemon.command(&["tenant", "list"]).output().expect("runs");
    assert_eq!(stranger.status.code(), Some(2));
    let errors = String::from_utf8_lossy(&stranger.stderr).into_owned();
    assert!(errors.contains("certificate"), "{errors}");
}

#[test]
fn files_that_make_no_certificate_are_named() {
    let place = crate::support::Place::new();
    place.write("empty.pem", "");
    let cases = [
        ("empty.pem", "holds no certificate"),
        ("missing.pem", "cannot be read"),
    ];
    for (file, problem) in cases {
        let ran = place.run(&[
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--store",
            "sqlite://log.db",
            "--tls-cert",
            file,
            "--tls-key",
            file,
        ]);
        assert_eq!(ran.code, 2);
        assert!(
            ran.err.contains(problem) && ran.err.contains(file),
            "{}",
            ran.err
        );
    }
}
