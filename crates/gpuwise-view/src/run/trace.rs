//! A run for the viewers of Chrome and Perfetto, written event by event.

use gpuwise_domain::request::{Outcome, RequestRecord};
use serde_json::json;
use std::fmt::{self, Write};

/// Steps of one replica, one after the other with the same batch; times in picoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Steps {
    pub replica: u16,
    /// When the first began.
    pub start: u64,
    /// How long all took.
    pub duration: u64,
    pub steps: u32,
    /// Sequences that decoded in each.
    pub decodes: u32,
    pub prefill: u32,
    /// Tokens of context of the first.
    pub context: u64,
    /// KV-cache blocks in use at the end.
    pub kv_used: u64,
    /// Sequences in the batch at the end.
    pub running: u32,
    /// Requests that waited at the end.
    pub waiting: u32,
}

/// Thread of a replica's steps; its requests are tracks of their own.
const STEPS: u32 = 1;

/// Writes a trace as a JSON array, an event a line: a process for each replica with its steps, its
/// requests from queue to decode, and how many run, wait and what of the cache is used. Nothing that
/// was written is kept.
#[derive(Debug)]
pub struct Trace<W> {
    out: W,
    begun: bool,
    named: Vec<u16>,
}

impl<W: Write> Trace<W> {
    /// Begins a trace.
    ///
    /// # Errors
    /// Where `out` cannot be written to; so for all others.
    pub fn new(mut out: W) -> Result<Self, fmt::Error> {
        out.write_char('[')?;
        Ok(Self {
            out,
            begun: false,
            named: Vec::new(),
        })
    }

    /// Steps that a replica ran.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn steps(&mut self, run: &Steps) -> fmt::Result {
        self.name(run.replica)?;
        let name = match (run.prefill, run.decodes) {
            (0, _) => format!("decode ×{}", run.steps),
            (_, 0) => "prefill".into(),
            _ => "prefill + decode".into(),
        };
        let (replica, batch) = (run.replica, run.decodes);
        self.event(
            run.start / 1000,
            &format!(
                "\"ph\":\"X\",\"name\":\"{name}\",\"cat\":\"step\",\"pid\":{replica},\"tid\":{STEPS},\"dur\":{},\
                 \"args\":{{\"steps\":{},\"decodes\":{batch},\"prefill_tokens\":{},\"context\":{},\"kv_blocks\":{}}}",
                micros(run.duration / 1000),
                run.steps,
                run.prefill,
                run.context,
                run.kv_used
            ),
        )?;
        let end = run.start.saturating_add(run.duration) / 1000;
        self.event(
            end,
            &format!(
                "\"ph\":\"C\",\"name\":\"requests\",\"pid\":{replica},\"args\":{{\"running\":{},\"waiting\":{}}}",
                run.running, run.waiting
            ),
        )?;
        self.event(
            end,
            &format!(
                "\"ph\":\"C\",\"name\":\"KV blocks\",\"pid\":{replica},\"args\":{{\"used\":{}}}",
                run.kv_used
            ),
        )
    }

    /// A request that is over.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn request(&mut self, record: &RequestRecord) -> fmt::Result {
        let replica = record.replica.unwrap_or(0);
        self.name(replica)?;
        let (due, end) = (record.due.0, record.end.0.max(record.due.0));
        let scheduled = record.scheduled.map_or(end, |at| at.0.clamp(due, end));
        let first = record
            .first_token
            .map_or(end, |at| at.0.clamp(scheduled, end));
        let id = record.number;
        let span = |name: &str, phase: char, args: &str| {
            format!(
                "\"ph\":\"{phase}\",\"name\":\"{name}\",\"cat\":\"request\",\"id\":{id},\"pid\":{replica},\"tid\":0{args}"
            )
        };
        let args = json!({
            "input": record.input,
            "output": record.output,
            "cached": record.cached,
            "preemptions": record.preemptions,
            "tenant": record.tenant,
            "outcome": record.outcome.name(),
        });
        let whole = format!("request {id}");
        self.event(due, &span(&whole, 'b', &format!(",\"args\":{args}")))?;
        let phases = [
            ("queue", due, scheduled),
            ("prefill", scheduled, first),
            ("decode", first, end),
        ];
        for (name, from, to) in phases {
            if to > from {
                self.event(from, &span(name, 'b', ""))?;
                self.event(to, &span(name, 'e', ""))?;
            }
        }
        if record.outcome != Outcome::Completed {
            self.event(end, &span(record.outcome.name(), 'n', ""))?;
        }
        self.event(end, &span(&whole, 'e', ""))
    }

    /// Ends the trace and hands back what it was written to.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn finish(mut self) -> Result<W, fmt::Error> {
        self.out.write_str("\n]\n")?;
        Ok(self.out)
    }

    /// Names a replica and its thread of steps, once.
    fn name(&mut self, replica: u16) -> fmt::Result {
        if self.named.contains(&replica) {
            return Ok(());
        }
        self.named.push(replica);
        for (what, thread, name) in [
            ("process_name", 0, format!("replica {replica}")),
            ("thread_name", STEPS, "steps".into()),
        ] {
            self.line(&format!(
                "\"ph\":\"M\",\"name\":\"{what}\",\"pid\":{replica},\"tid\":{thread},\"args\":{{\"name\":\"{name}\"}}"
            ))?;
        }
        Ok(())
    }

    fn event(&mut self, time: u64, rest: &str) -> fmt::Result {
        let line = format!("\"ts\":{},{rest}", micros(time));
        self.line(&line)
    }

    fn line(&mut self, content: &str) -> fmt::Result {
        let comma = if self.begun { "," } else { "" };
        self.begun = true;
        write!(self.out, "{comma}\n{{{content}}}")
    }
}

/// Nanoseconds as microseconds, exactly.
fn micros(nanoseconds: u64) -> String {
    format!("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000)
}
