//! What disrupts, carried out: rooms that are made, moves that go on.

use super::{clock, lead::Term, look::Looks, marks::Mark, writes::Wrote};
use crate::steer::{Decision, Leaver, Leaves, Pod, Room, Seen, Step, Surge, Turn};
use futures_util::StreamExt as _;
use std::sync::Arc;

/// Pods that are evicted at once at most.
const AT_ONCE: usize = 16;

impl Looks {
    /// Keeps places for those who wait, lets others leave, and goes on with what has begun; whether all of it was
    /// written.
    pub(super) async fn make_room(
        &mut self,
        term: &Term,
        seen: &Seen,
        decision: &Decision,
        plan: &str,
    ) -> bool {
        let mut whole = true;
        for room in &decision.rooms {
            whole &= self.keep_room(term, seen, room, plan).await;
        }
        whole &= self.evict(term, seen, &decision.evict).await;
        for at in &decision.spare {
            if let Some(pod) = seen.pods.get(*at) {
                let (wrote, _) = self.writer.leaving(term, pod, false, "it may stay").await;
                if self.went(pod, wrote, "a pod that may stay cannot be told") {
                    self.state.mark(pod, Mark::Leaves(false));
                } else {
                    whole = false;
                }
            }
        }
        for step in &decision.steps {
            whole &= self.step(term, seen, step, plan).await;
        }
        whole
    }

    /// Promises a room to all for whom it is made, and then lets others leave.
    pub(super) async fn keep_room(
        &mut self,
        term: &Term,
        seen: &Seen,
        room: &Room,
        plan: &str,
    ) -> bool {
        self.nominate(term, seen, room, plan).await
            && self.leave(term, seen, &room.leavers, plan).await
    }

    async fn nominate(&mut self, term: &Term, seen: &Seen, room: &Room, plan: &str) -> bool {
        let words = format!("{} (plan {plan})", room.words);
        for (at, node) in &room.pods {
            let Some(pod) = seen.pods.get(*at) else {
                return false;
            };
            if pod.standing.nominated.as_ref() == Some(node) {
                continue;
            }
            let wrote = self.writer.nominate(term, pod, node, &words).await;
            if !self.went(pod, wrote, "no place can be kept for a pod") {
                return false;
            }
            self.state.mark(pod, Mark::Nominated(node.clone()));
            let now = tokio::time::Instant::now();
            self.said
                .insert(pod.uid.clone(), ("MakingRoom", words.clone(), now));
        }
        true
    }

    /// Lets pods go: each is told why, and once all are, they leave.
    pub(super) async fn leave(
        &mut self,
        term: &Term,
        seen: &Seen,
        leavers: &[Leaver],
        plan: &str,
    ) -> bool {
        let mut whole = true;
        let mut evicted = Vec::new();
        for one in leavers {
            let Some(pod) = seen.pods.get(one.pod) else {
                continue;
            };
            match &one.how {
                Leaves::Evicted => evicted.push((Arc::clone(pod), one)),
                Leaves::Moves { to } => {
                    let words = format!("{} (plan {plan})", one.words);
                    let moved = self.writer.moves(term, pod, Some(to), &words, plan);
                    let wrote = moved.await;
                    if self.went(pod, wrote, "a move cannot be begun") {
                        let at = clock::now_since_1970();
                        self.state.mark(pod, Mark::Moves(Some((to.clone(), at))));
                        self.state.begun.one();
                        self.writer.metrics.acted("move");
                        self.tell(term, pod, "Moves", words);
                    } else {
                        whole = false;
                    }
                }
            }
        }
        let writer = &self.writer;
        let marks = evicted.into_iter().map(|(pod, one)| async move {
            let words = format!("{} (plan {plan})", one.words);
            let (wrote, version) = writer.leaving(term, &pod, true, &words).await;
            (pod, words, wrote, version)
        });
        let marked: Vec<_> = futures_util::stream::iter(marks)
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        let mut leave = Vec::new();
        for (pod, words, wrote, version) in marked {
            if self.went(&pod, wrote, "a pod that is to leave cannot be told") {
                self.state.mark(&pod, Mark::Leaves(true));
                leave.push((pod, words, version.unwrap_or_default()));
            } else {
                whole = false;
            }
        }
        // Whoever goes on from here finds all that leave marked, or nobody gone.
        whole && self.evict_all(term, leave).await
    }

    async fn evict_all(&mut self, term: &Term, all: Vec<(Arc<Pod>, String, String)>) -> bool {
        let writer = &self.writer;
        let evictions = all.into_iter().map(|(pod, words, version)| async move {
            let wrote = writer.evict(term, &pod, &version).await;
            (pod, words, wrote)
        });
        let done: Vec<_> = futures_util::stream::iter(evictions)
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        let mut whole = true;
        for (pod, words, wrote) in done {
            if matches!(wrote, Wrote::Done | Wrote::Refused(_)) {
                self.tell(term, &pod, "Preempted", words);
            }
            whole &= self.evicted(&pod, wrote);
        }
        whole
    }

    /// Tries once more with those who are to leave and were kept.
    pub(super) async fn evict(&mut self, term: &Term, seen: &Seen, all: &[usize]) -> bool {
        let pods = all.iter().filter_map(|at| seen.pods.get(*at));
        let due = pods.filter(|pod| !self.failed.contains_key(&pod.uid));
        let due: Vec<Arc<Pod>> = due.cloned().collect();
        let writer = &self.writer;
        let evictions = due.into_iter().map(|pod| async move {
            let wrote = writer.evict(term, &pod, &pod.version).await;
            (pod, wrote)
        });
        let done: Vec<_> = futures_util::stream::iter(evictions)
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        let mut whole = true;
        for (pod, wrote) in done {
            whole &= self.evicted(&pod, wrote);
        }
        whole
    }

    fn evicted(&mut self, pod: &Arc<Pod>, wrote: Wrote) -> bool {
        if let Wrote::Refused(why) = &wrote {
            self.state.refused.insert(pod.uid.clone(), why.clone());
            self.state.mark(pod, Mark::Leaves(true));
            self.journal.say("a pod cannot be evicted yet", why);
            self.back_off(&pod.uid);
            return false;
        }
        let done = self.went(pod, wrote, "a pod cannot be evicted");
        if done {
            self.state.refused.remove(&pod.uid);
            self.state.mark(pod, Mark::Leaves(true));
            self.state.mark(pod, Mark::Ends);
            let what = if pod.is_warm() { "lend" } else { "evict" };
            self.writer.metrics.acted(what);
        }
        done
    }

    async fn step(&mut self, term: &Term, seen: &Seen, step: &Step, plan: &str) -> bool {
        match step {
            Step::Raise { pod, deployment } => {
                let Some(pod) = seen.pods.get(*pod) else {
                    return true;
                };
                let surge = Surge {
                    namespace: pod.namespace.clone(),
                    name: deployment.clone(),
                    pod: pod.uid.clone(),
                };
                let what = "a Deployment cannot be given one pod more";
                if !pod.standing.cheapest {
                    let wrote = self.writer.cheapest(term, pod).await;
                    if !self.went(pod, wrote, what) {
                        return false;
                    }
                }
                let wrote = self.writer.surge(term, &surge, true, plan).await;
                let done = self.went(pod, wrote, what);
                if done {
                    self.state.surges.wrote(&surge, true);
                }
                done
            }
            Step::Lower(surge) => {
                let wrote = self.writer.surge(term, surge, false, plan).await;
                let done = wrote == Wrote::Done;
                if done {
                    self.state.surges.wrote(surge, false);
                } else if let Wrote::Failed(why) = &wrote {
                    self.journal.say("a Deployment keeps one pod more", why);
                    self.back_off(&surge.pod);
                }
                done
            }
            Step::Stay { pod } => {
                let Some(pod) = seen.pods.get(*pod) else {
                    return true;
                };
                let wrote = self.writer.moves(term, pod, None, "", plan).await;
                let done = self.went(pod, wrote, "a pod that stays cannot be told");
                if done {
                    self.state.mark(pod, Mark::Moves(None));
                }
                done
            }
            Step::Turn { pod } => {
                let Some(pod) = seen.pods.get(*pod) else {
                    return true;
                };
                let wrote = self.writer.turn(term, pod, plan).await;
                self.went(pod, wrote, "a StatefulSet cannot be told whose turn it is")
            }
            Step::Evict { pod } => self.evict(term, seen, &[*pod]).await,
            Step::Over(turn) => self.over(term, turn).await,
        }
    }

    async fn over(&self, term: &Term, turn: &Turn) -> bool {
        let wrote = self.writer.over(term, turn).await;
        if let Wrote::Failed(why) = &wrote {
            self.journal
                .say("a turn of a StatefulSet does not end", why);
        }
        wrote == Wrote::Done
    }

    /// Says something of a pod; an event more or less changes nothing: nobody waits for it.
    fn tell(&self, term: &Term, pod: &Arc<Pod>, reason: &'static str, words: String) {
        let said = (term.clone(), Arc::clone(pod), reason, words);
        let _ = self.events.try_send(said);
    }

    /// Whether something was written of a pod; where it failed the pod is left alone for a while.
    fn went(&mut self, pod: &Pod, wrote: Wrote, what: &'static str) -> bool {
        match wrote {
            Wrote::Done => true,
            // A watch brings what is.
            Wrote::Changed | Wrote::Fenced => false,
            Wrote::Failed(why) | Wrote::Refused(why) => {
                self.journal.say(what, &why);
                self.back_off(&pod.uid);
                false
            }
        }
    }
}
