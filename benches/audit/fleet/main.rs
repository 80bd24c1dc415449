//! Makes the database of a Prometheus server that has watched a planted fleet, with what is true of it.
//!
//!     cargo run --release -p gpuwise-probe --example fleet -- DIRECTORY --seed 2 --workloads 200
//!
//! `DIRECTORY/data` is for `prometheus --storage.tsdb.path`, `DIRECTORY/truth.json` for the judge. Even
//! seeds are for development, odd ones for judging. With `--plain` each workload has six series and
//! nothing is spoilt: for measuring time.

mod blocks;
mod planted;
mod series;
mod signals;

use planted::{BOARDS, Workload};
use serde_json::{Value, json};
use std::{collections::BTreeMap, env, fs, io, path::PathBuf};

/// What was asked for.
struct Settings {
    directory: PathBuf,
    seed: u64,
    workloads: usize,
    days: u64,
    /// The last sample, seconds since 1970.
    end: u64,
    plain: bool,
}

fn settings() -> Option<Settings> {
    let mut found = Settings {
        directory: PathBuf::new(),
        seed: 2,
        workloads: 200,
        days: 14,
        // A Friday noon, so that two whole weekends lie within a fortnight before it.
        end: 1_763_726_400,
        plain: false,
    };
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().and_then(|text| text.parse::<u64>().ok());
        match argument.as_str() {
            "--seed" => found.seed = number()?,
            "--workloads" => found.workloads = number()? as usize,
            "--days" => found.days = number()?,
            "--end" => found.end = number()?,
            "--plain" => found.plain = true,
            directory => found.directory = directory.into(),
        }
    }
    (!found.directory.as_os_str().is_empty() && found.days > 0).then_some(found)
}

fn main() -> io::Result<()> {
    let Some(settings) = settings() else {
        return Err(io::Error::other(
            "usage: fleet DIRECTORY [--seed N] [--workloads N] [--days N] [--end SECONDS] [--plain]",
        ));
    };
    let steps = settings.days * 86_400 / signals::STEP;
    let fleet = planted::fleet(settings.seed, settings.workloads, steps);
    let begin = settings.end - (steps - 1) * signals::STEP;
    let mut all = series::of_fleet(settings.seed, &fleet, steps, settings.plain);
    all.sort_by(|a, b| a.labels.cmp(&b.labels));
    let mut symbols = blocks::Symbols::default();
    for series in &all {
        for (name, value) in &series.labels {
            symbols.add(name);
            symbols.add(value);
        }
    }
    symbols.seal();
    let numbered: Vec<blocks::Labels> = all
        .iter()
        .map(|series| {
            let pairs = series.labels.iter();
            pairs
                .map(|(name, value)| (symbols.number(name), symbols.number(value)))
                .collect()
        })
        .collect();
    let data = settings.directory.join("data");
    let ulid = "01HXAVD7T0000000000000000A";
    let mut block = blocks::Block::new(&data, ulid, symbols)?;
    for (series, labels) in all.iter().zip(&numbered) {
        let of = &fleet[series.workload];
        let samples = signals::samples(
            settings.seed,
            of,
            series.part,
            series.signal,
            series.fault,
            (begin, steps),
        );
        block.series(labels, &samples)?;
    }
    let samples = block.finish(ulid)?;
    let truth = truth(&settings, &fleet);
    fs::write(
        settings.directory.join("truth.json"),
        format!("{truth:#}\n"),
    )?;
    let mut out = io::stdout().lock();
    io::Write::write_fmt(
        &mut out,
        format_args!(
            "{} workloads, {} series, {samples} samples\n",
            fleet.len(),
            all.len()
        ),
    )
}

fn truth(settings: &Settings, fleet: &[Workload]) -> Value {
    let prices: BTreeMap<&str, f64> = BOARDS.iter().map(|board| (board.name, board.usd)).collect();
    let rows: Vec<Value> = fleet
        .iter()
        .map(|of| {
            json!({
                "namespace": of.namespace,
                "name": of.name,
                "kind": of.kind,
                "class": format!("{:?}", of.class),
                "verdict": of.class.verdict(),
                "gpu": of.board.name,
                "gpus": of.pods * of.gpus,
                "cure": of.cure,
                "saving_usd_per_hour": of.saving(),
            })
        })
        .collect();
    json!({
        "seed": settings.seed,
        "days": settings.days,
        "end": settings.end,
        "usd_per_hour": prices,
        "workloads": rows,
    })
}
