//! Asks Prometheus servers, and those that speak as they do (Thanos, Mimir, VictoriaMetrics): instant
//! and range queries and names of labels, read as a stream. Nothing is ever written.

mod client;
mod error;
mod stream;

pub use client::{Answered, Authentication, Client, Settings};
pub use error::PrometheusError;
pub use stream::{Point, Series, read_answer};
