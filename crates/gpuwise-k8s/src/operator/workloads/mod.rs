//! GpuWorkloads: sized as `gpuwise plan` does, what they are served by made, and what is measured of them followed.

mod apply;
mod asked;
mod asleep;
mod change;
mod make;
mod money;
mod noted;
mod offered;
mod one;
mod plain;
mod say;
mod steps;
mod tier;
mod warm;

pub use asked::{
    AuditAsk, Audited, Following, Meter, MeterAsk, PriceBook, Sized, Sizer, Sleeper, WorkloadAsk,
};

use super::{
    lead::Term,
    meter::{Measured, Wanted},
    seen::State,
    stands::Stands,
    traces::Traces,
    watches::Own,
    writes::Writer,
};
use crate::resources::{GpuWorkloadSpec, GpuWorkloadStatus, Object, ScaledBy, TieringMode};
pub(super) use asleep::Sleep;
use one::{Applied, One, Scaled};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// What a look has to write with.
pub(super) struct Hands<'a> {
    pub term: &'a Term,
    pub writer: &'a Writer,
    pub state: &'a State,
    pub sizer: &'a dyn Sizer,
    /// Whether anything but statuses is written.
    pub acts: bool,
    /// Why GpuWorkloads are left as they are; `None`: they are not.
    pub frozen: Option<String>,
    /// Whether events are written.
    pub says: bool,
    /// Whether anybody measures.
    pub measures: bool,
    /// Puts engines to sleep; `None`: nobody does.
    pub sleeper: Option<&'a Arc<dyn Sleeper>>,
    /// Pods that found no place, by uid.
    pub waits: &'a BTreeSet<String>,
    /// `None`: nobody is told how long things take.
    pub traces: Option<&'a Traces>,
    /// The number of the last plan of this term.
    pub plan: &'a mut u64,
}

impl Hands<'_> {
    /// The next plan's number.
    fn plan(&mut self) -> String {
        *self.plan += 1;
        format!("{}.{}", self.term.number, self.plan)
    }
}

/// What a look at workloads has left to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Looked {
    /// All was written.
    pub whole: bool,
    /// How long until time alone ends a phase of a change.
    pub ends: Option<Duration>,
}

impl Looked {
    const ALL: Self = Self {
        whole: true,
        ends: None,
    };

    /// Both of them.
    fn and(self, other: Self) -> Self {
        Self {
            whole: self.whole && other.whole,
            ends: self.ends.into_iter().chain(other.ends).min(),
        }
    }
}

/// What is remembered of workloads between looks, by uid; their statuses hold all that must outlive us.
#[derive(Default)]
pub(super) struct Workloads {
    applied: BTreeMap<String, Applied>,
    /// Why it was last said that they are left as they are.
    frozen: BTreeMap<String, String>,
    /// The version of a Deployment of which replicas were last written, and how many.
    scaled: BTreeMap<String, Scaled>,
    /// The number of the last measurement that was counted, and of the last audit.
    counted: BTreeMap<String, u64>,
    audited: BTreeMap<String, u64>,
    plain: plain::Proposed,
    /// Pods of which somebody waits for an engine's answer, by uid.
    asked: asleep::Asked,
    /// The number of the last measurement and of the last audit that Deployments were looked at with.
    looked: (u64, u64),
}

impl Workloads {
    /// Looks at all of them; where nobody acts what was decided is said and nothing is made.
    pub(super) async fn look(
        &mut self,
        hands: &mut Hands<'_>,
        measured: Option<&Measured>,
    ) -> Looked {
        let mut looked = Looked::ALL;
        let products = (*hands.state.products()).clone();
        let slices = hands.state.has_slices();
        let prices = hands.state.prices();
        let mut there = BTreeSet::new();
        let mut slos: BTreeMap<&'static str, u64> = BTreeMap::new();
        let mut cost: BTreeMap<String, f64> = BTreeMap::new();
        let mut pods = (0, 0, 0, 0);
        for object in hands.state.own::<GpuWorkloadSpec>(Own::Workload) {
            let uid = object.metadata.uid.clone();
            if object.metadata.deletion_timestamp.is_some() {
                continue;
            }
            there.insert(uid.clone());
            if let Some(why) = hands.frozen.clone() {
                self.freeze(hands, &object, &why).await;
                continue;
            }
            let ask = WorkloadAsk {
                namespace: object.metadata.namespace.clone().unwrap_or_default(),
                name: object.metadata.name.clone(),
                spec: object.spec.clone(),
                products: products.clone(),
                slices,
                prices: prices.clone(),
                ..WorkloadAsk::default()
            };
            let mut one = One {
                status: status(&object),
                version: object.metadata.resource_version.clone(),
                object,
                ask,
                applied: self.applied.remove(&uid),
                scaled: self.scaled.remove(&uid).unwrap_or_default(),
                events: Vec::new(),
                asked: Arc::clone(&self.asked),
                steps: Vec::new(),
            };
            let fresh = measured.filter(|new| {
                let known = self.counted.insert(uid.clone(), new.number);
                known.is_none_or(|known| known < new.number)
            });
            let audit = measured.and_then(|new| new.audit.as_ref());
            let audit = audit.filter(|(number, _)| {
                let known = self.audited.insert(uid.clone(), *number);
                known.is_none_or(|known| known < *number)
            });
            looked = looked.and(one.look(hands, fresh, audit.map(|(_, found)| found)).await);
            *slos.entry(one.slo()).or_default() += 1;
            let bill = hands.state.bill(&one.ask.namespace, &one.ask.name);
            if let Some((bill, book)) = bill.zip(prices.as_ref()) {
                *cost.entry(book.currency.clone()).or_default() += bill as f64 / 1e6;
            }
            if let Some(warm) = &one.status.warm {
                pods.0 += u64::try_from(warm.wanted).unwrap_or_default();
                pods.1 += u64::try_from(warm.ready).unwrap_or_default();
                pods.2 += u64::try_from(warm.lent).unwrap_or_default();
                pods.3 += u64::try_from(warm.asleep).unwrap_or_default();
            }
            self.scaled.insert(uid.clone(), one.scaled);
            if let Some(applied) = one.applied {
                self.applied.insert(uid, applied);
            }
        }
        hands.writer.metrics.workloads(slos, cost);
        let (wanted, ready, lent, asleep) = pods;
        let pods = [
            ("wanted", wanted),
            ("ready", ready),
            ("lent", lent),
            ("asleep", asleep),
        ];
        hands.writer.metrics.warm(pods);
        let (counted, audited) = self.looked;
        let fresh = measured.filter(|new| new.number > counted);
        let audit = measured.and_then(|new| new.audit.as_ref());
        let audit = audit.filter(|(number, _)| *number > audited);
        self.looked = (
            fresh.map_or(counted, |new| new.number),
            audit.map_or(audited, |(number, _)| *number),
        );
        let audit = audit.map(|(_, found)| found);
        looked = looked.and(self.plain.look(hands, fresh, audit).await);
        self.frozen
            .retain(|uid, _| there.contains(uid) && hands.frozen.is_some());
        self.applied.retain(|uid, _| there.contains(uid));
        self.scaled.retain(|uid, _| there.contains(uid));
        self.counted.retain(|uid, _| there.contains(uid));
        self.audited.retain(|uid, _| there.contains(uid));
        looked
    }
}

impl Workloads {
    /// Leaves one as it is, and says so by an event: to write of it at all would drop what a better definition would
    /// show again.
    async fn freeze(&mut self, hands: &Hands<'_>, object: &Object<GpuWorkloadSpec>, why: &str) {
        let uid = &object.metadata.uid;
        if !hands.says || self.frozen.get(uid).is_some_and(|known| known == why) {
            return;
        }
        let said = ("OldDefinition", true);
        say::event(hands.term, hands.writer, object, said, why).await;
        self.frozen.insert(uid.clone(), why.to_owned());
    }
}

/// The status of an object; one that cannot be read is none.
fn status(object: &Object<GpuWorkloadSpec>) -> GpuWorkloadStatus {
    let status = object.status.clone();
    status
        .and_then(|status| serde_json::from_value(status).ok())
        .unwrap_or_default()
}

/// What is to be measured of them.
pub(super) fn wanted(state: &State, acts: bool) -> Arc<Wanted> {
    let mut wanted = Wanted::default();
    let mut audit = false;
    for object in state.own::<GpuWorkloadSpec>(Own::Workload) {
        let Some(decided) = status(&object).decision else {
            continue;
        };
        let mode = object
            .spec
            .tiering
            .as_ref()
            .map_or(TieringMode::default(), |one| one.mode);
        audit |= mode != TieringMode::Off;
        let stands = object.spec.scaling.as_ref().map(|_| {
            let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
            state.stands(namespace, &object.metadata.name)
        });
        let (ready, starting) = stands.as_ref().map_or((0, 0), Stands::serving);
        wanted.workloads.push(MeterAsk {
            uid: object.metadata.uid.clone(),
            namespace: object.metadata.namespace.clone().unwrap_or_default(),
            name: object.metadata.name.clone(),
            decided,
            slo: object.spec.slo.clone(),
            scaling: object.spec.scaling.clone().filter(|one| {
                let ours = one.by.unwrap_or_default() == ScaledBy::Operator;
                acts && (ours || one.is_forecast())
            }),
            warm: stands.as_ref().map_or(0, Stands::ready),
            ready,
            starting,
        });
    }
    for one in state.objects(Own::Tiered) {
        audit = true;
        wanted.workloads.extend(noted::ask(one));
    }
    wanted.audit = audit.then(|| AuditAsk {
        products: (*state.products()).clone(),
        slices: state.has_slices(),
        prices: state.prices(),
    });
    Arc::new(wanted)
}
