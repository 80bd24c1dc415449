//! Asks Prometheus servers, and those that speak as they do (Thanos, Mimir, VictoriaMetrics): instant
//! and range queries and names of labels, read as a stream. Nothing is ever written.

mod client;
mod error;
mod settings;
mod stream;

pub use client::{Answered, Client};
pub use error::PrometheusError;
pub use settings::{Authentication, Settings};
pub use stream::{Point, Series, read_answer};
