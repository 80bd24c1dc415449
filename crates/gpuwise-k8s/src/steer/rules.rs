//! The kernel's rules, as a GpuPolicy has them.

use super::Seen;
use gpuwise_domain::placement::{Backfill, Order};
use gpuwise_sched::{
    decide::Policy,
    policy::{self, PolicyContext},
    queues::Limits,
};

/// # Errors
/// When they name a placement that is not there.
pub(super) fn kernel_rules(seen: &Seen) -> Result<Policy, String> {
    let name = seen
        .rules
        .placement
        .as_deref()
        .unwrap_or(policy::names().first().copied().unwrap_or("best-fit"));
    let selector = policy::named(name, &PolicyContext::default()).ok_or_else(|| {
        format!(
            "there is no placement {name:?}; there are {}",
            policy::names().join(", ")
        )
    })?;
    let mut rules = Policy::new(selector);
    rules.order = seen.rules.order.unwrap_or(Order::Priority);
    let (skips, reservations) = match seen.rules.backfill.unwrap_or(Backfill::Any) {
        Backfill::None => (false, 0),
        Backfill::Any => (true, 0),
        Backfill::Easy => (true, 1),
        Backfill::Conservative => (true, u32::MAX),
    };
    rules.skips = skips;
    rules.limits = Limits {
        starvation_timeout: seen.rules.starvation,
        reservations,
        ..Limits::default()
    };
    Ok(rules)
}
