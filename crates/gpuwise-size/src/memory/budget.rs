//! What an engine may use of the memory that it sees.

use super::{Overhead, Part};
use crate::{
    derive::{Amount, TermLabel},
    setup::Setup,
};
use alloc::{string::String, vec::Vec};
use gpuwise_domain::derivation::Unit;

pub(crate) const GIB: f64 = 1073741824.0;
pub(crate) const MIB: f64 = 1048576.0;

/// The budget of the engine in bytes, and its overheads.
pub fn overheads(setup: &Setup<'_>, visible: f64, weights: f64) -> (f64, Vec<Overhead>) {
    let parts = setup.engine_model().overheads(setup, visible, weights);
    (budget(setup, visible, weights, &parts), parts)
}

/// The engine's budget: a share of the memory that it sees, or of what is free once weights and
/// workspace are there.
pub(super) fn budget<A: Amount>(
    setup: &Setup<'_>,
    visible: A,
    weights: A,
    overheads: &[Overhead],
) -> A {
    let fraction = || {
        TermLabel::new("memory fraction", Unit::Number)
            .digits(4)
            .from("the engine's setting")
    };
    let engine = setup.engine_model();
    let fraction = A::input(engine.memory_fraction(setup), fraction);
    if !engine.shares_free_memory() {
        return visible * fraction;
    }
    let held = overheads.iter().map(explained).sum::<A>();
    let taken = weights + held;
    taken.clone() + (visible - taken).or_more(A::number(0.0)) * fraction
}

/// An overhead as an input of a formula.
pub(super) fn explained<A: Amount>(overhead: &Overhead) -> A {
    A::input(overhead.bytes, || {
        TermLabel::new(overhead.name, Unit::Bytes).from(overhead.formula.clone())
    })
}

pub(crate) fn part(
    kind: Part,
    name: &'static str,
    bytes: f64,
    formula: impl Into<String>,
) -> Overhead {
    Overhead {
        kind,
        name,
        bytes,
        outside_budget: false,
        formula: formula.into(),
    }
}
