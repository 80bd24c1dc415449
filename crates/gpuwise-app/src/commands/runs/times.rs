//! `gpuwise runs diff --operators`: what two runs spend on each name.

use super::{Context, Exit, diff};
use crate::{error::Problem, progress, schemas::AnswerName, settings::Format};
use gpuwise_domain::profile::figures::{StepKind, TimedBy};
use gpuwise_measure::difference::{Basis, TimeDifference, of_times};
use gpuwise_store::{Store, StoredRun};
use gpuwise_view::{profile::differences::DifferenceRow, record};

/// Changes below this share of the run's kernel time are left out for people unless all are asked for.
const SHARE: f64 = 0.001;

/// # Errors
/// When a run has no times, or the database refuses.
pub(super) fn run(
    context: &Context,
    flags: &diff::Flags,
    store: &Store,
    by: TimedBy,
    [before, after]: [&StoredRun; 2],
) -> anyhow::Result<Exit> {
    let (old, new) = (store.times(&before.row.id)?, store.times(&after.row.id)?);
    for (run, times) in [(before, &old), (after, &new)] {
        if times.is_empty() {
            return Err(Problem::new(format!(
                "run {} has no times of operators and kernels",
                run.row.id
            ))
            .hint("it ran no kernel, or an older gpuwise kept it: forget it, and keep its profile again")
            .into());
        }
    }
    let (basis, differences) = of_times(&old, &new, by);
    let people = context.form.format == Format::Table;
    let least = if people && !flags.all {
        let all: f64 = differences.iter().filter_map(|row| row.before.ns).sum();
        all * SHARE
    } else {
        0.0
    };
    let shown: Vec<DifferenceRow> = differences
        .iter()
        .filter(|row| row.change_ns.abs() >= least)
        .map(|difference| row(by, basis, difference))
        .collect();
    let context = context.answering(AnswerName::RunsDiffOperators);
    if people {
        let what = match basis {
            Basis::Step(StepKind::Repeat) => {
                "Kernel time of a repeat of the kernels' sequence, as steps are not marked; intervals by how much repeats of a run differ."
            }
            Basis::Step(StepKind::Step) => {
                "Kernel time of a step of one rank; intervals by how much steps of a run differ."
            }
            Basis::Profile => "Kernel time of whole profiles, since steps are not known of both.",
        };
        context.data(&format!("{}{what}\n\n", diff::head(before, after)))?;
    }
    context.table(&record::table(&shown).when_empty("No name's time changed by 0.1 % of all."))?;
    if people && shown.len() < differences.len() {
        let more = differences.len() - shown.len();
        progress::say(&format!(
            "{more} more names that changed less: --all has them"
        ));
    }
    Ok(Exit::Yes)
}

fn row(by: TimedBy, basis: Basis, of: &TimeDifference) -> DifferenceRow {
    DifferenceRow {
        by,
        name: of.name.clone(),
        basis: match basis {
            Basis::Step(kind) => kind.name(),
            Basis::Profile => "profile",
        },
        before_ns: of.before.ns,
        after_ns: of.after.ns,
        calls_before: of.before.calls,
        calls_after: of.after.calls,
        change_ns: of.change_ns,
        interval_ns: of.interval_ns,
        change_share: of.share(),
        sure: of.is_sure(),
    }
}

/// The schema of its rows.
pub(super) fn schema(answer: &str) -> String {
    record::rows_schema::<DifferenceRow>(answer, "Kernel time of two runs by name")
}
