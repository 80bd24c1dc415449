//! Flags that change traffic: as changes, and where they contradict what is sent.

use crate::{
    error::Problem,
    settings::{ChangeFlags, TrafficFlags},
};
use gpuwise_read::workload::{percent, share};
use gpuwise_sim::traffic::Change;
use gpuwise_units::Nanoseconds;
use std::path::Path;

/// Changes by flags, in the order in which they are made.
pub(super) fn listed(flags: &ChangeFlags) -> anyhow::Result<Vec<Change>> {
    let mut list = Vec::new();
    if let Some(factor) = flags.speed_up {
        list.push(Change::Faster(factor));
    }
    if let Some(text) = &flags.thin {
        let keep = share(text).map_err(|error| Problem::new(format!("--thin: {error}")))?;
        if keep <= 0.0 {
            return Err(Problem::new(format!("--thin {text}: no request would be left")).into());
        }
        list.push(Change::Thin { keep, seed: 0 });
    }
    if let Some(text) = &flags.growth {
        let by = percent(text).map_err(|error| Problem::new(format!("--growth: {error}")))?;
        list.push(Change::Growth {
            by: by / 100.0,
            every: Nanoseconds(3_600_000_000_000),
        });
    }
    Ok(list)
}

/// Flags that change traces of requests only.
pub(super) fn no_trace(flags: &ChangeFlags) -> anyhow::Result<()> {
    let wrong = [
        ("--repeat", flags.repeat.is_some()),
        ("--thin", flags.thin.is_some()),
        ("--speed-up", flags.speed_up.is_some()),
    ];
    match wrong.iter().find(|(_, given)| *given) {
        Some((name, _)) => Err(
            Problem::new(format!("{name} changes a trace, and none is given"))
                .hint("add --trace FILE, or say another --rate")
                .into(),
        ),
        None => Ok(()),
    }
}

/// Flags that are for tables of clients only.
pub(super) fn no_clients(flags: &ChangeFlags) -> anyhow::Result<()> {
    let wrong = [
        ("--lengths", flags.lengths.is_some()),
        ("--clients-of", flags.clients_of.is_some()),
        ("--start", flags.start.is_some()),
    ];
    match wrong.iter().find(|(_, given)| *given) {
        Some((name, _)) => Err(Problem::new(format!(
            "{name} is for ServeGen's table of rates by client, and none is given"
        ))
        .hint("give the table with --trace")
        .into()),
        None => Ok(()),
    }
}

/// Flags that a table of clients has no use for.
pub(super) fn only_clients(
    path: &Path,
    traffic: &TrafficFlags,
    flags: &ChangeFlags,
) -> anyhow::Result<()> {
    let wrong = [
        ("--concurrency", traffic.concurrency.is_some()),
        ("--burstiness", traffic.burstiness.is_some()),
        ("--prefix-hit", traffic.prefix_hit.is_some()),
        ("--repeat", flags.repeat.is_some()),
        ("--then", !flags.then.is_empty()),
        ("--resample", flags.resample.is_some()),
    ];
    match wrong.iter().find(|(_, given)| *given) {
        Some((name, _)) => Err(Problem::new(format!(
            "{name} contradicts --trace {}, which tells of clients and not of requests",
            path.display()
        ))
        .hint(format!("leave {name} out"))
        .into()),
        None => Ok(()),
    }
}

/// Flags that change a rate, where a number is kept in flight.
pub(super) fn only_open(flags: &ChangeFlags) -> anyhow::Result<()> {
    let wrong = [
        ("--growth", flags.growth.is_some()),
        ("--speed-up", flags.speed_up.is_some()),
    ];
    match wrong.iter().find(|(_, given)| *given) {
        Some((name, _)) => Err(Problem::new(format!(
            "{name} changes a rate, and a concurrency is kept"
        ))
        .hint(format!(
            "leave {name} out, or say --rate in place of --concurrency"
        ))
        .into()),
        None => Ok(()),
    }
}

/// How the rate grows, in words; empty where it does not.
pub(super) fn growing(flags: &ChangeFlags) -> String {
    flags
        .growth
        .as_ref()
        .map_or_else(String::new, |by| format!(", growing by {by} an hour"))
}
