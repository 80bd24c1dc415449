//! Usage that the broker reads of a Prometheus server by itself: of one of this test's own, and of a real one.

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

/// What exporters and an engine say, asked again and again: a whole GPU that works half of the time, another with
/// three MIG instances, an engine that makes ten tokens a second.
fn exporter() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let begun = Instant::now();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut page = String::new();
            let mut add = |metric: &str, more: &str, value: f64| {
                let _ = writeln!(page, "{metric}{{Hostname=\"n1\",{more}}} {value}");
            };
            let busy = "DCGM_FI_PROF_GR_ENGINE_ACTIVE";
            let power = "DCGM_FI_DEV_POWER_USAGE";
            add(busy, "gpu=\"0\",UUID=\"GPU-a\"", 0.5);
            add(power, "gpu=\"0\",UUID=\"GPU-a\"", 360.0);
            let cut = |id: u32, profile: &str| {
                format!("gpu=\"1\",UUID=\"GPU-b\",GPU_I_ID=\"{id}\",GPU_I_PROFILE=\"{profile}\"")
            };
            // The exporter says the board's power of each instance.
            for (id, profile, value) in [
                (7, "1g.10gb", 0.8),
                (1, "3g.40gb", 0.25),
                (2, "3g.40gb", 0.0),
            ] {
                add(busy, &cut(id, profile), value);
                add(power, &cut(id, profile), 400.0);
            }
            let tokens = begun.elapsed().as_secs_f64() * 10.0;
            let _ = writeln!(
                page,
                "vllm:generation_tokens_total{{gpuwise_lease=\"L-1\"}} {tokens}"
            );
            let mut asked = [0; 4096];
            // Who asks may be gone.
            let _ = stream.read(&mut asked);
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: \
                 close\r\n\r\n{page}",
                page.len()
            );
        }
    });
    address
}

/// A real server that asks an exporter every second; it ends with the test. `None`: there is none.
struct Prometheus(std::process::Child, String);

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn prometheus(folder: &std::path::Path, exporter: &str) -> Option<Prometheus> {
    let config = folder.join("prometheus.yaml");
    let scrape = "{global: {scrape_interval: 1s}, scrape_configs: [{job_name: dcgm, static_configs: [{targets:";
    std::fs::write(&config, format!("{scrape} ['{exporter}']}}]}}]}}\n")).expect("writes");
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = free.local_addr().expect("an address").to_string();
    drop(free);
    let started = std::process::Command::new("prometheus")
        .arg(format!("--config.file={}", config.display()))
        .arg(format!(
            "--storage.tsdb.path={}",
            folder.join("tsdb").display()
        ))
        .arg(format!("--web.listen-address={address}"))
        .arg("--log.level=error")
        .spawn();
    let Ok(process) = started else {
        gpuwise_needs::skipped("no prometheus (apt-get install prometheus)");
        return None;
    };
    let server = Prometheus(process, format!("http://{address}"));
    until("it answers", || TcpStream::connect(&address).is_ok());
    Some(server)
}

#[test]
fn a_real_prometheus_says_what_gpus_and_mig_instances_did() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(server) = prometheus(folder.path(), &exporter()) else {
        return;
    };
    // The second GPU is cut already: a slice goes there, and the whole one is left.
    let fleet = "
name = \"watched\"
[[gpu_kind]]
name = \"H100 SXM5 80GB\"
price = \"7.00 USD\"
[[node]]
name = \"n1\"
gpus = \"2xH100 SXM5 80GB\"
mig = { 1 = [\"1g.10gb\", \"3g.40gb\"] }
";
    let flags = [
        "--start-takes",
        "1ms",
        "--telemetry-every",
        "1s",
        "--prometheus",
        &server.1,
    ];
    let daemon = Daemon::start_on(fleet, &flags);
    daemon.json(&["tenant", "create", "vision"]);
    for gpu in ["1xH100 SXM5 80GB", "1g.10gb", "3g.40gb"] {
        daemon.json(&["lease", "request", "--tenant", "vision", "--gpu", gpu]);
    }
    let seen = |lease: &str| daemon.json(&["usage", "show", lease]);
    for (lease, busy, share, watts) in [
        ("L-1", 0.5, 1.0, 360.0),
        ("L-2", 0.8, 1.0 / 7.0, 100.0),
        ("L-3", 0.25, 3.0 / 7.0, 300.0),
    ] {
        let worked = busy * share;
        until("it is seen", || {
            seen(lease)["gpus_measured"].as_f64() > Some(0.2)
        });
        let seen = seen(lease);
        // Of what it has, not of the GPU.
        assert!(
            (seen["busy"].as_f64().expect("is seen") - busy).abs() < 1e-6,
            "{seen}"
        );
        let told = daemon.ask("GET", "/v1/usage?limit=10000", "").json();
        let told = told.as_array().expect("a batch").iter();
        let own = told.filter(|one| one["subject"] == lease);
        let mut gpus = own.filter_map(|one| one["data"]["gpus"].get(0));
        let gpu = gpus.next().expect("is told");
        let number = |field: &str| gpu[field].as_f64().expect("is told");
        let watts_of = number("joules") / number("sm_seconds");
        assert!((watts_of - watts / worked).abs() < 1e-3 * watts_of, "{gpu}");
    }
    until("tokens are counted", || {
        seen("L-1")["completion_tokens"].as_u64() > Some(20)
    });
    let month = &seen("L-1")["from"].as_str().expect("a time")[..7].to_owned();
    let statement = daemon.json(&["statement", "vision", "--month", month]);
    let lines = statement["lines"].as_array().expect("lines");
    let line = |lease: &str| {
        let mut own = lines.iter().filter(|line| line["lease"] == lease);
        own.find(|line| line["used_hours"].is_string())
            .cloned()
            .expect("is measured")
    };
    let hours = |line: &serde_json::Value, field: &str| -> f64 {
        line[field]
            .as_str()
            .expect("is there")
            .parse()
            .expect("a number")
    };
    // A seventh of a GPU that works four fifths of the time.
    let slice = line("L-2");
    let used = hours(&slice, "used_hours") / hours(&slice, "measured_hours");
    assert!((used - 0.8 / 7.0).abs() < 1e-3, "{slice}");
}
