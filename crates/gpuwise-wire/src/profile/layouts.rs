//! Layouts of a training job beside the one that runs.

use crate::{
    mirror::{forms, written},
    quantities::Real,
};
use gpuwise_domain::profile::parallel::{LayoutComparison, LayoutEstimate};

written! {
    /// The layout that runs beside others on the same GPUs, as `gpuwise train` predicts them.
    #[serde(deny_unknown_fields)]
    pub(crate) LayoutsDocument = |compared: &LayoutComparison| {
        /// GPUs (`4xH100 SXM`).
        of: String = compared.of.clone(),
        now: LayoutDocument = (&compared.now).into(),
        /// The median step of the trace.
        measured_ns: Option<i64> = compared.measured_ns,
        /// Others, the fastest first.
        others: Vec<LayoutDocument> = forms(&compared.others),
    }
}

written! {
    /// A layout, and what a step is predicted to take.
    #[serde(deny_unknown_fields)]
    pub(crate) LayoutDocument = |one: &LayoutEstimate| {
        framework: String = one.framework.name().to_owned(),
        tensor: u32 = one.layout.tensor,
        pipeline: u32 = one.layout.pipeline,
        context: u32 = one.layout.context,
        expert: u32 = one.layout.expert,
        data: u32 = one.layout.data,
        step_seconds: Real = Real(one.step.value),
        step_seconds_low: Real = Real(one.step.low),
        step_seconds_high: Real = Real(one.step.high),
        /// The command that gives the same figure.
        command: String = one.command.clone(),
    }
}
