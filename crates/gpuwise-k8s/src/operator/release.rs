//! Gates taken off.

use super::{clock, lead::Term, look::Looks, marks::Mark, traces, writes::Wrote};
use crate::steer::{Placed, Pod, Seen};
use futures_util::StreamExt as _;
use std::sync::Arc;

/// Writes at once at most.
const AT_ONCE: usize = 32;

/// How a gate came off.
#[derive(Clone, Copy)]
pub(super) enum Off<'a> {
    /// By which plan, where to and why.
    Sent(&'a str, &'a str, &'a str),
    /// Left to kube-scheduler, and why.
    Left(&'a str),
}

/// Seconds that a pod has waited behind its gate, where that is known.
pub(super) fn gated_for(pod: &Pod) -> Option<f64> {
    let at = pod.gated_at?;
    Some(clock::now().duration_since(at).as_secs_f64())
}

impl Looks {
    /// Takes gates off, gang by gang.
    pub(super) async fn release(
        &mut self,
        term: &Term,
        seen: &Seen,
        placed: &[Placed],
        plan: &str,
    ) -> bool {
        let writer = &self.writer;
        let state = &self.state;
        let ready = placed.iter().filter_map(|one| {
            let pod = seen.pods.get(one.pod)?;
            Some((one, pod, state.hostname(&one.node)?))
        });
        let releases = ready.map(|(one, pod, hostname)| async move {
            let own = state.since_arrival(pod).map(|since| since.as_secs_f64());
            let wrote = writer.release(term, pod, one, &hostname, plan).await;
            if wrote == Wrote::Done {
                writer.metrics.placed(gated_for(pod), own);
            }
            (one, pod, wrote, own, traces::now())
        });
        let done: Vec<_> = futures_util::stream::iter(releases)
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        let mut whole = true;
        for (one, pod, wrote, own, at) in done {
            match wrote {
                Wrote::Done => {
                    let sent = Mark::Sent(one.node.clone(), one.replaces.clone());
                    self.state.mark(pod, sent);
                    self.gate_is_off(term, pod, at, Off::Sent(plan, &one.node, &one.words));
                }
                Wrote::Fenced => return false,
                other => {
                    whole = false;
                    if matches!(other, Wrote::Failed(_)) {
                        self.unanswered.put(pod, Some(&one.node), own);
                    }
                    self.gate_stays(pod, &other);
                }
            }
        }
        whole
    }

    /// Takes gates off of pods that are not placed here.
    pub(super) async fn let_go(
        &mut self,
        term: &Term,
        seen: &Seen,
        pods: &[(usize, String)],
    ) -> bool {
        let mut whole = true;
        for (at, words) in pods {
            let Some(pod) = seen.pods.get(*at) else {
                continue;
            };
            match self.writer.let_go(term, pod, words).await {
                Wrote::Done => {
                    self.state.mark(pod, Mark::LetGo);
                    self.gate_is_off(term, pod, traces::now(), Off::Left(words));
                }
                Wrote::Fenced => return false,
                other => {
                    whole = false;
                    if matches!(other, Wrote::Failed(_)) {
                        self.unanswered.put(pod, None, None);
                    }
                    self.gate_stays(pod, &other);
                }
            }
        }
        whole
    }

    /// A gate is off, as of a moment: a collector and the pod's events are told.
    pub(super) fn gate_is_off(&mut self, term: &Term, pod: &Arc<Pod>, at: u64, off: Off<'_>) {
        let (span, reason, words) = match off {
            Off::Sent(plan, node, why) => {
                let words = format!("Goes to {why} (plan {plan})");
                ((plan, node, why), "Placed", words)
            }
            Off::Left(why) => {
                let words = format!("Left to kube-scheduler: {why}");
                (("", "", why), "LeftToScheduler", words)
            }
        };
        if let Some(traces) = &mut self.traces {
            traces.released(&pod.uid, at, span);
        }
        self.failed.remove(&pod.uid);
        self.said.remove(&pod.uid);
        self.unanswered.answered(&pod.uid);
        // An event more or less changes nothing: nobody waits for it.
        let said = (term.clone(), Arc::clone(pod), reason, words);
        let _ = self.events.try_send(said);
    }

    /// A gate that is still on: what has changed a watch brings, and what is refused is tried later.
    fn gate_stays(&mut self, pod: &Pod, wrote: &Wrote) {
        if let Wrote::Failed(why) | Wrote::Refused(why) = wrote {
            self.journal.say("a gate cannot be taken off", why);
            self.back_off(&pod.uid);
        }
    }
}
