//! The 25 % rule, how far it is off, and which assumption leads to the ends of popular ranges.

use super::{Purpose, Row};
use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};
use gpuwise_units::{Bytes, math::median};

/// What the rule adds for everything that is not weights.
pub(super) const MARGIN: f64 = 1.25;

/// Bytes by the rule: parameters × bits / 8 × 1.25.
pub fn rule_bytes(parameters: u64, bits: f64) -> Bytes {
    Bytes::from_f64(parameters as f64 * bits / 8.0 * MARGIN)
}

/// How far the rule is off for a model in one precision or method.
#[derive(Debug, Clone, PartialEq)]
pub struct RuleError {
    pub model: String,
    /// Precision, or method of training.
    pub what: String,
    /// Most that it says too little, as a share of what is needed (negative), over all rows.
    pub least: f64,
    pub median: f64,
    /// Most that it says too much.
    pub most: f64,
    pub rows: usize,
}

/// The rule's error by model and precision, in the order of rows.
pub fn rule_error(rows: &[Row]) -> Vec<RuleError> {
    let mut groups: Vec<(String, String, Vec<f64>)> = Vec::new();
    for row in rows {
        let Some(off) = row.off() else { continue };
        let what = match &row.purpose {
            Purpose::Inference { format, .. } => format.clone(),
            Purpose::Training { method, .. } => method.clone(),
        };
        match groups
            .iter_mut()
            .find(|(model, known, _)| *model == row.model && *known == what)
        {
            Some((.., found)) => found.push(off),
            None => groups.push((row.model.clone(), what, alloc::vec![off])),
        }
    }
    groups
        .into_iter()
        .filter_map(|(model, what, mut found)| {
            found.sort_by(f64::total_cmp);
            Some(RuleError {
                model,
                what,
                least: *found.first()?,
                median: median(&found)?,
                most: *found.last()?,
                rows: found.len(),
            })
        })
        .collect()
}

/// A way to reckon a model's memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Assumption {
    pub words: String,
    pub bytes: f64,
    /// Whether it is what serving in 16 bits takes, with which ranges are compared.
    pub serving: bool,
}

/// An end of a popular range with the assumption that comes nearest to it.
#[derive(Debug, Clone, PartialEq)]
pub struct RangeEnd {
    /// Bytes that the range says.
    pub said: f64,
    /// The same for each parameter.
    pub per_parameter: f64,
    pub nearest: Assumption,
    /// The range's end over the nearest assumption, less 1.
    pub off: f64,
    /// The range's end over what serving in 16 bits takes.
    pub over_serving: Option<f64>,
}

/// Ways in which people come to a model's memory, from its parameters and the bytes that a token
/// adds to its key-value cache in 16 bits. Bytes of states: weights, gradients, two moments, master
/// copy (FORMULAS: 8 in BF16 throughout, 10 with 8-bit moments and a master copy, 16 mixed, 18 with
/// gradients in FP32 too).
pub fn usual_assumptions(parameters: u64, cache_bytes_per_token: u64) -> Vec<Assumption> {
    let parameters = parameters as f64;
    let mut out = Vec::new();
    let mut add = |words: String, bytes: f64, serving: bool| {
        out.push(Assumption {
            words,
            bytes,
            serving,
        });
    };
    for (name, bits) in [("FP32", 32.0), ("BF16", 16.0), ("FP8", 8.0), ("INT4", 4.0)] {
        add(
            format!("{name} weights alone"),
            parameters * bits / 8.0,
            false,
        );
        add(
            format!("the 25 % rule in {name}"),
            parameters * bits / 8.0 * MARGIN,
            false,
        );
    }
    for (requests, context, words) in [
        (1_u64, 8192_u64, "1 request of 8,192 tokens"),
        (32, 8192, "32 requests of 8,192 tokens"),
        (1, 131_072, "1 request of 131,072 tokens"),
        (16, 131_072, "16 requests of 131,072 tokens"),
    ] {
        let cache = (cache_bytes_per_token * context * requests) as f64;
        add(
            format!("BF16 weights and the cache of {words}"),
            parameters * 2.0 + cache,
            requests == 1 && context == 8192,
        );
    }
    for (words, bytes) in [
        ("full training all in BF16 (8 bytes a parameter)", 8.0),
        (
            "full training all in BF16 × 1.25 (10 bytes a parameter)",
            10.0,
        ),
        (
            "full training in mixed precision (16 bytes a parameter)",
            16.0,
        ),
        ("the same with FP32 gradients (18 bytes a parameter)", 18.0),
    ] {
        add(words.to_string(), parameters * bytes, false);
    }
    out
}

/// Both ends of a range in bytes, each with the assumption nearest to it.
pub fn ends(range: (f64, f64), parameters: u64, assumptions: &[Assumption]) -> Vec<RangeEnd> {
    let serving = assumptions.iter().find(|one| one.serving);
    let of = |said: f64| -> Option<RangeEnd> {
        let apart = |one: &&Assumption| libm::fabs(libm::log(said / one.bytes));
        let nearest = assumptions
            .iter()
            .filter(|one| one.bytes > 0.0)
            .min_by(|a, b| apart(a).total_cmp(&apart(b)))?;
        Some(RangeEnd {
            said,
            per_parameter: said / (parameters.max(1) as f64),
            off: said / nearest.bytes - 1.0,
            nearest: nearest.clone(),
            over_serving: serving.map(|one| said / one.bytes),
        })
    };
    [range.0, range.1].into_iter().filter_map(of).collect()
}
