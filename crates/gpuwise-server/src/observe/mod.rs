//! What others are told of the daemon while it runs: traces of leases, and a line for each request.

mod lines;
mod spans;
mod traces;

pub(crate) use lines::{HEADER, Line, Lines, request_id};
pub(crate) use spans::{VARIABLE, traceparent};
pub(crate) use traces::Traces;
