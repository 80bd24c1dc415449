//! What comes in by HTTP: text of one line, the page's cookie, errors where clients of OpenAI's API look for them.

use super::Daemon;

#[test]
fn names_of_more_than_one_line_are_refused_wherever_they_stand() {
    let daemon = Daemon::start(&[]);
    daemon.json(&["tenant", "create", "vision"]);
    for (path, body, field) in [
        (
            "/v1/leases",
            r#"{"tenant":"vision","gpu":"H100","name":"a\r\nb"}"#,
            "name",
        ),
        (
            "/v1/leases",
            r#"{"tenant":"vision","gpu":"H100","name":"a\u0000b"}"#,
            "name",
        ),
        (
            "/v1/leases",
            r#"{"tenant":"vision","gpu":"H100","project":"a\u001b[2Jb"}"#,
            "project",
        ),
        (
            "/v1/leases",
            r#"{"tenant":"vision","gpu":"H100","env":{"A\nB":"1"}}"#,
            "env",
        ),
        ("/v1/tenants", r#"{"name":"a\nb"}"#, "name"),
        ("/v1/tenants", r#"{"name":"L-7"}"#, "name"),
        (
            "/v1/tokens",
            r#"{"name":"a\u202eb","role":"auditor"}"#,
            "name",
        ),
        (
            "/v1/reservations",
            r#"{"name":"a\tb","tenant":"vision","node":"n0","gpus":1,"for":"1h"}"#,
            "name",
        ),
    ] {
        let said = daemon.ask("POST", path, body);
        assert_eq!(said.status, 422, "{body}: {}", said.text);
        assert_eq!(said.json()["field"], field, "{body}: {}", said.text);
    }
}

#[test]
fn the_cookie_of_the_page_is_secure_where_the_browser_speaks_tls_and_nobody_frames_it() {
    let daemon = Daemon::start(&[]);
    let form = format!("token={}", daemon.token);
    let enter = |headers: &[(&str, &str)]| {
        let said = daemon.ask_as(None, ("POST", "/"), headers, &form);
        assert_eq!(said.status, 303, "{}", said.text);
        said.header("set-cookie").expect("a cookie").to_owned()
    };
    assert!(!enter(&[]).contains("; secure"));
    assert!(!enter(&[("origin", "http://broker.example")]).contains("; secure"));
    assert!(enter(&[("origin", "https://broker.example")]).contains("; secure"));
    assert!(enter(&[("x-forwarded-proto", "https, http")]).contains("; secure"));
    let page = daemon.ask_as(None, ("GET", "/"), &[], "");
    let policy = page.header("content-security-policy").expect("a policy");
    assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
}

#[test]
fn clients_of_openais_api_are_told_why_they_are_refused() {
    let daemon = Daemon::start(&[]);
    for (token, method, path, status) in [
        (None, "POST", "/v1/chat/completions", 401),
        (Some("gpuwise_no"), "POST", "/v1/completions", 401),
        (None, "GET", "/v1/models", 401),
        (
            Some(daemon.token.as_str()),
            "POST",
            "/v1/chat/completions",
            422,
        ),
        (Some(daemon.token.as_str()), "POST", "/v1/embeddings", 404),
        (Some(daemon.token.as_str()), "DELETE", "/v1/models", 405),
    ] {
        let said = daemon.ask_as(token, (method, path), &[], r#"{"stream": 1}"#);
        assert_eq!(said.status, status, "{method} {path}: {}", said.text);
        let message = said.json()["error"]["message"].clone();
        let message = message.as_str().unwrap_or_default();
        assert!(!message.is_empty(), "{method} {path}: {}", said.text);
    }
}
