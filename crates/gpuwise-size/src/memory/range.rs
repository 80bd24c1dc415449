//! How far the cache that an engine logs lies from ours: the ends of 80 % ranges.

use super::{MemoryPlan, weights_per_rank};
use crate::setup::{Setup, Weights, left_in_sixteen_bits};
use gpuwise_domain::engine::{Engine, EngineKind};

/// What a row or a question states of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatedRun {
    /// Whether it states the release.
    pub release: bool,
    /// Whether it states the limits of a step.
    pub limits: bool,
    /// Whether the model has towers for other inputs than text.
    pub towers: bool,
}

/// Shares of the budget by which a profile may leave less or more than ours.
///
/// Nine logged capacities of vLLM 0.15.1 lie within -0.7 % and +1.1 % of the budget. Releases whose profile changed
/// since, and towers, get twice that; where limits are not stated, the five logs of 0.6 and 0.7 lie within 1.3 % but
/// for one at 23 %; where the release is not, the five logs lie between 3.2 % above and 5.3 % below.
pub fn profile_shares(engine: &Engine, stated: StatedRun) -> (f64, f64) {
    let fitted = engine.at_least([0, 12, 0]) && !engine.at_least([0, 17, 0]);
    match (engine.kind, stated.limits, stated.release) {
        (EngineKind::Vllm, true, _) if fitted && !stated.towers => (0.02, 0.015),
        (EngineKind::Vllm, true, _) => (0.04, 0.03),
        (EngineKind::Vllm, false, true) => (0.08, 0.03),
        _ => (0.12, 0.06),
    }
}

/// Factors on weights as engines log them: exports in four bits differ in what they leave as it is.
pub fn weight_factors(setup: &Setup<'_>) -> (f64, f64) {
    let published = setup.weights == Weights::published(setup.architecture);
    let assignments = setup
        .weights
        .quantization
        .iter()
        .flat_map(|q| &q.assignments);
    let four_bit = assignments
        .into_iter()
        .any(|assignment| assignment.format.bytes_per_element() < 0.75);
    match (published, four_bit) {
        (_, false) => (0.99, 1.01),
        (true, true) => (0.92, 1.03),
        (false, true) => (0.90, most_of_an_export(setup).max(1.06)),
    }
}

/// What an export weighs that leaves attention and recurrent mixers in 16 bits, over ours.
fn most_of_an_export(setup: &Setup<'_>) -> f64 {
    let weights = left_in_sixteen_bits(setup.architecture, &setup.weights);
    let fuller = Setup {
        weights,
        ..setup.clone()
    };
    weights_per_rank(&fuller) / weights_per_rank(setup).max(1.0)
}

/// The least and the most that may be left to the cache, in bytes; the least is negative where nothing may be.
pub fn cache_range(setup: &Setup<'_>, plan: &MemoryPlan) -> (f64, f64) {
    let stated = StatedRun {
        release: setup.engine.release.is_some(),
        limits: true,
        towers: !setup.architecture.towers.is_empty(),
    };
    let (below, above) = profile_shares(&setup.engine, stated);
    let (lighter, heavier) = weight_factors(setup);
    // Both are known by themselves: their squares add up.
    let weights = plan.weight_bytes();
    let both = |profile: f64, weights: f64| libm::sqrt(profile * profile + weights * weights);
    (
        plan.cache - both(below * plan.budget, (heavier - 1.0) * weights),
        plan.cache + both(above * plan.budget, (1.0 - lighter) * weights),
    )
}
