//! Traces as they were recorded, or changed as flags have it.

use super::{
    shapes::Replay,
    traffic::{Kind, time},
};
use crate::{
    error::Problem,
    settings::{ChangeFlags, TrafficFlags},
    workload,
};
use gpuwise_domain::workload::{Traffic, Workload};
use gpuwise_read::traffic::Trace;
use gpuwise_sim::traffic::{Change, Pacing, Recorded};
use gpuwise_units::significant;
use std::fmt::Write as _;
use std::path::Path;

/// A trace as it was recorded, or at another rate where one is said; with the words for it and the
/// names of its tenants.
pub(super) fn recorded(
    path: &Path,
    trace: Trace,
    flags: &TrafficFlags,
    changes: &ChangeFlags,
    workload: &Workload,
    list: &mut Vec<Change>,
) -> anyhow::Result<(Kind, String, Vec<String>)> {
    let mut words = path.display().to_string();
    words += &paced(path, &trace, flags, workload, list)?;
    if let Some(factor) = changes.speed_up {
        let _ = write!(words, ", {factor} × as fast");
    }
    if let Some(keep) = &changes.thin {
        let _ = write!(words, ", {keep} of them");
    }
    let repeat = changes.repeat.unwrap_or(1);
    if repeat > 1 {
        let _ = write!(words, ", {repeat} times");
    }
    let tenants = trace.tenants.clone();
    let mut traces = vec![Recorded::new(trace.into_requests())];
    for next in &changes.then {
        traces.push(spliced(next)?);
        let _ = write!(words, ", then {}", next.display());
    }
    let resample = changes
        .resample
        .as_deref()
        .map(|text| time("--resample", text))
        .transpose()?;
    if let Some(length) = resample {
        let _ = write!(words, ", stretches of {length} drawn at random");
    }
    let replay = Replay {
        traces,
        repeat,
        resample,
    };
    Ok((Kind::Recorded(replay), words, tenants))
}

/// That no flag says what the trace says request by request.
pub(super) fn uncontradicted(path: &Path, flags: &TrafficFlags) -> anyhow::Result<()> {
    let given = [
        ("--isl", flags.isl.is_some()),
        ("--osl", flags.osl.is_some()),
        ("--burstiness", flags.burstiness.is_some()),
        ("--prefix-hit", flags.prefix_hit.is_some()),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some((name, _)) => Err(Problem::new(format!(
            "{name} contradicts --trace {}, which says it request by request",
            path.display()
        ))
        .hint(format!("leave {name} out, or the trace"))
        .into()),
        None => Ok(()),
    }
}

/// The changes that make its requests come at a rate or keep so many in flight, in words.
fn paced(
    path: &Path,
    trace: &Trace,
    flags: &TrafficFlags,
    workload: &Workload,
    list: &mut Vec<Change>,
) -> anyhow::Result<String> {
    let mut words = String::new();
    if let (Some(_), Some(Traffic::Open { rate, .. })) = (&flags.rate, trace.summary().traffic())
        && let Traffic::Open { rate: wanted, .. } = workload.traffic
    {
        let factor = wanted.get() / rate.get();
        list.insert(0, Change::Faster(factor));
        let _ = write!(
            words,
            " at {} requests/s ({} × as fast)",
            significant(wanted.get(), 3),
            significant(factor, 3)
        );
    }
    if let Some(concurrency) = &flags.concurrency {
        let count = match workload.traffic {
            Traffic::Closed { concurrency } => u32::try_from(concurrency).unwrap_or(u32::MAX),
            Traffic::Open { .. } => 1,
        };
        list.push(Change::Paced(Pacing::InFlight(count)));
        let _ = write!(words, ", {concurrency} concurrent");
    } else if !trace.timed {
        return Err(Problem::new(format!(
            "{} does not say when requests came",
            path.display()
        ))
        .hint("say --concurrency N, or --isl, --osl and --rate in its place")
        .into());
    }
    Ok(words)
}

/// A trace that is sent after another.
fn spliced(path: &Path) -> anyhow::Result<Recorded> {
    let trace = workload::trace(path)?;
    if trace.timed {
        return Ok(Recorded::new(trace.into_requests()));
    }
    Err(Problem::new(format!(
        "--then {}: it does not say when requests came",
        path.display()
    ))
    .into())
}
