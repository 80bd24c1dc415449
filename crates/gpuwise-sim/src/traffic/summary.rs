//! Traffic in figures.

use super::mixed;
use gpuwise_domain::request::{Request, Segment};
use gpuwise_units::{Nanoseconds, PerSecond};
use std::collections::BTreeSet;

#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    pub requests: u64,
    /// From the first to the last.
    pub span: Nanoseconds,
    /// Requests a second between them; `None` where all are due at once.
    pub rate: Option<PerSecond>,
    /// Squared coefficient of variation of the gaps (1 for Poisson); `None` as above.
    pub burstiness: Option<f64>,
    pub input: LengthFigures,
    pub output: LengthFigures,
    pub sessions: u64,
    /// Tenants that are told apart.
    pub tenants: u64,
    /// Share of prompt tokens that a cache without an end would hold; `None` where no prompt says what
    /// it shares.
    pub shared_tokens: Option<f64>,
    /// The same of segments: of blocks, where a trace gives blocks.
    pub shared_segments: Option<f64>,
}

/// Lengths in tokens; percentiles interpolate linearly, as numpy's.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LengthFigures {
    pub mean: f64,
    pub p50: f64,
    pub p95: f64,
    pub max: u32,
    /// Squared coefficient of variation (0: all equal).
    pub variation: f64,
}

impl Summary {
    /// Of all requests that are still to come. Holds eight bytes of each, and what they share.
    pub fn of(requests: impl Iterator<Item = Request>) -> Self {
        let mut count = Counter::default();
        for request in requests {
            count.add(&request);
        }
        count.finish()
    }
}

#[derive(Debug, Default)]
struct Counter {
    first: Option<Nanoseconds>,
    last: Nanoseconds,
    /// Squares of the gaps in seconds.
    squares: f64,
    inputs: Vec<u32>,
    outputs: Vec<u32>,
    sessions: BTreeSet<u32>,
    tenants: BTreeSet<u16>,
    /// Prompts up to each segment's end.
    seen: BTreeSet<u64>,
    hit_tokens: u64,
    segments: u64,
    hit_segments: u64,
}

impl Counter {
    fn add(&mut self, request: &Request) {
        if self.first.is_some() {
            let gap = Nanoseconds(request.due.0.saturating_sub(self.last.0));
            self.squares += gap.seconds().get() * gap.seconds().get();
        } else {
            self.first = Some(request.due);
        }
        self.last = request.due;
        self.inputs.push(request.input);
        self.outputs.push(request.output);
        self.sessions.extend(request.session);
        self.tenants
            .extend((request.tenant > 0).then_some(request.tenant));
        self.share(request);
    }

    fn share(&mut self, request: &Request) {
        let (mut chain, mut hit, mut end) = (0, true, 0_u64);
        for segment in request.prefix.iter().flatten() {
            end += u64::from(segment.tokens);
            chain = chained(chain, *segment);
            hit &= !self.seen.insert(chain);
            self.segments += 1;
            if hit {
                self.hit_segments += 1;
                self.hit_tokens += u64::from(segment.tokens);
            }
        }
        if let Some(content) = request.answer
            && end == u64::from(request.input)
        {
            self.seen.insert(chained(
                chain,
                Segment {
                    content,
                    tokens: request.output,
                },
            ));
        }
    }

    fn finish(self) -> Summary {
        let requests = self.inputs.len() as u64;
        let gaps = requests.saturating_sub(1) as f64;
        let span = Nanoseconds(self.last.0.saturating_sub(self.first.unwrap_or_default().0));
        let seconds = span.seconds().get();
        let timed = seconds > 0.0;
        let tokens: u64 = self.inputs.iter().map(|input| u64::from(*input)).sum();
        let share =
            |part: u64, all: u64| (self.segments > 0 && all > 0).then(|| part as f64 / all as f64);
        Summary {
            requests,
            span,
            rate: timed.then(|| PerSecond::new(gaps / seconds)),
            burstiness: timed.then(|| {
                let mean = seconds / gaps;
                (self.squares / gaps / (mean * mean) - 1.0).max(0.0)
            }),
            shared_tokens: share(self.hit_tokens, tokens),
            shared_segments: share(self.hit_segments, self.segments),
            input: figures(self.inputs),
            output: figures(self.outputs),
            sessions: self.sessions.len() as u64,
            tenants: self.tenants.len() as u64,
        }
    }
}

fn chained(before: u64, segment: Segment) -> u64 {
    mixed(mixed(before ^ segment.content) ^ u64::from(segment.tokens))
}

fn figures(mut lengths: Vec<u32>) -> LengthFigures {
    lengths.sort_unstable();
    let count = lengths.len().max(1) as f64;
    let mean = lengths.iter().map(|x| f64::from(*x)).sum::<f64>() / count;
    let square = |x: &u32| (f64::from(*x) - mean) * (f64::from(*x) - mean);
    let variance = lengths.iter().map(square).sum::<f64>() / count;
    let quantile = |share: f64| {
        let place = share * lengths.len().saturating_sub(1) as f64;
        let at = |index: usize| {
            let length = lengths.get(index).or(lengths.last());
            length.map_or(0.0, |length| f64::from(*length))
        };
        let below = place as usize;
        at(below) + (at(below + 1) - at(below)) * (place - below as f64)
    };
    LengthFigures {
        mean,
        p50: quantile(0.5),
        p95: quantile(0.95),
        max: lengths.last().copied().unwrap_or(0),
        variation: if mean > 0.0 {
            variance / (mean * mean)
        } else {
            0.0
        },
    }
}
