//! What starts of a model take, by the class of nodes and by what was there of it already: as `gpuwise_scale::cold`
//! learns it.
//!
//! A node's class is its GPU. What was there is told by what happened: a replica that sleeps wakes, one whose
//! weights lie in the memory of its node starts from there, one on a node on which the model has run before finds its image, and any other a node that is up.

use crate::{Broker, Lease, scaling::sleeps};
use gpuwise_domain::placement::{Action, NodeId};
use gpuwise_scale::{
    cold::{ColdStart, Level, State},
    controller::Rules,
};
use gpuwise_units::Nanoseconds;
use gpuwise_wire::broker::StartAnswer;
use std::collections::{BTreeMap, BTreeSet};

/// A model by whose it is: two tenants may call different ones the same.
pub(crate) type ModelOf = (String, String);

/// Of one model.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
struct OfModel {
    /// By class of nodes and by state.
    seen: BTreeMap<(String, State), ColdStart>,
    /// The class and the state of the last start that was no waking.
    last: Option<(String, State)>,
    /// Nodes on which it has run.
    nodes: BTreeSet<NodeId>,
}

/// Of all models.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Starts(BTreeMap<ModelOf, OfModel>);

/// The model that a lease serves.
pub(crate) fn model_of(lease: &Lease) -> Option<ModelOf> {
    let service = lease.ask.service.as_ref()?;
    Some((lease.ask.tenant.clone(), service.model.clone()))
}

impl Starts {
    fn learn(&mut self, model: ModelOf, (class, node): (String, NodeId), start: &Start) {
        let own = self.0.entry(model).or_default();
        let known = own.seen.entry((class.clone(), start.from));
        let known = known.or_insert_with(|| ColdStart::of_p90(start.stated));
        known.learn(start.took);
        if start.from != State::Asleep {
            own.last = Some((class, start.from));
        }
        own.nodes.insert(node);
    }
}

/// A start that was seen.
struct Start {
    from: State,
    took: Nanoseconds,
    /// What nine of ten were said to take.
    stated: Nanoseconds,
}

impl Broker {
    /// Where a lease starts: the class and the node.
    fn class_of(&self, lease: u32) -> Option<(String, NodeId)> {
        let job = self.world.job(gpuwise_domain::placement::JobId(lease))?;
        let place = job.assignments.first()?;
        let gpu = place.gpus.first()?;
        let kind = self.world.kind(self.world.gpu(gpu.gpu)?.gpu.kind)?;
        Some((kind.name.clone(), place.node))
    }

    /// What of a lease's model is on a node before it is started there.
    fn state_on(&self, lease: &Lease, node: NodeId, wakes: bool) -> Option<State> {
        let model = model_of(lease)?;
        if wakes && sleeps(&lease.ask) {
            return Some(State::Asleep);
        }
        if self.pools.has(&model, node) {
            return Some(State::HostMemory);
        }
        let own = self.starts.0.get(&model);
        let ran = own.is_some_and(|own| own.nodes.contains(&node));
        Some(if ran {
            State::ImageThere
        } else {
            State::NodeUp
        })
    }

    /// A service has started, or is back, after so long.
    pub(crate) fn start_seen(&mut self, at: Nanoseconds, action: &Action, took: Nanoseconds) {
        let (Action::Place { job, .. } | Action::Restore { job, .. }) = action else {
            return;
        };
        let wakes = matches!(action, Action::Restore { .. });
        let Some((class, node)) = self.class_of(job.0) else {
            return;
        };
        let Some(lease) = self.leases.get(&job.0) else {
            return;
        };
        let from = self.state_on(lease, node, wakes);
        let Some((model, from)) = model_of(lease).zip(from) else {
            return;
        };
        let usual = Rules::default();
        let rules = self.scaling_of(lease).map(|(_, scaling)| scaling.rules());
        let rules = rules.unwrap_or(&usual);
        let stated = match from {
            State::Asleep => rules.wake,
            _ => rules.start,
        };
        if from != State::Asleep {
            self.pools.starts(model.clone(), at);
        }
        let start = Start { from, took, stated };
        self.starts.learn(model, (class, node), &start);
    }

    /// What the next start of a service is expected to take: as the last one of its model, on its class of nodes and
    /// from what was there. `None`: none was seen.
    pub(crate) fn start_of(&self, service: u32) -> Option<ColdStart> {
        let own = self.starts.0.get(&model_of(self.leases.get(&service)?)?)?;
        own.seen.get(own.last.as_ref()?).copied()
    }

    /// What starts of a model on a node of this class take from its image, and from weights in host memory.
    pub(crate) fn image_and_memory(
        &self,
        model: &ModelOf,
        node: NodeId,
    ) -> (Option<ColdStart>, Option<ColdStart>) {
        let gpus = self.world.node(node).map(|state| &state.gpus);
        let first = gpus.and_then(|gpus| self.world.gpu(*gpus.first()?));
        let kind = first.and_then(|state| self.world.kind(state.gpu.kind));
        let own = self.starts.0.get(model).zip(kind);
        let of = |state| {
            let (own, kind) = own?;
            own.seen.get(&(kind.name.clone(), state)).copied()
        };
        (of(State::ImageThere), of(State::HostMemory))
    }

    /// What starts of the model of a lease take, by class of nodes and state.
    pub fn starts_of(&self, lease: &Lease) -> Vec<StartAnswer> {
        let own = model_of(lease).and_then(|model| self.starts.0.get(&model));
        let seconds = |cold: &ColdStart, level| cold.at(level).seconds().get();
        let each = own.into_iter().flat_map(|own| {
            own.seen.iter().map(|((class, from), cold)| StartAnswer {
                class: class.clone(),
                from: from.name().into(),
                seen: cold.observed(),
                median: seconds(cold, Level::Median),
                p90: seconds(cold, Level::P90),
                p99: seconds(cold, Level::P99),
                expected: own.last.as_ref() == Some(&(class.clone(), *from)),
            })
        });
        each.collect()
    }
}
