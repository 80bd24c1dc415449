//! A planted fleet in a real Prometheus server, where there is one: what an audit says of it against
//! what was planted.

mod odd;

#[path = "../../../../benches/audit/fleet/blocks.rs"]
mod blocks;
#[path = "../../../../benches/audit/fleet/planted.rs"]
mod planted;
#[path = "../../../../benches/audit/fleet/series.rs"]
mod series;
#[path = "../../../../benches/audit/fleet/signals.rs"]
mod signals;

use gpuwise_domain::{
    catalogue::Catalogue,
    usage::{Fleet, Window, rules::Rules},
};
use gpuwise_measure::audit::{Market, judge, unclear};
use gpuwise_probe::{
    prometheus::{Client, PrometheusError, Settings as Server},
    usage::{Settings, Unclear, collect},
};
use gpuwise_read::{
    catalogue::{read_gpus, read_mig_profiles},
    usage::read_audit_catalogue,
};
use gpuwise_units::{Currency, HourlyPrice, Money};
use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader},
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

const END: u64 = 1_763_726_400;
const DAYS: u64 = 14;

/// A server that ends with the test.
struct Prometheus {
    process: Child,
    address: String,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The server on this database; none where Prometheus is not installed.
fn prometheus(data: &Path, arguments: &[&str]) -> Option<Prometheus> {
    let port = TcpListener::bind("127.0.0.1:0")
        .expect("a port")
        .local_addr()
        .expect("it")
        .port();
    let config = data.join("empty.yml");
    std::fs::write(&config, "").expect("a file");
    let mut process = Command::new("prometheus")
        .arg(format!("--config.file={}", config.display()))
        .arg(format!("--storage.tsdb.path={}", data.display()))
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        .arg("--storage.tsdb.retention.time=100y")
        .args(arguments)
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    let log = BufReader::new(process.stderr.take().expect("a log"));
    let mut lines = log.lines();
    let ready = lines
        .by_ref()
        .map_while(Result::ok)
        .any(|line| line.contains("ready to receive web requests"));
    // What it says later is read, so that it never waits for us.
    std::thread::spawn(move || lines.for_each(drop));
    let server = Prometheus {
        process,
        address: format!("http://127.0.0.1:{port}"),
    };
    assert!(ready, "the server does not start");
    Some(server)
}

/// Writes a fleet's database.
fn written(data: &Path, seed: u64, count: usize) -> Vec<planted::Workload> {
    let steps = DAYS * 86_400 / signals::STEP;
    let fleet = planted::fleet(seed, count, steps);
    let mut all = series::of_fleet(seed, &fleet, steps, false);
    all.sort_by(|a, b| a.labels.cmp(&b.labels));
    let mut symbols = blocks::Symbols::default();
    for (name, value) in all.iter().flat_map(|series| &series.labels) {
        symbols.add(name);
        symbols.add(value);
    }
    symbols.seal();
    let number = |series: &series::Series| -> blocks::Labels {
        let pairs = series.labels.iter();
        pairs
            .map(|(name, value)| (symbols.number(name), symbols.number(value)))
            .collect()
    };
    let numbered: Vec<blocks::Labels> = all.iter().map(number).collect();
    let ulid = "01HXAVD7T0000000000000000A";
    let mut block = blocks::Block::new(data, ulid, symbols).expect("a block");
    let begin = END - (steps - 1) * signals::STEP;
    for (series, labels) in all.iter().zip(&numbered) {
        let of = &fleet[series.workload];
        let samples = signals::samples(
            seed,
            of,
            series.part,
            series.signal,
            series.fault,
            (begin, steps),
        );
        block.series(labels, &samples).expect("a series");
    }
    block.finish(ulid).expect("a whole block");
    fleet
}

fn collected(server: &Prometheus, matchers: Option<&str>) -> Result<Fleet, PrometheusError> {
    let names = read_audit_catalogue(
        "audit.toml",
        include_str!("../../../../catalogue/audit.toml"),
    )
    .expect("names");
    let mut settings = Server::new(server.address.as_str());
    settings.timeout = Duration::from_mins(5);
    let client = Client::new(settings).expect("sound settings");
    let window = Window {
        start: (END - DAYS * 86_400).cast_signed(),
        end: END.cast_signed(),
    };
    let settings = Settings {
        window,
        matchers: matchers.map(str::to_owned),
        tenant_label: None,
        at_once: 2,
        namespaces: std::collections::BTreeSet::new(),
        idle_below: 0.01,
    };
    collect(&client, &names.vocabulary, &settings, &depends, &|_| {})
}

/// Workloads of which something depends on their exact percentiles.
fn depends(fleet: &Fleet) -> Unclear {
    with_market(|rules, market| {
        let mut found = Unclear::default();
        for usage in &fleet.workloads {
            let one = unclear(usage, fleet.window, rules, market);
            let holder = Some(usage.holder.clone());
            found.compute.extend(holder.clone().filter(|_| one.compute));
            found.bandwidth.extend(holder.filter(|_| one.bandwidth));
        }
        found
    })
}

fn with_market<T>(run: impl FnOnce(&Rules, &Market<'_>) -> T) -> T {
    let names = read_audit_catalogue(
        "audit.toml",
        include_str!("../../../../catalogue/audit.toml"),
    )
    .expect("names");
    let rules = Rules::of(&names.thresholds).expect("all thresholds");
    let catalogue = Catalogue {
        gpus: read_gpus("gpus.toml", include_str!("../../../../catalogue/gpus.toml"))
            .expect("GPUs"),
        mig: read_mig_profiles(
            "mig.csv",
            include_str!("../../../../catalogue/mig_profiles.csv"),
        )
        .expect("profiles"),
        ..Catalogue::default()
    };
    let price = |usd: f64| {
        HourlyPrice(Money {
            micros: (usd * 1e6) as i64,
            currency: Currency::USD,
        })
    };
    let prices: BTreeMap<String, HourlyPrice> = planted::BOARDS
        .iter()
        .map(|board| (board.name.to_owned(), price(board.usd)))
        .collect();
    let candidates: Vec<String> = prices.keys().cloned().collect();
    run(&rules, &Market::new(&catalogue, &candidates, &prices))
}

/// Verdict and saving in dollars an hour of each workload, by name.
fn judged(fleet: &Fleet) -> BTreeMap<String, (String, f64)> {
    with_market(|rules, market| {
        let one = |usage| {
            let said = judge(usage, fleet.window, rules, market);
            let saving = said
                .proposal
                .and_then(|p| p.saving.hourly)
                .map_or(0.0, Money::as_f64);
            (said.holder.name, (said.verdict.name().to_owned(), saving))
        };
        fleet.workloads.iter().map(one).collect()
    })
}

#[test]
fn planted_fleets_are_seen_through() {
    for seed in [1, 2] {
        let folder = tempfile::tempdir().expect("a folder");
        let fleet = written(folder.path(), seed, 50);
        let Some(server) = prometheus(folder.path(), &[]) else {
            gpuwise_needs::skipped("prometheus is not installed");
            return;
        };
        let seen = judged(&collected(&server, None).expect("it answers"));
        let mut wrong = Vec::new();
        let (mut found, mut truth) = (0.0, 0.0);
        for of in &fleet {
            let (verdict, saving) = seen
                .get(&of.name)
                .cloned()
                .unwrap_or(("absent".into(), 0.0));
            if verdict != of.class.verdict() {
                wrong.push(format!("{} {:?} {}: {verdict}", of.name, of.class, of.cure));
            }
            found += saving;
            truth += of.saving();
        }
        assert_eq!(seen.len(), fleet.len(), "seed {seed}");
        // 95 % of fifty.
        assert!(wrong.len() <= 2, "seed {seed}: {wrong:?}");
        assert!(
            (found / truth - 1.0_f64).abs() <= 0.1,
            "seed {seed}: {found} of {truth}"
        );
    }
}

#[test]
fn a_server_with_little_room_is_asked_in_parts() {
    let folder = tempfile::tempdir().expect("a folder");
    let count = 14;
    written(folder.path(), 2, count);
    // Room for one series of the window, and for the hours of a few.
    let Some(server) = prometheus(folder.path(), &["--query.max-samples=6000"]) else {
        gpuwise_needs::skipped("prometheus is not installed");
        return;
    };
    let parts = judged(&collected(&server, None).expect("it answers"));
    drop(server);
    let server = prometheus(folder.path(), &[]).expect("it was there before");
    let whole = judged(&collected(&server, None).expect("it answers"));
    assert_eq!(parts, whole);
    assert_eq!(whole.len(), count);
    let one = collected(&server, Some("namespace=\"nowhere\"")).expect_err("there is nothing");
    assert!(one.to_string().contains("no metrics of GPUs"), "{one}");
}
