//! What becomes of a workload once it was decided on: another decision is rolled out, watched, kept or taken back;
//! pure.
//!
//! All that is remembered is in the status of the workload, so that another operator goes on where one ended. New
//! pods come before old ones go; then the SLO is watched for a while, and what misses it gives way to the decision
//! before, which is kept until the next change.

mod patch;
mod step;
#[cfg(test)]
mod tests;

pub use patch::undo;
pub use step::{
    Limits, Look, MISSES, Next, Rollout, SloSeen, back, begin, ends, next, settle, verify,
};

use crate::resources::{ChangeReason, Decided};

/// The share of its cost that a change must save: as `gpuwise audit` and the broker's reviews have it.
const WORTH: f64 = 0.1;
/// The share of what was predicted that must have come: as `gpuwise audit --proof` has it.
const PROVEN: f64 = 0.85;

/// What an audit says of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    TooLarge,
    TooSmall,
    Idle,
    /// Right, or nothing that another GPU would cure.
    Stays,
    /// What is needed to tell is not there.
    Untold,
}

/// Whether a workload is given what was found for it in place of what it has, by costs in millionths an hour; why.
///
/// # Errors
/// Why it stays where it is, in words.
pub fn worth(
    verdict: Verdict,
    now: (&Decided, Option<i64>),
    found: (&Decided, Option<i64>),
) -> Result<ChangeReason, String> {
    let same = !found.0.differs(now.0) && found.0.replicas == now.0.replicas;
    let words = found.0.words();
    match verdict {
        _ if same => Err(format!("what it has is what its traffic needs: {words}")),
        Verdict::TooLarge => match (now.1, found.1) {
            (Some(old), Some(new)) if (new as f64) <= (old as f64) * (1.0 - WORTH) => {
                Ok(ChangeReason::TooLarge)
            }
            (Some(_), Some(_)) => Err(format!("{words} would save less than a tenth")),
            _ => Err(format!(
                "{words} would do, and what it costs is not known: a GpuPriceBook says it"
            )),
        },
        Verdict::TooSmall => match (now.1, found.1) {
            // More of the same, or what is dearer: something that is cheaper is no cure.
            (Some(old), Some(new)) if new <= old => Err(format!(
                "{words} is what its traffic needs, and costs no more than what is too small"
            )),
            _ => Ok(ChangeReason::TooSmall),
        },
        Verdict::Idle | Verdict::Stays | Verdict::Untold => {
            Err("nothing else is proposed for it".into())
        }
    }
}

/// Whether enough of a predicted saving came.
pub fn came(predicted: i64, measured: i64) -> bool {
    measured as f64 >= PROVEN * predicted as f64
}
