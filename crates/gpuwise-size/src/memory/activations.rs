//! What any engine on PyTorch holds beside weights and cache.

use super::{Overhead, Part, budget::part};
use crate::setup::Setup;
use alloc::format;
use gpuwise_domain::model::{FeedForward, Layer};

/// The rotary table, kept for every position that the model states.
pub(crate) fn rotary(setup: &Setup<'_>) -> Overhead {
    let positions = setup
        .architecture
        .max_context
        .map_or(0.0, |tokens| tokens.0 as f64);
    let elements = setup.architecture.rotary_elements as f64;
    part(
        Part::Rotary,
        "rotary table",
        positions * elements * 2.0,
        format!("{positions} positions × {elements} elements × 2 B"),
    )
}

/// Activations of the widest layer in a step of so many tokens.
pub(crate) fn widest_layer(setup: &Setup<'_>, tokens: f64) -> f64 {
    let layers = setup.architecture.layers.iter();
    layers
        .map(|run| layer_activations(&run.layer, setup, tokens))
        .fold(0.0, f64::max)
}

/// What a layer makes of a step: projections of its feed-forward, inputs, outputs and residuals.
fn layer_activations(layer: &Layer, setup: &Setup<'_>, tokens: f64) -> f64 {
    let hidden = setup.architecture.hidden as f64;
    let tensor = f64::from(setup.layout.tensor.max(1));
    match layer.feed_forward {
        FeedForward::Dense { width, .. } => {
            2.0 * tokens * (3.0 * width as f64 / tensor + 4.0 * hidden)
        }
        FeedForward::Experts { chosen, width, .. } => {
            let within = f64::from(setup.layout.expert_tensor());
            2.0 * tokens * chosen as f64 * (3.0 * width as f64 / within + hidden)
                + 8.0 * tokens * hidden
        }
        FeedForward::None => 8.0 * tokens * hidden,
    }
}
