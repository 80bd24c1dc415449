//! One workload at one look: what it is to have, what is written of that, what is said.

use super::{
    super::{clock, meter::Measured, traces},
    Audited, Hands, Looked, PriceBook, WorkloadAsk,
    asleep::Asked,
    say::{condition, event, write},
};
use crate::resources::{
    Avoided, ChangeReason, Decided, GpuWorkloadSpec, GpuWorkloadStatus, Object, Status,
};
use crate::tiers;
use jiff::Timestamp;
use std::collections::BTreeSet;

/// What was written of a workload: for which generation and decision, and how that went.
#[derive(Debug, Clone)]
pub(super) struct Applied {
    pub generation: i64,
    pub decided: Decided,
    pub prices: Option<PriceBook>,
    /// For how many replicas more nodes are kept.
    pub spare_nodes: Option<i32>,
    /// Kinds and names, or why not.
    pub result: Result<String, String>,
}

/// What was written of replicas that no watch has shown yet.
#[derive(Debug, Clone, Default)]
pub(super) struct Scaled {
    /// The version of its Deployment, and how many it was given; the same of that of its warm pods.
    pub own: Option<(String, u32)>,
    pub warm: Option<(String, u32)>,
    /// Pods that were warm and are replicas now, by uid.
    pub adopted: BTreeSet<String>,
}

/// Something to be said once a status is written.
type Said = (&'static str, bool, String);

pub(super) struct One {
    pub object: Object<GpuWorkloadSpec>,
    pub version: String,
    pub status: GpuWorkloadStatus,
    pub ask: WorkloadAsk,
    pub applied: Option<Applied>,
    pub scaled: Scaled,
    pub events: Vec<Said>,
    /// Pods of which somebody waits for an engine's answer, by uid.
    pub asked: Asked,
    /// Phases of a change that are over.
    pub steps: Vec<traces::Stepped>,
}

impl One {
    pub(super) async fn look(
        &mut self,
        hands: &mut Hands<'_>,
        measured: Option<&Measured>,
        audit: Option<&Result<Vec<Audited>, String>>,
    ) -> Looked {
        let before = self.status.clone();
        let now = clock::now();
        let changed = self.changed(hands);
        if changed {
            self.decide(hands, now);
        }
        self.status.observed_generation = self.object.metadata.generation;
        let slo = measured.and_then(|new| new.slos.get(&self.object.metadata.uid).cloned());
        self.kept(hands, slo.as_ref());
        if hands.acts {
            self.step(hands, slo, now);
        }
        if let Some(found) = audit.filter(|_| !changed) {
            self.tier(hands, found, now);
        }
        self.prove(hands);
        if let Some(decided) = &self.status.decision {
            self.status.replicas = decided.replicas;
            self.status.selector = format!("gpuwise.dev/workload={}", self.object.metadata.name);
        }
        let mut whole = self.written(hands, &before).await;
        if whole {
            whole &= self.make(hands).await;
            let replicas = measured.and_then(|new| new.replicas.get(&self.object.metadata.uid));
            let spares = self.status.spare_nodes;
            whole &= self.follow(hands, replicas).await;
            if self.status.spare_nodes != spares {
                whole &= self.make(hands).await;
            }
        }
        Looked {
            whole,
            ends: tiers::ends(&self.status, &self.limits(), now),
        }
    }

    /// Whether its SLO is kept, as its condition says.
    pub(super) fn slo(&self) -> &'static str {
        let mut all = self.status.conditions.iter();
        match all.find(|one| one.kind == "SloKept").map(|one| one.status) {
            Some(Status::True) => "True",
            Some(Status::False) => "False",
            Some(Status::Unknown) | None => "Unknown",
        }
    }

    /// Whether it is to be decided anew: its spec is another, its GPU is gone, or nothing was decided.
    pub(super) fn changed(&self, hands: &Hands<'_>) -> bool {
        let generation = self.object.metadata.generation;
        let failed = || {
            let sized = self
                .status
                .conditions
                .iter()
                .find(|one| one.kind == "Sized");
            sized.is_none_or(|one| one.status != Status::True)
        };
        match &self.status.decision {
            None => {
                // What could not be sized is tried again where the spec or the cluster's GPUs are others.
                let tried = self.applied.as_ref().is_some_and(|applied| {
                    applied.generation == generation && applied.result == Err(self.products())
                });
                !(tried && failed())
            }
            Some(decided) => {
                let gone = !decided.product.is_empty()
                    && !decided
                        .product
                        .split(',')
                        .any(|product| self.ask.products.contains(product));
                self.status.observed_generation != generation
                    || (gone && !self.ask.products.is_empty())
                    || (!hands.acts && self.applied.is_none())
            }
        }
    }

    fn products(&self) -> String {
        let all: Vec<&str> = self.ask.products.iter().map(String::as_str).collect();
        all.join(",")
    }

    /// Decides by what the spec says.
    pub(super) fn decide(&mut self, hands: &mut Hands<'_>, now: Timestamp) {
        let mut ask = self.ask.clone();
        ask.avoided = self.avoided(now);
        let began = traces::now();
        let sized = tokio::task::block_in_place(|| hands.sizer.size(&ask));
        let took = (began, traces::now());
        self.status.observed_generation = self.object.metadata.generation;
        match sized {
            Err(why) => {
                if let Some(traces) = hands.traces {
                    traces.sized(&self.object, took, Err(&why));
                }
                condition(&mut self.status, ("Sized", Status::False), "NoPlan", &why);
                if self.status.decision.is_none() {
                    self.applied = Some(Applied {
                        generation: self.object.metadata.generation,
                        decided: Decided::default(),
                        prices: None,
                        spare_nodes: None,
                        result: Err(self.products()),
                    });
                }
            }
            Ok(sized) => {
                let words = sized.decided.why.clone();
                condition(&mut self.status, ("Sized", Status::True), "Sized", &words);
                let plan = hands.plan();
                let gone = self.status.decision.as_ref().is_some_and(|decided| {
                    !self
                        .ask
                        .products
                        .iter()
                        .any(|one| decided.product.contains(one.as_str()))
                });
                let reason = if gone {
                    ChangeReason::GpuGone
                } else {
                    ChangeReason::Spec
                };
                let decided = Decided {
                    plan: plan.clone(),
                    ..sized.decided
                };
                if let Some(traces) = hands.traces {
                    traces.sized(&self.object, took, Ok(&decided));
                }
                match &self.status.decision {
                    Some(old) if hands.acts && old.differs(&decided) => {
                        self.begin(
                            decided,
                            reason,
                            &plan,
                            (hands, sized.micros, &sized.money),
                            now,
                        );
                    }
                    _ => self.status.decision = Some(decided),
                }
            }
        }
    }

    pub(super) fn avoided(&self, now: Timestamp) -> Vec<Avoided> {
        let all = self.status.avoided.iter();
        all.filter(|one| one.holds(now)).cloned().collect()
    }

    /// What it costs an hour as it was decided, in millionths.
    pub(super) fn cost(&self, hands: &Hands<'_>) -> Option<i64> {
        let mut ask = self.ask.clone();
        ask.pinned.clone_from(&self.status.decision);
        let sized = tokio::task::block_in_place(|| hands.sizer.size(&ask));
        sized.ok()?.micros
    }

    /// What its pods hold on their nodes, by the price book, in millionths an hour.
    pub(super) fn bill(&self, hands: &Hands<'_>) -> Option<i64> {
        hands.state.bill(&self.ask.namespace, &self.ask.name)
    }

    /// Writes the status where it is another, and then says what is to be said; whether what was read still holds.
    pub(super) async fn written(&mut self, hands: &Hands<'_>, before: &GpuWorkloadStatus) -> bool {
        if self.status == *before {
            return true;
        }
        match write(
            hands.term,
            hands.writer,
            &self.object,
            &self.version,
            &self.status,
        )
        .await
        {
            Ok(version) => self.version = version,
            Err(_) => return false,
        }
        for step in std::mem::take(&mut self.steps) {
            if let Some(traces) = hands.traces {
                traces.stepped(&self.object, step);
            }
        }
        if hands.acts {
            for (reason, warns, words) in std::mem::take(&mut self.events) {
                event(
                    hands.term,
                    hands.writer,
                    &self.object,
                    (reason, warns),
                    &words,
                )
                .await;
            }
        }
        true
    }
}
