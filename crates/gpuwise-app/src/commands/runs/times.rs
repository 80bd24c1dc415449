//! `gpuwise runs diff --operators`: what two runs spend on each name.

use super::{Context, Exit, diff};
use crate::{
    commands::differences::{self, Compared},
    error::Problem,
};
use gpuwise_domain::profile::figures::TimedBy;
use gpuwise_store::{Store, StoredRun};

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
    let compared = Compared {
        by,
        before: &old,
        after: &new,
        head: diff::head(before, after),
        all: flags.all,
        rest: "--all",
    };
    differences::run(context, &compared)
}
