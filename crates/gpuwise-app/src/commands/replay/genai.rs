//! A day of generative serving on fewer GPUs.

use super::{files, files::Places, policies};
use crate::{catalogue::Loaded, progress, settings};
use gpuwise_domain::placement::{ProfileSet, ReplayRow, ServingDay};
use gpuwise_lab::schedulers::genai::{Assumptions, Day, DayRun, NAMES, Sharing};
use gpuwise_read::fleet::{GenaiTexts, read_genai_day};
use std::path::Path;

pub(super) const FILES: [&str; 6] = [
    "queue_wait_ms.csv",
    "pipeline_load_ms.csv",
    "basemodel_load_ms.csv",
    "pipeline_inference_ms.csv",
    "gpu_mem_mib_5min.csv",
    "requests.csv",
];
/// The board that is cut for slices.
const BOARD: &str = "A100 SXM4 80GB";

/// A row for each policy and seed: the fewest GPUs on which nobody waits longer, or the day on as many
/// as were named.
pub(super) fn rows(
    loaded: &Loaded,
    flags: &settings::Replay,
    named: Option<&Path>,
) -> anyhow::Result<Vec<ReplayRow>> {
    let policies = policies(&flags.policy, "genai", &NAMES, Sharing::named)?;
    let seeds = match &flags.seeds {
        Some(given) => super::range(given)?,
        None => vec![42],
    };
    let day = day(&Places::new(named, &["alibaba_v2026_genai"]))?;
    let catalogue = &loaded.catalogue;
    let board = catalogue
        .gpu(BOARD)
        .and_then(|gpu| catalogue.mig_geometry(gpu));
    let usual = Assumptions::default();
    let assumptions = Assumptions {
        board: board.map(|geometry| geometry.only(ProfileSet::Base)),
        host_models: flags.host_models.unwrap_or(usual.host_models),
        ..usual
    };
    let mut rows = Vec::new();
    for seed in seeds {
        let day = Day::new(&day, &assumptions, seed)?;
        let were = day.dedicated().gpus;
        for sharing in &policies {
            progress::doing(&format!("genai, {}, seed {seed}", sharing.name()));
            let run = match flags.gpus {
                Some(gpus) => day.run(*sharing, gpus)?,
                // Two fifths of the GPUs where no number of them serves as before.
                None => day.fewest(*sharing, were * 2 / 5)?,
            };
            rows.push(row(&run, seed, were));
        }
    }
    progress::doing("");
    Ok(rows)
}

fn day(places: &Places) -> anyhow::Result<ServingDay> {
    let mut read = Vec::with_capacity(FILES.len());
    for name in FILES {
        let path = places.find(name)?;
        read.push((path.display().to_string(), files::text(&path)?));
    }
    let of = |at: usize| {
        let found = read.get(at);
        found.map_or(("", ""), |(name, text)| (name.as_str(), text.as_str()))
    };
    Ok(read_genai_day(&GenaiTexts {
        queue: of(0),
        load: of(1),
        base: of(2),
        run: of(3),
        memory: of(4),
        requests: of(5),
    })?)
}

fn row(run: &DayRun, seed: u64, were: u32) -> ReplayRow {
    let hundredths = |value: f64| Some((value * 100.0).round() / 100.0);
    let count = |value: u64| Some(value as f64);
    ReplayRow {
        trace: "genai".into(),
        policy: run.sharing.name().into(),
        seed: Some(seed),
        placed: run.served,
        pending: run.pending,
        jct_mean_s: Some(run.response_mean_s),
        makespan_s: Some(run.span_s),
        more: vec![
            ("gpus", Some(f64::from(run.gpus))),
            (
                "gpus_percent",
                hundredths(100.0 * f64::from(run.gpus) / f64::from(were)),
            ),
            ("wait_mean_s", hundredths(run.wait_mean_s)),
            ("wait_p99_s", hundredths(run.wait_p99_s)),
            ("same_wait", Some(f64::from(u8::from(run.same_wait)))),
            ("busy_percent", hundredths(run.busy_percent)),
            ("reclaims", count(run.reclaims)),
            ("reloads", count(run.reloads)),
            ("warm_hits", count(run.warm_hits)),
        ],
        ..ReplayRow::default()
    }
}
