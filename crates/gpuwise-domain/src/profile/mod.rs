//! What profilers and telemetry saw of a job, and what is concluded from it.

pub mod figure;
pub mod finding;
pub mod timeline;
