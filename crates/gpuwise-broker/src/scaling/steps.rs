//! From how many replicas there are to be to what is done with each.

use super::{ReplicaRole, Scaling, Standing, sleeps};
use crate::Broker;
use gpuwise_scale::controller::Wanted;
use gpuwise_units::Nanoseconds;
use gpuwise_wire::broker::{ScaleStep, ScaleVerb};
use std::collections::BTreeSet;

/// Replicas that are asked for at once at most.
const AT_ONCE: usize = 64;
/// A replica that is to end may go on answering what it has for so long.
const DRAIN: Nanoseconds = Nanoseconds(600_000_000_000);

/// One that is to serve, or was.
#[derive(Debug, Clone, Copy)]
struct One {
    lease: u32,
    standing: Standing,
}

pub(super) struct Planner<'b> {
    broker: &'b Broker,
    service: u32,
    now: Nanoseconds,
    /// The number that the next lease has.
    next: u32,
    sleeps: bool,
    serving: Vec<One>,
    warm: Vec<One>,
    leaving: Vec<One>,
    steps: Vec<ScaleStep>,
}

/// What is done so that there are as many as are wanted. `busy` are those that have requests.
pub(super) fn steps(
    broker: &Broker,
    (service, scaling): (u32, &Scaling),
    now: Nanoseconds,
    wanted: Wanted,
    busy: &BTreeSet<u32>,
) -> Vec<ScaleStep> {
    let of = |wanted: ReplicaRole| -> Vec<One> {
        let own = scaling.replicas().filter(|(_, role)| *role == wanted);
        own.map(|(lease, _)| One {
            lease,
            standing: broker.standing(lease),
        })
        .collect()
    };
    let first = broker.lease(service);
    let last = broker
        .leases
        .last_key_value()
        .map_or(0, |(number, _)| *number);
    let mut planner = Planner {
        broker,
        service,
        now,
        next: last.saturating_add(1),
        sleeps: first.is_some_and(|lease| sleeps(&lease.ask)),
        serving: of(ReplicaRole::Serving),
        warm: of(ReplicaRole::Warm),
        leaving: of(ReplicaRole::Leaving),
        steps: Vec::new(),
    };
    planner
        .serving
        .retain(|one| one.standing != Standing::Going);
    planner.serve(wanted.replicas as usize);
    planner.give_up(wanted);
    planner.keep_warm(wanted.warm as usize);
    planner.go_on(scaling, busy);
    planner.steps
}

impl Planner<'_> {
    fn step(&mut self, lease: u32, what: ScaleVerb) {
        self.steps.push(ScaleStep { lease, what });
    }

    /// Takes one of those that are warm or leave, which stands so.
    fn take(&mut self, role: ReplicaRole, standing: Standing) -> Option<One> {
        let from = match role {
            ReplicaRole::Warm => &mut self.warm,
            _ => &mut self.leaving,
        };
        let at = from.iter().position(|one| one.standing == standing)?;
        Some(from.remove(at))
    }

    /// More serve: those first that do so soonest.
    fn serve(&mut self, many: usize) {
        const ORDER: [(ReplicaRole, Standing); 5] = [
            (ReplicaRole::Warm, Standing::Active),
            (ReplicaRole::Leaving, Standing::Active),
            (ReplicaRole::Warm, Standing::Parked),
            (ReplicaRole::Warm, Standing::Coming),
            (ReplicaRole::Leaving, Standing::Coming),
        ];
        // Who serves and gave its GPUs up meanwhile is to have them again.
        for one in self.serving.clone() {
            if one.standing == Standing::Parked {
                self.step(one.lease, ScaleVerb::Serve);
            }
        }
        while self.serving.len() < many {
            let found = ORDER
                .iter()
                .find_map(|(role, standing)| self.take(*role, *standing));
            let Some(one) = found else {
                break;
            };
            self.step(one.lease, ScaleVerb::Serve);
            self.serving.push(one);
        }
        let more = many.saturating_sub(self.serving.len()).min(AT_ONCE);
        for _ in 0..more {
            self.start(ScaleVerb::Start);
        }
    }

    fn start(&mut self, what: ScaleVerb) {
        let lease = self.next;
        self.next = self.next.saturating_add(1);
        self.step(lease, what);
        let one = One {
            lease,
            standing: Standing::Coming,
        };
        match what {
            ScaleVerb::Start => self.serving.push(one),
            _ => self.warm.push(one),
        }
    }

    /// Fewer serve: who has not begun goes first, then the youngest, the first lease last.
    fn give_up(&mut self, wanted: Wanted) {
        while self.serving.len() > wanted.replicas as usize {
            let service = self.service;
            let rank = |one: &One| {
                let coming = one.standing == Standing::Coming;
                (one.lease != service, coming, one.lease)
            };
            let Some(at) = (0..self.serving.len()).max_by_key(|at| self.serving.get(*at).map(rank))
            else {
                return;
            };
            let one = self.serving.remove(at);
            let room = self.sleeps && self.warm.len() < wanted.warm as usize;
            if one.lease == service || room && one.standing == Standing::Active {
                self.step(one.lease, ScaleVerb::Spare);
                self.warm.push(one);
            } else {
                self.step(one.lease, ScaleVerb::Leave);
                self.leaving.push(one);
            }
        }
    }

    /// As many are warm as are wanted; the first lease is where it does not serve, whether it is wanted or not.
    fn keep_warm(&mut self, many: usize) {
        if self.sleeps {
            let more = many.saturating_sub(self.warm.len()).min(AT_ONCE);
            for _ in 0..more {
                self.start(ScaleVerb::StartWarm);
            }
        }
        let service = self.service;
        let others = |one: &One| one.lease != service;
        let kept = if self.sleeps { many } else { 0 };
        while self.warm.len() > kept {
            let Some(at) = self.warm.iter().rposition(others) else {
                return;
            };
            let one = self.warm.remove(at);
            self.step(one.lease, ScaleVerb::Leave);
            self.leaving.push(one);
        }
    }

    /// Who is to be warm or to leave, and has nothing to do, is parked or ends.
    fn go_on(&mut self, scaling: &Scaling, busy: &BTreeSet<u32>) {
        for one in self.warm.clone() {
            if one.standing == Standing::Active && !busy.contains(&one.lease) {
                self.step(one.lease, ScaleVerb::Park);
            }
        }
        for one in self.leaving.clone() {
            let since = scaling.roles.get(&one.lease).map(|(_, since)| *since);
            let long = since.is_some_and(|since| since.0.saturating_add(DRAIN.0) <= self.now.0);
            let over = self
                .broker
                .lease(one.lease)
                .is_none_or(|lease| lease.draining.is_some());
            let idle = !busy.contains(&one.lease) || one.standing != Standing::Active;
            if one.standing != Standing::Going && !over && (idle || long) {
                self.step(one.lease, ScaleVerb::Release);
            }
        }
    }
}
