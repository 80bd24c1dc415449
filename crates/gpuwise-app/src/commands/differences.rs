//! What two runs spend on each name: of runs that were kept, and of files beside one another.

use super::{Context, Exit};
use crate::{progress, schemas::AnswerName, settings::Format};
use gpuwise_domain::profile::figures::{NamedTime, StepKind, TimedBy};
use gpuwise_measure::difference::{Basis, TimeDifference, of_times};
use gpuwise_view::{profile::differences::DifferenceRow, record};

/// Changes below this share of the run's kernel time are left out for people unless all are asked for.
const SHARE: f64 = 0.001;

/// What is held against what, and how it is shown.
pub(super) struct Compared<'a> {
    pub(super) by: TimedBy,
    pub(super) before: &'a [NamedTime],
    pub(super) after: &'a [NamedTime],
    /// What people are told first: which run is which.
    pub(super) head: String,
    /// Whether small changes are shown as well.
    pub(super) all: bool,
    /// How a reader gets those that are left out.
    pub(super) rest: &'static str,
}

/// # Errors
/// When it cannot be written.
pub(super) fn run(context: &Context, of: &Compared<'_>) -> anyhow::Result<Exit> {
    let (basis, differences) = of_times(of.before, of.after, of.by);
    let people = context.form.format == Format::Table;
    let least = if people && !of.all {
        let all: f64 = differences.iter().filter_map(|row| row.before.ns).sum();
        all * SHARE
    } else {
        0.0
    };
    let shown: Vec<DifferenceRow> = differences
        .iter()
        .filter(|row| row.change_ns.abs() >= least)
        .map(|difference| row(of.by, basis, difference))
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
        context.data(&format!("{}{what}\n\n", of.head))?;
    }
    context.table(&record::table(&shown).when_empty("No name's time changed by 0.1 % of all."))?;
    if people && shown.len() < differences.len() {
        let more = differences.len() - shown.len();
        progress::say(&format!(
            "{more} more names that changed less: {} has them",
            of.rest
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
#[cfg(feature = "database")]
pub(super) fn schema(answer: &str) -> String {
    record::rows_schema::<DifferenceRow>(answer, "Kernel time of two runs by name")
}
