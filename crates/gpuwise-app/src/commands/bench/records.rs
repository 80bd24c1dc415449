//! What became of every request, as a table of values.

use crate::write::{Pending, Scratch};
use gpuwise_probe::bench::Measured;
use gpuwise_units::Nanoseconds;
use std::io::Write as _;

const HEADER: &str = "request,stage,tenant,session,due_s,sent_s,first_token_s,end_s,requested_input,input,cached,requested_output,output,pieces,retries,connect_s,server_prompt_s,server_token_s,outcome,reason\n";

/// Lines of CSV, one for each request, in the order in which they ended; on disk from the first, so
/// that a long run needs no memory for them.
#[derive(Debug)]
pub(super) struct Records(Scratch);

impl Records {
    /// The table of a file that is going to be written.
    pub(super) fn new(file: Pending) -> anyhow::Result<Self> {
        let mut lines = file.scratch()?;
        lines.write(|out| out.write_all(HEADER.as_bytes()));
        Ok(Self(lines))
    }

    pub(super) fn add(&mut self, measured: &Measured) {
        let record = &measured.record;
        let time = |at: Nanoseconds| format!("{:.9}", at.seconds().get());
        let maybe = |at: Option<Nanoseconds>| at.map(time).unwrap_or_default();
        let number = |count: Option<u32>| count.map(|count| count.to_string()).unwrap_or_default();
        let milli =
            |time: Option<f64>| time.map_or_else(String::new, |time| format!("{:.9}", time / 1e3));
        let timings = measured.timings.unwrap_or_default();
        let reason = measured.failure.as_ref().map(ToString::to_string);
        let reason = reason.unwrap_or_default().replace('"', "\"\"");
        self.0.write(|out| {
            writeln!(
                out,
                "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},\"{reason}\"",
                record.number,
                record.stage,
                record.tenant,
                number(record.session),
                time(record.due),
                time(record.sent),
                maybe(record.first_token),
                time(record.end),
                measured.requested_input,
                record.input,
                number(record.cached),
                measured.requested_output,
                record.output,
                measured.pieces.len(),
                record.retries,
                maybe(measured.connect),
                milli(timings.prompt_ms),
                milli(timings.predicted_per_token_ms),
                record.outcome.name(),
            )
        });
    }

    /// Puts the table in its place.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        self.0.finish()
    }
}
