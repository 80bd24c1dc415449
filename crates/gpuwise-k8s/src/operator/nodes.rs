//! Nodes that are closed because their GPUs are suspect, or cut anew.

use super::{lead::Term, look::Looks, moves::NodeChange, writes::Wrote};
use crate::{
    manifests::Mode,
    steer::{
        CUTTING, Cut, Decision, Judged, Leaver, Leaves, MIG_CONFIG, Room, SUSPECT, Seen, Stage,
        Waits, cut, judge, stages,
    },
};
use gpuwise_units::Nanoseconds;
use std::time::Duration;
use tokio::time::Instant;

/// A node that was cut stays so for at least this long.
const SETTLES: Duration = Duration::from_mins(10);

/// By then a watch has shown what was written of a node.
const SHOWN: Duration = Duration::from_secs(5);

impl Looks {
    /// Closes and opens suspect nodes, cuts nodes anew; what is to be said of pods that wait for that.
    pub(super) async fn judge(
        &mut self,
        term: &Term,
        seen: &Seen,
        decision: &Decision,
        plan: &str,
        now: Nanoseconds,
    ) -> Vec<Waits> {
        let judged = judge(seen, seen.rules.cordons, &mut self.health, now);
        self.wakes(now, judged.wake);
        if self.mode == Mode::Act {
            self.cordons(term, &judged, plan).await;
            for (node, stage) in stages(seen) {
                self.stage(term, seen, &node, stage, plan).await;
            }
        }
        // Who comes under the name of a node that left is another.
        let is_there = |name: &str| seen.nodes.iter().any(|node| node.name == name);
        self.cut
            .retain(|name, at| at.elapsed() < SETTLES && is_there(name));
        // One at a time, also while no watch has shown the last.
        let last = self.cut.values().any(|at| at.elapsed() < SHOWN);
        let settled = |node: &str| !last && !self.cut.contains_key(node);
        let found = cut(seen, &decision.waits, &settled, now);
        let Some(found) = found else {
            return Vec::new();
        };
        if self.mode != Mode::Act {
            let proposed = |pod: &usize| Waits {
                pod: *pod,
                reason: "Proposed",
                words: format!("it would have a place: {}", found.words),
            };
            return found.pods.iter().map(proposed).collect();
        }
        self.cut_anew(term, seen, &found, plan).await
    }

    async fn cordons(&mut self, term: &Term, judged: &Judged, plan: &str) {
        for (node, why) in &judged.cordon {
            let change = NodeChange {
                taint: Some((SUSPECT, "gpu")),
                ..NodeChange::default()
            };
            let wrote = self.writer.node(term, node, &change, why, plan).await;
            if self.noted(node, &wrote, "a suspect node cannot be closed") {
                self.writer.metrics.acted("cordon");
                let words = format!("{node} (plan {plan}): {why}");
                self.journal.say("a node takes no more pods", &words);
            }
        }
        for node in &judged.uncordon {
            let change = NodeChange {
                untaint: Some(SUSPECT),
                ..NodeChange::default()
            };
            let why = "its GPUs are well again";
            let wrote = self.writer.node(term, node, &change, why, plan).await;
            if self.noted(node, &wrote, "a node that is well cannot be opened") {
                self.writer.metrics.acted("uncordon");
            }
        }
        if let Some((node, why)) = judged.beyond.first() {
            let words = format!("{node} and {} others: {why}", judged.beyond.len() - 1);
            let most = "nodes are suspect and stay open, as no more may be closed";
            self.journal.say(most, &words);
        }
    }

    async fn stage(&mut self, term: &Term, seen: &Seen, node: &str, stage: Stage, plan: &str) {
        match stage {
            Stage::Waits => {}
            Stage::Label(config) => {
                let change = NodeChange {
                    taint: Some((CUTTING, &config)),
                    label: Some((MIG_CONFIG, &config)),
                    ..NodeChange::default()
                };
                let words = format!("cut as {config}");
                let wrote = self.writer.node(term, node, &change, &words, plan).await;
                if self.noted(node, &wrote, "the MIG manager cannot be told") {
                    self.writer.metrics.acted("repartition");
                }
            }
            Stage::Drain(pods) => {
                let leaver = |pod: &usize| Leaver {
                    pod: *pod,
                    how: Leaves::Evicted,
                    words: format!("evicted: node {node} is cut anew"),
                };
                let due = pods.iter().filter(|at| {
                    let pod = seen.pods.get(**at);
                    pod.is_some_and(|pod| !self.failed.contains_key(&pod.uid))
                });
                let all: Vec<Leaver> = due.map(leaver).collect();
                self.leave(term, seen, &all, plan).await;
            }
            Stage::Open { cut } => {
                let change = NodeChange {
                    untaint: Some(CUTTING),
                    ..NodeChange::default()
                };
                let words = if cut {
                    "cut as it was to be"
                } else {
                    "left as it is: the MIG manager says that it failed, or it is not to be cut any more"
                };
                let wrote = self.writer.node(term, node, &change, words, plan).await;
                self.noted(node, &wrote, "a node that was cut cannot be opened");
                self.cut.insert(node.to_owned(), Instant::now());
            }
        }
    }

    async fn cut_anew(&mut self, term: &Term, seen: &Seen, found: &Cut, plan: &str) -> Vec<Waits> {
        let change = NodeChange {
            taint: Some((CUTTING, &found.config)),
            label: found.empty.then_some((MIG_CONFIG, &*found.config)),
            untaint: None,
        };
        let wrote = self
            .writer
            .node(term, &found.node, &change, &found.words, plan)
            .await;
        if !self.noted(&found.node, &wrote, "a node cannot be cut anew") {
            return Vec::new();
        }
        self.cut.insert(found.node.clone(), Instant::now());
        if found.empty {
            self.writer.metrics.acted("repartition");
        }
        let pods = found.pods.iter().map(|at| (*at, found.node.clone()));
        let room = Room {
            pods: pods.collect(),
            leavers: found.leavers.clone(),
            words: found.words.clone(),
        };
        self.keep_room(term, seen, &room, plan).await;
        let waits = |pod: &usize| Waits {
            pod: *pod,
            reason: "MakingRoom",
            words: found.words.clone(),
        };
        found.pods.iter().map(waits).collect()
    }

    fn noted(&mut self, node: &str, wrote: &Wrote, what: &'static str) -> bool {
        if let Wrote::Failed(why) | Wrote::Refused(why) = wrote {
            self.journal.say(what, &format!("{node}: {why}"));
        }
        self.unwritten |= *wrote != Wrote::Done;
        *wrote == Wrote::Done
    }
}
