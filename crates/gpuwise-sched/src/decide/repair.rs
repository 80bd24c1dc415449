//! What is where nobody wants it is stopped by a plan.

use crate::world::World;
use gpuwise_domain::placement::{Action, Cause, Plan};
use gpuwise_units::Nanoseconds;

/// Stops of jobs that are seen, or were left, where nobody wants them. Whoever would not stop a moment ago
/// is told again when its wait is over.
pub fn repair(now: Nanoseconds, world: &World) -> Plan {
    let strays = world.jobs().filter(|(_, state)| {
        state.stopping
            && state.stop().is_none()
            && state.assignments.is_empty()
            && state.may_be_disrupted(now)
    });
    let cause = Cause::Drift;
    Plan {
        number: world.target() + 1,
        parent: world.target(),
        made: now,
        actions: strays
            .map(|(job, _)| Action::Preempt { job, cause })
            .collect(),
    }
}
