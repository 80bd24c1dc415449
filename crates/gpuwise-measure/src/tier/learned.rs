//! A forest that corrects scaled times by what jobs took on other tiers.

use super::scaling::{Scaled, Tier, scale};
use crate::learn::{
    Table,
    forest::{Forest, ForestSettings, Prediction},
};
use gpuwise_domain::{
    profile::matmul::MatmulPrecision,
    tier::{Job, Scaling},
};
use gpuwise_operators::Functions;

/// What the forest looks at. Names of GPUs and models are not among them, nor any time on the target.
pub const FEATURES: [&str; 16] = [
    "log time",
    "compute share",
    "memory share",
    "launch share",
    "communication share",
    "copy share",
    "host share",
    "log kernels",
    "log FLOPs per byte",
    "log peak ratio",
    "log bandwidth ratio",
    "log host-link ratio",
    "log GPU-count ratio",
    "log FLOPs per byte of the target",
    "same generation",
    "slice",
];

/// The features of a job and a tier that it might move to; what is not known is NaN.
pub fn features(job: &Job, from: &Tier, to: &Tier, scaled: &Scaled) -> [f64; FEATURES.len()] {
    let precision = job.precision.unwrap_or(MatmulPrecision::Bf16);
    let log = |value: Option<f64>| value.map_or(f64::NAN, libm::log);
    let ratio = |a: Option<f64>, b: Option<f64>| match (a, b) {
        (Some(a), Some(b)) => libm::log(a / b),
        _ => f64::NAN,
    };
    let total = scaled.parts.total();
    let peak = |tier: &Tier| tier.processor.peak(precision);
    [
        libm::log(job.seconds),
        scaled.parts.compute / total,
        scaled.parts.memory / total,
        scaled.parts.launch / total,
        scaled.parts.communication / total,
        scaled.parts.copies / total,
        scaled.parts.host / total,
        log(job.kernels),
        ratio(job.operations, job.bytes),
        ratio(peak(to), peak(from)),
        libm::log(to.processor.bandwidth / from.processor.bandwidth),
        ratio(to.processor.host_link, from.processor.host_link),
        libm::log(f64::from(to.gpus.max(1)) / f64::from(from.gpus.max(1))),
        ratio(peak(to), Some(to.processor.bandwidth)),
        f64::from(u8::from(
            to.processor.generation == from.processor.generation,
        )),
        f64::from(u8::from(to.slice)),
    ]
}

/// A job with where it ran, where else it was measured, and what it took there.
#[derive(Debug, Clone, Copy)]
pub struct Lesson<'a> {
    pub job: &'a Job,
    /// The tier of its profile.
    pub from: &'a Tier,
    /// The tier it was measured on too.
    pub to: &'a Tier,
    /// Seconds of the same unit of work there.
    pub seconds: f64,
}

/// Grows a forest to ln(measured/scaled) of the lessons that can be scaled; also how many can. Lessons
/// of one job are drawn together.
pub fn learn(
    lessons: &[Lesson<'_>],
    (scaling, functions): (&Scaling, &Functions),
    settings: &ForestSettings,
    seed: u64,
) -> (Forest, usize) {
    let mut table = Table::new(&FEATURES);
    let (mut target, mut groups, mut names) = (Vec::new(), Vec::new(), Vec::<&str>::new());
    for lesson in lessons {
        let Ok(scaled) = scale(lesson.job, lesson.from, lesson.to, scaling, functions) else {
            continue;
        };
        let correction = libm::log(lesson.seconds / scaled.seconds);
        if !correction.is_finite() {
            continue;
        }
        let group = names.iter().position(|name| *name == lesson.job.name);
        let group = group.unwrap_or_else(|| {
            names.push(&lesson.job.name);
            names.len() - 1
        });
        table.push(&features(lesson.job, lesson.from, lesson.to, &scaled));
        target.push(correction);
        groups.push(group as u32);
    }
    let forest = Forest::grow(&table, &target, &groups, settings, seed);
    (forest, target.len())
}

#[derive(Debug, Clone, PartialEq)]
pub struct Corrected {
    /// Seconds of a unit of work.
    pub seconds: f64,
    /// The lower end of the 80 % range.
    pub low: f64,
    pub high: f64,
    /// What the forest said of ln(actual/scaled).
    pub said: Prediction,
}

/// What a forest makes of a scaled time; `None` of a forest that was grown on other features, or on
/// nothing.
pub fn correct(
    forest: &Forest,
    job: &Job,
    from: &Tier,
    to: &Tier,
    scaled: &Scaled,
) -> Option<Corrected> {
    if forest.trees.is_empty() || forest.features != FEATURES {
        return None;
    }
    let said = forest.predict(&features(job, from, to, scaled));
    let corrected = |log: f64| scaled.seconds * libm::exp(log);
    (said.value.is_finite() && said.low.is_finite() && said.high.is_finite()).then(|| Corrected {
        seconds: corrected(said.value),
        low: corrected(said.low),
        high: corrected(said.high),
        said,
    })
}
