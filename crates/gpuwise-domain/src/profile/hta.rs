//! What HolisticTraceAnalysis sees of a trace, and what it says of it.

use alloc::{string::String, vec::Vec};

/// Events of one rank as HolisticTraceAnalysis holds them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HtaTrace {
    /// Names of events, each once.
    pub names: Vec<String>,
    /// Events with a duration and a category other than `Trace`, in the order of the file.
    pub rows: Vec<HtaRow>,
}

/// One event. Times are microseconds; where the file has fractions they are rounded inwards, so
/// that a short event may end before it starts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HtaRow {
    pub start_us: f64,
    pub end_us: f64,
    /// Index into [`HtaTrace::names`].
    pub name: u32,
    /// Its stream; −1 where there is none.
    pub stream: i64,
    /// What joins it with a launch; −1 where there is none.
    pub correlation: i64,
}

/// What HolisticTraceAnalysis says of several ranks.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HtaFigures {
    pub ranks: Vec<HtaRank>,
    /// Time of kinds of kernels over all ranks, the longest first.
    pub kernel_types: Vec<HtaKernelType>,
    /// Kernels of every rank, by kind, name and rank.
    pub kernels: Vec<HtaKernel>,
}

/// Temporal breakdown and overlap of one rank, in microseconds and percent.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct HtaRank {
    pub rank: u32,
    /// Time in which nothing ran.
    pub idle_us: f64,
    /// Time in which a kernel computed.
    pub compute_us: f64,
    pub non_compute_us: f64,
    /// From the first start to the last end.
    pub kernel_us: f64,
    /// Communication that computation hides; absent without communication.
    pub overlap_percent: Option<f64>,
}

/// Time of one kind of kernels, or of kinds at once.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HtaKernelType {
    /// `COMPUTATION`, `COMMUNICATION overlapping MEMORY`.
    pub kernel_type: String,
    pub sum_us: f64,
    pub percentage: f64,
}

/// Kernels of one name, or `others`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HtaKernel {
    pub name: String,
    pub kernel_type: String,
    pub rank: u32,
    /// Sum of durations.
    pub sum_us: f64,
    pub max_us: f64,
    pub min_us: f64,
    /// Sample standard deviation; 0 of one.
    pub stddev: f64,
    pub mean_us: f64,
}
