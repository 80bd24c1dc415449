//! Walks through diffusion, vision and embedding models: what one input costs, operation by operation, and the
//! parameters that are read on the way.
//!
//! The walk follows the reference implementation of each class (diffusers 0.42, transformers 5.23,
//! torchvision 0.29, the reference code of MLPerf), so that parameters and products are theirs to
//! the last one; see `docs/concepts/operator-graph-trace.md`.

mod autoencoder;
mod convolutional;
mod denoise;
mod error;
mod grid;
mod language;
mod parts;
mod recommender;
mod sizes;
mod tracer;
mod transformer;
mod unet;
mod video;

pub use error::WalkError;

use alloc::{string::String, vec::Vec};
use gpuwise_domain::network::{InputSize, Network, Part, Walk};
use sizes::Sizes;

/// Counts beyond this would overflow sums of parts.
const MOST_COUNTED: u128 = tracer::LARGEST as u128;

/// Walks through a network for one input.
///
/// What `input` leaves open is taken from what is usual for the network, else from its
/// configuration.
///
/// # Errors
/// When the network cannot take such an input, or something that must be said is not.
pub fn walk(network: &Network, input: &InputSize) -> Result<Walk, WalkError> {
    let sizes = Sizes {
        network,
        input: input.or(network.usual),
    };
    sizes.check()?;
    let mut assumptions = network.assumptions.clone();
    let mut parts = Vec::new();
    for component in &network.components {
        parts.extend(parts::of(&sizes, component, &mut assumptions)?);
    }
    if sizes.denoises() && sizes.input.guided.is_none() {
        assumptions.push(String::from(if sizes.guides_by_two_passes() {
            "each step runs twice, with and without the prompt (guidance)"
        } else {
            "each step runs once: guidance is an input, or none is needed"
        }));
    }
    for part in &parts {
        countable(part)?;
    }
    Ok(Walk { parts, assumptions })
}

fn countable(part: &Part) -> Result<(), WalkError> {
    let all = |one: fn(&gpuwise_domain::network::Operation) -> u64| -> u128 {
        part.operations
            .iter()
            .map(|operation| u128::from(operation.count) * u128::from(one(operation)))
            .fold(0, u128::saturating_add)
    };
    let sums = [
        all(|operation| operation.flops),
        all(|operation| operation.weights),
        all(|operation| operation.reads.saturating_add(operation.writes)),
        u128::from(part.parameters),
        u128::from(part.live_elements),
    ];
    if sums.iter().any(|sum| *sum >= MOST_COUNTED) {
        return Err(WalkError::TooMuch {
            part: part.name.clone(),
        });
    }
    Ok(())
}
