//! The life of a lease as a trace, as a collector gets it.

use super::broker::Daemon;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    sync::mpsc,
    thread,
    time::Duration,
};

/// Takes messages of OTLP over HTTP.
fn collector() -> (String, mpsc::Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listens");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let (send, messages) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let send = send.clone();
            let Ok(mut stream) = stream else { return };
            thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().expect("a handle"));
                loop {
                    let mut length = 0;
                    let mut first = String::new();
                    if reader.read_line(&mut first).unwrap_or(0) == 0 {
                        return;
                    }
                    assert!(first.starts_with("POST /v1/traces "), "{first}");
                    loop {
                        let mut line = String::new();
                        reader.read_line(&mut line).expect("a line");
                        if let Some(value) =
                            line.to_ascii_lowercase().strip_prefix("content-length:")
                        {
                            length = value.trim().parse().expect("a number");
                        }
                        if line.trim().is_empty() {
                            break;
                        }
                    }
                    let mut body = vec![0; length];
                    reader.read_exact(&mut body).expect("a body");
                    // The test may be over.
                    let _ = send.send(serde_json::from_slice(&body).expect("JSON"));
                    stream
                        .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
                        .expect("answers");
                }
            });
        }
    });
    (url, messages)
}

#[test]
fn one_lease_is_one_trace_from_its_request_to_its_process() {
    let (url, messages) = collector();
    let daemon = Daemon::start(&["--executor", "local", "--otlp", &url]);
    daemon.json(&["tenant", "create", "vision"]);
    let words = [
        "lease",
        "request",
        "--tenant",
        "vision",
        "--gpu",
        "1xH100",
        "--",
        "sh",
        "-c",
        "echo $TRACEPARENT",
    ];
    assert!(
        daemon
            .command(&words)
            .output()
            .expect("runs")
            .status
            .success()
    );
    daemon.until("L-1", "ended");
    let mut spans: BTreeMap<String, Value> = BTreeMap::new();
    while !spans.contains_key("lease") {
        let message = messages
            .recv_timeout(Duration::from_secs(20))
            .expect("spans");
        for span in message["resourceSpans"][0]["scopeSpans"][0]["spans"]
            .as_array()
            .expect("a list")
        {
            spans.insert(
                span["name"].as_str().expect("a name").to_owned(),
                span.clone(),
            );
        }
    }
    let root = &spans["lease"];
    let text = |span: &Value, field: &str| span[field].as_str().expect(field).to_owned();
    let told = daemon.log("L-1");
    let (trace, id) = (text(root, "traceId"), text(root, "spanId"));
    assert_eq!(
        told.trim(),
        format!("00-{trace}-{id}-01"),
        "its program goes on with it"
    );
    let time = |span: &Value, field: &str| text(span, field).parse::<u64>().expect("a time");
    for (name, span) in &spans {
        assert_eq!(text(span, "traceId"), trace);
        let (start, end) = (
            time(span, "startTimeUnixNano"),
            time(span, "endTimeUnixNano"),
        );
        assert!(start <= end, "{span}");
        assert!(
            time(root, "startTimeUnixNano") <= start && end <= time(root, "endTimeUnixNano"),
            "{span}"
        );
        if name != "lease" {
            assert_eq!(text(span, "parentSpanId"), id);
        }
    }
    assert_eq!(root["status"]["code"], 1);
}
