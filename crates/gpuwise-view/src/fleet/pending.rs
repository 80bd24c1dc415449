//! Jobs that wait: what each asks for.

use crate::{
    figures,
    table::{Cell, Column, Table},
};
use gpuwise_domain::placement::{Fleet, GpuAsk, Job, Kinds, SliceAsk};
use gpuwise_units::Bytes;
use std::fmt::Write as _;

/// Rows that people are shown.
const SHOWN: usize = 40;
/// Kinds that are named one by one.
const KINDS: usize = 3;

/// Jobs that wait for a place, in the order of their file.
pub fn pending(fleet: &Fleet, jobs: &[&Job]) -> Table {
    let mut table = Table::new(vec![
        Column::left("job", "job"),
        Column::left("tenant", "tenant"),
        Column::right("priority", "priority"),
        Column::left("asks", "asks for"),
    ]);
    for job in jobs.iter().take(SHOWN) {
        table.push(vec![
            Cell::text(job.name.as_str()),
            match job.tenant.as_str() {
                "" => Cell::missing(),
                tenant => Cell::text(tenant),
            },
            Cell::new(job.priority.to_string(), job.priority),
            Cell::text(asks(fleet, job)),
        ]);
    }
    let more = jobs.len().saturating_sub(SHOWN);
    if more > 0 {
        table.footnote(format!("{} more wait", figures::count(more as u64)));
    }
    table
}

/// `2 to 4 workers, each 2 × L40S`.
fn asks(fleet: &Fleet, job: &Job) -> String {
    let each = gpus(fleet, job.worker.gpu);
    let gang = job.gang;
    match (gang.least, gang.most) {
        (_, 0 | 1) => each,
        (least, most) if least == most => format!("{least} workers, each {each}"),
        (least, most) => format!("{least} to {most} workers, each {each}"),
    }
}

fn gpus(fleet: &Fleet, ask: GpuAsk) -> String {
    match ask {
        GpuAsk::None => "no GPU".into(),
        GpuAsk::Whole { count, kinds, .. } => format!("{count} × {}", named(fleet, kinds)),
        GpuAsk::Fraction {
            milli,
            memory_mib,
            isolation,
            kinds,
        } => {
            let memory = memory_mib.map_or_else(String::new, |mib| {
                let bytes = Bytes::from_mib(u64::from(mib));
                format!(" with {}", figures::bytes(bytes))
            });
            format!(
                "{} of {}{memory} by {}",
                figures::percent(f64::from(milli) / 1000.0),
                named(fleet, kinds),
                isolation.name()
            )
        }
        GpuAsk::Slice { slice, kinds } => {
            format!("a MIG slice{} of {}", size(slice), named(fleet, kinds))
        }
    }
}

/// ` 3g with 20 GiB or more`.
fn size(slice: SliceAsk) -> String {
    let mut out = String::new();
    if slice.compute > 0 {
        let _ = write!(out, " {}g", slice.compute);
    }
    if slice.memory_mib > 0 {
        let bytes = Bytes::from_mib(u64::from(slice.memory_mib));
        let _ = write!(out, " with {} or more", figures::bytes(bytes));
    }
    out
}

/// Kinds by name; `any GPU` where every kind will do.
fn named(fleet: &Fleet, kinds: Kinds) -> String {
    let names: Vec<&str> = kinds
        .iter()
        .filter_map(|kind| fleet.kinds.get(kind.index()))
        .map(|kind| kind.name.as_str())
        .collect();
    if names.len() == fleet.kinds.len() && names.len() > 1 {
        return "any GPU".into();
    }
    match names.split_at_checked(KINDS) {
        Some((first, rest)) if !rest.is_empty() => {
            format!("{} or {} more kinds", first.join(", "), rest.len())
        }
        _ if names.is_empty() => "a GPU that is not in this fleet".into(),
        _ => names.join(" or "),
    }
}
