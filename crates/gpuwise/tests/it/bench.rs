//! Load on a server of this test's own, and what cannot be loaded.

use crate::support::{Place, Ran, ran};
use serde_json::Value;
use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write},
    net::{TcpListener, TcpStream},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread,
};

/// Serves requests until the test ends: `script` answers the load, trials are answered well.
fn server(script: impl Fn(&mut dyn Write, u64) + Send + Clone + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}/v1", listener.local_addr().expect("an address"));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let script = script.clone();
            thread::spawn(move || connection(&stream, &script));
        }
    });
    address
}

fn connection(stream: &TcpStream, script: &impl Fn(&mut dyn Write, u64)) {
    let mut reader = BufReader::new(stream);
    let mut writer = stream;
    while let Some((line, body)) = request(&mut reader) {
        if line.starts_with("GET") {
            document(&mut writer, 200, r#"{"data":[{"id":"tiny"}]}"#);
            continue;
        }
        let tokens = body["max_tokens"].as_u64().expect("a limit");
        // Trials ask for a token or two.
        if tokens < 5 && body["stream"] == false {
            whole(&mut writer, "");
        } else if tokens < 5 {
            answer(&mut writer, tokens);
        } else {
            script(&mut writer, tokens);
        }
    }
}

fn request(reader: &mut BufReader<&TcpStream>) -> Option<(String, Value)> {
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first).ok().filter(|read| *read > 0)?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim().to_lowercase().split_once(": ") {
            Some(("content-length", value)) => length = value.parse().ok()?,
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((first, serde_json::from_slice(&body).unwrap_or_default()))
}

fn document(writer: &mut dyn Write, status: u16, body: &str) {
    let length = body.len();
    let _ = write!(
        writer,
        "HTTP/1.1 {status} Whatever\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
}

fn answer(writer: &mut dyn Write, tokens: u64) {
    let mut body = String::new();
    for _ in 0..tokens {
        body += "data: {\"choices\":[{\"delta\":{\"content\":\"ba \"}}]}\n\n";
    }
    let counts = format!(
        "data: {{\"choices\":[],\"usage\":{{\"completion_tokens\":{tokens}}}}}\n\ndata: [DONE]\n\n"
    );
    body += &counts;
    let length = body.len();
    let _ = write!(
        writer,
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {length}\r\n\r\n{body}"
    );
}

fn bench(place: &Place, address: &str, flags: &[&str]) -> Ran {
    let mut arguments = vec![
        "bench",
        address,
        "--isl",
        "constant:20",
        "--osl",
        "constant:8",
    ];
    arguments.extend(flags);
    ran(&mut place.online(&arguments))
}

fn saved(place: &Place) -> Value {
    let text = fs::read_to_string(place.path("run.json")).expect("a saved run");
    serde_json::from_str(&text).expect("a document")
}

#[track_caller]
fn refused(flags: &[&str], parts: &[&str]) {
    let place = Place::new();
    // Nobody listens there, and nothing is sent before the input is known to be right.
    let found = bench(&place, "http://127.0.0.1:1", flags);
    assert_eq!(found.code, 2, "{found:?}");
    for part in parts {
        assert!(found.err.contains(part), "{part:?} is not in {}", found.err);
    }
}

#[test]
fn what_cannot_be_sent() {
    refused(
        &["--rate", "40..2"],
        &["--rate 40..2: the range is empty", "2..40"],
    );
    refused(&["--rate", "2,x"], &["--rate 2,x", "a rate such as"]);
    refused(&["--rate", "0"], &["--rate", "above 0"]);
    refused(
        &["--rate", "1,2", "--concurrency", "1,2"],
        &["vary one of them"],
    );
    refused(&["--arrivals", "weird"], &["--arrivals weird", "gamma:4"]);
    refused(
        &["--shared-prefix", "500@2"],
        &["prompts have 20 tokens", "longer --isl"],
    );
    refused(&["--shared-prefix", "x"], &["500@4"]);
    refused(&["--body", "[1]"], &["--body", "JSON object"]);
    refused(&["--key-env", "NO_SUCH_KEY"], &["--key-env NO_SUCH_KEY"]);
    refused(&["--key-file", "nothing.txt"], &["nothing.txt"]);
    refused(&["--ca-file", "nothing.pem"], &["nothing.pem"]);
    refused(&["--timeout", "5"], &["--timeout", "with its unit"]);
    refused(&["--trace", "nothing.csv"], &["nothing.csv"]);
    refused(&["--offline"], &["--offline"]);
    refused(&["--save", "no/such/run.json"], &["no/such/run.json"]);
    refused(&["--wait", "0s"], &["connection refused", "--wait 5min"]);
    // Without a word of waiting it is told at once.
    refused(&[], &["connection refused", "--wait 5min"]);
    refused(
        &["--rate", "5", "--points", "4"],
        &["--points", "--rate 2..40"],
    );
    refused(
        &["--shared-prefix", "5@2", "--prefix-hit", "0.5"],
        &["--prefix-hit", "--shared-prefix"],
    );
    refused(
        &["--turns", "2", "--prefix-hit", "0.5"],
        &["--prefix-hit", "--turns"],
    );
    refused(
        &["--no-stream", "--ttft", "p95:1s"],
        &["--no-stream", "TTFT", "--e2e"],
    );
    refused(
        &["--concurrency", "4", "--growth", "10%"],
        &["--growth", "a concurrency is kept", "--rate"],
    );
}

#[test]
fn passwords_in_addresses_are_not_repeated() {
    let found = bench(&Place::new(), "http://me:secret@127.0.0.1:1", &[]);
    assert_eq!(found.code, 2);
    assert!(
        !format!("{found:?}")
            .replace("me:secret@127.0.0.1:1\"", "")
            .contains("secret"),
        "{found:?}"
    );
}

#[test]
fn the_exit_code_says_whether_the_promise_is_kept() {
    let place = Place::new();
    let address = server(answer);
    let load = [
        "--concurrency",
        "2",
        "--requests",
        "40",
        "--save",
        "run.json",
        "--html",
        "run.html",
    ];
    let with = |slo: &'static str| [&load[..], &["--slo", slo]].concat();
    let kept = bench(&place, &address, &with("ttft=p95:60s"));
    assert_eq!(kept.code, 0, "{kept:?}");
    let document = saved(&place);
    assert_eq!(document["schema"], "gpuwise.run/v1");
    let run = &document["result"]["runs"][0];
    assert_eq!(run["groups"][0]["outcomes"]["completed"], 40);
    assert_eq!(run["attainment"]["kept"], true);
    let arguments = run["repeat"]["arguments"].as_array().expect("arguments");
    assert!(arguments.contains(&"--prompt-seed".into()), "{arguments:?}");
    let missed = bench(&place, &address, &with("ttft=p50:1ns"));
    assert_eq!(missed.code, 1, "{missed:?}");
    let none = bench(&place, &address, &load);
    assert_eq!(none.code, 0, "{none:?}");
}

#[test]
fn what_fails_is_counted_with_its_reason() {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let place = Place::new();
    let address = server(|writer, tokens| match NUMBER.fetch_add(1, Relaxed) % 4 {
        0 => document(writer, 429, r#"{"error":"slow down"}"#),
        1 => document(writer, 500, r#"{"error":"request 17 broke"}"#),
        _ => answer(writer, tokens),
    });
    let found = bench(
        &place,
        &address,
        &[
            "--concurrency",
            "1",
            "--requests",
            "40",
            "--save",
            "run.json",
        ],
    );
    assert_eq!(found.code, 0, "{found:?}");
    let run = &saved(&place)["result"]["runs"][0];
    let outcomes = &run["groups"][0]["outcomes"];
    assert_eq!(
        (
            &outcomes["completed"],
            &outcomes["rejected"],
            &outcomes["failed"]
        ),
        (&20.into(), &10.into(), &10.into())
    );
    assert_eq!(
        run["reasons"].as_array().map(Vec::len),
        Some(2),
        "{}",
        run["reasons"]
    );
    assert!(
        found.out.contains("request N broke") || found.out.contains("request 17 broke"),
        "{}",
        found.out
    );
}

#[test]
fn a_load_that_is_never_answered_is_an_error_that_says_why() {
    let place = Place::new();
    let address = server(|writer, _| document(writer, 500, r#"{"error":"no memory"}"#));
    let found = bench(
        &place,
        &address,
        &[
            "--concurrency",
            "1",
            "--requests",
            "3",
            "--save",
            "run.json",
        ],
    );
    assert_eq!(found.code, 2, "{found:?}");
    assert!(
        found.err.contains("nothing could be measured") && found.err.contains("no memory"),
        "{}",
        found.err
    );
    let run = &saved(&place)["result"]["runs"][0];
    assert_eq!(
        run["groups"][0]["outcomes"]["failed"], 3,
        "what was counted is saved"
    );
}

#[test]
fn keys_are_neither_shown_nor_saved() {
    let place = Place::new();
    let address = server(|writer, tokens| match tokens {
        9.. => document(writer, 500, r#"{"error":"sk-hidden is not known"}"#),
        _ => answer(writer, tokens),
    });
    place.write("key.txt", "sk-hidden\n");
    let address = format!("{address}?api=sk-hidden");
    let mut flags = vec![
        "bench",
        &address,
        "--key-file",
        "key.txt",
        "--isl",
        "constant:20",
    ];
    flags.extend(["--osl", "9", "--concurrency", "1"]);
    flags.extend(["--requests", "4", "--save", "run.json"]);
    let found = ran(&mut place.online(&flags));
    let text = format!("{found:?}{}", saved(&place));
    assert!(text.contains("[key] is not known"), "{text}");
    assert!(!text.contains("sk-hidden"), "{text}");
}

#[test]
fn a_trace_is_replayed_and_a_range_is_climbed() {
    let place = Place::new();
    let address = server(answer);
    place.write("trace.csv", "arrival_s,isl,osl\n0,30,5\n1,40,6\n2,50,7\n");
    let flags = [
        "bench",
        &address,
        "--trace",
        "trace.csv",
        "--speed-up",
        "100",
        "--save",
        "run.json",
    ];
    let found = ran(&mut place.online(&flags));
    assert_eq!(found.code, 0, "{found:?}");
    let run = &saved(&place)["result"]["runs"][0];
    assert_eq!(run["traffic"]["requests"], 3);
    assert_eq!(run["span"]["last_due_nanoseconds"], 20_000_000);
    let range = [
        "--rate",
        "200..800",
        "--requests",
        "40",
        "--points",
        "3",
        "--slo",
        "ttft=p95:60s",
        "--save",
        "run.json",
    ];
    let found = bench(&place, &address, &range);
    assert_eq!(found.code, 0, "{found:?}");
    let document = saved(&place);
    let ladder = &document["result"]["ladder"];
    let knee = &ladder["knee"];
    assert_eq!(knee["nominal"], 800.0);
    let rungs = ladder["rungs"].as_array().expect("rungs");
    // What is quoted is what was delivered, which forty requests do not make exactly.
    let delivered = |rung: &Value| rung["delivered_per_second"].as_f64().expect("a rate");
    assert_eq!(knee["load"].as_f64(), rungs.last().map(delivered));
    for (rung, run) in rungs
        .iter()
        .zip(document["result"]["runs"].as_array().expect("runs"))
    {
        assert_eq!(run["traffic"]["requests_per_second"], rung["load"]);
        let served = run["steady_throughput"]["requests_per_second"]
            .as_f64()
            .expect("a rate");
        let goodput = rung["goodput_per_second"].as_f64().expect("a rate");
        assert!(goodput <= served, "{goodput} of {served}");
    }
    let loads: Vec<&Value> = ladder["rungs"]
        .as_array()
        .expect("rungs")
        .iter()
        .map(|rung| &rung["load"])
        .collect();
    assert_eq!(loads, [200.0, 400.0, 800.0]);
}

/// Answers whole, with or without a count of tokens.
fn whole(writer: &mut dyn Write, usage: &str) {
    let body = format!("{{\"choices\":[{{\"message\":{{\"content\":\"ba ba ba\"}}}}]{usage}}}");
    document(writer, 200, &body);
}

#[test]
fn whole_answers_are_counted_by_the_server_or_not_at_all() {
    let flags = [
        "--no-stream",
        "--concurrency",
        "2",
        "--requests",
        "40",
        "--save",
        "run.json",
    ];
    let run = |usage: &'static str| {
        let place = Place::new();
        let address = server(move |writer, _| whole(writer, usage));
        let found = bench(&place, &address, &flags);
        assert_eq!(found.code, 0, "{found:?}");
        (saved(&place)["result"]["runs"][0].clone(), found.out)
    };
    let (counted, _) = run(r#","usage":{"prompt_tokens":20,"completion_tokens":8}"#);
    let rate = |window: &str, key: &str| counted[window][key].as_f64().expect("a rate");
    let (tokens, requests) = ("output_tokens_per_second", "requests_per_second");
    let each = rate("throughput", tokens) / rate("throughput", requests);
    assert!((each - 8.0).abs() < 1e-9, "{each} tokens a request");
    assert!(rate("steady_throughput", tokens) > 0.0);
    let (unknown, screen) = run("");
    assert!(unknown["steady_throughput"]["output_tokens_per_second"].is_null());
    assert!(unknown["throughput"]["output_tokens_per_second"].is_null());
    assert_eq!(unknown["tokens"]["unknown_requests"], 40);
    assert!(screen.contains("are not known"), "{screen}");
}

#[test]
fn conversations_come_at_the_rate_that_is_reported() {
    let place = Place::new();
    let address = server(answer);
    let run = |flags: &[&str]| {
        let all = [
            &["--turns", "2", "--think", "1ms", "--save", "run.json"],
            flags,
        ]
        .concat();
        let found = bench(&place, &address, &all);
        assert_eq!(found.code, 0, "{found:?}");
        saved(&place)["result"]["runs"][0].clone()
    };
    let at = |run: &Value, key: &str| run["traffic"][key].as_f64().unwrap_or(f64::NAN);
    // All in the second stage, were it flat: 40 of 240 are of the first.
    let staged = run(&["--stages", "40/s@1s,200/s@1s"]);
    assert_eq!(at(&staged, "requests_per_second"), 120.0);
    let groups = staged["groups"].as_array().expect("groups");
    let of = |name: &str| {
        let group = groups.iter().find(|group| group["part"]["name"] == name);
        group.map_or(0, |group| {
            group["outcomes"]["completed"].as_u64().unwrap_or(0)
        })
    };
    let (slow, fast) = (of("40/s@1s"), of("200/s@1s"));
    assert!(
        slow > 0 && fast > 3 * slow,
        "{slow} and {fast} of {groups:?}"
    );
    let changing = run(&["--states", "20/s@100ms,200/s@100ms", "--requests", "60"]);
    assert_eq!(at(&changing, "requests_per_second"), 110.0);
    let grown = run(&["--rate", "100", "--growth", "50%", "--requests", "60"]);
    assert!(grown["traffic"]["requests_per_second"].is_null());
    let words = grown["traffic"]["words"].as_str().expect("words");
    assert!(words.contains("growing by 50% an hour"), "{words}");
}
