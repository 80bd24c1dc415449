//! How the memory of a GPU comes about, as a tree.

use super::{CacheGroup, MemoryPlan};
use crate::setup::Setup;
use alloc::{
    format,
    string::{String, ToString},
    vec,
    vec::Vec,
};
use gpuwise_domain::{engine::EngineKind, estimate::Derivation, model::Window};
use gpuwise_units::{Bytes, significant};

/// The tokens that the cache of the fullest GPU holds, down to shapes, settings and the catalogue's
/// rows: formula, inputs, and where each input comes from.
pub fn explain(plan: &MemoryPlan, setup: &Setup<'_>) -> Derivation {
    let inside = plan.overheads.iter().filter(|o| !o.outside_budget);
    let mut inputs = vec![budget(plan, setup), weights(plan, setup)];
    inputs.extend(inside.filter(|o| o.bytes >= 1.0).map(|o| {
        let mut overhead =
            Derivation::computed(o.name, bytes(o.bytes), o.formula.clone(), Vec::new());
        overhead.source = engine_source(setup);
        overhead
    }));
    let room = Derivation::computed(
        "cache of a GPU",
        signed(plan.cache),
        "budget − weights − overheads within it",
        inputs,
    );
    Derivation::computed(
        "cache tokens",
        format!("{} tokens", significant(plan.cache_tokens(), 6)),
        how_logged(plan),
        vec![room, per_token(plan, setup)],
    )
}

/// How the engine comes to the tokens that it logs.
fn how_logged(plan: &MemoryPlan) -> &'static str {
    let shape = &plan.cache_shape;
    match (&shape.pool, &shape.split) {
        (Some(pool), _) if pool.by_requests => {
            "pages of one size: requests of the longest context that fit × that context"
        }
        (Some(_), _) => "pages of one size: blocks ÷ groups of layers × tokens of a block",
        (_, Some(_)) => "pools apart for windows and for states: tokens of layers without either",
        _ => "cache ÷ bytes per token, in whole blocks",
    }
}

fn budget(plan: &MemoryPlan, setup: &Setup<'_>) -> Derivation {
    let device = &setup.device;
    let source = match device.slice {
        Some(slice) => slice.source.clone(),
        None => device.gpu.source.clone(),
    };
    let mut visible = Derivation::fact("visible memory", bytes(plan.visible), source);
    if !plan.visible_known {
        visible.formula =
            "memory as reported − 400 MiB − 0.17 %, as drivers keep of other parts".to_string();
    }
    let fraction = Derivation::fact(
        "memory fraction",
        significant(setup.settings.memory_fraction, 4),
        engine_source(setup),
    );
    Derivation::computed(
        "budget",
        bytes(plan.budget),
        "the engine's share of visible memory",
        vec![visible, fraction],
    )
}

fn weights(plan: &MemoryPlan, setup: &Setup<'_>) -> Derivation {
    let source = if setup.architecture.stored.is_some() {
        "header of the checkpoint".to_string()
    } else {
        format!(
            "shapes of the model's configuration ({})",
            setup.architecture.model_type
        )
    };
    let kinds = plan
        .weights
        .iter()
        .map(|kind| Derivation::fact(kind.kind, bytes(kind.bytes), source.clone()))
        .collect();
    let layout = setup.layout;
    Derivation::computed(
        "weights of a GPU",
        bytes(plan.weight_bytes()),
        format!(
            "elements on the fullest rank of {layout} × bytes of {}",
            setup.weights.name()
        ),
        kinds,
    )
}

fn per_token(plan: &MemoryPlan, setup: &Setup<'_>) -> Derivation {
    let shape = &plan.cache_shape;
    let groups = shape
        .groups
        .iter()
        .map(|group| layer_group(group, setup))
        .collect();
    Derivation::computed(
        "bytes per token on a GPU",
        format!("{} B", significant(shape.token_bytes(), 9)),
        "layers that keep the whole context × bytes of a token in each",
        groups,
    )
}

fn layer_group(group: &CacheGroup, setup: &Setup<'_>) -> Derivation {
    let layers = significant(group.layers, 4);
    let (name, value) = if group.token_bytes > 0.0 {
        let kept = match group.window {
            Window::Full => "the whole context".to_string(),
            Window::Sliding(window) => format!("the last {} tokens", window.0),
            Window::Chunked(chunk) => format!("the current {} tokens", chunk.0),
        };
        (
            format!("{layers} layers that keep {kept}"),
            format!(
                "{} B per token and layer",
                significant(group.token_bytes, 7)
            ),
        )
    } else {
        (
            format!("{layers} layers with a state or cross attention"),
            format!("{} per request and layer", bytes(group.state_bytes)),
        )
    };
    Derivation::fact(
        name,
        value,
        format!("model configuration; cache format {}", setup.cache.name),
    )
}

/// The engine's release, and the rows of the catalogue that say how it behaves.
fn engine_source(setup: &Setup<'_>) -> String {
    let kind = setup.engine.kind;
    let rules = match kind {
        EngineKind::DeepSpeedMii => "recalled".to_string(),
        _ => format!("catalogue/engines/{}.toml", kind.name()),
    };
    match setup.engine.release {
        Some(release) => format!("{kind} {release}, {rules}"),
        None => format!("{kind}, newest release known, {rules}"),
    }
}

fn bytes(count: f64) -> String {
    Bytes::from_f64(count.max(0.0)).to_string()
}

fn signed(count: f64) -> String {
    if count < 0.0 {
        format!("short by {}", bytes(-count))
    } else {
        bytes(count)
    }
}
