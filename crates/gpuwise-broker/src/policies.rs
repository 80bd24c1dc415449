//! Policies that are set while the broker runs.

use crate::{Broken, Broker, Refusal};
use gpuwise_domain::placement::{Event, Queue, Scheduling, Sharing, queue_problems};
use gpuwise_units::Nanoseconds;
use gpuwise_wire::{
    Mirror as _,
    broker::{BrokerEvent, PolicyDocument, TenantDocument},
    live::{QueueDocument, SharingDocument},
};

/// What the fleet of the log's first event says of turns and shares: what a policy leaves out is so.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Given {
    pub scheduling: Scheduling,
    pub sharing: Sharing,
}

impl Broker {
    /// How often the policy was set, its first one included, and since when it holds.
    pub const fn policy_version(&self) -> (u32, Nanoseconds) {
        (self.policy_version, self.policy_since)
    }

    /// What the fleet says of turns and shares, where a policy does not.
    pub const fn given(&self) -> &Given {
        &self.given
    }

    /// Sets another policy; `queues` are those of which it says something, as they are to be.
    ///
    /// # Errors
    /// When a queue is nobody's, or queues contradict each other then.
    pub fn set_policy(
        &self,
        policy: PolicyDocument,
        queues: &[Queue],
    ) -> Result<Vec<BrokerEvent>, Refusal> {
        let now = self.world.queues();
        let mut after = now.to_vec();
        let mut changed = Vec::new();
        for queue in queues {
            let place = after.iter().position(|other| other.name == queue.name);
            let old = place.and_then(|place| after.get_mut(place));
            let (Some(old), Some(tenant)) = (old, self.tenants.get(&queue.name)) else {
                return Err(Refusal::NoSuchTenant(queue.name.clone()));
            };
            // What it has used goes on, and budgets are held here.
            let queue = Queue {
                used_milli: old.used_milli,
                budget: old.budget,
                ..queue.clone()
            };
            if *old != queue {
                changed.push((queue.clone(), tenant.suspended));
                *old = queue;
            }
        }
        if let Some(problem) = queue_problems(&after).first() {
            return Err(Refusal::invalid("queue", problem.words(&after)));
        }
        if policy == self.policy && changed.is_empty() {
            return Ok(Vec::new());
        }
        let tenants = changed.into_iter().map(|(queue, suspended)| {
            let tenant = TenantDocument {
                budget: self.budget(&queue.name).map(crate::exact),
                queue: QueueDocument::of(&queue),
                suspended,
            };
            let reserved = Vec::new();
            BrokerEvent::TenantSet { tenant, reserved }
        });
        let set = BrokerEvent::PolicySet { policy };
        Ok([set].into_iter().chain(tenants).collect())
    }

    pub(crate) fn policy_set(
        &mut self,
        at: Nanoseconds,
        policy: &PolicyDocument,
    ) -> Result<(), Broken> {
        let given = || SharingDocument::of(&self.given.sharing);
        let sharing = policy.sharing.clone().unwrap_or_else(given).noun();
        self.policy.clone_from(policy);
        self.policy_version = self.policy_version.saturating_add(1);
        self.policy_since = at;
        if *self.world.shares().sharing() != sharing {
            self.happen(at, Event::SharingSet(sharing))?;
        }
        Ok(())
    }
}
