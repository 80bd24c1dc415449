//! What starting a replica of a saved deployment takes, where nobody stated it.

use gpuwise_domain::{deployment::Deployment, scale::ColdState};
use gpuwise_scale::cold::{ColdStart, Level, Machine, STATES, State};
use gpuwise_units::{Bytes, Nanoseconds};

/// Bytes of the weights of a replica.
fn weights(deployment: &Deployment) -> Bytes {
    let parts = deployment.memory.weights.iter();
    let device: u64 = parts.map(|part| part.bytes.count()).sum();
    Bytes::new(device * u64::from(deployment.layout.replica_gpus()))
}

/// Nine of ten starts from a state take no longer.
fn prior(deployment: &Deployment, state: State) -> Nanoseconds {
    ColdStart::prior(weights(deployment), state, &Machine::default()).at(Level::P90)
}

/// From nothing, and from asleep.
pub(super) fn usual(deployment: &Deployment) -> (Nanoseconds, Nanoseconds) {
    (
        prior(deployment, State::Nothing),
        prior(deployment, State::Asleep),
    )
}

pub(super) fn states(deployment: &Deployment) -> Vec<ColdState> {
    let each = STATES.into_iter().map(|state| {
        let cold = ColdStart::prior(weights(deployment), state, &Machine::default());
        ColdState {
            state: state.name(),
            median: cold.at(Level::Median),
            p90: cold.at(Level::P90),
            p99: cold.at(Level::P99),
        }
    });
    each.collect()
}
