//! A user's own measured rows, as corrections of the step model and of waits.
//!
//! Rows of latency, throughput, batches and single streams give r = ln(measured / predicted) and how far
//! their figure moves with two factors: on steps that decode, and on what prompts add to steps. Logarithms
//! of both are Gaussian processes over the logarithms of sequences per GPU and of context; the rows of one
//! GPU, engine, model and precision are linear in them: r = s·f + p·g + noise. So rows that say the same do
//! not count as many, a figure that steps hardly move says little of them, and rows of any metric speak of
//! one thing.
//!
//! Rows of first tokens of requests that are served correct the wait, beyond what corrected steps make of
//! it, by a process of their own that knows how long the model says the wait to be: where queues grow,
//! prediction and measurement part for reasons that are not steps, and say nothing of them. Another layout
//! shares half of what is not shared by all. Before any row all factors are 1.
//!
//! The constants were chosen on published sweeps by some draws of five points of a deployment, and judged
//! by others (`benches/feedback.py`). A range narrows as far as the rows say something of the question.

use super::{
    corrections::{Anchor, Corrections, Curve},
    ranges::{MetricClass, Range},
};
use crate::{setup::Setup, solve::solve_symmetric};
use alloc::{string::String, sync::Arc, vec::Vec};
use gpuwise_domain::{catalogue::folded, layout::Layout};

/// What measured rows of one deployment have in common, however it is laid out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MeasuredSystem {
    /// Catalogue name of the GPU.
    pub gpu: String,
    /// The engine version bucket.
    pub bucket: String,
    /// The model, folded as the catalogue folds names.
    pub model: String,
    pub weights: String,
}

impl MeasuredSystem {
    /// That of a setup, whose model has this name.
    pub fn of(setup: &Setup<'_>, model: &str) -> Self {
        Self {
            gpu: setup.device.gpu.name.clone(),
            bucket: setup.bucket.key.into(),
            model: folded(model),
            weights: setup.weights.name(),
        }
    }
}

/// Where a row or a question stands among a system's rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeasuredPlace {
    /// Sequences that decode at once per GPU; `None`: unknown.
    pub load: Option<f64>,
    /// Tokens in the mean that one attends to while it decodes; `None`: unknown.
    pub context: Option<f64>,
    /// The same of tokens of prompts.
    pub prompt_context: Option<f64>,
    /// Seconds to first token, as corrected steps make it; `None`: unknown.
    pub first: Option<f64>,
    /// Of one replica.
    pub layout: Layout,
}

/// Logarithms of load, of context, of that of prompts and of seconds to first token.
pub(super) type Axes = [f64; 4];

impl MeasuredPlace {
    /// Nothing is known but the layout.
    pub const fn unknown(layout: Layout) -> Self {
        Self {
            load: None,
            context: None,
            prompt_context: None,
            first: None,
            layout,
        }
    }

    fn logarithms(&self) -> [Option<f64>; 4] {
        let logarithm =
            |size: Option<f64>| size.filter(|x| *x > 0.0 && x.is_finite()).map(libm::log);
        [self.load, self.context, self.prompt_context, self.first].map(logarithm)
    }

    /// From the middle of rows along each axis; what is unknown stands there.
    pub(super) fn from(&self, middle: &Axes) -> Axes {
        let own = self.logarithms();
        [0, 1, 2, 3].map(|axis| own[axis].map_or(0.0, |at| at - middle[axis]))
    }
}

/// By how much the logarithm of a figure grows with those of factors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sensitivity {
    /// On steps that decode: 1 for a time per token in which no prompt is computed.
    pub steps: f64,
    /// On what prompts add to steps.
    pub prompts: f64,
}

/// One measured row against its prediction.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    pub system: MeasuredSystem,
    pub place: MeasuredPlace,
    pub class: MetricClass,
    /// ln(measured / predicted), without rows of one's own.
    pub residual: f64,
    /// Of a first token: the same with steps as other rows correct them. Else the residual, had the figure
    /// moved all the way as fast as it does near where it was measured.
    pub linear: f64,
    /// How fast it moves there.
    pub sensitivity: Sensitivity,
}

/// A user's own rows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Feedback {
    /// In the order given.
    pub observations: Vec<Observation>,
}

/// What a factor is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Steps that decode.
    Steps,
    /// What prompts add to steps.
    Prompts,
    /// The wait for a first token.
    Waits,
}

/// Variance that all of a part shares, over that which only near ones do.
const LEVEL: f64 = 0.3;
/// Of their levels, what steps that decode and prompts share.
const COMMON: f64 = 0.2;
/// Variance of the trend over the logarithm of the wait that is predicted.
const TREND: f64 = 0.1;
/// What another layout shares of the rest.
const OTHER_LAYOUT: f64 = 0.5;
/// Variance of one row's own.
const NOISE: f64 = 0.05;
/// Rows of a system that are asked at most, evenly among them.
const ROWS: usize = 64;
/// What remains of the range's width (in logarithm) when rows say all that they can.
const NARROWEST: f64 = 0.64;

/// What rows leave of the variance of a part of which they say nothing.
const NOTHING_SAID: f64 = 0.98;
/// Standard deviations on either side within which 80 % of a normal distribution lie.
const MIDDLE_80: f64 = 1.2816;

/// An axis on which a part does not depend.
const ANY: f64 = f64::INFINITY;

impl Part {
    /// The variance that only near ones share, and the logarithms along each axis after which they share
    /// 1/e of it.
    const fn near(self) -> (f64, Axes) {
        match self {
            Self::Steps => (0.5, [3.0, 3.0, ANY, ANY]),
            Self::Prompts => (0.3, [ANY, ANY, 3.0, ANY]),
            Self::Waits => (1.0, [5.0, ANY, 3.0, 3.0]),
        }
    }

    /// Covariance of what is off at two places, each from the middle.
    pub(super) fn covariance(self, a: &Axes, b: &Axes, sharing: f64) -> f64 {
        let (near, reach) = self.near();
        let axes = a.iter().zip(b).zip(reach);
        let far: f64 = axes.map(|((a, b), reach)| libm::fabs(a - b) / reach).sum();
        let trend = match self {
            Self::Waits => TREND * a[3] * b[3],
            Self::Steps | Self::Prompts => 0.0,
        };
        LEVEL + trend + sharing * near * libm::exp(-far)
    }
}

/// What a user's rows make of the range of a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Narrowed {
    /// Factor on the width (in logarithm) of the range.
    pub width: f64,
    /// By how much the rows miss what all of them say together, as a standard deviation of logarithms.
    pub scatter: f64,
    /// Rows of this very deployment.
    pub rows: usize,
}

impl Narrowed {
    /// The range, as narrow as the rows say, and no narrower than they contradict one another.
    pub fn of(&self, range: Range) -> Range {
        let own = libm::exp(MIDDLE_80 * self.scatter);
        Range {
            low: libm::pow(range.low, self.width).min(1.0 / own),
            high: libm::pow(range.high, self.width).max(own),
        }
    }
}

impl Feedback {
    /// What its rows say of the steps and waits of a system in a layout.
    pub fn corrections(&self, system: &MeasuredSystem, layout: Layout) -> Corrections {
        let curve = |part: Part| {
            let process = Process::of(self.rows(system, part == Part::Waits))?;
            Some(Arc::new(process.curve(part, layout)))
        };
        Corrections {
            steps: curve(Part::Steps),
            prompts: curve(Part::Prompts),
            waits: curve(Part::Waits),
        }
    }

    /// What its rows make of the range of a figure of this class; `None` where no row is of its GPU,
    /// engine, model and precision, none of it is of first tokens where that is asked, or they say nothing of it.
    pub fn narrowed(
        &self,
        system: &MeasuredSystem,
        class: MetricClass,
        place: &MeasuredPlace,
    ) -> Option<Narrowed> {
        let part = if class.is_first_token() {
            Part::Waits
        } else if class.is_of_prompts() {
            Part::Prompts
        } else {
            Part::Steps
        };
        let rows = self.rows(system, part == Part::Waits);
        let count = rows.len();
        let process = Process::of(rows)?;
        let unsaid = process.unsaid(part, place);
        // Rows that hardly move with it say nothing of it.
        (unsaid < NOTHING_SAID).then(|| Narrowed {
            width: NARROWEST + (1.0 - NARROWEST) * unsaid,
            scatter: process.scatter(),
            rows: count,
        })
    }

    /// Rows of a system: those of first tokens, or all others. High percentiles count where there are no
    /// means.
    fn rows(&self, system: &MeasuredSystem, first: bool) -> Vec<&Observation> {
        let of = |tails: bool| {
            let rows = self.observations.iter().filter(move |row| {
                row.system == *system
                    && row.class.is_first_token() == first
                    && row.class.mean().is_some() == tails
            });
            rows.collect::<Vec<_>>()
        };
        let means = of(false);
        if means.is_empty() { of(true) } else { means }
    }
}

/// Rows of one system, linear in Gaussian processes.
struct Process<'a> {
    rows: Vec<&'a Observation>,
    /// Where those stand that do not say.
    middle: Axes,
}

impl<'a> Process<'a> {
    /// `None` without rows.
    fn of(mut rows: Vec<&'a Observation>) -> Option<Self> {
        if rows.is_empty() {
            return None;
        }
        if rows.len() > ROWS {
            let count = rows.len();
            rows.sort_by(|a, b| {
                let key = |row: &Observation| row.place.from(&Axes::default());
                let (a, b) = (key(a), key(b));
                let ordered = a.iter().zip(&b).map(|(a, b)| a.total_cmp(b));
                ordered.fold(core::cmp::Ordering::Equal, core::cmp::Ordering::then)
            });
            rows = (0..ROWS)
                .filter_map(|at| rows.get(at * count / ROWS).copied())
                .collect();
        }
        let middle = [0, 1, 2, 3].map(|axis| {
            let known = rows.iter().filter_map(|row| row.place.logarithms()[axis]);
            mean(known).unwrap_or(0.0)
        });
        Some(Self { rows, middle })
    }

    /// How far a row moves with a part.
    fn moved(row: &Observation, part: Part) -> f64 {
        let first = row.class.is_first_token();
        match part {
            Part::Waits => f64::from(u8::from(first)),
            _ if first => 0.0,
            Part::Steps => row.sensitivity.steps,
            Part::Prompts => row.sensitivity.prompts,
        }
    }

    /// Covariance of a row with a part at a place.
    fn with(&self, row: &Observation, part: Part, place: &MeasuredPlace) -> f64 {
        let (at, to) = (row.place.from(&self.middle), place.from(&self.middle));
        let sharing = sharing(row.place.layout, place.layout);
        Self::moved(row, part) * part.covariance(&at, &to, sharing) + Self::across(row, part)
    }

    /// What a row shares with a part through the other of the same GPU.
    fn across(row: &Observation, part: Part) -> f64 {
        let other = match part {
            Part::Steps => Part::Prompts,
            Part::Prompts => Part::Steps,
            Part::Waits => return 0.0,
        };
        Self::moved(row, other) * COMMON
    }

    /// What each row counts for such values of all of them.
    fn counts(&self, values: Vec<f64>) -> Vec<f64> {
        let size = self.rows.len();
        let pairs = (0..size).flat_map(|i| (0..size).map(move |j| (i, j)));
        let of = |(i, j): (usize, usize)| {
            let (a, b) = (self.rows[i], self.rows[j]);
            let parts = [Part::Steps, Part::Prompts, Part::Waits];
            let shared = parts.map(|part| Self::moved(a, part) * self.with(b, part, &a.place));
            shared.iter().sum::<f64>() + if i == j { NOISE } else { 0.0 }
        };
        solve_symmetric(pairs.map(of).collect(), values)
    }

    /// By how much the rows miss what the process makes of them; a single row contradicts none.
    fn scatter(&self) -> f64 {
        let own = self.counts(self.rows.iter().map(|row| row.linear).collect());
        let missed = own.iter().map(|count| NOISE * count);
        let squares: f64 = missed.map(|missed| missed * missed).sum();
        match own.len() {
            0 | 1 => 0.0,
            rows => libm::sqrt(squares / (rows - 1) as f64),
        }
    }

    /// What the rows leave of the variance of a part at a place, from 0 to 1.
    fn unsaid(&self, part: Part, place: &MeasuredPlace) -> f64 {
        let rows = self.rows.iter();
        let with: Vec<f64> = rows.map(|row| self.with(row, part, place)).collect();
        let counts = self.counts(with.clone());
        let explained: f64 = counts.iter().zip(&with).map(|(count, k)| count * k).sum();
        let at = place.from(&self.middle);
        (1.0 - explained / part.covariance(&at, &at, 1.0)).clamp(0.0, 1.0)
    }

    /// The mean of a part for a layout.
    fn curve(&self, part: Part, layout: Layout) -> Curve {
        let counts = self.counts(self.rows.iter().map(|row| row.linear).collect());
        let rows = || self.rows.iter().zip(&counts);
        let level = rows().map(|(row, count)| count * Self::across(row, part));
        let anchors = rows().map(|(row, count)| Anchor {
            at: row.place.from(&self.middle),
            sharing: sharing(row.place.layout, layout),
            count: count * Self::moved(row, part),
        });
        Curve::new(part, anchors.collect(), level.sum(), self.middle)
    }
}

fn sharing(a: Layout, b: Layout) -> f64 {
    if a == b { 1.0 } else { OTHER_LAYOUT }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), x| (sum + x, count + 1.0));
    (count > 0.0).then(|| sum / count)
}
