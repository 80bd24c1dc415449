//! Services that nobody asks for a while give their GPUs back.

use crate::{http::Shared, message::Command, standing::Gate};
use gpuwise_broker::{Broker, LeaseState};
use gpuwise_units::Nanoseconds;
use std::{sync::Arc, time::Duration};

/// How often is looked.
const LOOK: Duration = Duration::from_secs(1);

/// Looks until it is dropped.
pub(crate) async fn watch(gate: Arc<Gate>) {
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(shared) = gate.shared() else {
            continue;
        };
        let now = shared.clock.now();
        let idle = idle(shared, &shared.broker(), now);
        for lease in idle {
            // Where it cannot be kept now it is looked at again.
            let _ = shared.ask(Command::Park(lease)).await;
        }
    }
}

/// Services whose time without a request is over.
fn idle(shared: &Shared, broker: &Broker, now: Nanoseconds) -> Vec<u32> {
    let over = |lease: &gpuwise_broker::Lease| {
        if broker.scaling_of(lease).is_some() {
            return None;
        }
        let idle = lease.ask.service.as_ref()?.idle.as_ref()?;
        let idle: Nanoseconds = idle.parse().ok()?;
        let (state, since) = broker.state(lease);
        let tally = shared.traffic.of(lease.number).unwrap_or_default();
        let last = tally.last.max(since);
        let is_idle = state == LeaseState::Active && tally.open == 0 && last + idle <= now;
        is_idle.then_some(lease.number)
    };
    broker
        .services()
        .filter_map(|(_, lease)| over(lease))
        .collect()
}
