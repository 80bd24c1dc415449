//! Requests one by one: as they come to a service, and what became of them.
//!
//! A simulated and a measured run speak of the same nouns, so that one report shows both.

use alloc::boxed::Box;
use gpuwise_units::Nanoseconds;

/// One request as a client means to send it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Request {
    /// When the client means to send it, from the start of the traffic. A request of a session waits
    /// for the one before it, and `think` after that: it is sent at the later of both.
    pub due: Nanoseconds,
    /// In a session, how long the client waits after the answer before it; 0: not at all.
    pub think: Nanoseconds,
    /// Tokens of the prompt (ISL).
    pub input: u32,
    /// Tokens to generate (OSL).
    pub output: u32,
    /// What its prompt shares with others, from its beginning: two prompts have in common what their
    /// equal leading segments cover. What lies beyond the segments is its own alone.
    pub prefix: Option<Box<[Segment]>>,
    /// Name of the content that its answer becomes, where a later prompt repeats it in a segment.
    pub answer: Option<u64>,
    /// Requests of one session are sent one after the other.
    pub session: Option<u32>,
    /// No later request is of its session, so that nothing of it need be remembered; false where that
    /// is not known.
    pub closes: bool,
    /// Who sends it; 0 where nobody is told apart.
    pub tenant: u16,
    /// The smaller, the sooner, under a priority policy.
    pub priority: i16,
    /// The LoRA adapter; 0 is the base model.
    pub adapter: u16,
    /// The stage of a load test that it belongs to.
    pub stage: u16,
}

impl Request {
    /// Tokens of its prompt that its segments cover.
    pub fn covered(&self) -> u64 {
        self.prefix
            .iter()
            .flatten()
            .map(|segment| u64::from(segment.tokens))
            .sum()
    }
}

/// A stretch of a prompt that other prompts may repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Segment {
    /// Equal where the text is equal.
    pub content: u64,
    pub tokens: u32,
}

/// What became of a request, by one clock that starts with the traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestRecord {
    /// Its place in the traffic, from 0.
    pub number: u64,
    /// When the client meant to send it. Latencies count from here, so that a client or a limit that
    /// holds requests back hides no queue; a request of a session counts from its predecessor's
    /// end where that is later.
    pub due: Nanoseconds,
    pub sent: Nanoseconds,
    /// When it was first in a batch; `None` where it never was, or nobody saw it.
    pub scheduled: Option<Nanoseconds>,
    /// When its first token reached the client.
    pub first_token: Option<Nanoseconds>,
    /// When its last token reached the client, or when it was aborted.
    pub end: Nanoseconds,
    /// Tokens of the prompt.
    pub input: u32,
    pub output: u32,
    /// Prompt tokens found in the prefix cache; `None`: unknown.
    pub cached: Option<u32>,
    /// Preemptions: it lost its cache and was recomputed.
    pub preemptions: u16,
    /// Times that it was sent again.
    pub retries: u16,
    pub tenant: u16,
    /// The stage of a load test that it belongs to.
    pub stage: u16,
    /// The session, where it is of one.
    pub session: Option<u32>,
    /// The replica that served it, where it is known.
    pub replica: Option<u16>,
    pub outcome: Outcome,
}

impl RequestRecord {
    /// Time to first token, counted from when it was due.
    pub fn ttft(&self) -> Option<Nanoseconds> {
        let first = self.first_token?;
        Some(Nanoseconds(first.0.saturating_sub(self.due.0)))
    }

    /// Time per output token after the first, in nanoseconds; `None` below two tokens.
    pub fn tpot(&self) -> Option<f64> {
        let first = self.first_token?;
        let more = self.output.checked_sub(1).filter(|more| *more > 0)?;
        Some(self.end.0.saturating_sub(first.0) as f64 / f64::from(more))
    }

    /// From when it was due to its last token.
    pub fn end_to_end(&self) -> Nanoseconds {
        Nanoseconds(self.end.0.saturating_sub(self.due.0))
    }

    /// From when it was sent until it was first in a batch.
    pub fn queued(&self) -> Option<Nanoseconds> {
        let scheduled = self.scheduled?;
        Some(Nanoseconds(scheduled.0.saturating_sub(self.sent.0)))
    }
}

gpuwise_units::named! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Outcome:
        name
    {
        /// All of its tokens came.
        Completed = "completed",
        /// The service refused it because it was full (429, 503).
        Rejected = "rejected",
        /// It can never be served: longer than the context, or than all cache memory.
        Impossible = "impossible",
        /// The client gave up waiting.
        TimedOut = "timed out",
        /// The service answered with an error, or broke off.
        Failed = "failed",
        /// Still queued or running when the run ended.
        Unfinished = "unfinished",
    }
}
