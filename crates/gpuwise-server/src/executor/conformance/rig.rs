//! A broker without a log or a network, and one executor.

use super::{super::Executor, subjects::Subject};
use crate::message::Incoming;
use gpuwise_broker::{Asked, Broker, LeaseState, Observation, Order, OrderId, Work};
use gpuwise_domain::placement::{
    Action, Fleet, FleetGpu, Gang, GpuAsk, GpuId, GpuKind, Home, Job, JobId, KindId, MigGeometry,
    MigShape, Node, NodeId, Queue, WorkerAsk,
};
use gpuwise_sched::{decide::Policy, policy::FirstFit};
use gpuwise_units::Nanoseconds;
use gpuwise_wire::{
    Mirror as _,
    broker::{BrokerEvent, EndedHow, LeaseAsk, LoggedEvent, PolicyDocument},
    live::{FleetDocument, SchedulingDocument},
};
use std::{
    collections::BTreeSet,
    sync::mpsc::{Receiver, channel},
    time::{Duration, Instant},
};

/// How long is waited for what must happen.
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) struct Rig {
    pub(super) broker: Broker,
    pub(super) seen: Vec<Observation>,
    /// Orders to start something.
    pub(super) starts: BTreeSet<OrderId>,
    part: GpuAsk,
    quiet: u32,
    policy: Policy,
    executor: Option<Box<dyn Executor>>,
    inbox: Receiver<Incoming>,
    told: BTreeSet<OrderId>,
    now: Nanoseconds,
}

fn fleet(node: &str) -> Fleet {
    let mut kind = GpuKind::named("H100");
    kind.mig = Some(MigGeometry {
        compute_slices: 7,
        memory_slices: 8,
        shapes: vec![MigShape {
            profile: "1g.10gb".into(),
            memory_mib: Some(9984),
            units: Some(16),
            compute: 1,
            size: 1,
            starts: 0x7f,
            most: 7,
            media: false,
        }],
    });
    let mut fleet = Fleet {
        name: "test".into(),
        kinds: vec![kind],
        nodes: vec![Node {
            name: node.into(),
            cpu_milli: 64_000,
            memory_mib: 1 << 20,
            gpus: (0..4).map(GpuId).collect(),
            ..Node::default()
        }],
        gpus: (0..4)
            .map(|index| FleetGpu::new(KindId(0), Home::Node(NodeId(0)), index))
            .collect(),
        queues: vec![Queue {
            name: "vision".into(),
            parent: None,
            quotas: Vec::new(),
            weight_milli: 1000,
            priority: 0,
            reclaims: true,
            budget: None,
            used_milli: 0,
        }],
        ..Fleet::default()
    };
    fleet.name_uids();
    fleet
}

impl Rig {
    pub(super) fn new(subject: &dyn Subject) -> Self {
        let first = LoggedEvent {
            at_ns: 1_793_491_200_000_000_000,
            event: BrokerEvent::Began {
                fleet: FleetDocument::of(&fleet(&subject.node())),
                present: Vec::new(),
                policy: PolicyDocument {
                    selector: "first-fit".into(),
                    preempt: false,
                    file: None,
                    sharing: None,
                    scheduling: SchedulingDocument::of(&Fleet::default().scheduling),
                },
            },
        };
        let (sender, inbox) = channel();
        let mut executor = subject.executor(sender);
        let broker = Broker::begin(&first).expect("begins");
        executor.adopt(&broker);
        Self {
            broker,
            seen: Vec::new(),
            starts: BTreeSet::new(),
            part: subject.part(),
            quiet: subject.quiet(),
            policy: Policy::new(Box::new(FirstFit)),
            executor: Some(executor),
            inbox,
            told: BTreeSet::new(),
            now: Nanoseconds(first.at_ns),
        }
    }

    fn happen(&mut self, events: Vec<BrokerEvent>) {
        for event in events {
            let at_ns = self.now.0;
            self.broker
                .apply(&LoggedEvent { at_ns, event })
                .expect("applies");
        }
    }

    /// Asks for a GPU on which a command runs.
    pub(super) fn lease(&mut self, command: Vec<String>) -> u32 {
        let worker = WorkerAsk {
            cpu_milli: 0,
            memory_mib: 0,
            gpu: self.part,
        };
        let mut job = Job::new(JobId(0), String::new(), worker);
        job.gang = Gang::exactly(1);
        let asked = Asked {
            ask: LeaseAsk {
                tenant: "vision".into(),
                command,
                ..LeaseAsk::default()
            },
            job,
            size: None,
            length: None,
            key: None,
            deployment: None,
            objectives: Vec::new(),
            in_place_of: None,
        };
        let (number, events) = self.broker.request(self.now, asked).expect("is admitted");
        self.happen(events);
        number
    }

    pub(super) fn decide(&mut self) {
        let events = self.broker.decide(self.now, &mut self.policy);
        self.happen(events);
    }

    pub(super) fn release(&mut self, lease: u32) {
        let events = self.broker.release(lease, "released").expect("is released");
        self.happen(events);
    }

    /// A lease has ended as somebody else saw it.
    pub(super) fn forget(&mut self, lease: u32) {
        self.happen(vec![BrokerEvent::Ended {
            lease,
            how: EndedHow::Ended,
            reason: String::new(),
            exit_code: None,
            ended_ns: None,
        }]);
    }

    pub(super) fn take(&mut self, order: &Order) {
        let now = self.now;
        if let Work::Act {
            action: Action::Place { .. },
            ..
        } = order.work
        {
            self.starts.insert(order.id);
        }
        if let Some(executor) = &mut self.executor {
            executor.take(now, order, &self.broker);
        }
    }

    /// Tells all orders, known or not.
    pub(super) fn tell_again(&mut self) {
        self.tell_only(|_| true);
    }

    pub(super) fn tell_only(&mut self, which: impl Fn(&Order) -> bool) {
        let orders: Vec<Order> = self.broker.orders().collect();
        for order in orders {
            self.told.insert(order.id);
            if which(&order) {
                self.take(&order);
            }
        }
    }

    /// What happens next: orders are told, what is observed happens.
    fn step(&mut self) {
        self.now = Nanoseconds(self.now.0 + 100_000_000);
        self.decide();
        let orders: Vec<Order> = self.broker.orders().collect();
        for order in orders {
            if self.told.insert(order.id) {
                self.take(&order);
            }
        }
        let now = self.now;
        let mut seen = self
            .executor
            .as_mut()
            .map_or(Vec::new(), |one| one.observe(now));
        if let Ok(Incoming::Observed(one)) = self.inbox.recv_timeout(Duration::from_millis(2)) {
            seen.push(one);
        }
        for one in seen {
            let events = self.broker.observe(&one);
            self.happen(events);
            self.seen.push(one);
        }
    }

    pub(super) fn state(&self, lease: u32) -> LeaseState {
        self.broker
            .state(self.broker.lease(lease).expect("is there"))
            .0
    }

    pub(super) fn exit_code(&self, lease: u32) -> Option<i32> {
        let over = self.broker.lease(lease).expect("is there").over.as_ref();
        over.and_then(|over| over.exit_code)
    }

    fn wait(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !is_so(self) {
            assert!(
                Instant::now() < end,
                "{what} never happened: {:?}",
                self.seen
            );
            self.step();
        }
    }

    pub(super) fn until(&mut self, lease: u32, state: LeaseState) {
        self.wait(state.name(), |rig| rig.state(lease) == state);
    }

    pub(super) fn until_seen(&mut self, what: &Observation) {
        self.wait("what was waited for", |rig| rig.seen.contains(what));
    }

    /// Lets what may still happen happen: half a second in which nothing is told.
    pub(super) fn rest(&mut self) {
        let mut quiet = 0;
        while quiet < self.quiet {
            let before = self.seen.len();
            self.step();
            quiet = if self.seen.len() == before {
                quiet + 1
            } else {
                0
            };
        }
    }

    pub(super) fn end(&mut self, lease: u32) {
        self.release(lease);
        self.until(lease, LeaseState::Ended);
    }

    /// The executor is no more, as after a crash.
    pub(super) fn goes(&mut self) {
        self.executor = None;
    }

    /// What its executor kept of what commands wrote.
    pub(super) fn logs(&self) -> Option<std::sync::Arc<dyn super::super::Logs>> {
        self.executor.as_ref().and_then(|one| one.logs())
    }

    /// Another executor over the same state goes on.
    pub(super) fn starts_again(&mut self, subject: &dyn Subject) {
        let (sender, inbox) = channel();
        let mut executor = subject.executor(sender);
        executor.adopt(&self.broker);
        (self.executor, self.inbox) = (Some(executor), inbox);
        self.told.clear();
    }
}
