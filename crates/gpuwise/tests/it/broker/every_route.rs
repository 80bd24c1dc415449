//! Every route × role × tenant, from the description that is made of the table of routes: a route that is
//! added is asked here, and one that takes a document must say here which.

use super::Daemon;
use serde_json::Value;

/// Who asks: the role, the tenant of the token, the token.
type Who = (&'static str, Option<&'static str>, String);

const ROLES: [(&str, &[Option<&str>]); 5] = [
    ("administrator", &[None]),
    ("operator", &[None]),
    ("tenant-admin", &[Some("alpha"), Some("beta")]),
    ("member", &[Some("alpha"), Some("beta")]),
    ("auditor", &[None, Some("alpha"), Some("beta")]),
];

/// What is sent to a route: about tenant alpha, whose secrets beta must not see.
fn body(document: &str) -> &'static str {
    match document {
        "LeaseAsk" => r#"{"tenant":"alpha","gpu":"H100","for":"1h"}"#,
        "TenantAsk" => r#"{"name":"gamma"}"#,
        "TenantChange" => r#"{"weight":2}"#,
        "TokenAsk" => r#"{"name":"made","role":"member","tenant":"alpha"}"#,
        "PriceAsk" => r#"{"gpu":"H100","price":"2 USD","tenant":"alpha"}"#,
        "CompletionAsk" => r#"{"model":"somemodel","messages":[]}"#,
        "UsageEvent" => r#"{"specversion":"1.0","id":"1","source":"alpha","type":"x","data":{}}"#,
        "SloAsk" => r#"{"tenant":"alpha","objectives":[]}"#,
        "PolicyFile" => r#"{"order":"priority"}"#,
        "ReservationAsk" => {
            r#"{"name":"alphakept","tenant":"alpha","node":"n1","gpus":1,"for":"1h"}"#
        }
        // A pool more; nodes with alpha's leases stay.
        "FleetDocument" => {
            r#"{"name":"test","kinds":[],"nodes":[],"gpus":[],"domains":[],"islands":[],"pools":[],"queues":[],
                "reservations":[],"sharing":{"weigh":"alike","half_life_ns":null,"past_milli":0,"budget_period_ns":null},
                "scheduling":{"order":null,"backfill":null,"starvation_ns":null,"weighs":false}}"#
        }
        "SecretAsk" => r#"{"secret":"alphavalue"}"#,
        "NodeAsk" => r#"{"do":"cordon"}"#,
        "ScalePolicy" => r#"{"max":2,"rate":1.0}"#,
        "ProposalDecision" => r#"{"accept":false}"#,
        other => panic!("{other}: say here what is sent to the routes that take it"),
    }
}

/// The path with what is alpha's in its places.
fn filled(path: &str) -> String {
    let places = [
        ("{tenant}", "alpha"),
        ("{month}", "2026-11"),
        ("{lease}", "L-1"),
        ("{name}", "sometoken"),
        ("{slo}", "1"),
        ("{proposal}", "1"),
        ("{reservation}", "somekept"),
        ("{node}", "n2"),
        ("{secret}", "somesecret"),
    ];
    let filled = places.iter().fold(path.to_owned(), |path, (place, value)| {
        path.replace(place, value)
    });
    assert!(
        !filled.contains('{'),
        "{filled}: say here what stands in the place"
    );
    filled
}

#[test]
fn every_route_asks_who_asks_and_tells_nobody_what_is_anothers() {
    let daemon = Daemon::start(&["--speed", "600", "--tenant-requests", "0"]);
    for tenant in ["alpha", "beta"] {
        daemon.json(&["tenant", "create", tenant, "--budget", "100000 USD"]);
    }
    let asked = daemon.ask(
        "POST",
        "/v1/leases",
        r#"{"tenant":"alpha","gpu":"2xH100","name":"alphasecret","project":"alphaproject","command":["alphacommand"]}"#,
    );
    assert_eq!(asked.status, 201, "{}", asked.text);
    daemon.json(&["prices", "set", "H100", "1.25usd", "--tenant", "alpha"]);
    daemon.token_of("sometoken", "member", Some("alpha"));
    let mut all: Vec<Who> = Vec::new();
    for (role, tenants) in ROLES {
        for tenant in tenants {
            let name = format!("{role}-{}", tenant.unwrap_or("all"));
            all.push((role, *tenant, daemon.token_of(&name, role, *tenant)));
        }
    }
    let description = daemon.ask("GET", "/openapi.json", "").json();
    let paths = description["paths"].as_object().expect("paths");
    let mut asked = 0;
    for (path, methods) in paths {
        for (method, route) in methods.as_object().expect("methods") {
            asked += 1;
            // What changes anything is asked last by whoever may: the others go first.
            one(&daemon, &all, (&method.to_uppercase(), path), route);
        }
    }
    assert!(asked > 35, "{asked}");
}

fn one(daemon: &Daemon, all: &[Who], (method, path): (&str, &str), route: &Value) {
    let document = route["requestBody"]["content"]["application/json"]["schema"]["$ref"].as_str();
    let sent = document.map_or("", |name| body(name.rsplit('/').next().expect("a name")));
    let target = filled(path);
    let nobody = daemon.ask_as(None, (method, &target), &[], sent);
    let is_open = route["security"].is_null();
    if is_open {
        let open = ["/", "/healthz", "/readyz", "/openapi.json", "/metrics"];
        assert!(open.contains(&path), "{method} {path} asks nobody who asks");
        assert!(
            !nobody.text.contains("alpha"),
            "{method} {path}: {}",
            nobody.text
        );
        return;
    }
    assert_eq!(nobody.status, 401, "{method} {path} without a token");
    assert_eq!(nobody.header("www-authenticate"), Some("bearer"));
    let wrong = daemon.ask_as(Some("gpuwise_wrong"), (method, &target), &[], sent);
    assert_eq!(wrong.status, 401, "{method} {path} with a wrong token");
    let roles: Vec<&str> = route["x-roles"]
        .as_array()
        .unwrap_or_else(|| panic!("{method} {path} says no roles"))
        .iter()
        .filter_map(Value::as_str)
        .collect();
    for (role, tenant, token) in all {
        let answer = daemon.ask_as(Some(token), (method, &target), &[], sent);
        let who = format!("{method} {path} as {role} of {tenant:?}: {}", answer.status);
        assert_ne!(answer.status, 401, "{who}");
        assert!(
            answer.status < 500 || answer.status == 503,
            "{who}: {}",
            answer.text
        );
        if !roles.contains(role) {
            assert_eq!(answer.status, 403, "{who}");
            continue;
        }
        if *tenant == Some("beta") {
            // Of what is alpha's nothing is said, nor done: not even that it is there.
            let told = answer
                .text
                .replace("\"alpha\"", "")
                .replace("\\\"alpha\\\"", "")
                // What was asked for by name.
                .replace("alphatoken", "");
            assert!(!told.contains("alpha"), "{who}: {}", answer.text);
            let about = path.contains('{') || sent.contains("alpha");
            let refused = matches!(answer.status, 403 | 404 | 422);
            assert!(!about || refused, "{who}: {}", answer.text);
        }
    }
}

#[test]
fn a_tenant_that_asks_too_much_is_told_when_to_ask_again() {
    let daemon = Daemon::start(&["--tenant-requests", "2"]);
    for tenant in ["alpha", "beta"] {
        daemon.json(&["tenant", "create", tenant]);
    }
    let token = daemon.token_of("ann", "member", Some("alpha"));
    let other = daemon.token_of("bea", "member", Some("beta"));
    let list = |token: &str| daemon.ask_as(Some(token), ("GET", "/v1/leases"), &[], "");
    let refused = (0..100)
        .map(|_| list(&token))
        .find(|answer| answer.status != 200);
    let refused = refused.expect("a limit");
    assert_eq!(refused.status, 429, "{}", refused.text);
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert!(refused.text.contains("problems/limit"), "{}", refused.text);
    assert_eq!(list(&other).status, 200, "others have theirs");
    assert_eq!(daemon.ask("GET", "/v1/leases", "").status, 200);
}
