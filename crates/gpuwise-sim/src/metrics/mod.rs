//! What a run came to: distributions, goodput, use of engines, and what happened over time.
//!
//! A [`Recorder`] hears of every request that ended, of the steps of engines and of the gaps between
//! tokens; it keeps every value of the first million and a histogram of three digits beyond, so that
//! its memory is bounded, and makes a [`gpuwise_domain::run::RunReport`] of them.

mod cohort;
mod group;
mod histogram;
mod judge;
mod recorder;
mod samples;
mod saturation;
mod timeline;

pub use histogram::Histogram;
pub use recorder::{Frame, Recorder, RecorderSettings};
pub use samples::{EXACT_VALUES, Samples, percentiles};
