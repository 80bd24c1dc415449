//! Traffic from what people have: metrics and logs. A server of this test's own stands for theirs.

use crate::support::{Place, Ran, ran};
use std::{
    fmt::Write as _,
    io::{BufRead as _, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

/// What a server answers to the nth request for a path; `None`: nothing, for ever.
type Answers = dyn Fn(&str, usize) -> Option<(u16, String, String)> + Send + Sync;

/// Serves until the test ends; gives the address, and what was asked.
fn server(
    answers: impl Fn(&str, usize) -> Option<(u16, String, String)> + Send + Sync + 'static,
) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let heads = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&heads);
    let answers: Box<Answers> = Box::new(answers);
    thread::spawn(move || {
        let mut silent = Vec::new();
        for stream in listener.incoming().flatten() {
            if let Ok(Some(stream)) = serve(stream, &answers, &log) {
                silent.push(stream);
            }
        }
    });
    (address, heads)
}

fn serve(
    mut stream: TcpStream,
    answers: &Answers,
    log: &Mutex<Vec<String>>,
) -> std::io::Result<Option<TcpStream>> {
    let mut head = String::new();
    for line in BufReader::new(stream.try_clone()?).lines() {
        let line = line?;
        if line.is_empty() {
            break;
        }
        head += &line;
        head.push('\n');
    }
    let path = head.split(' ').nth(1).unwrap_or("").to_owned();
    let count = {
        let mut log = log.lock().expect("not poisoned");
        log.push(head);
        log.len()
    };
    let Some((status, extra, body)) = answers(&path, count) else {
        return Ok(Some(stream));
    };
    write!(
        stream,
        "HTTP/1.1 {status} Said\r\n{extra}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )?;
    Ok(None)
}

/// A page of vLLM after so many requests of 500 tokens in and 100 out.
fn page(requests: f64) -> String {
    let mut text = String::from("process_start_time_seconds 1700000000\n");
    for (name, tokens, bound) in [
        ("request_prompt_tokens", 500.0, "1000"),
        ("request_generation_tokens", 100.0, "200"),
    ] {
        for (suffix, value) in [
            ("_bucket{le=\"10\",model_name=\"llama-3.1-8b\"}".into(), 0.0),
            (
                format!("_bucket{{le=\"{bound}\",model_name=\"llama-3.1-8b\"}}"),
                requests,
            ),
            (
                "_bucket{le=\"+Inf\",model_name=\"llama-3.1-8b\"}".into(),
                requests,
            ),
            (
                "_sum{model_name=\"llama-3.1-8b\"}".into(),
                requests * tokens,
            ),
            ("_count{model_name=\"llama-3.1-8b\"}".into(), requests),
        ] {
            writeln!(text, "vllm:{name}{suffix} {value}").expect("text");
        }
    }
    text
}

/// An error names these, exits with 2 and prints nothing.
#[track_caller]
pub(crate) fn refused(ran: &Ran, parts: &[&str]) {
    assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
    assert!(ran.out.is_empty(), "{}", ran.out);
    for part in parts {
        assert!(ran.err.contains(part), "{part} is not in {}", ran.err);
    }
}

#[test]
fn a_saved_page_becomes_a_workload_that_plan_reads() {
    let place = Place::new();
    place.write("metrics.prom", page(7200.0));
    let ran = place.run(&[
        "workload",
        "from-metrics",
        "metrics.prom",
        "--for",
        "1h",
        "--output",
        "w.toml",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.out.is_empty() && ran.err.contains("7200 requests"),
        "{}",
        ran.err
    );
    let plan = place.json(&[
        "plan",
        "--workload",
        "w.toml",
        "--gpu",
        "H100",
        "--top",
        "1",
    ]);
    let workload = &plan["workload"];
    assert_eq!(
        workload["traffic"]["requests_per_second"], 2.0,
        "{workload}"
    );
    assert_eq!(workload["input_tokens"]["mean"], 500.0, "{workload}");
    assert_eq!(workload["output_tokens"]["mean"], 100.0, "{workload}");
    assert_eq!(plan["model"]["name"], "meta-llama/Llama-3.1-8B");
}

#[test]
fn a_page_alone_has_no_rate() {
    let place = Place::new();
    place.write("metrics.prom", page(7200.0));
    let ran = place.run(&["workload", "from-metrics", "metrics.prom"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.out.contains("# rate: unknown") && !ran.out.contains("\nrate ="),
        "{}",
        ran.out
    );
    // When it was taken makes one: two hours after the start.
    let taken = place.run(&[
        "workload",
        "from-metrics",
        "metrics.prom",
        "--taken",
        "1700007200",
    ]);
    assert!(taken.out.contains("\nrate = \"1/s\""), "{}", taken.out);
}

#[test]
fn two_pages_give_what_came_between_them() {
    let place = Place::new();
    place.write("a.prom", page(7200.0));
    place.write("b.prom", page(7500.0));
    let between = ["workload", "from-metrics", "a.prom", "b.prom"];
    let ran = place.run(&[&between[..], &["--for", "1min"]].concat());
    assert!(ran.out.contains("rate = \"5/s\""), "{}{}", ran.out, ran.err);
    let turned = place.run(&[
        "workload",
        "from-metrics",
        "b.prom",
        "a.prom",
        "--for",
        "1min",
    ]);
    refused(&turned, &["counts less than", "other way round"]);
}

#[test]
fn a_running_server_is_watched() {
    let (address, heads) =
        server(|_, count| Some((200, String::new(), page(100.0 * count as f64))));
    let place = Place::new();
    place.write("key.txt", "sesame-4711\n");
    let url = format!("{address}/metrics");
    let ran = ran(&mut place.online(&[
        "workload",
        "from-metrics",
        &url,
        "--for",
        "300ms",
        "--every",
        "50ms",
        "--key-file",
        "key.txt",
    ]));
    assert_eq!(ran.code, 0, "{}", ran.err);
    // Seven looks, 100 requests between each and the next: no bursts at all.
    assert!(
        ran.err.contains("600 requests") && ran.out.contains("burstiness = 0"),
        "{}{}",
        ran.out,
        ran.err
    );
    let heads = heads.lock().expect("not poisoned");
    assert!(heads.iter().all(|head| head.contains("Bearer sesame-4711")));
    assert!(!ran.out.contains("sesame") && !ran.err.contains("sesame"));
}

#[test]
fn servers_that_misbehave_are_named() {
    let (address, _) = server(|path, _| match path {
        "/moved" => Some((
            302,
            "Location: https://elsewhere.example/metrics?token=s3cret\r\n".into(),
            String::new(),
        )),
        "/html" => Some((200, String::new(), "<!DOCTYPE html><html></html>".into())),
        "/key" => Some((401, String::new(), String::new())),
        "/idle" => Some((200, String::new(), page(0.0))),
        "/garbage" => Some((
            200,
            String::new(),
            "vllm:request_prompt_tokens_count{ 5\n".into(),
        )),
        "/silent" => None,
        _ => Some((404, String::new(), String::new())),
    });
    let place = Place::new();
    let ask = |url: &str| {
        ran(&mut place.online(&["workload", "from-metrics", url, "--timeout", "400ms"]))
    };
    let at = |path: &str| format!("{address}{path}");
    let moved = ask(&at("/moved"));
    refused(
        &moved,
        &[
            "redirects to https://elsewhere.example/metrics",
            "give that address",
        ],
    );
    assert!(!moved.err.contains("s3cret"), "{}", moved.err);
    refused(&ask(&at("/html")), &["a page in HTML", "/metrics"]);
    refused(&ask(&at("/key")), &["401", "--key-env"]);
    refused(&ask(&at("/nothing")), &["404", "under /metrics"]);
    refused(&ask(&at("/idle")), &["no request yet"]);
    refused(&ask(&at("/garbage")), &["line 1"]);
    refused(
        &ask(&at("/silent")),
        &["does not answer within 400ms", "--timeout"],
    );
    refused(
        &ask("http://user:s3cret@127.0.0.1:9/metrics"),
        &["holds a user or a key"],
    );
    refused(
        &ask("http://127.0.0.1:1/metrics"),
        &["refuses the connection"],
    );
    let offline = place.run(&["workload", "from-metrics", &at("/idle")]);
    refused(&offline, &["--offline"]);
    let keyless = ran(&mut place.online(&[
        "workload",
        "from-metrics",
        &at("/key"),
        "--key-env",
        "NO_SUCH_KEY",
    ]));
    refused(&keyless, &["NO_SUCH_KEY is not set"]);
}

/// What a Prometheus server answers to our queries: ten requests a second in even minutes, none in odd
/// ones.
fn prometheus(path: &str) -> String {
    let path = path
        .replace("%5B", "[")
        .replace("%7B", "{")
        .replace("%3A", ":")
        .replace("%28", "(");
    let vector = |items: &[(&str, &str, f64)]| {
        let items: Vec<String> = items
            .iter()
            .map(|(key, value, number)| {
                format!("{{\"metric\":{{\"{key}\":\"{value}\"}},\"value\":[1,\"{number}\"]}}")
            })
            .collect();
        format!(
            "{{\"status\":\"success\",\"data\":{{\"resultType\":\"vector\",\"result\":[{}]}}}}",
            items.join(",")
        )
    };
    if path.contains("query_range") {
        let start: f64 = path
            .split("start=")
            .nth(1)
            .and_then(|rest| rest.split('&').next())
            .and_then(|number| number.parse().ok())
            .expect("a start");
        let values: Vec<String> = (0..120)
            .map(|window| {
                format!(
                    "[{},\"{}\"]",
                    start + 60.0 * f64::from(window),
                    if window % 2 == 0 { 600 } else { 0 }
                )
            })
            .collect();
        return format!(
            "{{\"status\":\"success\",\"data\":{{\"resultType\":\"matrix\",\"result\":[{{\"metric\":{{}},\"values\":[{}]}}]}}}}",
            values.join(",")
        );
    }
    let scale = if path.contains("generation") {
        0.2
    } else {
        1.0
    };
    if path.contains("__name__") {
        vector(&[
            ("__name__", "vllm:request_prompt_tokens_count", 1.0),
            ("__name__", "vllm:request_generation_tokens_count", 1.0),
        ])
    } else if path.contains("by+(model_name)") || path.contains("by%20(model_name)") {
        vector(&[("model_name", "llama-3.1-8b", 1.0)])
    } else if path.contains("_bucket") {
        vector(&[("le", "1000", 36_000.0), ("le", "+Inf", 36_000.0)])
    } else if path.contains("_sum") {
        vector(&[("x", "y", 18_000_000.0 * scale)])
    } else {
        vector(&[])
    }
}

#[test]
fn a_prometheus_server_knows_the_hours() {
    let (address, heads) = server(|path, _| Some((200, String::new(), prometheus(path))));
    let place = Place::new();
    let ran = ran(&mut place.online(&[
        "workload",
        "from-metrics",
        "--prometheus",
        &address,
        "--selector",
        "{job=\"vllm\"}",
        "--range",
        "2h",
        "--step",
        "1min",
    ]));
    assert_eq!(ran.code, 0, "{}", ran.err);
    for part in [
        "rate = \"5/s\"",
        "rates = [\"5/s\", \"5/s\"]",
        "isl = 500",
        "osl = 100",
        "rates_from = \"",
        "burstiness = 3",
    ] {
        assert!(ran.out.contains(part), "{part} is not in {}", ran.out);
    }
    let heads = heads.lock().expect("not poisoned");
    assert!(heads.iter().all(|head| head.contains("job")), "{heads:?}");
    let wrong = place.run(&[
        "workload",
        "from-metrics",
        "--prometheus",
        &address,
        "--selector",
        "job",
        "--offline",
    ]);
    assert_eq!(wrong.code, 2);
}

/// A log of a gateway: one request each half second, by two users.
fn log_text() -> String {
    let mut text = String::new();
    for number in 0..7200_u32 {
        let time = f64::from(number) * 0.5 + 1_700_000_000.0;
        writeln!(
            text,
            "{{\"ts\":{time},\"model\":\"llama-3.1-8b\",\"chat\":\"c{}\",\"usage\":{{\"prompt_tokens\":{},\"completion_tokens\":50,\"prompt_tokens_details\":{{\"cached_tokens\":100}}}}}}",
            number / 4,
            400 + number % 2 * 200
        )
        .expect("text");
        if number % 100 == 0 {
            text += "level=info msg=\"no JSON\"\n";
        }
    }
    text
}

#[test]
fn a_log_becomes_a_workload_and_a_trace() {
    let place = Place::new();
    place.write("log.jsonl", log_text());
    let ran = place.run(&[
        "workload",
        "from-log",
        "log.jsonl",
        "--map",
        "session=chat",
        "--output",
        "w.toml",
        "--save-trace",
        "t.csv",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    for part in [
        "7200 requests",
        "72 of 7272 lines cannot be read; the first, line 2",
        "1800 sessions of 4.0 requests",
        "20 % of prompt tokens",
    ] {
        assert!(ran.err.contains(part), "{part} is not in {}", ran.err);
    }
    let file = std::fs::read_to_string(place.path("w.toml")).expect("a workload");
    for part in [
        "rate = \"2/s\"",
        "isl = 500",
        "isl_longest = 600",
        "\"p95:600\"",
        "prefix_hit = 0.2",
        "burstiness = 0",
    ] {
        assert!(file.contains(part), "{part} is not in {file}");
    }
    let of_file = place.json(&[
        "plan",
        "--workload",
        "w.toml",
        "--gpu",
        "H100",
        "--top",
        "1",
    ]);
    let of_trace = place.json(&[
        "plan",
        "llama-3.1-8b",
        "--trace",
        "t.csv",
        "--gpu",
        "H100",
        "--top",
        "1",
    ]);
    for field in ["input_tokens", "output_tokens"] {
        assert_eq!(
            of_file["workload"][field]["mean"],
            of_trace["workload"][field]["mean"]
        );
    }
    assert_eq!(
        std::fs::read_to_string(place.path("t.csv"))
            .expect("a trace")
            .lines()
            .nth(1),
        Some("0.000000000,400,50,0,")
    );
}

#[test]
fn wrong_logs_are_named() {
    let place = Place::new();
    place.write("odd.jsonl", "{\"when\":1,\"in\":5}\n");
    refused(
        &place.run(&["workload", "from-log", "odd.jsonl"]),
        &[
            "no column holds the tokens of a prompt",
            "in, when",
            "--map isl=COLUMN",
        ],
    );
    refused(
        &place.run(&["workload", "from-log", "odd.jsonl", "--map", "isl"]),
        &["--map", "no FIELD=COLUMN"],
    );
    refused(
        &place.run(&["workload", "from-log", "nowhere.jsonl"]),
        &["cannot read nowhere.jsonl"],
    );
    place.write("untimed.csv", "prompt_tokens,completion_tokens\n5,6\n");
    refused(
        &place.run(&[
            "workload",
            "from-log",
            "untimed.csv",
            "--save-trace",
            "t.csv",
        ]),
        &["does not say when requests came"],
    );
    assert!(!place.files().contains(&"t.csv".to_owned()));
}
