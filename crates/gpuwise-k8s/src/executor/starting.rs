//! Pods that are made and wait: for their nodes, for their images, for one another.

use super::{
    held::{Held, Phase},
    seen::{PodSeen, PodState},
    work::Worker,
};
use gpuwise_wire::broker::QueuedAnswer;
use std::time::Instant;

/// A pod that waits.
struct Waiting {
    pod: String,
    why: String,
    /// Whether waiting does not help.
    hopeless: bool,
}

impl Worker {
    /// Whether it is still held.
    pub(super) async fn starting(&mut self, held: &mut Held) -> bool {
        if let Err(why) = self.make(held).await {
            return self
                .fails(held, &format!("Kubernetes takes no pod of it: {why}"))
                .await;
        }
        if let Some((at, end)) = self.ended_part(held).await {
            return self.ended(held, at, end).await;
        }
        let Some(Waiting { why, hopeless, .. }) = self.waiting(held) else {
            return self.up(held).await;
        };
        if hopeless {
            let what = format!("its pod cannot be started: {why}");
            return self.fails(held, &what).await;
        }
        let patience = self.settings.patience;
        if !held.known && held.since.elapsed() >= patience {
            let seconds = patience.as_secs_f64();
            let what = format!("Kubernetes did not start it within {seconds} s: {why}");
            return self.fails(held, &what).await;
        }
        true
    }

    /// All its pods run.
    async fn up(&mut self, held: &mut Held) -> bool {
        if held.readiness().is_some() {
            held.phase = Phase::Answering(Instant::now());
            return self.answering(held).await;
        }
        self.runs(held);
        true
    }

    /// The first of its pods that does not run yet.
    fn waiting(&self, held: &Held) -> Option<Waiting> {
        let silent = held
            .parts
            .iter()
            .find(|part| !self.pods.contains_key(&part.name));
        if let Some(part) = silent {
            return Some(Waiting {
                pod: part.name.clone(),
                why: "it does not answer".into(),
                hopeless: false,
            });
        }
        held.parts.iter().find_map(|part| {
            let PodSeen {
                state:
                    PodState::Waits {
                        why,
                        image,
                        hopeless,
                    },
                ..
            } = self.pods.get(&part.name)?
            else {
                return None;
            };
            let why = match image {
                true => format!(
                    "its image {} cannot be had {}: {why}",
                    part.ask.image(&self.settings),
                    self.settings.secrets()
                ),
                false => why.clone(),
            };
            Some(Waiting {
                pod: part.name.clone(),
                why,
                hopeless: *hopeless,
            })
        })
    }

    /// What it waits for is said while it does.
    pub(super) fn says_waits(&self, held: &mut Held) {
        let starts = held.phase == Phase::Starting;
        let waiting = Some(&*held).filter(|_| starts);
        let waiting = waiting.and_then(|held| self.waiting(held));
        let waits = waiting.map(|one| (one.pod, one.why));
        if held.waits == waits {
            return;
        }
        let said = waits.clone().map(|(pod, reason)| QueuedAnswer {
            system: "Kubernetes".into(),
            job: None,
            pod: Some(pod),
            priority: None,
            reason,
            account: None,
            fair_share: None,
        });
        self.host.waits(held.job.0, said);
        held.waits = waits;
    }
}
