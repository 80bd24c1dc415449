//! A replica as an engine that batches continuously: what its steps take, and what it has room for.

use gpuwise_units::RandomStream;
use serde::{Deserialize, Serialize};

/// Values on a grid; between its lines they go straight, beyond its edges they stay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grid {
    /// Where its lines lie, each rising.
    pub rows: Vec<f64>,
    pub columns: Vec<f64>,
    /// A value for each row and column.
    pub values: Vec<Vec<f64>>,
}

/// Between which two of some rising knots a place lies, and how far on.
fn between(knots: &[f64], place: f64) -> (usize, usize, f64) {
    let after = knots.partition_point(|knot| *knot <= place);
    let (low, high) = (after.saturating_sub(1), after.min(knots.len().max(1) - 1));
    let (Some(from), Some(to)) = (knots.get(low), knots.get(high)) else {
        return (0, 0, 0.0);
    };
    let part = if to > from {
        ((place - from) / (to - from)).clamp(0.0, 1.0)
    } else {
        0.0
    };
    (low, high, part)
}

impl Grid {
    /// The values along one row, which need not be a line of the grid.
    fn row(&self, at: f64) -> Vec<f64> {
        let (low, high, part) = between(&self.rows, at);
        let none: &[f64] = &[];
        let of = |row: usize| self.values.get(row).map_or(none, Vec::as_slice);
        let each = of(low).iter().zip(of(high));
        each.map(|(from, to)| from + part * (to - from)).collect()
    }
}

/// An engine: tables of its step times, by the same functions as a plan's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Engine {
    /// Seconds of a step by sequences that decode (rows, 0 among them: what a step takes that has prompts alone, but
    /// for these) and their mean context in tokens (columns).
    pub decode: Grid,
    /// Seconds that prompts add to a step, by sequences that decode beside them and tokens of prompts.
    pub prompts: Grid,
    /// Tokens of cache, sequences at once, and tokens of a step at most.
    pub cache: f64,
    pub sequences: u32,
    pub step_tokens: f64,
    /// The share of prompts that is in the cache already and is not computed.
    pub cached: f64,
}

/// Tokens of prompts, or of answers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Length {
    pub mean: f64,
    /// Squared coefficient of variation; 0: all are equal, else they are log-normal.
    pub variation: f64,
    pub longest: f64,
}

impl Length {
    /// The length of one, where the mean is another for now.
    pub(super) fn draw(&self, mean: f64, stream: &mut RandomStream) -> f64 {
        let length = if self.variation > 0.0 {
            let square = libm::log1p(self.variation);
            let (radius, turn) = (stream.uniform(), stream.uniform());
            let normal =
                libm::sqrt(-2.0 * libm::log1p(-radius)) * libm::cos(core::f64::consts::TAU * turn);
            mean * libm::exp(normal * libm::sqrt(square) - square / 2.0)
        } else {
            mean
        };
        libm::round(length).clamp(1.0, self.longest.max(1.0))
    }
}

/// A service whose replicas are engines: one for each of its variants, and what its requests are.
#[derive(Debug, Clone, PartialEq)]
pub struct Engines {
    pub of: Vec<Engine>,
    pub prompt: Length,
    pub answer: Length,
    /// Mean tokens of a prompt and of an answer, a reading for each of the demand's; empty: always as above.
    pub over_time: Vec<(f64, f64)>,
    /// Seconds until the first token, and for each further one in the mean, beyond which a request is late.
    pub first_token: f64,
    pub token: Option<f64>,
}

impl Engines {
    /// Mean tokens of a prompt and of an answer at a time; readings are so many seconds apart.
    pub(super) fn means(&self, now: f64, period: f64) -> (f64, f64) {
        let last = self.over_time.len().saturating_sub(1);
        let at = ((now / period) as usize).min(last);
        let usual = (self.prompt.mean, self.answer.mean);
        self.over_time.get(at).copied().unwrap_or(usual)
    }
}

/// The same with a row for every number of sequences: looked up at every step.
#[derive(Debug, Clone)]
pub(super) struct Steps {
    decode: Vec<Vec<f64>>,
    contexts: Vec<f64>,
    prompts: Vec<Vec<f64>>,
    tokens: Vec<f64>,
    pub(super) cache: f64,
    pub(super) sequences: u32,
    pub(super) step_tokens: f64,
    pub(super) cached: f64,
}

impl Steps {
    pub(super) fn new(engine: &Engine) -> Self {
        let most = engine.sequences.max(1);
        let rows = |grid: &Grid| (0..=most).map(|at| grid.row(f64::from(at))).collect();
        Self {
            decode: rows(&engine.decode),
            contexts: engine.decode.columns.clone(),
            prompts: rows(&engine.prompts),
            tokens: engine.prompts.columns.clone(),
            cache: engine.cache.max(1.0),
            sequences: most,
            step_tokens: engine.step_tokens.max(1.0),
            cached: engine.cached.clamp(0.0, 1.0),
        }
    }

    /// Seconds of a step of so many sequences with so many tokens of context in all, beside tokens of prompts.
    pub(super) fn seconds(&self, sequences: u32, context: f64, prompts: f64) -> f64 {
        let row = sequences.min(self.sequences) as usize;
        let mean = context / f64::from(sequences.max(1));
        let decode = value(self.decode.get(row), &self.contexts, mean);
        let more = if prompts > 0.0 {
            value(self.prompts.get(row), &self.tokens, prompts)
        } else {
            0.0
        };
        (decode + more).max(SHORTEST)
    }
}

/// No step is shorter: tables of nothing do not stop time.
const SHORTEST: f64 = 1e-6;

fn value(row: Option<&Vec<f64>>, knots: &[f64], place: f64) -> f64 {
    let (low, high, part) = between(knots, place);
    let of = |at: usize| row.and_then(|row| row.get(at)).copied().unwrap_or(0.0);
    of(low) + part * (of(high) - of(low))
}
