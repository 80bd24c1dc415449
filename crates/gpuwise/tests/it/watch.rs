//! `gpuwise watch` as it is called: from files, from servers that answer and that do not, with starts.

// Tests may fail loudly, say what they skip, and compare numbers that are exact.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::float_cmp,
    clippy::unnecessary_wraps
)]

use crate::support::Place;
use serde_json::Value;
use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    thread,
};

const HOT: &str = "index, timestamp, utilization.gpu [%], clocks_event_reasons.active\n";

fn hot(place: &Place) {
    let rows: String = (0..6)
        .map(|second| format!("0, 2026/07/14 09:00:0{second}.000, 99 %, 0x40\n"))
        .collect();
    place.write("hot.csv", HOT.to_owned() + &rows);
}

fn run(place: &Place, arguments: &[&str]) -> (Option<i32>, String, String) {
    let out = place.online(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (out.status.code(), text(out.stdout), text(out.stderr))
}

/// Answers every request with this status and body; gives the address.
fn server(status: &'static str, body: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = vec![0; 65536];
            let _ = stream.read(&mut head);
            let _ = write!(
                stream,
                "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
        }
    });
    address
}

#[test]
fn findings_of_a_file_make_the_answer_no() {
    let place = Place::new();
    hot(&place);
    let (code, out, err) = run(&place, &["watch", "--file", "hot.csv"]);
    assert_eq!(code, Some(1), "{err}");
    assert!(
        out.contains("thermal throttling") && out.contains("Heat held clocks down"),
        "{out}"
    );
    assert!(out.lines().all(|line| line.chars().count() <= 100), "{out}");
    place.write(
        "calm.csv",
        HOT.to_owned() + "0, 2026/07/14 09:00:00.000, 5 %, 0x1\n",
    );
    assert_eq!(run(&place, &["watch", "--file", "calm.csv"]).0, Some(0));
}

#[test]
fn json_has_figures_reasons_and_evidence() {
    let place = Place::new();
    hot(&place);
    let (_, out, _) = run(&place, &["watch", "--file", "hot.csv", "--format", "json"]);
    let document: Value = serde_json::from_str(out.trim()).unwrap();
    assert_eq!(document["schema"], "gpuwise.watch/v1");
    assert_eq!(document["rows"][0]["values"]["gpu_util"], 0.99);
    let found = &document["findings"][0];
    assert_eq!(found["class"], "thermal_throttling");
    assert_eq!(
        (
            found["evidence"][0]["value"].as_f64(),
            found["evidence"][0]["threshold"].as_f64()
        ),
        (Some(1.0), Some(0.05))
    );
}

#[test]
fn thresholds_of_ones_own() {
    let place = Place::new();
    hot(&place);
    let row = "value = 2.0\nunit = \"ratio\"\nmeaning = \"never\"\nsource = \"us\"\n";
    place.write("mine.toml", format!("[throttle_share]\n{row}"));
    assert_eq!(
        run(
            &place,
            &["watch", "--file", "hot.csv", "--thresholds", "mine.toml"]
        )
        .0,
        Some(0)
    );
    place.write("typo.toml", format!("[throtle_share]\n{row}"));
    let (code, _, err) = run(
        &place,
        &["watch", "--file", "hot.csv", "--thresholds", "typo.toml"],
    );
    assert_eq!(code, Some(2));
    assert!(
        err.contains("throtle_share") && err.contains("hint:"),
        "{err}"
    );
}

#[test]
fn nothing_to_watch_is_said_with_what_to_do() {
    let place = Place::new();
    place.write("text.txt", "hello\n");
    for (arguments, part) in [
        (&["watch"][..], "nothing says what to watch"),
        (&["watch", "--file", "none.csv"], "cannot read none.csv"),
        (&["watch", "--file", "text.txt"], "none of the forms"),
        (
            &[
                "watch", "--file", "text.txt", "--when", "a < b", "--run", "true",
            ],
            "is no number",
        ),
    ] {
        let (code, _, err) = run(&place, arguments);
        assert_eq!(code, Some(2), "{arguments:?}");
        assert!(err.contains(part), "{arguments:?}: {err}");
    }
}

#[cfg(feature = "bench")]
#[test]
fn servers_that_do_not_answer_are_named_with_the_reason() {
    let place = Place::new();
    for (status, part) in [
        ("401 Unauthorized", "--token-file"),
        ("500 Internal Server Error", "500"),
    ] {
        for flag in ["--prometheus", "--dcgm"] {
            let address = server(status, String::new());
            let (code, _, err) = run(
                &place,
                &["watch", flag, &address, "--once", "--timeout", "2s"],
            );
            assert_eq!(code, Some(2), "{flag} {status}: {err}");
            assert!(
                err.contains(part) || err.contains("needs a token"),
                "{flag} {status}: {err}"
            );
        }
    }
    let (code, _, err) = run(
        &place,
        &["watch", "--offline", "--dcgm", "http://127.0.0.1:1"],
    );
    assert_eq!(code, Some(2));
    assert!(err.contains("--offline"), "{err}");
}

#[cfg(feature = "bench")]
#[test]
fn what_answers_goes_on_beside_what_does_not() {
    let place = Place::new();
    let page = "DCGM_FI_DEV_XID_ERRORS{gpu=\"0\",Hostname=\"a\"} 79\nvllm:num_requests_running{model_name=\"m\"} 3\n";
    let good = server("200 OK", page.into());
    let bad = server("503 Busy", String::new());
    let both = format!("{good},{bad}");
    let (code, out, err) = run(
        &place,
        &["watch", "--dcgm", &both, "--once", "--timeout", "2s"],
    );
    assert_eq!(code, Some(1), "{err}");
    assert!(
        out.contains("XID 79") && out.contains("1 sources do not answer") && out.contains("vllm"),
        "{out}"
    );
    assert!(err.contains("503"), "{err}");
}

#[cfg(feature = "bench")]
#[test]
fn a_prometheus_server_is_asked_once_for_all() {
    let place = Place::new();
    let answer = r#"{"status":"success","data":{"resultType":"vector","result":[
        {"metric":{"__name__":"DCGM_FI_DEV_GPU_UTIL","gpu":"0","Hostname":"a"},"value":[1780000000,"35"]},
        {"metric":{"__name__":"vllm:num_requests_waiting","model_name":"m","instance":"i"},"value":[1780000000,"4"]}]}}"#;
    let address = server("200 OK", answer.into());
    let (code, out, err) = run(
        &place,
        &[
            "watch",
            "--prometheus",
            &address,
            "--once",
            "--format",
            "json",
        ],
    );
    assert_eq!(code, Some(0), "{err}");
    let document: Value = serde_json::from_str(out.trim()).unwrap();
    assert_eq!(document["rows"][0]["values"]["gpu_util"], 0.35);
    assert_eq!(document["engines"][0]["waiting"], 4.0);
}

#[cfg(unix)]
#[test]
fn a_condition_starts_a_command_and_tells_it_why() {
    let place = Place::new();
    hot(&place);
    let (_, _, err) = run(
        &place,
        &[
            "watch",
            "--file",
            "hot.csv",
            "--when",
            "gpu_util > 90%",
            "--run",
            "printf '%s %s' \"$GPUWISE_FIGURE\" \"$GPUWISE_VALUE\" > why.txt",
        ],
    );
    assert!(err.contains("started"), "{err}");
    let path = place.path("why.txt");
    let written = (0..500).find_map(|_| {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        thread::yield_now();
        (!text.is_empty()).then_some(text)
    });
    if let Some(text) = written {
        assert_eq!(text, "gpu_util 0.99");
    }
}

/// Answers every request with this page; gives the address and what each request said in its head.
#[cfg(feature = "bench")]
fn listening(page: &'static str) -> (String, std::sync::mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (told, heard) = std::sync::mpsc::channel();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = vec![0; 65536];
            let length = stream.read(&mut head).unwrap_or(0);
            let _ = told.send(String::from_utf8_lossy(&head[..length]).into_owned());
            let length = page.len();
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{page}"
            );
        }
    });
    (address, heard)
}

#[cfg(feature = "bench")]
#[test]
fn a_token_goes_to_its_own_address_alone() {
    const PAGE: &str = "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",Hostname=\"a\"} 3\n";
    let place = Place::new();
    place.write("one.txt", "secret-one\n");
    place.write("two.txt", "secret-two\n");
    let (a, heard_a) = listening(PAGE);
    let (b, heard_b) = listening(PAGE);
    let both = format!("{a},{b}/metrics");
    let watch = |dcgm: &str, tokens: &[String]| {
        let mut arguments = vec!["watch", "--once", "--timeout", "5s", "--dcgm", dcgm];
        for token in tokens {
            arguments.extend(["--token-file", token]);
        }
        run(&place, &arguments)
    };
    let token = |heard: &std::sync::mpsc::Receiver<String>| {
        let head = heard.try_recv().unwrap_or_default().to_lowercase();
        let line = head
            .lines()
            .find_map(|line| line.strip_prefix("authorization: bearer "));
        line.map(str::to_owned)
    };
    let (one, two) = (Some("secret-one".to_owned()), Some("secret-two".to_owned()));
    for (dcgm, tokens, of_a, of_b) in [
        (&a, vec!["one.txt".to_owned()], &one, &None),
        (&both, vec![format!("{a}/metrics=one.txt")], &one, &None),
        (
            &both,
            vec![format!("{b}=two.txt"), format!("{a}=one.txt")],
            &one,
            &two,
        ),
        (&both, vec![], &None, &None),
    ] {
        let (code, _, err) = watch(dcgm, &tokens);
        assert_eq!(code, Some(0), "{tokens:?}: {err}");
        assert_eq!(
            (&token(&heard_a), &token(&heard_b)),
            (of_a, of_b),
            "{tokens:?}"
        );
    }
    for (tokens, says) in [
        (vec!["one.txt".to_owned()], "for which of 2 addresses"),
        (
            vec!["http://elsewhere:9400=one.txt".to_owned()],
            "http://elsewhere:9400 is not asked",
        ),
        (
            vec![format!("{a}=one.txt"), format!("{a}=two.txt")],
            "two tokens",
        ),
        (vec![format!("{a}=none.txt")], "cannot read none.txt"),
    ] {
        let (code, _, err) = watch(&both, &tokens);
        assert_eq!(code, Some(2), "{tokens:?}: {err}");
        assert!(err.contains(says), "{tokens:?}: {err}");
        assert!(
            heard_a.try_recv().is_err() && heard_b.try_recv().is_err(),
            "{tokens:?}"
        );
    }
}

/// A Prometheus server that holds so many samples, one each 15 s: a GPU that does nothing, with an XID.
fn with_history(samples: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut asked = vec![0; 65536];
            let mut length = 0;
            // Head and body may come apart.
            while !String::from_utf8_lossy(&asked[..length]).contains("query=") {
                match stream.read(&mut asked[length..]) {
                    Ok(0) | Err(_) => break,
                    Ok(more) => length += more,
                }
            }
            let past = String::from_utf8_lossy(&asked[..length]).contains("5B300s");
            let row = |metric: &str, value: &str| {
                let count = if past { samples } else { 1 };
                let points = (0..count)
                    .rev()
                    .map(|age| format!("[{},\"{value}\"]", 1_790_000_000 - 15 * age));
                let points = points.collect::<Vec<_>>().join(",");
                let points = if past {
                    format!("\"values\":[{points}]")
                } else {
                    format!("\"value\":{points}")
                };
                format!(
                    "{{\"metric\":{{\"__name__\":\"{metric}\",\"gpu\":\"0\",\"UUID\":\"GPU-1\",\"modelName\":\"NVIDIA L40S\",\"exported_namespace\":\"t\",\"exported_pod\":\"p\"}},{points}}}"
                )
            };
            let rows = [
                row("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "0"),
                row("DCGM_FI_DEV_FB_USED", "20000"),
                row("DCGM_FI_DEV_XID_ERRORS", "79"),
            ];
            let kind = if past { "matrix" } else { "vector" };
            let body = format!(
                "{{\"status\":\"success\",\"data\":{{\"resultType\":\"{kind}\",\"result\":[{}]}}}}",
                rows.join(",")
            );
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
        }
    });
    address
}

/// One look at a server that holds the window sees all of it; faults stand first; ten seconds are no idling.
#[test]
fn once_with_what_a_server_holds() {
    let place = Place::new();
    let look = |samples: usize| {
        let address = with_history(samples);
        let (code, out, err) = run(&place, &["watch", "--prometheus", &address, "--once"]);
        assert_eq!(code, Some(1), "{err}");
        out
    };
    let whole = look(21);
    let (fault, idle) = (whole.find("XID 79"), whole.find("Idle for 5 min"));
    assert!(fault.is_some() && idle.is_some() && fault < idle, "{whole}");
    let short = look(3);
    assert!(
        short.contains("XID 79") && !short.contains("Idle"),
        "{short}"
    );
}

#[test]
fn a_place_without_a_flag_is_told_which_one() {
    let place = Place::new();
    for (named, flag) in [
        ("hot.csv", "--file hot.csv"),
        (
            "http://gpu-1:9400/metrics",
            "--dcgm http://gpu-1:9400/metrics",
        ),
    ] {
        let (code, _, err) = run(&place, &["watch", named]);
        assert_eq!(code, Some(2));
        assert!(err.contains(flag), "{err}");
    }
}
