//! Gates taken off.

use super::{clock, lead::Term, look::Looks, marks::Mark, traces, writes::Wrote};
use crate::steer::{Placed, Pod, Seen};
use futures_util::StreamExt as _;
use std::sync::Arc;

/// Writes at once at most.
const AT_ONCE: usize = 32;

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
                let since = pod
                    .gated_at
                    .map(|at| clock::now().duration_since(at).as_secs_f64());
                writer.metrics.placed(since, own);
            }
            (one, pod, wrote, traces::now())
        });
        let done: Vec<(&Placed, &Arc<Pod>, Wrote, u64)> = futures_util::stream::iter(releases)
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        let mut whole = true;
        for (one, pod, wrote, at) in done {
            match wrote {
                Wrote::Done => {
                    if let Some(traces) = &mut self.traces {
                        traces.released(&pod.uid, at, (plan, &one.node, &one.words));
                    }
                    let sent = Mark::Sent(one.node.clone(), one.replaces.clone());
                    self.state.mark(pod, sent);
                    self.failed.remove(&pod.uid);
                    self.said.remove(&pod.uid);
                    let words = format!("Goes to {} (plan {plan})", one.words);
                    // An event more or less changes nothing: nobody waits for it.
                    let said = (term.clone(), Arc::clone(pod), "Placed", words);
                    let _ = self.events.try_send(said);
                }
                Wrote::Fenced => return false,
                other => {
                    whole = false;
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
                    if let Some(traces) = &mut self.traces {
                        traces.released(&pod.uid, traces::now(), ("", "", words));
                    }
                    self.state.mark(pod, Mark::LetGo);
                    self.failed.remove(&pod.uid);
                    let words = format!("Left to kube-scheduler: {words}");
                    let said = (term.clone(), Arc::clone(pod), "LeftToScheduler", words);
                    let _ = self.events.try_send(said);
                }
                Wrote::Fenced => return false,
                other => {
                    whole = false;
                    self.gate_stays(pod, &other);
                }
            }
        }
        whole
    }

    /// A gate that is still on: what has changed a watch brings, and what is refused is tried later.
    fn gate_stays(&mut self, pod: &Pod, wrote: &Wrote) {
        if let Wrote::Failed(why) | Wrote::Refused(why) = wrote {
            self.journal.say("a gate cannot be taken off", why);
            self.back_off(&pod.uid);
        }
    }
}
