//! Traces to a collector by OTLP over HTTP, as JSON: of the broker's leases and of the operator's objects.
//!
//! Ids follow from what a span is of, so that whoever is started anew goes on with the same trace. Nobody waits for a
//! collector: what it does not take is counted and gone.

mod collector;
mod context;
mod queue;
mod span;

pub use collector::Collector;
pub use context::{Context, VARIABLE, id};
pub use queue::{Counts, Queue};
pub use span::{Outcome, Span};
