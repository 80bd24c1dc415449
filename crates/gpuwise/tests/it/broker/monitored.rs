//! Usage that the broker reads of a Prometheus server by itself. A server of this test's own stands for one.

use super::Daemon;
use std::{
    collections::BTreeSet,
    fmt::Write as _,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

/// Half of the time the GPUs of n1 and n2 work, at 360 W; the engine of L-1 makes ten tokens a second.
fn serve() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client may be gone.
            let _ = answer(stream);
        }
    });
    address
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let line = line.trim().to_lowercase();
        if let Some(text) = line.strip_prefix("content-length: ") {
            length = text.parse().expect("a number");
        }
        if line.is_empty() {
            break;
        }
    }
    let mut form = vec![0; length];
    reader.read_exact(&mut form)?;
    let form = String::from_utf8(form).expect("UTF-8");
    let number = |name: &str| -> u64 {
        let found = form.split('&').find_map(|pair| pair.strip_prefix(name));
        found.expect("is said").parse().expect("a number")
    };
    let (start, end, step) = (number("start="), number("end="), number("step="));
    let moments: Vec<u64> = (start..=end).step_by(step as usize).collect();
    let values = |value: &dyn Fn(u64) -> f64| {
        let each = moments
            .iter()
            .map(|at| format!("[{at},\"{}\"]", value(*at)));
        each.collect::<Vec<_>>().join(",")
    };
    let mut series = Vec::new();
    let mut add = |labels: &str, values: String| {
        series.push(format!("{{\"metric\":{{{labels}}},\"values\":[{values}]}}"));
    };
    if form.contains("DCGM") {
        for (node, gpu) in ["n1", "n2"]
            .iter()
            .flat_map(|node| (0..8).map(move |gpu| (node, gpu)))
        {
            for (metric, value) in [
                ("DCGM_FI_DEV_GPU_UTIL", 50.0),
                ("DCGM_FI_DEV_POWER_USAGE", 360.0),
            ] {
                let mut labels = format!("\"__name__\":\"{metric}\",\"UUID\":\"GPU-{node}-{gpu}\"");
                let _ = write!(labels, ",\"Hostname\":\"{node}\",\"gpu\":\"{gpu}\"");
                add(&labels, values(&|_| value));
            }
        }
    } else {
        let labels = "\"__name__\":\"vllm:generation_tokens_total\",\"gpuwise_lease\":\"L-1\"";
        add(labels, values(&|at| at as f64 * 10.0));
    }
    let body = format!(
        "{{\"status\":\"success\",\"data\":{{\"resultType\":\"matrix\",\"result\":[{}]}}}}",
        series.join(",")
    );
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_mins(1);
    while !is_so() {
        assert!(Instant::now() < end, "{what} was never so");
        thread::yield_now();
    }
}

fn ids(daemon: &Daemon) -> Vec<String> {
    let told = daemon.ask("GET", "/v1/usage?limit=10000", "").json();
    let told = told.as_array().expect("a batch");
    told.iter()
        .map(|one| format!("{} {}", one["source"], one["id"]))
        .collect()
}

#[test]
fn what_prometheus_saw_is_usage_of_who_had_the_gpus_once() {
    let server = serve();
    let flags = [
        "--start-takes",
        "1ms",
        "--telemetry-every",
        "1s",
        "--prometheus",
        &server,
    ];
    let mut daemon = Daemon::start(&flags);
    daemon.json(&["tenant", "create", "vision"]);
    let lease = daemon.json(&["lease", "request", "--tenant", "vision", "--gpu", "4xH100"]);
    assert_eq!(lease["id"], "L-1");
    daemon.until("L-1", "active");
    let usage = |daemon: &Daemon| daemon.json(&["usage", "show", "L-1"]);
    until("it is seen", || {
        usage(&daemon)["completion_tokens"].as_u64() > Some(20)
    });
    let seen = usage(&daemon);
    let busy = seen["busy"].as_f64().expect("is measured");
    assert!((busy - 0.5).abs() < 1e-6, "{seen}");
    assert!(seen["kilowatt_hours"].as_f64() > Some(0.0), "{seen}");
    assert!(seen["gpus_measured"].as_f64() > Some(0.0), "{seen}");
    let metrics = daemon.ask("GET", "/metrics", "").text;
    assert!(
        metrics.contains("gpuwise_prometheus_failures_total 0"),
        "{metrics}"
    );
    // What is read again after a restart counts once.
    let before = ids(&daemon);
    daemon.crash(&flags);
    until("more is seen", || ids(&daemon).len() > before.len() + 4);
    let after = ids(&daemon);
    let once: BTreeSet<&String> = after.iter().collect();
    assert_eq!(once.len(), after.len(), "{after:?}");
    let month = &lease["requested_at"].as_str().expect("a time")[..7];
    let statement = daemon.json(&["statement", "vision", "--month", month]);
    let line = &statement["lines"][0];
    let hours = |field: &str| -> f64 {
        let text = line[field].as_str().expect("is there");
        text.parse().expect("a number")
    };
    let (used, measured) = (hours("used_hours"), hours("measured_hours"));
    assert!(
        measured > 0.0 && (used / measured - 0.5).abs() < 1e-3,
        "{line}"
    );
}
