//! A fleet file beside the fleet of the log: what differs becomes events, or is refused by name.
//!
//! A file is compared with what the file before it said, so that what commands changed meanwhile stays: a node that
//! was removed by hand does not come back with the next start, and a price that was set is not set back.

mod nodes;
mod told;

use crate::{Broken, Broker, Refusal, exact};
use gpuwise_domain::placement::{
    Event, Fleet, FleetGpu, GpuId, Health, Home, NodeId, Queue, Scheduling,
};
use gpuwise_sched::world::{Link, Tenancy};
use gpuwise_units::Nanoseconds;
use gpuwise_wire::{
    Mirror as _,
    broker::{
        BrokerEvent, ChangeKind, FiledDocument, FiledNodeDocument, FleetChange, FleetPart,
        LoggedEvent, PriceDocument,
    },
    live::{EventDocument, HealthDocument, QueueDocument, SchedulingDocument, SharingDocument},
};
use std::{collections::BTreeMap, sync::Arc};
use told::Told;

/// What follows of a fleet file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FleetChanges {
    /// What happens.
    pub events: Vec<BrokerEvent>,
    /// What is otherwise, in the file's order; some of it is refused.
    pub changes: Vec<FleetChange>,
}

/// What a fleet file says, for the next one to be compared with.
pub(crate) fn filed(fleet: &Fleet) -> FiledDocument {
    let mut fleet = fleet.clone();
    fleet.name_uids();
    let mut filed = FiledDocument {
        nodes: BTreeMap::new(),
        pooled: Vec::new(),
        prices: BTreeMap::new(),
        tenants: fleet.queues.iter().map(QueueDocument::of).collect(),
        reservations: BTreeMap::new(),
        sharing: Some(SharingDocument::of(&fleet.sharing)),
        // Whether it weighs follows from the queues.
        scheduling: Some(SchedulingDocument::of(&Scheduling {
            weighs: false,
            ..fleet.scheduling
        })),
    };
    for node in &fleet.nodes {
        let gpus = (node.gpus.iter()).filter_map(|gpu| fleet.gpus.get(gpu.index()));
        let said = filed_node(node.health, gpus);
        filed.nodes.insert(node.uid.to_string(), said);
    }
    let pooled = fleet.gpus.iter();
    let pooled = pooled.filter(|gpu| matches!(gpu.home, Home::Pool(_)));
    filed.pooled = pooled.map(|gpu| gpu.uid.to_string()).collect();
    for kind in &fleet.kinds {
        if let Some(price) = kind.price {
            let once = filed.prices.entry(kind.name.clone());
            once.or_insert_with(|| exact(price.0));
        }
    }
    for one in &fleet.reservations {
        let tenant = fleet.queues.get(one.queue.index());
        let tenant = tenant.map_or("?", |queue| queue.name.as_str());
        let node = fleet.nodes.get(one.node.index());
        let node = node.map_or("?", |node| node.name.as_str());
        let (from, until) = (one.from.0, one.until.0);
        let kept = format!("{} of {node} for {tenant}, {from} to {until} ns", one.gpus);
        let all = filed.reservations.entry(one.name.clone()).or_default();
        if !all.is_empty() {
            all.push_str("; ");
        }
        all.push_str(&kept);
    }
    filed
}

/// What a file says of a node, and what else changes of it.
pub(crate) fn filed_node<'g>(
    health: Health,
    gpus: impl Iterator<Item = &'g FleetGpu> + Clone,
) -> FiledNodeDocument {
    let mig_on = gpus.clone().filter(|gpu| gpu.mig_on).map(|gpu| gpu.index);
    let ill = gpus.filter(|gpu| gpu.health != Health::Up);
    let ill = ill.map(|gpu| (gpu.index, HealthDocument::of(&gpu.health)));
    FiledNodeDocument {
        health: HealthDocument::of(&health),
        mig_on: mig_on.collect(),
        gpu_health: ill.collect(),
    }
}

impl Broker {
    /// The first file of a log, where it says more than the fleet that the log began with: a policy on the command line
    /// may have changed that.
    pub fn first_filed(&self, file: &Fleet) -> Option<BrokerEvent> {
        let file = Box::new(filed(file));
        (*self.filed != *file).then_some(BrokerEvent::FleetFiled { file })
    }

    pub(crate) fn fleet_filed(&mut self, file: &FiledDocument) {
        self.filed = Arc::new(file.clone());
    }

    /// What follows where the fleet is to be as a file says.
    pub fn fleet_file(&self, at: Nanoseconds, file: &Fleet) -> FleetChanges {
        let mut told = Told::new(self, file);
        let mut said = filed(&told.fleet);
        let queues = told.queues(self);
        said.tenants = queues.iter().map(QueueDocument::of).collect();
        if told.fleet.name != self.world.name() {
            let detail = format!("{} → {}", self.world.name(), told.fleet.name);
            let why = "a fleet keeps the name that its log began with".to_owned();
            let name = self.world.name();
            told.change(
                FleetPart::Fleet,
                name,
                ChangeKind::Changed,
                (Some(detail), Some(why)),
            );
        }
        self.nodes_of_file(&mut told, &mut said);
        self.pooled_of_file(&mut told, &mut said);
        self.rest_of_file(&mut told, &queues, &mut said);
        let events = std::mem::take(&mut told.events);
        let joins = |node: NodeId| {
            let uid = self.world.node(node).map(|state| &state.node.uid);
            let joined = |event: &Event| matches!(event, Event::NodeJoined { node, .. } if Some(&node.uid) == uid);
            events.iter().any(joined)
        };
        let each = |event: &Event| match event {
            Event::NodeLeft { node } if !joins(*node) => self.leaves(*node),
            other => vec![fleet_event(other)],
        };
        let mut events: Vec<BrokerEvent> = events.iter().flat_map(each).collect();
        let ahead = match self.after(at, &events) {
            Ok(ahead) => ahead,
            Err(broken) => return none_of(told.changes, &broken),
        };
        self.prices_set(at, &mut told, (&mut said, ahead), &mut events);
        self.prices_gone(&mut told, &said);
        if *self.filed != said {
            let file = Box::new(said);
            events.push(BrokerEvent::FleetFiled { file });
        }
        FleetChanges {
            events,
            changes: told.changes,
        }
    }

    /// Nodes join as a file says of them, which names them alone.
    ///
    /// # Errors
    /// When one of them is of the fleet, or what it has cannot be added.
    pub fn add_nodes(&self, at: Nanoseconds, file: &Fleet) -> Result<FleetChanges, Refusal> {
        let mut told = Told::new(self, file);
        // What is known of kinds stays, whatever is said of them here.
        told.changes
            .retain(|one| one.part != FleetPart::Gpu || one.change != ChangeKind::Changed);
        if told.fleet.nodes.is_empty() {
            return Err(Refusal::invalid("nodes", "expected one at least"));
        }
        let mut said = (*self.filed).clone();
        for node in told.fleet.nodes.clone() {
            self.node_told(&mut told, &node, &mut said, true);
        }
        let refused = told.changes.iter();
        if let Some(change) = refused.clone().find(|one| one.refused.is_some()) {
            let why = change.refused.clone().unwrap_or_default();
            return Err(Refusal::invalid(
                change.part.name(),
                format!("{}: {why}", change.name),
            ));
        }
        let events = std::mem::take(&mut told.events);
        let events: Vec<BrokerEvent> = events.iter().map(fleet_event).collect();
        if let Err(broken) = self.after(at, &events) {
            return Err(Refusal::invalid("nodes", broken.to_string()));
        }
        Ok(FleetChanges {
            events,
            changes: told.changes,
        })
    }

    /// GPUs of pools that the file names, or no longer.
    fn pooled_of_file(&self, told: &mut Told, said: &mut FiledDocument) {
        let told_gpus = told.fleet.gpus.clone();
        for gpu in &told_gpus {
            let Home::Pool(pool) = gpu.home else { continue };
            let there = self
                .world
                .gpu_named(&gpu.uid)
                .and_then(|id| self.world.gpu(id));
            let away = there.is_none_or(|state| state.link == Link::Gone);
            if !away || self.filed.pooled.contains(&gpu.uid.to_string()) {
                continue;
            }
            let own = told
                .pool(pool)
                .and_then(|pool| told.gpu(gpu, Home::Pool(pool)));
            match own {
                Some(own) => {
                    told.events.push(Event::GpuJoined(own));
                    told.change(
                        FleetPart::PooledGpu,
                        &gpu.uid,
                        ChangeKind::Added,
                        (None, None),
                    );
                }
                None => said.pooled.retain(|uid| **uid != *gpu.uid),
            }
        }
        for uid in &self.filed.pooled {
            if said.pooled.contains(uid) {
                continue;
            }
            let id = self.world.gpu_named(&uid.as_str().into());
            let Some((id, state)) = id.and_then(|id| Some((id, self.world.gpu(id)?))) else {
                continue;
            };
            if state.link == Link::Gone {
                continue;
            }
            let refused = self.gpu_in_use(id);
            if refused.is_none() {
                told.events.push(Event::GpuLeft { gpu: id });
            } else {
                said.pooled.push(uid.clone());
            }
            told.change(
                FleetPart::PooledGpu,
                uid,
                ChangeKind::Removed,
                (None, refused),
            );
        }
        said.pooled.sort();
    }

    fn gpu_in_use(&self, id: GpuId) -> Option<String> {
        let state = self.world.gpu(id)?;
        let idle = matches!(&state.held, Tenancy::Free) && state.leaving.is_empty();
        let at_node = (state.node).and_then(|node| Some(self.world.node(node)?.node.name.clone()));
        match at_node {
            Some(node) => Some(format!(
                "it is attached to node {node}: it can leave when it is in its pool (upkeep.detach_after of a policy file gives idle ones back)"
            )),
            None if !idle => Some("it is held: wait until its lease is over".into()),
            None => None,
        }
    }

    /// Tenants, reservations and turns, which commands change.
    fn rest_of_file(&self, told: &mut Told, queues: &[Queue], said: &mut FiledDocument) {
        let before: Vec<Queue> = (self.filed.tenants.iter().cloned())
            .map(gpuwise_wire::Mirror::noun)
            .collect();
        let mut kept: Vec<Queue> = Vec::new();
        for queue in queues {
            let old = before.iter().find(|one| one.name == queue.name);
            if old == Some(queue) || self.is_as_told(queue) {
                kept.push(queue.clone());
                continue;
            }
            // What is refused is told again, until the file or the tenant is as the other.
            kept.extend(old.cloned());
            let name = &queue.name;
            let (change, why) = if self.tenants.contains_key(name) {
                let why =
                    format!("`gpuwise tenant set {name}` changes its quota, weight and budget");
                (ChangeKind::Changed, why)
            } else {
                let why = format!("`gpuwise tenant create {name}` makes it a tenant");
                (ChangeKind::Added, why)
            };
            told.change(FleetPart::Tenant, name, change, (None, Some(why)));
        }
        for old in &before {
            let told_of = queues.iter().any(|one| one.name == old.name);
            let open = self.tenants.get(&old.name).filter(|one| !one.suspended);
            if !told_of && open.is_some() {
                let why = format!(
                    "a tenant stays: `gpuwise tenant set {} --suspend` suspends it",
                    old.name
                );
                let refused = (None, Some(why));
                told.change(FleetPart::Tenant, &old.name, ChangeKind::Removed, refused);
                kept.push(old.clone());
            }
        }
        said.tenants = kept.iter().map(QueueDocument::of).collect();
        self.reservations_of_file(told, said);
        let turns = [
            (FleetPart::Sharing, said.sharing != self.filed.sharing),
            (
                FleetPart::Scheduling,
                said.scheduling != self.filed.scheduling,
            ),
        ];
        for (part, differs) in turns {
            if differs {
                let why = "`gpuwise policy set` changes the order, backfill and shares of a broker that runs";
                let refused = (None, Some(why.into()));
                told.change(part, self.world.name(), ChangeKind::Changed, refused);
            }
        }
        said.sharing.clone_from(&self.filed.sharing);
        said.scheduling.clone_from(&self.filed.scheduling);
    }

    /// Whether a tenant is as a file says.
    fn is_as_told(&self, told: &Queue) -> bool {
        let there = self.world.queues().iter();
        let there = there.filter(|_| self.tenants.contains_key(&told.name));
        let mut there = there.filter(|one| one.name == told.name);
        let bare = |queue: &Queue| Queue {
            used_milli: 0,
            budget: None,
            ..queue.clone()
        };
        there.any(|one| bare(one) == bare(told)) && self.budget(&told.name) == told.budget
    }

    fn reservations_of_file(&self, told: &mut Told, said: &mut FiledDocument) {
        let kept = self.world.reservations();
        let is_there = |name: &str| kept.iter().any(|one| one.name == *name);
        for (name, what) in &said.reservations {
            let (change, why) = match self.filed.reservations.get(name) {
                Some(before) if before == what => continue,
                Some(_) => {
                    let why = format!(
                        "`gpuwise reservation withdraw {name}` and `create` change what is kept while a broker runs"
                    );
                    (ChangeKind::Changed, why)
                }
                None if is_there(name) => continue,
                None => {
                    let why = format!(
                        "`gpuwise reservation create {name}` keeps GPUs while a broker runs"
                    );
                    (ChangeKind::Added, why)
                }
            };
            told.change(FleetPart::Reservation, name, change, (None, Some(why)));
        }
        for name in self.filed.reservations.keys() {
            if !said.reservations.contains_key(name) && is_there(name) {
                let why = format!("`gpuwise reservation withdraw {name}` withdraws it");
                let refused = (None, Some(why));
                told.change(FleetPart::Reservation, name, ChangeKind::Removed, refused);
            }
        }
        said.reservations.clone_from(&self.filed.reservations);
    }

    /// Prices that the file says otherwise than the one before hold from now on.
    fn prices_set(
        &self,
        at: Nanoseconds,
        told: &mut Told,
        (said, mut ahead): (&mut FiledDocument, Self),
        events: &mut Vec<BrokerEvent>,
    ) {
        let changed: Vec<(String, String)> = (said.prices.iter())
            .filter(|(gpu, price)| self.filed.prices.get(*gpu) != Some(price))
            .map(|(gpu, price)| (gpu.clone(), price.clone()))
            .collect();
        for (gpu, amount) in changed {
            let price = PriceDocument {
                id: format!("fleet/{gpu}@{}", at.0),
                gpu: gpu.clone(),
                amount: amount.clone(),
                from_ns: at.0,
                tenant: None,
                class: None,
                part: None,
                lent_milli: None,
            };
            // What holds, which a command may have set.
            let before = self.hourly(at, "", &gpu, false).map(exact);
            let change = if before.is_some() {
                ChangeKind::Changed
            } else {
                ChangeKind::Added
            };
            let mut detail = match before {
                Some(before) => format!("{before} → {amount} an hour"),
                None => format!("{amount} an hour"),
            };
            // Budgets hold what leases cost by it after the prices before it.
            let set = ahead.set_price(at, price).map_err(|no| no.to_string());
            let set = set.and_then(|set| {
                ahead = ahead.after(at, &set).map_err(|no| no.to_string())?;
                Ok(set)
            });
            let refused = match set {
                Ok(set) => {
                    detail.push_str(&over_by(&set));
                    events.extend(set);
                    None
                }
                Err(why) => {
                    match self.filed.prices.get(&gpu) {
                        Some(before) => said.prices.insert(gpu.clone(), before.clone()),
                        None => said.prices.remove(&gpu),
                    };
                    Some(why)
                }
            };
            told.change(FleetPart::Price, &gpu, change, (Some(detail), refused));
        }
    }

    /// That a price is no longer said is told once: it holds until another does.
    fn prices_gone(&self, told: &mut Told, said: &FiledDocument) {
        for (gpu, price) in &self.filed.prices {
            let kind = told.fleet.kinds.iter().any(|kind| kind.name == *gpu);
            if kind && !said.prices.contains_key(gpu) {
                let why = "a price holds until another does, which `gpuwise prices set` sets";
                let refused = (Some(format!("{price} an hour")), Some(why.into()));
                told.change(FleetPart::Price, gpu, ChangeKind::Removed, refused);
            }
        }
    }

    /// The state after events that were made for it.
    ///
    /// # Errors
    /// When they cannot happen.
    fn after(&self, at: Nanoseconds, events: &[BrokerEvent]) -> Result<Self, Broken> {
        let mut after = self.clone();
        for event in events {
            let logged = LoggedEvent {
                at_ns: at.0,
                event: event.clone(),
            };
            after.apply(&logged)?;
        }
        Ok(after)
    }
}

/// Leases that events tell to end, in words after what ends them.
fn over_by(events: &[BrokerEvent]) -> String {
    let over = events.iter().filter_map(|event| match event {
        BrokerEvent::Draining { lease, .. } | BrokerEvent::Ended { lease, .. } => {
            Some(crate::lease_id(*lease))
        }
        _ => None,
    });
    let over: Vec<String> = over.collect();
    if over.is_empty() {
        return String::new();
    }
    format!("; budgets do not cover {}: told to end", over.join(", "))
}

/// All of it is refused for one reason.
fn none_of(changes: Vec<FleetChange>, why: &Broken) -> FleetChanges {
    let refused = |change: FleetChange| FleetChange {
        refused: Some(change.refused.unwrap_or_else(|| why.to_string())),
        ..change
    };
    FleetChanges {
        events: Vec::new(),
        changes: changes.into_iter().map(refused).collect(),
    }
}

fn fleet_event(event: &Event) -> BrokerEvent {
    BrokerEvent::Fleet {
        event: EventDocument::of(event),
    }
}
