//! What is said of pods: conditions of those who wait, events of those who are placed or leave.

use super::{
    lead::Term,
    look::Looks,
    writes::{Writer, Wrote},
};
use crate::steer::{Placed, Pod, Room, Seen, Waits};
use futures_util::StreamExt as _;
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tokio::{sync::mpsc, time::Instant};

/// Conditions that are written at once at most, and events: what changes something goes first.
const AT_ONCE: usize = 32;
const EVENTS_AT_ONCE: usize = 4;

/// The same reason in other words is written again only after so long.
const AGAIN: Duration = Duration::from_mins(1);

/// Something to be said of a pod, as an event with a reason.
pub(super) type Said = (Term, Arc<Pod>, &'static str, String);

impl Looks {
    /// Says why pods wait, where that is new.
    pub(super) async fn say(
        &mut self,
        term: &Term,
        seen: &Seen,
        waits: &[Waits],
        plan: &str,
    ) -> bool {
        let now = Instant::now();
        let mut new: Vec<(Arc<Pod>, &Waits)> = Vec::new();
        for one in waits {
            let Some(pod) = seen.pods.get(one.pod) else {
                continue;
            };
            let known = self.said.get(&pod.uid);
            let same = known.is_some_and(|(reason, words, at)| {
                *reason == one.reason && (*words == one.words || now.duration_since(*at) < AGAIN)
            });
            if !same {
                new.push((Arc::clone(pod), one));
            }
        }
        let writer = &self.writer;
        let conditions = new.into_iter().map(|(pod, one)| async move {
            let words = format!("{} (plan {plan})", one.words);
            let wrote = writer.condition(term, &pod, one.reason, &words).await;
            (pod, one, wrote)
        });
        let done: Vec<_> = futures_util::stream::iter(conditions)
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        let mut whole = true;
        for (pod, one, wrote) in done {
            whole &= wrote == Wrote::Done;
            if let Wrote::Failed(why) = &wrote {
                self.journal.say("a condition cannot be written", why);
            }
            if wrote == Wrote::Done {
                self.said
                    .insert(pod.uid.clone(), (one.reason, one.words.clone(), now));
            }
        }
        // Who is gone need not be remembered.
        if self.said.len() > 2 * seen.pods.len() + 1000 {
            let there: BTreeSet<&str> = seen.pods.iter().map(|pod| pod.uid.as_str()).collect();
            self.said.retain(|uid, _| there.contains(uid.as_str()));
        }
        whole
    }
}

pub(super) async fn say_all(writer: Writer, said: mpsc::Receiver<Said>) {
    let all = futures_util::stream::unfold(said, |mut said| async move {
        let next = said.recv().await?;
        Some((next, said))
    });
    let writer = &writer;
    all.for_each_concurrent(EVENTS_AT_ONCE, |(term, pod, reason, words)| async move {
        writer.event(&term, &pod, reason, &words).await;
    })
    .await;
}

/// What is said of a pod that would be placed, where nobody acts.
pub(super) fn proposal(one: &Placed) -> Waits {
    Waits {
        pod: one.pod,
        reason: "Proposed",
        words: format!("it would go to {}", one.words),
    }
}

/// What is said of pods for which room would be made.
pub(super) fn proposed(rooms: &[Room]) -> impl Iterator<Item = Waits> {
    rooms.iter().flat_map(|room| {
        room.pods.iter().map(|(pod, node)| Waits {
            pod: *pod,
            reason: "Proposed",
            words: format!("it would go to node {node}: {}", room.words),
        })
    })
}
