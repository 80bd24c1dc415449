//! Names of content: each stretch of a prompt by itself and by all that stands before it.

use gpuwise_domain::request::Request;
use gpuwise_units::math::{mixed, scrambled};

/// What sort of content a stretch is, so that equal numbers of two sorts differ.
const SHARED: u64 = 1;
const PRIVATE: u64 = 2;

/// One more number at the end of a chain. Two chains of 64 bits are equal by chance once in 2^64
/// pairs, which is less than once in a million runs of ten million segments each.
const fn link(chain: u64, value: u64) -> u64 {
    scrambled(chain.rotate_left(23) ^ mixed(value))
}

/// A stretch of a request's tokens that has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stretch {
    /// Its name: equal where it and all before it are equal.
    pub(super) name: u64,
    /// The block that its first token is in.
    pub(super) first: u64,
    /// One after the last block that it fills.
    pub(super) end: u64,
}

/// A place between two segments of a prompt.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor {
    index: usize,
    tokens: u64,
    chain: u64,
}

impl Cursor {
    /// Before the first segment. Requests of two adapters have nothing in common.
    pub(super) fn start(request: &Request) -> Self {
        Self {
            index: 0,
            tokens: 0,
            chain: link(0, u64::from(request.adapter)),
        }
    }

    /// The next stretch that fills at least one block, and the place after it. Segments end with the
    /// prompt, and those without tokens are nothing.
    pub(super) fn next(self, request: &Request, block_tokens: u64) -> Option<(Stretch, Self)> {
        let mut at = self;
        loop {
            let after = at.step(request)?;
            let stretch = Stretch {
                name: after.chain,
                first: at.tokens / block_tokens,
                end: after.tokens / block_tokens,
            };
            if stretch.first < stretch.end {
                return Some((stretch, after));
            }
            at = after;
        }
    }

    /// Over one segment, of however many tokens.
    fn step(self, request: &Request) -> Option<Self> {
        let segments = request.prefix.as_deref()?;
        let segment = segments.get(self.index)?;
        let left = u64::from(request.input).saturating_sub(self.tokens);
        let tokens = u64::from(segment.tokens).min(left);
        let chain = if tokens == 0 {
            self.chain
        } else {
            shared(self.chain, segment.content, tokens)
        };
        Some(Self {
            index: self.index + 1,
            tokens: self.tokens + tokens,
            chain,
        })
    }

    /// What comes after all segments, where it has a name: the answer, where the segments are the
    /// whole prompt and a later prompt may repeat it; else the own content of the request of this
    /// `number`, which it may find again when it resumes.
    pub(super) fn tail(self, request: &Request, number: Option<u64>) -> Tail {
        let mut at = self;
        while let Some(after) = at.step(request) {
            at = after;
        }
        let answer = request
            .answer
            .filter(|_| at.tokens == u64::from(request.input));
        let name = match (answer, number) {
            (Some(content), _) => Some(shared(at.chain, content, u64::from(request.output))),
            (None, Some(number)) => Some(link(link(at.chain, PRIVATE), number)),
            (None, None) => None,
        };
        let end = match answer {
            Some(_) => at.tokens + u64::from(request.output),
            None => u64::MAX,
        };
        Tail {
            name,
            tokens: at.tokens,
            end,
        }
    }
}

/// What comes after all segments.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tail {
    /// Its name, if it can be found again.
    pub(super) name: Option<u64>,
    pub(super) tokens: u64,
    /// Tokens to its end, all before it included.
    pub(super) end: u64,
}

fn shared(chain: u64, content: u64, tokens: u64) -> u64 {
    link(link(link(chain, SHARED), content), tokens)
}
