//! Certificates, good and bad.

use crate::scripted::options;
use gpuwise_probe::bench::{Trust, prepare};
use std::{sync::Arc, thread};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring,
        pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    },
};

/// A server with a certificate of its own for a name; its port, and the certificate in PEM.
fn serve(name: &str) -> (u16, String) {
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).expect("a certificate");
    let pem = made.cert.pem();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .expect("a configuration");
    let (port, ports) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            port.send(listener.local_addr().expect("its address").port()).expect("a listener");
            let acceptor = TlsAcceptor::from(Arc::new(config));
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(mut stream) = acceptor.accept(stream).await else {
                    continue;
                };
                tokio::spawn(async move {
                    let mut bytes = vec![0; 65536];
                    while let Ok(1..) = stream.read(&mut bytes).await {
                        let body = r#"{"data":[{"id":"tiny"}],"choices":[{"text":"ba"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}"#;
                        let answer = format!(
                            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                            body.len()
                        );
                        if stream.write_all(answer.as_bytes()).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
    });
    (ports.recv().expect("a port"), pem)
}

#[track_caller]
fn check(at: u16, trust: Trust, expected: Result<(), &str>) {
    let mut options = options(&format!("https://127.0.0.1:{at}/v1"));
    options.trust = trust;
    match (prepare(options), expected) {
        (Ok(_), Ok(())) => {}
        (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
        (found, expected) => panic!("{found:?} in place of {expected:?}"),
    }
}

fn trusted(pem: &str) -> Trust {
    Trust {
        authorities: Some(pem.as_bytes().to_vec()),
        any: false,
    }
}

#[test]
fn certificates_are_checked() {
    let (port, pem) = serve("127.0.0.1");
    check(port, Trust::default(), Err("bad certificate"));
    check(port, trusted(&pem), Ok(()));
    check(
        port,
        Trust {
            authorities: None,
            any: true,
        },
        Ok(()),
    );
    check(
        port,
        trusted("no certificate"),
        Err("no certificate in PEM"),
    );
    let (port, pem) = serve("another.example");
    check(port, trusted(&pem), Err("bad certificate"));
}

#[test]
fn plain_text_where_tls_is_spoken_is_said() {
    let plain = crate::scripted::Server::start(crate::scripted::answer);
    let port = plain
        .address
        .rsplit_once(':')
        .expect("a port")
        .1
        .parse()
        .expect("a number");
    check(port, Trust::default(), Err("no TLS connection"));
}
