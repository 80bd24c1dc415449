//! A broker with a log, and an executor that does what it is told.

use crate::boards::boards;
use gpuwise_broker::{Asked, Broker, LeaseState, Observation, Order, Refusal};
use gpuwise_domain::placement::{
    Fleet, Gang, GpuAsk, Job, JobId, Kinds, Need, Preemption, Queue, WorkerAsk,
};
use gpuwise_sched::{decide::Policy, disruption::Disruptions, policy::FirstFit};
use gpuwise_units::{Currency, Money, Nanoseconds};
use gpuwise_wire::{
    Mirror as _,
    broker::{BrokerEvent, LeaseAsk, LoggedEvent, PolicyDocument},
    live::{FleetDocument, SchedulingDocument},
};

pub(crate) const SECOND: u64 = 1_000_000_000;
pub(crate) const HOUR: u64 = 3600 * SECOND;
/// 2026-11-01T00:00:00Z.
pub(crate) const START: u64 = 1_793_491_200 * SECOND;

pub(crate) fn fleet(nodes: u32) -> Fleet {
    boards("test", "H100", nodes)
}

pub(crate) fn usd(text: &str) -> Money {
    Money::from_decimal(text, Currency::USD).expect("money")
}

pub(crate) struct Desk {
    pub(crate) broker: Broker,
    pub(crate) log: Vec<LoggedEvent>,
    pub(crate) now: Nanoseconds,
    pub(crate) policy: Policy,
}

impl Desk {
    pub(crate) fn new(nodes: u32) -> Self {
        let policy = Policy {
            order: gpuwise_sched::decide::Order::Priority,
            disruptions: Disruptions::USUAL,
            ..Policy::new(Box::new(FirstFit))
        };
        Self::deciding(nodes, policy)
    }

    pub(crate) fn deciding(nodes: u32, policy: Policy) -> Self {
        Self::on(&fleet(nodes), policy)
    }

    pub(crate) fn on(fleet: &Fleet, policy: Policy) -> Self {
        let first = LoggedEvent {
            at_ns: START,
            event: BrokerEvent::Began {
                fleet: FleetDocument::of(fleet),
                present: Vec::new(),
                policy: PolicyDocument {
                    sharing: None,
                    file: None,
                    selector: "first-fit".into(),
                    preempt: true,
                    scheduling: SchedulingDocument::of(&Fleet::default().scheduling),
                },
            },
        };
        Self {
            broker: Broker::begin(&first).expect("begins"),
            log: vec![first],
            now: Nanoseconds(START),
            policy,
        }
    }

    pub(crate) fn happen(&mut self, events: Vec<BrokerEvent>) {
        for event in events {
            let logged = LoggedEvent {
                at_ns: self.now.0,
                event,
            };
            self.broker.apply(&logged).expect("applies");
            self.log.push(logged);
        }
    }

    pub(crate) fn pass(&mut self, seconds: u64) {
        self.now = Nanoseconds(self.now.0 + seconds * SECOND);
        let due = self.broker.due(self.now);
        self.happen(due);
    }

    pub(crate) fn tenant(&mut self, name: &str, budget: Option<&str>) {
        let queue = Queue {
            name: name.into(),
            parent: None,
            quotas: Vec::new(),
            weight_milli: 1000,
            priority: 0,
            reclaims: true,
            budget: None,
            used_milli: 0,
        };
        let made = self
            .broker
            .create_tenant(queue, budget.map(usd))
            .expect("is created");
        self.happen(made);
    }

    pub(crate) fn ask(
        &mut self,
        tenant: &str,
        gpus: u32,
        hours: Option<u64>,
    ) -> Result<u32, Refusal> {
        self.request(asked(tenant, gpus, hours))
    }

    pub(crate) fn request(&mut self, asked: Asked) -> Result<u32, Refusal> {
        let (number, events) = self.broker.request(self.now, asked)?;
        self.happen(events);
        Ok(number)
    }

    pub(crate) fn decide(&mut self) {
        let events = self.broker.decide(self.now, &mut self.policy);
        self.happen(events);
    }

    /// All orders are carried out, until nothing is left to do.
    pub(crate) fn settle(&mut self) {
        for _ in 0..1000 {
            self.decide();
            let orders: Vec<Order> = self.broker.orders().collect();
            if orders.is_empty() {
                return;
            }
            for order in orders {
                self.observe(&Observation::Done(order.id));
            }
        }
        panic!("it never comes to rest");
    }

    pub(crate) fn observe(&mut self, seen: &Observation) {
        let events = self.broker.observe(seen);
        self.happen(events);
    }

    pub(crate) fn release(&mut self, number: u32) {
        let events = self
            .broker
            .release(number, "released")
            .expect("is released");
        self.happen(events);
    }

    pub(crate) fn state(&self, number: u32) -> LeaseState {
        let lease = self.broker.lease(number).expect("is there");
        self.broker.state(lease).0
    }
}

pub(crate) fn asked(tenant: &str, gpus: u32, hours: Option<u64>) -> Asked {
    let worker = WorkerAsk {
        cpu_milli: 0,
        memory_mib: 0,
        gpu: GpuAsk::Whole {
            count: gpus,
            kinds: Kinds::ANY,
            need: Need::default(),
        },
    };
    let mut job = Job::new(JobId(0), String::new(), worker);
    job.gang = Gang::exactly(1);
    Asked {
        ask: LeaseAsk {
            tenant: tenant.into(),
            ..LeaseAsk::default()
        },
        job,
        size: None,
        length: hours.map(|hours| Nanoseconds(hours * HOUR)),
        key: None,
        deployment: None,
        objectives: Vec::new(),
        in_place_of: None,
    }
}

/// One that may be stopped for others.
pub(crate) fn preemptible(mut asked: Asked) -> Asked {
    asked.ask.preemptible = Some(true);
    asked.job.preemption = Preemption::Allowed {
        checkpoint_every: Nanoseconds(600 * SECOND),
        restart: Nanoseconds(60 * SECOND),
    };
    asked
}
