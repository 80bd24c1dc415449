//! Weights that lie in the memory of nodes, so that a start there need not read them from where they are stored.
//!
//! Which models that are is `gpuwise_scale::pools`' to say: by how often each is started, what a start saves, and how
//! large its weights are. What is decided is an event with its reason; executors carry it out and say that it is done.
//! What they put there may be dropped by the system when others need the memory: it is a cache, and nobody's promise.

use crate::{
    Broker, Lease,
    executor::Work,
    lease_id,
    starts::{ModelOf, model_of},
};
use gpuwise_domain::placement::{GpuAsk, Health, JobId, NodeId};
use gpuwise_scale::{
    cold::Machine,
    pools::{Candidate, HORIZON, Popularity, choose, saves},
};
use gpuwise_units::{Bytes, Nanoseconds};
use gpuwise_wire::broker::{BrokerEvent, PooledDocument};
use std::collections::BTreeMap;

/// What could not be put into a node's memory is tried again after so long.
const AGAIN: Nanoseconds = Nanoseconds(3_600_000_000_000);

/// Weights in the memory of a node, or on their way there.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Resident {
    pub bytes: u64,
    pub since: Nanoseconds,
    /// Whether they are there.
    pub there: bool,
    /// The lease whose weights they are.
    pub lease: u32,
    /// Why they were put there.
    pub reason: String,
}

/// All of it.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Pools {
    residents: BTreeMap<(NodeId, ModelOf), Resident>,
    popularity: BTreeMap<ModelOf, Popularity>,
    /// When weights could not be put there.
    failed: BTreeMap<(NodeId, ModelOf), Nanoseconds>,
}

impl Pools {
    /// Whether the weights of a model are in the memory of a node.
    pub(crate) fn has(&self, model: &ModelOf, node: NodeId) -> bool {
        let own = self.residents.get(&(node, model.clone()));
        own.is_some_and(|own| own.there)
    }

    /// A model is started from nothing.
    pub(crate) fn starts(&mut self, model: ModelOf, now: Nanoseconds) {
        self.popularity.entry(model).or_default().starts(now);
    }
}

/// A model that could be kept on a node.
struct Known {
    model: ModelOf,
    lease: u32,
    candidate: Candidate,
}

impl Broker {
    /// Weights that are kept on nodes: which node, whose, and what is known of them.
    pub fn residents(&self) -> impl Iterator<Item = (NodeId, &str, &str, &Resident)> {
        let each = self.pools.residents.iter();
        each.map(|((node, (tenant, model)), own)| (*node, tenant.as_str(), model.as_str(), own))
    }

    /// Whether the weights of what a lease serves are in the memory of a node.
    pub fn weights_there(&self, lease: &Lease, node: NodeId) -> bool {
        model_of(lease).is_some_and(|model| self.pools.has(&model, node))
    }

    /// What is to be put into the memory of nodes, of which each has so many bytes for it, and what gives way.
    pub fn pool(&self, now: Nanoseconds, memory: u64) -> Vec<BrokerEvent> {
        let models = self.models();
        let mut events = Vec::new();
        for (node, state) in (0..).map(NodeId).zip(self.world.nodes()) {
            let own = self.pools.residents.keys().any(|(at, _)| *at == node);
            let up = state.node.health == Health::Up && !state.left;
            if !own && (models.is_empty() || !up) {
                continue;
            }
            let has = u128::from(state.node.memory_mib) << 20;
            let room = if up { u128::from(memory).min(has) } else { 0 };
            let room = u64::try_from(room).unwrap_or(u64::MAX);
            events.extend(self.pool_node(now, node, room, &models));
        }
        events
    }

    /// Services whose weights are known, by their models: of several leases of one the first.
    fn models(&self) -> BTreeMap<ModelOf, (u32, u64)> {
        let mut models = BTreeMap::new();
        for (_, lease) in self.services() {
            let service = lease.ask.service.as_ref();
            let bytes = service.and_then(|one| one.weights_bytes);
            if lease.draining.is_none()
                && let Some((model, bytes)) = model_of(lease).zip(bytes)
            {
                models.entry(model).or_insert((lease.number, bytes));
            }
        }
        models
    }

    fn pool_node(
        &self,
        now: Nanoseconds,
        node: NodeId,
        room: u64,
        models: &BTreeMap<ModelOf, (u32, u64)>,
    ) -> Vec<BrokerEvent> {
        let nodes = self.world.nodes().len().max(1);
        let mut known: Vec<Known> = Vec::new();
        for (model, (lease, bytes)) in models {
            let there = self.pools.residents.contains_key(&(node, model.clone()));
            let failed = self.pools.failed.get(&(node, model.clone()));
            let lately = failed.is_some_and(|at| now.0 < at.0.saturating_add(AGAIN.0));
            if !there && (lately || !self.may_run(*lease, node)) {
                continue;
            }
            let popularity = self.pools.popularity.get(model).copied();
            // It starts on any of the nodes.
            let chance = popularity.unwrap_or_default().chance(now, HORIZON) / nodes as f64;
            let (image, host) = self.image_and_memory(model, node);
            let machine = Machine::default();
            let saves = saves(Bytes::new(*bytes), image.as_ref(), host.as_ref(), &machine);
            known.push(Known {
                model: model.clone(),
                lease: *lease,
                candidate: Candidate {
                    bytes: *bytes,
                    chance,
                    saves,
                    there,
                },
            });
        }
        let candidates: Vec<Candidate> = known.iter().map(|one| one.candidate).collect();
        let kept = choose(room, &candidates);
        let mut events = Vec::new();
        // What gives way goes first. Who serves it no more is not among those that are known.
        let gone =
            self.pools.residents.iter().filter(|((at, model), _)| {
                *at == node && !known.iter().any(|one| one.model == *model)
            });
        for ((_, model), own) in gone {
            let reason = "nobody serves it any more".to_owned();
            events.push(self.pooled(node, model, (own.lease, own.bytes), false, reason));
        }
        for wants in [false, true] {
            for (one, kept) in known.iter().zip(&kept) {
                let Candidate { there, bytes, .. } = one.candidate;
                if *kept != wants || there == wants {
                    continue;
                }
                let reason = reason(&one.candidate, wants);
                events.push(self.pooled(node, &one.model, (one.lease, bytes), wants, reason));
            }
        }
        events
    }

    /// Whether a lease may be placed on a node.
    fn may_run(&self, lease: u32, node: NodeId) -> bool {
        let job = self.world.job(JobId(lease));
        let gpus = self.world.node(node).map(|state| &state.gpus);
        let kinds = job.map(|state| state.job.worker.gpu);
        let Some((ask, gpus)) = kinds.zip(gpus) else {
            return false;
        };
        !matches!(ask, GpuAsk::None)
            && gpus.iter().any(|gpu| {
                let state = self.world.gpu(*gpu);
                state.is_some_and(|state| ask.kinds().has(state.gpu.kind))
            })
    }

    fn pooled(
        &self,
        node: NodeId,
        (tenant, model): &ModelOf,
        (lease, bytes): (u32, u64),
        kept: bool,
        reason: String,
    ) -> BrokerEvent {
        let named = self.world.node(node);
        BrokerEvent::Pooled {
            pool: Box::new(PooledDocument {
                node: named.map_or_else(String::new, |state| state.node.name.clone()),
                tenant: tenant.clone(),
                model: model.clone(),
                lease,
                bytes,
                kept,
                done: false,
                reason,
            }),
        }
    }

    /// It is decided what is kept on a node, or that is done.
    pub(crate) fn pooled_by(&mut self, at: Nanoseconds, pool: &PooledDocument) {
        let mut nodes = (0..).map(NodeId).zip(self.world.nodes());
        let Some((node, _)) = nodes.find(|(_, state)| state.node.name == pool.node) else {
            return;
        };
        let key = (node, (pool.tenant.clone(), pool.model.clone()));
        let lease = pool.lease;
        // An order that came before is over, or no longer wanted.
        self.orders.retain(|_, work| !is_keeping(work, node, lease));
        let orders = &self.orders;
        self.ordered.retain(|id, _| orders.contains_key(id));
        match (pool.done, pool.kept) {
            (true, true) => {
                if let Some(own) = self.pools.residents.get_mut(&key) {
                    own.there = true;
                    own.since = at;
                }
            }
            (true, false) => {
                if self.pools.residents.remove(&key).is_some() {
                    self.pools.failed.insert(key, at);
                }
            }
            (false, true) => {
                let resident = Resident {
                    bytes: pool.bytes,
                    since: at,
                    there: false,
                    lease,
                    reason: pool.reason.clone(),
                };
                self.pools.residents.insert(key, resident);
                self.order(Work::Keep { node, lease });
            }
            (false, false) => {
                self.pools.residents.remove(&key);
                self.order(Work::Drop { node, lease });
            }
        }
    }

    /// What an executor was to do for weights on a node is done, or could not be.
    pub(crate) fn pooled_on(
        &self,
        (node, lease): (NodeId, u32),
        kept: bool,
        failed: Option<&str>,
    ) -> Vec<BrokerEvent> {
        let named = self.world.node(node).map(|state| state.node.name.clone());
        let model = self.leases.get(&lease).and_then(model_of);
        let Some((node_name, model)) = named.zip(model) else {
            return Vec::new();
        };
        let own = self.pools.residents.get(&(node, model.clone()));
        let why = match (failed, own) {
            (Some(why), _) => format!("it failed: {why}"),
            (None, Some(own)) => own.reason.clone(),
            (None, None) => "its memory is free".into(),
        };
        vec![BrokerEvent::Pooled {
            pool: Box::new(PooledDocument {
                node: node_name,
                tenant: model.0,
                model: model.1,
                lease,
                bytes: own.map_or(0, |own| own.bytes),
                kept: kept && failed.is_none(),
                done: true,
                reason: why,
            }),
        }]
    }
}

fn is_keeping(work: &Work, on: NodeId, of: u32) -> bool {
    match work {
        Work::Keep { node, lease } | Work::Drop { node, lease } => *node == on && *lease == of,
        _ => false,
    }
}

/// Why weights are kept, or not.
fn reason(one: &Candidate, kept: bool) -> String {
    let Candidate { chance, saves, .. } = one;
    let (percent, worth) = (chance * 100.0, one.worth());
    let gb = one.bytes as f64 / 1e9;
    let what = format!(
        "started within the hour with {percent:.1} %, {saves:.1} s less each: {worth:.3} s a GB of {gb:.1} GB"
    );
    if kept {
        what
    } else {
        format!("{what}; others are worth more of the memory")
    }
}

/// The lease of a resident as people see it.
impl Resident {
    pub fn id(&self) -> String {
        lease_id(self.lease)
    }
}
