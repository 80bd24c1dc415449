//! The first event.

use crate::{
    Broken, Broker, Tenant, conserved::Conserved, fleet_file::filed, grants::Grants, keys::Keys,
    lent::Lending, money::Accounts, policies::Given, pools::Pools, starts::Starts,
};
use gpuwise_account::period::Month;
use gpuwise_domain::placement::{Fleet, Kinds, TimestampedEvent};
use gpuwise_sched::world::World;
use gpuwise_units::{Money, Nanoseconds};
use gpuwise_wire::{
    Mirror as _,
    broker::{BrokerEvent, LoggedEvent, PolicyDocument},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

impl Broker {
    /// The state after the first event of a log.
    ///
    /// # Errors
    /// When it is not the one that a log begins with.
    pub fn begin(first: &LoggedEvent) -> Result<Self, Broken> {
        let BrokerEvent::Began {
            fleet,
            present,
            policy,
        } = &first.event
        else {
            return Err(Broken::NotBegun);
        };
        let at = Nanoseconds(first.at_ns);
        let mut fleet: Fleet = fleet.clone().noun();
        let said = filed(&fleet);
        let budgets: Vec<(String, Option<Money>)> = fleet
            .queues
            .iter_mut()
            // Money is held here, not by the kernel, so that it is held once.
            .map(|queue| (queue.name.clone(), queue.budget.take()))
            .collect();
        let mut world = World::new(&fleet);
        for event in present {
            let event = event.clone().noun();
            world.apply(&TimestampedEvent { at, event })?;
        }
        let accounts = Accounts::new(&fleet, Month::of(at))
            .map_err(|error| Broken::Document(format!("the prices of the fleet: {error}")))?;
        let mut began = Self::empty(at, &fleet, world, (accounts, policy.clone()));
        began.filed = Arc::new(said);
        for (name, budget) in budgets {
            began.accounts.set_budget(Month::of(at), &name, budget);
            let tenant = Tenant {
                name: name.clone(),
                created: at,
                suspended: false,
            };
            began.tenants.insert(name, tenant);
        }
        Ok(began)
    }

    /// A fleet of which nobody has asked anything.
    fn empty(
        at: Nanoseconds,
        fleet: &Fleet,
        world: World,
        (accounts, policy): (Accounts, PolicyDocument),
    ) -> Self {
        let present =
            |kinds: Kinds, gpu: &gpuwise_domain::placement::FleetGpu| kinds.with(gpu.kind);
        Self {
            world,
            policy,
            policy_version: 1,
            policy_since: at,
            given: Given {
                scheduling: fleet.scheduling,
                sharing: fleet.sharing,
            },
            filed: Arc::default(),
            cordoned: BTreeMap::new(),
            drained: BTreeSet::new(),
            tenants: BTreeMap::new(),
            tokens: BTreeMap::new(),
            secrets: BTreeMap::new(),
            leases: BTreeMap::new(),
            open: BTreeSet::new(),
            open_of: BTreeMap::new(),
            services: BTreeMap::new(),
            present: fleet.gpus.iter().fold(Kinds::NONE, present),
            ends: BTreeSet::new(),
            keys: Keys::default(),
            orders: BTreeMap::new(),
            started_by: BTreeMap::new(),
            ordered: BTreeMap::new(),
            last_order: 0,
            grants: Grants::default(),
            coming: BTreeSet::new(),
            unheld: BTreeSet::new(),
            month: Month::of(at),
            unclosed: Month::of(at),
            deeds: Keys::default(),
            seekers: BTreeSet::new(),
            accounts,
            conserved: Conserved::default(),
            telemetry: BTreeMap::new(),
            slos: BTreeMap::new(),
            last_slo: 0,
            fresh: BTreeSet::new(),
            warm_kept: BTreeSet::new(),
            at_risk: BTreeMap::new(),
            raised: BTreeMap::new(),
            proposals: BTreeMap::new(),
            scaling: BTreeMap::new(),
            lending: Lending::default(),
            starts: Starts::default(),
            pools: Pools::default(),
            replicas: BTreeSet::new(),
            learned: BTreeMap::new(),
            begun: at,
            now: at,
        }
    }
}
