//! Layouts of a training job on the GPUs that it has: the one it runs, and others.

use crate::{
    estimate::Estimate,
    training::{Framework, TrainingLayout},
};
use alloc::{format, string::String, vec::Vec};

/// A layout, and how long a step takes as `gpuwise train` predicts it.
#[derive(Debug, Clone, PartialEq)]
pub struct LayoutEstimate {
    pub framework: Framework,
    pub layout: TrainingLayout,
    /// Seconds.
    pub step: Estimate,
    /// The command that gives the same figure.
    pub command: String,
}

impl LayoutEstimate {
    /// The layout as people write it: `TP2×PP2×DP4`.
    pub fn written(&self) -> String {
        let layout = &self.layout;
        let degrees = [
            ("TP", layout.tensor),
            ("PP", layout.pipeline),
            ("CP", layout.context),
            ("EP", layout.expert),
            ("DP", layout.data),
        ];
        let told = degrees.iter().filter(|(_, degree)| *degree > 1);
        let told: Vec<String> = told
            .map(|(name, degree)| format!("{name}{degree}"))
            .collect();
        if told.is_empty() {
            "one GPU".into()
        } else {
            told.join("×")
        }
    }
}

/// The layout that runs, beside others on the same GPUs.
#[derive(Debug, Clone, PartialEq)]
pub struct LayoutComparison {
    pub now: LayoutEstimate,
    /// The median step of the trace, where it has steps.
    pub measured_ns: Option<i64>,
    /// Others, the fastest first.
    pub others: Vec<LayoutEstimate>,
    /// What it was asked of, in words: GPUs and model.
    pub of: String,
}
