//! What somebody asks who has not read the reference: each mistake is named, and what would be right.

use super::Daemon;

#[test]
fn mistakes_are_named_and_change_nothing() {
    let daemon = Daemon::start(&[]);
    daemon.json(&["tenant", "create", "vision"]);
    let detail = |method: &str, path: &str, body: &str| {
        let answer = daemon.ask(method, path, body);
        let said = answer.json();
        let text = |name: &str| said[name].as_str().unwrap_or_default().to_owned();
        (answer.status, text("field"), text("detail"))
    };
    for (body, wanted) in [
        (
            "[\"vision\",null,null,\"H100\"]",
            "a list: expected an object",
        ),
        ("null", "null: expected an object"),
        ("7", "a single value: expected an object"),
    ] {
        let (status, field, said) = detail("POST", "/v1/leases", body);
        assert_eq!(
            (status, field.as_str(), said.as_str()),
            (422, "body", wanted)
        );
    }
    let (status, field, said) = detail("GET", "/v1/leases?tenat=vision", "");
    assert_eq!((status, field.as_str()), (422, "tenat"));
    assert!(
        said.ends_with("this takes state, tenant, limit, cursor"),
        "{said}"
    );
    let (status, field, _) = detail("POST", "/v1/usage", "[{\"x\":1}]");
    assert_eq!((status, field.as_str()), (422, "[0]"));
    for (arguments, wanted) in [
        (
            &["lease", "request", "--tenant", "vision", "--gpu", "1g.99gb"][..],
            "expected a MIG profile of this fleet: 1g.10gb",
        ),
        (
            &["prices", "set", "H100", "2usd", "--from", "9999-01-01"],
            "expected a time from 1970 to 2553",
        ),
        (&["token", "revoke", "alice"], "is of tenant \"vision\""),
    ] {
        if arguments[0] == "token" {
            daemon.json(&[
                "token", "create", "alice", "--role", "member", "--tenant", "vision",
            ]);
        }
        let said = daemon.refused(arguments);
        assert!(said.contains(wanted), "{arguments:?}: {said}");
    }
    assert_eq!(
        daemon.json(&["lease", "list", "--all"])["items"],
        serde_json::json!([])
    );
    // A store that cannot be is no broker that stopped.
    let output = daemon
        .place
        .command(&["serve", "--listen", "127.0.0.1:0", "--fleet", "fleet.toml"])
        .args(["--store", "sqlite:///nowhere/at/all.db"])
        .output()
        .expect("runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains("the broker cannot start") && said.contains("--store names"),
        "{said}"
    );
}
