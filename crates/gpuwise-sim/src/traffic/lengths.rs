//! How long requests are.

use super::{
    TrafficError,
    curve::Curve,
    sample::{self, normal_below},
};
use gpuwise_domain::{client::LengthFigures, workload};
use gpuwise_units::RandomStream;
use std::sync::Arc;

/// The widest log-normal law that is tried.
const WIDEST: f64 = 4.0;

/// Lengths of prompts and answers.
#[derive(Debug, Clone, PartialEq)]
pub enum Lengths {
    /// Drawn one without regard to the other.
    Each { input: LengthLaw, output: LengthLaw },
    /// Pairs of a prompt's and its answer's tokens, drawn with replacement: as in a trace.
    Pairs(Arc<[(u32, u32)]>),
}

/// A law of lengths in tokens, at least 1.
#[derive(Debug, Clone, PartialEq)]
pub enum LengthLaw {
    Fixed(u32),
    /// Log-normal; what would be longer than `longest` is as long.
    LogNormal {
        /// Mean of the logarithm.
        mu: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
        longest: u32,
    },
    Quantiles(Curve),
    Samples(Arc<[u32]>),
}

impl LengthLaw {
    /// The log-normal law with a mean and a squared coefficient of variation, none longer than
    /// `longest`; both are those after the longest are cut.
    ///
    /// # Errors
    /// When a number cannot be.
    pub fn of(given: &workload::LengthDistribution) -> Result<Self, TrafficError> {
        let most = f64::from(u32::MAX);
        let tokens = "tokens from 0 to 4294967295";
        TrafficError::range("the mean length", given.mean, 0.0..=most, tokens)?;
        let expected = "a number from 0 to 1000";
        TrafficError::range(
            "the variation of lengths",
            given.variation,
            0.0..=1e3,
            expected,
        )?;
        let longest = u32::try_from(given.longest.0).unwrap_or(u32::MAX);
        let end = f64::from(longest);
        if given.variation <= 0.0 || longest <= 1 || given.mean >= end * 0.999 {
            return Ok(Self::Fixed(rounded(given.mean.min(end))));
        }
        let cut = |sigma: f64| Cut::with_mean(given.mean, sigma, end);
        let (mut narrow, mut wide) = (0.0, WIDEST);
        for _ in 0..40 {
            let middle = f64::midpoint(narrow, wide);
            if cut(middle).variation() < given.variation {
                narrow = middle;
            } else {
                wide = middle;
            }
        }
        let Cut { mu, sigma, .. } = cut(wide);
        Ok(Self::LogNormal { mu, sigma, longest })
    }

    /// By mean, median, 95th percentile and maximum.
    pub fn of_figures(figures: &LengthFigures) -> Self {
        if figures.max <= 1.0 || figures.max <= figures.p50 {
            return Self::Fixed(rounded(figures.max));
        }
        Self::Quantiles(Curve::of(figures))
    }

    pub fn draw(&self, stream: &mut RandomStream) -> u32 {
        match self {
            Self::Fixed(tokens) => *tokens,
            Self::LogNormal { mu, sigma, longest } => {
                rounded(libm::exp(mu + sigma * sample::normal(stream))).min(*longest)
            }
            Self::Quantiles(curve) => rounded(curve.at(sample::open_uniform(stream))),
            Self::Samples(samples) => any(samples, stream).copied().unwrap_or(1),
        }
    }
}

impl Lengths {
    pub const fn fixed(input: u32, output: u32) -> Self {
        Self::Each {
            input: LengthLaw::Fixed(input),
            output: LengthLaw::Fixed(output),
        }
    }

    /// As a workload states them.
    ///
    /// # Errors
    /// When a number cannot be.
    pub fn of(given: &workload::Lengths) -> Result<Self, TrafficError> {
        Ok(Self::Each {
            input: LengthLaw::of(&given.input)?,
            output: LengthLaw::of(&given.output)?,
        })
    }

    /// Whether there is something to draw from.
    ///
    /// # Errors
    /// Says what is missing.
    pub fn check(&self) -> Result<(), TrafficError> {
        let some =
            |law: &LengthLaw| !matches!(law, LengthLaw::Samples(samples) if samples.is_empty());
        let drawable = match self {
            Self::Each { input, output } => some(input) && some(output),
            Self::Pairs(pairs) => !pairs.is_empty(),
        };
        if drawable {
            Ok(())
        } else {
            Err(TrafficError::Nothing("lengths to draw from"))
        }
    }

    /// The one length of all prompts, if it is one.
    pub(super) fn fixed_input(&self) -> Option<u32> {
        match self {
            Self::Each {
                input: LengthLaw::Fixed(tokens),
                ..
            } => Some(*tokens),
            _ => None,
        }
    }
}

/// Lengths as they are drawn, each from its own stream.
#[derive(Debug, Clone)]
pub(super) struct Drawn {
    lengths: Lengths,
    inputs: RandomStream,
    outputs: RandomStream,
}

impl Drawn {
    pub(super) fn new(lengths: Lengths, seed: u64, entity: u64) -> Self {
        Self {
            lengths,
            inputs: RandomStream::new(seed, "traffic inputs", entity),
            outputs: RandomStream::new(seed, "traffic outputs", entity),
        }
    }

    /// Other lengths from now on, by the same streams.
    pub(super) fn change(&mut self, lengths: Lengths) {
        self.lengths = lengths;
    }

    /// Tokens of a prompt and of its answer.
    pub(super) fn draw(&mut self) -> (u32, u32) {
        match &self.lengths {
            Lengths::Each { input, output } => {
                (input.draw(&mut self.inputs), output.draw(&mut self.outputs))
            }
            Lengths::Pairs(pairs) => any(pairs, &mut self.inputs).copied().unwrap_or((1, 1)),
        }
    }
}

fn any<'a, T>(list: &'a [T], stream: &mut RandomStream) -> Option<&'a T> {
    list.get(stream.below(list.len().max(1) as u64) as usize)
}

/// Whole tokens, at least one.
pub(super) fn rounded(tokens: f64) -> u32 {
    ((tokens + 0.5) as u32).max(1)
}

/// A log-normal law of which what is longer than `end` is as long.
#[derive(Debug, Clone, Copy)]
struct Cut {
    mu: f64,
    sigma: f64,
    end: f64,
}

impl Cut {
    /// The one of this width with this mean after the cut.
    fn with_mean(mean: f64, sigma: f64, end: f64) -> Self {
        // Uncut, the mean would be met here; the cut only lowers it.
        let mut low = libm::log(mean.max(1e-9)) - sigma * sigma / 2.0;
        let mut high = libm::log(end) + 8.0 * sigma;
        for _ in 0..50 {
            let mu = f64::midpoint(low, high);
            if (Self { mu, sigma, end }).moment(1.0) < mean {
                low = mu;
            } else {
                high = mu;
            }
        }
        Self {
            mu: low,
            sigma,
            end,
        }
    }

    fn moment(&self, power: f64) -> f64 {
        if self.sigma <= 0.0 {
            return libm::pow(libm::exp(self.mu).min(self.end), power);
        }
        let place = (libm::log(self.end) - self.mu) / self.sigma;
        let below = libm::exp(power * self.mu + power * power * self.sigma * self.sigma / 2.0)
            * normal_below(place - power * self.sigma);
        below + libm::pow(self.end, power) * normal_below(-place)
    }

    fn variation(&self) -> f64 {
        let mean = self.moment(1.0);
        self.moment(2.0) / (mean * mean) - 1.0
    }
}
