//! How the memory of a GPU comes about, as a tree.

use super::{MemoryPlan, Overhead, budget, room};
use crate::{
    derive::{Amount, Term, TermLabel},
    setup::Setup,
};
use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};
use gpuwise_domain::derivation::{Derivation, Unit};

/// The tokens that the cache of the fullest GPU holds, down to shapes, settings and the catalogue's
/// rows: formula, inputs, and where each input comes from.
pub fn explain(plan: &MemoryPlan, setup: &Setup<'_>) -> Derivation {
    tokens(plan, setup).derivation()
}

/// By the plan's own formulas.
fn tokens(plan: &MemoryPlan, setup: &Setup<'_>) -> Term {
    let weights = weights(plan, setup);
    let inside: Vec<&Overhead> = plan
        .overheads
        .iter()
        .filter(|overhead| !overhead.outside_budget && overhead.bytes >= 1.0)
        .collect();
    let overheads = inside.iter().map(|overhead| sourced(overhead, setup));
    let room = room(budget(plan, setup, &weights), weights, overheads)
        .called(|| TermLabel::new("cache of a GPU", Unit::Bytes));
    let cache = if plan.cache > 0.0 {
        room
    } else {
        room.or_more(Term::number(0.0))
    };
    plan.cache_shape
        .reported(cache)
        .called(|| TermLabel::new("cache tokens", Unit::Tokens).digits(6))
}

fn sourced(overhead: &Overhead, setup: &Setup<'_>) -> Term {
    let source = format!("{}; {}", overhead.formula, engine_source(setup));
    Term::input(overhead.bytes, || {
        TermLabel::new(overhead.name, Unit::Bytes).from(source)
    })
}

fn budget(plan: &MemoryPlan, setup: &Setup<'_>, weights: &Term) -> Term {
    let device = &setup.device;
    let mut source = match device.slice {
        Some(slice) => slice.source.clone(),
        None => device.gpu.source.clone(),
    };
    if !plan.visible_known {
        source = format!(
            "memory as reported − 400 MiB − 0.17 %, as drivers keep of other parts; {source}"
        );
    }
    let visible = Term::input(plan.visible, || {
        TermLabel::new("visible memory", Unit::Bytes).from(source)
    });
    budget::budget(setup, visible, weights.clone(), &plan.overheads)
        .called(|| TermLabel::new("budget", Unit::Bytes))
}

fn weights(plan: &MemoryPlan, setup: &Setup<'_>) -> Term {
    let from = if setup.architecture.stored.is_some() {
        "header of the checkpoint".to_string()
    } else {
        format!(
            "shapes of the model's configuration ({})",
            setup.architecture.model_type
        )
    };
    let source = format!(
        "{from}: elements on the fullest rank of {} × bytes of {}",
        setup.layout,
        setup.weights.name()
    );
    plan.weights
        .iter()
        .map(|kind| {
            Term::input(kind.bytes, || {
                TermLabel::new(kind.kind, Unit::Bytes).from(source.clone())
            })
        })
        .sum::<Term>()
        .called(|| TermLabel::new("weights of a GPU", Unit::Bytes))
}

/// The engine's release, and the rows of the catalogue that say how it behaves.
fn engine_source(setup: &Setup<'_>) -> String {
    let kind = setup.engine.kind;
    let rules = setup.engine_model().rules();
    match setup.engine.release {
        Some(release) => format!("{kind} {release}, {rules}"),
        None => format!("{kind}, newest release known, {rules}"),
    }
}
