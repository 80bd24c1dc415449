//! What is done to traffic on its way: replayed faster, thinned, grown, cut, relabelled.

use super::{Pacing, Source, TrafficError, arrivals::check_gaps, mixed, sample};
use gpuwise_domain::{
    client::GapLaw,
    request::{Request, Segment},
};
use gpuwise_units::{Nanoseconds, RandomStream, group_thousands};
use std::fmt;

#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Due times are divided by this, so that the rate is multiplied. How long clients think between
    /// the requests of a session is their own affair and stays.
    Faster(f64),
    /// Each request, or each session as a whole, is kept with this probability. What is kept at one
    /// probability is kept at every greater one.
    Thin { keep: f64, seed: u64 },
    /// The rate grows by this share in each period, from the first request on (0.1: by 10 %); negative
    /// where it shrinks.
    Growth {
        /// Share.
        by: f64,
        every: Nanoseconds,
    },
    /// The gaps between requests are multiplied by chance, with a mean of 1 and this squared coefficient
    /// of variation: as many requests, that come in bursts. Their order and lengths stay.
    Bursts {
        /// Squared coefficient of variation of the factors.
        variation: f64,
        seed: u64,
    },
    /// No more requests than these.
    First(u64),
    /// Only what is due from here until before there, counted from the beginning of the window.
    Window { from: Nanoseconds, to: Nanoseconds },
    /// Prompts and answers are longer by these factors, or shorter. Shared beginnings stay as long as
    /// they fit.
    Stretch { input: f64, output: f64 },
    /// No prompt and no answer has more tokens.
    Longest {
        /// Tokens of a prompt.
        input: u32,
        /// Tokens of an answer.
        output: u32,
    },
    /// Contents and sessions are no longer those of the same traffic under another tag.
    Apart(u64),
    /// Prompts share nothing.
    Unshared,
    /// Requests, or sessions as a whole, get labels at random by their shares.
    Labels {
        /// Shares, of any sum, with what they get.
        shares: Vec<(f64, Label)>,
        seed: u64,
    },
    /// Clients think before each request for a time of this mean and law: after the answer before it in
    /// a session, or after the answer that made room where a number is kept in flight.
    Think {
        mean: Nanoseconds,
        law: GapLaw,
        seed: u64,
    },
    /// Sent at another pace: at most so many at a time, or always so many.
    Paced(Pacing),
}

/// Who sends a request, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Label {
    /// Tenant; 0: nobody is told apart.
    pub tenant: u16,
    /// The smaller, the sooner.
    pub priority: i16,
    /// LoRA adapter; 0 is the base model.
    pub adapter: u16,
}

impl Change {
    /// Whether its numbers can be.
    ///
    /// # Errors
    /// Names the number that cannot.
    pub fn check(&self) -> Result<(), TrafficError> {
        let factor = |what, value| {
            TrafficError::range(what, value, 1e-6..=1e6, "a factor from 0.000001 to 1000000")
        };
        match self {
            Self::Faster(by) => factor("the speed-up", *by),
            Self::Stretch { input, output } => {
                factor("the factor of prompts", *input)?;
                factor("the factor of answers", *output)
            }
            Self::Thin { keep, .. } => {
                TrafficError::range("the share to keep", *keep, 0.0..=1.0, "a share from 0 to 1")
            }
            Self::Growth { by, every } => {
                let expected = "a share above -1, at most 1000";
                TrafficError::range("the growth", *by, -0.999..=1e3, expected)?;
                let time = every.seconds().get();
                let expected = "a time from 1 ms to 100 years";
                TrafficError::range("the period of growth", time, 1e-3..=3.2e9, expected)
            }
            Self::Bursts { variation, .. } => check_gaps(GapLaw::of_variation(*variation)),
            Self::Think { mean, law, .. } => {
                check_gaps(*law)?;
                let time = mean.seconds().get();
                let expected = "a time of at most 100 years";
                TrafficError::range("the time to think", time, 0.0..=3.2e9, expected)
            }
            Self::Labels { shares, .. } => {
                for (share, _) in shares {
                    let expected = "a number from 0 to 10^9";
                    TrafficError::range("a share", *share, 0.0..=1e9, expected)?;
                }
                if shares.iter().any(|(share, _)| *share > 0.0) {
                    Ok(())
                } else {
                    Err(TrafficError::Nothing("shares above 0"))
                }
            }
            Self::Paced(Pacing::InFlight(0) | Pacing::Scheduled { cap: Some(0) }) => {
                Err(TrafficError::Number {
                    what: "the number of concurrent requests",
                    value: 0.0,
                    expected: "at least 1",
                })
            }
            _ => Ok(()),
        }
    }

    /// What becomes of a request; `number` is its place before the change, from 0.
    fn apply(&self, number: u64, request: &mut Request) -> Fate {
        match self {
            Self::Faster(by) => request.due = scaled(request.due, 1.0 / by),
            Self::Growth { by, every } => match grown(request.due, *by, *every) {
                Some(due) => request.due = due,
                None => return Fate::Over,
            },
            Self::Thin { keep, seed } => {
                if whim(*seed, "traffic thinned", number, request) >= *keep {
                    return Fate::Dropped;
                }
            }
            Self::First(count) => {
                if number >= *count {
                    return Fate::Over;
                }
            }
            Self::Window { from, to } => {
                if request.due >= *to {
                    return Fate::Over;
                }
                let Some(due) = request.due.0.checked_sub(from.0) else {
                    return Fate::Dropped;
                };
                request.due = Nanoseconds(due);
            }
            Self::Stretch { input, output } => {
                let tokens = |tokens: u32, by: f64| (f64::from(tokens) * by + 0.5) as u32;
                request.output = tokens(request.output, *output).max(1.min(request.output));
                cut(
                    request,
                    tokens(request.input, *input).max(1.min(request.input)),
                );
            }
            Self::Longest { input, output } => {
                request.output = request.output.min(*output);
                let input = request.input.min(*input);
                cut(request, input);
            }
            Self::Apart(tag) => apart(request, *tag),
            Self::Unshared => {
                request.prefix = None;
                request.answer = None;
            }
            Self::Think { mean, law, seed } => {
                let mut stream = RandomStream::new(*seed, "traffic thinking", number);
                request.think = scaled(*mean, sample::gap(&mut stream, *law));
            }
            Self::Labels { shares, seed } => {
                let sum: f64 = shares.iter().map(|(share, _)| share).sum();
                let mut point = whim(*seed, "traffic labels", number, request) * sum;
                let drawn = shares.iter().find(|(share, _)| {
                    point -= share;
                    point < 0.0
                });
                if let Some((_, label)) = drawn.or(shares.last()) {
                    request.tenant = label.tenant;
                    request.priority = label.priority;
                    request.adapter = label.adapter;
                }
            }
            // Rests on what was due before.
            Self::Bursts { .. } | Self::Paced(_) => {}
        }
        Fate::Kept
    }
}

enum Fate {
    Kept,
    Dropped,
    Over,
}

/// A uniform draw of a request, the same for all requests of a session.
fn whim(seed: u64, purpose: &str, number: u64, request: &Request) -> f64 {
    let entity = request
        .session
        .map_or(number, |session| (1 << 63) | u64::from(session));
    sample::open_uniform(&mut RandomStream::new(seed, purpose, entity))
}

fn scaled(time: Nanoseconds, by: f64) -> Nanoseconds {
    Nanoseconds((time.0 as f64 * by + 0.5) as u64)
}

/// When a request is due whose rate grows; `None`: never, as the rate dies away before.
fn grown(due: Nanoseconds, by: f64, every: Nanoseconds) -> Option<Nanoseconds> {
    let growth = libm::log1p(by);
    if growth == 0.0 {
        return Some(due);
    }
    let share = due.0 as f64 * growth / every.0 as f64;
    (share > -1.0).then(|| {
        let periods = libm::log1p(share) / growth;
        Nanoseconds((periods * every.0 as f64 + 0.5) as u64)
    })
}

/// Makes a prompt that long, its segments no longer.
fn cut(request: &mut Request, input: u32) {
    request.input = input;
    let Some(prefix) = request.prefix.take() else {
        return;
    };
    let mut left = input;
    let kept: Box<[Segment]> = prefix
        .iter()
        .map_while(|segment| {
            let tokens = segment.tokens.min(left);
            left -= tokens;
            (tokens > 0).then_some(Segment {
                content: segment.content,
                tokens,
            })
        })
        .collect();
    request.prefix = (!kept.is_empty()).then_some(kept);
}

/// Renames what a request shares.
pub(super) fn apart(request: &mut Request, tag: u64) {
    let tag = mixed(tag);
    for segment in request.prefix.iter_mut().flatten() {
        segment.content = mixed(segment.content ^ tag);
    }
    request.answer = request.answer.map(|answer| mixed(answer ^ tag));
    request.session = request.session.map(|session| other_session(session, tag));
}

/// A session of another name: one to one for each tag.
pub(super) const fn other_session(session: u32, tag: u64) -> u32 {
    let mut value = session ^ (tag as u32);
    value = (value ^ (value >> 16)).wrapping_mul(0x7feb_352d);
    value = (value ^ (value >> 15)).wrapping_mul(0x846c_a68b);
    (value ^ (value >> 16)) ^ ((tag >> 32) as u32)
}

/// A source with a [`Change`] made.
#[derive(Debug, Clone)]
pub struct Changed<S> {
    source: S,
    change: Change,
    number: u64,
    over: bool,
    /// When the last request was due, before and after the change.
    last: (u64, u64),
}

impl<S: Source> Changed<S> {
    pub(super) fn new(source: S, change: Change) -> Result<Self, TrafficError> {
        change.check()?;
        Ok(Self {
            source,
            change,
            number: 0,
            over: false,
            last: (0, 0),
        })
    }

    fn burst(&mut self, variation: f64, seed: u64, number: u64, request: &mut Request) {
        let (before, after) = self.last;
        let gap = request.due.0.saturating_sub(before) as f64;
        let mut stream = RandomStream::new(seed, "traffic bursts", number);
        let factor = sample::gap(&mut stream, GapLaw::of_variation(variation));
        let moved = after.saturating_add((gap * factor + 0.5) as u64);
        self.last = (request.due.0, moved);
        request.due = Nanoseconds(moved);
    }
}

impl<S: Source> Iterator for Changed<S> {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        if let Change::First(count) = self.change
            && self.number >= count
        {
            return None;
        }
        while !self.over {
            let Some(mut request) = self.source.next() else {
                break;
            };
            let number = self.number;
            self.number += 1;
            if let Change::Bursts { variation, seed } = self.change {
                self.burst(variation, seed, number, &mut request);
            }
            match self.change.apply(number, &mut request) {
                Fate::Kept => return Some(request),
                Fate::Dropped => {}
                Fate::Over => break,
            }
        }
        self.over = true;
        None
    }
}

impl<S: Source> Source for Changed<S> {
    fn remaining(&self) -> Option<u64> {
        if self.over {
            return Some(0);
        }
        let before = self.source.remaining();
        match &self.change {
            Change::First(count) => {
                let most = count.saturating_sub(self.number);
                before.map(|left| left.min(most))
            }
            Change::Thin { .. } | Change::Window { .. } => before.filter(|left| *left == 0),
            Change::Growth { by, .. } if *by < 0.0 => before.filter(|left| *left == 0),
            _ => before,
        }
    }

    fn pacing(&self) -> Pacing {
        match self.change {
            Change::Paced(pacing) => pacing,
            _ => self.source.pacing(),
        }
    }
}

impl fmt::Display for Change {
    /// In a few words, for a report.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Faster(by) => write!(out, "replayed {by}× as fast"),
            Self::Thin { keep, .. } => write!(out, "{} % kept", keep * 100.0),
            Self::Growth { by, every } => write!(out, "growing by {} % every {every}", by * 100.0),
            Self::Bursts { variation, .. } => {
                write!(out, "in bursts, gaps with {variation} more of CV²")
            }
            Self::First(count) => write!(
                out,
                "first {} requests",
                group_thousands(&count.to_string())
            ),
            Self::Window { from, to } => write!(out, "from {from} to {to}"),
            Self::Stretch { input, output } => write!(out, "prompts ×{input}, answers ×{output}"),
            Self::Longest { input, output } => {
                write!(
                    out,
                    "prompts of at most {input} and answers of at most {output} tokens"
                )
            }
            Self::Apart(_) => out.write_str("contents of its own"),
            Self::Unshared => out.write_str("nothing shared"),
            Self::Think { mean, .. } => write!(out, "clients think {mean}"),
            Self::Labels { shares, .. } => write!(out, "labelled by {} shares", shares.len()),
            Self::Paced(Pacing::InFlight(count)) => write!(out, "{count} concurrent"),
            Self::Paced(Pacing::Scheduled { cap: Some(cap) }) => {
                write!(out, "at most {cap} concurrent")
            }
            Self::Paced(Pacing::Scheduled { cap: None }) => out.write_str("as scheduled"),
        }
    }
}
