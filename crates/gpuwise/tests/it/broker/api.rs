//! The API as programs use it: repeated, conditional, page by page; and the commands on it.

use super::Daemon;
use serde_json::Value;

fn items(answer: &Value) -> &Vec<Value> {
    answer["items"].as_array().expect("a list")
}

#[test]
fn a_dry_run_says_what_the_request_does_and_changes_nothing() {
    let daemon = Daemon::start(&["--speed", "60"]);
    daemon.json(&["tenant", "create", "vision", "--budget", "100 USD"]);
    let events =
        || daemon.json(&["store", "check", "--store", "sqlite://log.db"])["events"].clone();
    let before = events();
    let asks: [&[&str]; 3] = [
        &["--gpu", "8xH100", "--for", "2h"],
        &["--gpu", "8xH100", "--for", "20h"],
        &["--gpu", "8xH100", "--for", "1h"],
    ];
    let ask = |dry: bool, gpu: &[&str]| {
        let mut arguments = vec!["lease", "request", "--tenant", "vision", "--format", "json"];
        arguments.extend(gpu);
        arguments.extend(dry.then_some("--dry-run"));
        daemon.command(&arguments).output().expect("runs")
    };
    let told: Vec<(Option<i32>, Value)> = asks
        .iter()
        .map(|gpu| {
            let output = ask(true, gpu);
            (
                output.status.code(),
                serde_json::from_slice(&output.stdout).expect("JSON"),
            )
        })
        .collect();
    assert_eq!(events(), before);
    assert_eq!(
        (told[0].0, &told[0].1["state"]),
        (Some(0), &"starting".into())
    );
    // 8 × 2 h × 2.50 USD, and a µ-unit for rounding of each GPU and span that is charged alone, as of a month's end.
    let most = told[0].1["costs_at_most"].as_str().expect("an amount");
    assert!(
        ["40.000008 USD", "40.000016 USD", "40.000024 USD"].contains(&most),
        "{most}"
    );
    assert_eq!(
        (told[1].0, &told[1].1["admitted"]),
        (Some(1), &false.into())
    );
    assert!(
        told[1].1["problem"]["type"]
            .as_str()
            .expect("a kind")
            .ends_with("/budget")
    );
    let lease: Value = serde_json::from_slice(&ask(false, asks[0]).stdout).expect("JSON");
    assert_eq!(lease["gpus"], told[0].1["gpus"]);
    assert_eq!(ask(false, asks[1]).status.code(), Some(2));
    let plans = daemon.ask("GET", "/v1/plans?limit=1", "").json();
    assert_eq!(items(&plans)[0]["actions"][0], "place L-1");
    assert_eq!(items(&plans)[0]["placed"][0]["lease"], "L-1");
}

#[test]
fn what_is_asked_again_under_a_key_is_done_once() {
    let daemon = Daemon::start(&[]);
    let post = |path: &str, key: &str, body: &str| {
        daemon.ask_as(
            Some(&daemon.token),
            ("POST", path),
            &[("idempotency-key", key)],
            body,
        )
    };
    for (path, body, other) in [
        ("/v1/tenants", r#"{"name":"vision"}"#, r#"{"name":"audio"}"#),
        (
            "/v1/tokens",
            r#"{"name":"ann","role":"member","tenant":"vision"}"#,
            r#"{"name":"bea","role":"member","tenant":"vision"}"#,
        ),
        (
            "/v1/prices",
            r#"{"gpu":"H100","price":"3 USD","from":"2027-01-01"}"#,
            r#"{"gpu":"H100","price":"4 USD","from":"2027-01-01"}"#,
        ),
        (
            "/v1/leases",
            r#"{"tenant":"vision","gpu":"H100"}"#,
            r#"{"tenant":"vision","gpu":"2xH100"}"#,
        ),
    ] {
        let key = path.rsplit('/').next().expect("a word");
        let first = post(path, key, body);
        assert_eq!(first.status, 201, "{path}: {}", first.text);
        let again = post(path, key, body);
        assert!(matches!(again.status, 200 | 201), "{path}: {}", again.text);
        let reused = post(path, key, other);
        assert_eq!(reused.status, 422, "{path}: {}", reused.text);
        assert!(
            reused.text.contains("problems/key-reused"),
            "{}",
            reused.text
        );
        let bad = post(path, "a key", body);
        assert_eq!(bad.status, 400, "{path}: {}", bad.text);
    }
    let token = post(
        "/v1/tokens",
        "tokens",
        r#"{"name":"ann","role":"member","tenant":"vision"}"#,
    );
    assert!(token.json()["token"].is_null(), "it is said once");
    assert_eq!(items(&daemon.json(&["tenant", "list"])).len(), 1);
    assert_eq!(items(&daemon.json(&["lease", "list"])).len(), 1);
}

#[test]
fn who_changes_what_another_changed_meanwhile_is_told_so() {
    let daemon = Daemon::start(&[]);
    daemon.json(&[
        "tenant", "create", "vision", "--budget", "100usd", "--quota", "4xH100",
    ]);
    let seen = daemon.ask("GET", "/v1/tenants/vision", "");
    let tag = seen.header("etag").expect("a tag").to_owned();
    let change = |tag: &str, body: &str| {
        let route = ("PATCH", "/v1/tenants/vision");
        daemon.ask_as(Some(&daemon.token), route, &[("if-match", tag)], body)
    };
    let first = change(&tag, r#"{"budget":"200 USD"}"#);
    assert_eq!(first.status, 200, "{}", first.text);
    let late = change(&tag, r#"{"budget":"300 USD"}"#);
    assert_eq!(late.status, 412, "{}", late.text);
    let tag = first.header("etag").expect("a tag");
    assert_eq!(change(tag, r#"{"suspended":true}"#).status, 200);
    let refused = daemon.refused(&["lease", "request", "--tenant", "vision", "--gpu", "H100"]);
    assert!(refused.contains("is suspended"), "{refused}");
    let set = daemon.json(&[
        "tenant", "set", "vision", "--resume", "--budget", "none", "--weight", "2",
    ]);
    assert!(
        set["budget"].is_null() && set["suspended"].is_null(),
        "{set}"
    );
    assert_eq!(set["quota"][0]["gpus"], "4", "what is not named stays");
    daemon.json(&["lease", "request", "--tenant", "vision", "--gpu", "H100"]);
    let policy = daemon.ask("GET", "/v1/policies", "");
    let tag = policy.header("etag").expect("a tag");
    let again = daemon.ask_as(
        Some(&daemon.token),
        ("GET", "/v1/policies"),
        &[("if-none-match", tag)],
        "",
    );
    assert_eq!(again.status, 304);
}

#[test]
fn lists_say_who_has_what() {
    let daemon = Daemon::start(&["--speed", "60"]);
    daemon.json(&[
        "tenant", "create", "vision", "--budget", "500usd", "--quota", "2xH100",
    ]);
    let asked = daemon.ask(
        "POST",
        "/v1/leases",
        r#"{"tenant":"vision","project":"ocr","gpu":"4xH100","for":"2h","command":["sleep","1"]}"#,
    );
    assert_eq!(asked.status, 201, "{}", asked.text);
    daemon.until("L-1", "active");
    let get = |path: &str| daemon.ask("GET", path, "").json();
    let quota = &items(&get("/v1/quotas"))[0].clone();
    assert_eq!(
        (&quota["held"], &quota["borrowed"]),
        (&4.0.into(), &2.0.into()),
        "{quota}"
    );
    let budget = &items(&get("/v1/budgets"))[0].clone();
    assert_eq!(budget["budget"], "500 USD");
    let money = |name: &str| -> f64 {
        let text = budget[name]
            .as_str()
            .expect("money")
            .trim_end_matches(" USD");
        text.parse().expect("a number")
    };
    let sum = money("spent") + money("reserved") + money("left");
    assert!((sum - 500.0).abs() < 1e-6, "{budget}");
    let project = &items(&get("/v1/projects"))[0].clone();
    assert_eq!(
        (&project["project"], &project["gpus"]),
        (&"ocr".into(), &4.0.into())
    );
    let user = &items(&get("/v1/users"))[0].clone();
    assert_eq!(
        (&user["name"], &user["leases"]),
        (&"admin".into(), &1.into())
    );
    let job = &items(&get("/v1/jobs"))[0].clone();
    assert_eq!(
        (&job["lease"], &job["nodes"][0]),
        (&"L-1".into(), &"n1".into())
    );
    assert_eq!(items(&get("/v1/reservations")).len(), 0);
    let report = get("/v1/reports/fleet");
    assert_eq!(
        (&report["gpus"], &report["held"]),
        (&16.0.into(), &4.0.into()),
        "{report}"
    );
    let offers = daemon.json(&["lease", "offers", "--count", "8"]);
    let offer = &items(&offers)[0];
    assert_eq!(
        (&offer["free"], &offer["together"]),
        (&12.into(), &8.into()),
        "{offer}"
    );
    assert_eq!(
        (&offer["now"], &offer["price"]),
        (&true.into(), &"2.5 USD".into()),
        "{offer}"
    );
    daemon.json(&[
        "lease", "request", "--tenant", "vision", "--gpu", "8xH100", "--for", "1h",
    ]);
    let offers = daemon.json(&["lease", "offers", "--count", "8"]);
    let offer = &items(&offers)[0];
    assert_eq!(offer["now"], false);
    assert!(
        offer["from"].is_string(),
        "when the first of them ends: {offer}"
    );
}

#[test]
fn who_did_what_is_kept() {
    let daemon = Daemon::start(&["--speed", "60"]);
    for tenant in ["alpha", "beta"] {
        daemon.json(&["tenant", "create", tenant]);
    }
    let ann = daemon.token_of("ann", "member", Some("alpha"));
    let mut request = daemon.command(&["lease", "request", "--tenant", "alpha", "--gpu", "H100"]);
    assert!(
        request
            .env("GPUWISE_TOKEN", &ann)
            .status()
            .expect("runs")
            .success()
    );
    daemon.json(&["lease", "release", "L-1"]);
    let audit = daemon.json(&["token", "audit"]);
    let said: Vec<(&str, &str, &str)> = items(&audit)
        .iter()
        .map(|one| {
            let text = |name: &str| one[name].as_str().expect("text");
            (text("by"), text("what"), text("subject"))
        })
        .collect();
    let wanted = [
        ("admin", "release-lease", "L-1"),
        ("alpha/ann", "request-lease", "L-1"),
        ("admin", "create-token", "ann"),
        ("admin", "create-tenant", "beta"),
        ("admin", "create-tenant", "alpha"),
    ];
    assert_eq!(said, wanted);
    let first = daemon.json(&["token", "audit", "--limit", "2"]);
    let cursor = first["next"].as_str().expect("there is more");
    let rest = daemon
        .ask("GET", &format!("/v1/audit?limit=2&cursor={cursor}"), "")
        .json();
    assert_eq!(items(&rest)[0]["subject"], "ann");
    let auditor = daemon.token_of("aud", "auditor", Some("beta"));
    let own = daemon.ask_as(Some(&auditor), ("GET", "/v1/audit"), &[], "");
    let own = own.json();
    assert!(
        items(&own).iter().all(|one| one["tenant"] == "beta"),
        "{own}"
    );
    assert!(!items(&own).is_empty());
}
