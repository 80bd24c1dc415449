//! Kernel time by name, in rows few enough to keep of every run: what two runs are compared by.

use alloc::string::String;

gpuwise_units::named! {
    /// By which names time was summed.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum TimedBy:
        /// Its name in answers.
        name
    {
        /// Operators of the framework; kernels whose operator the file does not tell by their own names.
        Operator = "operator",
        /// Kernels.
        Kernel = "kernel",
    }
}

/// The kernel time of one name over all files of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedTime {
    pub by: TimedBy,
    /// None: of all names that have no row of their own.
    pub name: Option<String>,
    /// How often it launched work.
    pub calls: u64,
    pub sum_ns: i64,
    /// How much single calls differ: the variance of their times, in ns².
    pub call_variance: Option<f64>,
    /// What a step of one rank spends on it, where the files mark two steps at least, or repeat a
    /// sequence of kernels so often.
    pub steps: Option<StepTime>,
}

gpuwise_units::named! {
    /// What is taken for a step.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum StepKind:
        /// Its name in answers.
        name
    {
        /// What the file marks as one.
        Step = "step",
        /// A repeat of the busiest stream's sequence of kernels.
        Repeat = "repeat",
    }
}

/// Time in the steps of all ranks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepTime {
    pub kind: StepKind,
    /// Steps, of each rank its own.
    pub count: u64,
    pub mean_ns: f64,
    /// Variance between steps, in ns².
    pub variance: f64,
}
