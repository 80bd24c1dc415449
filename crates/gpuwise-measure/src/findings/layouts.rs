//! Whether another layout of a training job is faster than the one that runs.

use gpuwise_domain::profile::{
    parallel::{LayoutComparison, LayoutEstimate},
    timeline::Timeline,
};

/// A measured step may lie so far outside of what is predicted for its layout, as a factor, before the
/// prediction is said to be of another job.
pub const BEYOND: f64 = 1.25;

/// What the ranges say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LayoutVerdict<'a> {
    /// At its slowest it is faster than the layout that runs at its fastest.
    Faster(&'a LayoutEstimate),
    /// No range lies below that of the layout that runs.
    NoneFaster,
    /// The measured step is not what is predicted for the layout that runs: the prediction says nothing
    /// of this job.
    NotThisJob,
}

/// Judges by ranges alone.
pub fn verdict(compared: &LayoutComparison) -> LayoutVerdict<'_> {
    let now = &compared.now.step;
    if let Some(measured) = compared.measured_ns {
        let measured = measured as f64 * 1e-9;
        if measured > now.high * BEYOND || measured < now.low / BEYOND {
            return LayoutVerdict::NotThisJob;
        }
    }
    let faster = compared
        .others
        .iter()
        .filter(|other| other.step.high < now.low);
    let best = faster.min_by(|a, b| a.step.value.total_cmp(&b.step.value));
    best.map_or(LayoutVerdict::NoneFaster, LayoutVerdict::Faster)
}

/// Tensor-parallel and pipeline ranks by the names of process groups, as Megatron-LM
/// (`TENSOR_MODEL_PARALLEL_GROUP`) and device meshes of PyTorch (`mesh_tp`) call them.
pub fn degrees(timeline: &Timeline) -> (Option<u32>, Option<u32>) {
    let groups = timeline.rank.as_ref().map_or(&[][..], |rank| &rank.groups);
    let of = |words: [&str; 2]| {
        let named = groups.iter().filter(|(name, _)| {
            let lower = name.to_ascii_lowercase();
            let mut parts = lower.split(|c: char| !c.is_ascii_alphanumeric());
            // Groups over several dimensions at once (`tp_dp`) are of neither.
            let several = ["dp", "cp", "ep", "data", "context", "expert"]
                .iter()
                .any(|other| {
                    lower
                        .split(|c: char| !c.is_ascii_alphanumeric())
                        .any(|part| part == *other)
                });
            !several && parts.any(|part| words.contains(&part))
        });
        named.map(|(_, size)| *size).next()
    };
    (of(["tp", "tensor"]), of(["pp", "pipeline"]))
}
