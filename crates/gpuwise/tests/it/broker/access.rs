//! Who may see and do what.

use super::Daemon;

#[test]
fn tenants_do_not_see_each_other() {
    let daemon = Daemon::start(&["--speed", "600"]);
    for tenant in ["a", "b"] {
        daemon.json(&["tenant", "create", tenant]);
        daemon.json(&["lease", "request", "--tenant", tenant, "--gpu", "H100"]);
    }
    let made = daemon.json(&[
        "token", "create", "ann", "--role", "member", "--tenant", "a",
    ]);
    let token = made["token"].as_str().expect("is said").to_owned();
    let as_ann = |arguments: &[&str]| {
        let mut command = daemon.command(arguments);
        let output = command
            .env("GPUWISE_TOKEN", &token)
            .args(["--format", "json"])
            .output()
            .expect("runs");
        (
            output.status.success(),
            String::from_utf8_lossy(&output.stdout).into_owned()
                + &String::from_utf8_lossy(&output.stderr),
        )
    };
    let (good, leases) = as_ann(&["lease", "list"]);
    assert!(
        good && leases.contains("L-1") && !leases.contains("L-2"),
        "{leases}"
    );
    for arguments in [
        &["lease", "show", "L-2"][..],
        &["lease", "explain", "L-2"],
        &["lease", "release", "L-2"],
        &["statement", "b"],
        &["lease", "request", "--tenant", "b", "--gpu", "H100"],
    ] {
        let (good, said) = as_ann(arguments);
        assert!(
            !good && said.contains("there is no"),
            "{arguments:?}: {said}"
        );
    }
    for arguments in [
        &["tenant", "create", "c"][..],
        &["token", "list"],
        &["token", "create", "x", "--role", "administrator"],
    ] {
        let (good, said) = as_ann(arguments);
        assert!(
            !good && said.contains("a token of role member may not do this"),
            "{arguments:?}: {said}"
        );
    }
    let (_, top) = as_ann(&["top"]);
    assert!(!top.contains("\"b\"") && !top.contains("L-2"), "{top}");
    let mut revoke = daemon.command(&["token", "revoke", "ann", "--tenant", "a"]);
    assert!(revoke.status().expect("runs").success());
    let (good, said) = as_ann(&["lease", "list"]);
    assert!(!good && said.contains("no such token"), "{said}");
}

#[test]
fn a_doctor_says_what_is_well_and_what_is_not() {
    let daemon = Daemon::start(&[]);
    let well = daemon.json(&["doctor"]);
    let state = |what: &str| {
        let checks = well["checks"].as_array().expect("a list");
        let one = checks.iter().find(|one| one["what"] == what);
        one.unwrap_or_else(|| panic!("{what}: {well}"))["state"].clone()
    };
    for what in ["Commands of leases", "Log and its disk", "Broker", "Token"] {
        assert_eq!(state(what), "well", "{what}");
    }
    let mut command = daemon.command(&["doctor", "--broker-only", "--url", "http://127.0.0.1:9"]);
    assert_eq!(
        command.output().expect("runs").status.code(),
        Some(1),
        "nobody is there"
    );
    let mut command = daemon.command(&["doctor", "--token", "wrong"]);
    let output = command.output().expect("runs");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("no such token"), "{text}");
}
