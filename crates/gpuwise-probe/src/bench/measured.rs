//! What a request came to.

use super::{
    chunk::{Timings, Usage},
    failure::Failure,
};
use gpuwise_domain::request::RequestRecord;
use gpuwise_units::Nanoseconds;

/// A request that was sent, with all that was seen of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// When it was due, sent and answered, and how it ended. Its output is what the server counted,
    /// where that can be; else the pieces that brought tokens; 0 where neither is known
    /// ([`Doubt::Unknown`]).
    pub record: RequestRecord,
    /// When each piece that brought tokens was read; several of one read have one time.
    pub pieces: Box<[Nanoseconds]>,
    pub usage: Option<Usage>,
    /// What the server says that it took, where it does.
    pub timings: Option<Timings>,
    /// Tokens of the prompt that were asked for.
    pub requested_input: u32,
    /// Tokens that were asked to be generated.
    pub requested_output: u32,
    /// How long its connection took to make, where it needed one of its own; latencies hold it.
    pub connect: Option<Nanoseconds>,
    pub failure: Option<Failure>,
    /// Why the server's counts were not believed.
    pub doubt: Option<Doubt>,
}

/// What is wrong with the token counts of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Doubt {
    #[error(
        "the server counted fewer tokens than the pieces that brought some: these were counted"
    )]
    TooFew,
    #[error("the server counted more tokens than were asked for: pieces were counted")]
    TooMany,
    #[error("the server counted no tokens: pieces of the answer were counted")]
    Absent,
    /// The answer came whole, so that no pieces could be counted, and its count is absent or cannot be.
    #[error(
        "answers came whole and without a count that can be: how many tokens were generated is not known"
    )]
    Unknown,
}

impl Measured {
    /// The gaps between pieces that brought tokens, in order.
    pub fn gaps(&self) -> impl Iterator<Item = Nanoseconds> {
        self.pieces.windows(2).filter_map(|pair| match pair {
            [before, after] => Some(Nanoseconds(after.0.saturating_sub(before.0))),
            _ => None,
        })
    }
}
