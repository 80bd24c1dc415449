//! What is seen of a lease's pods: what is done next, and what is told.

use super::{
    held::{Held, Phase},
    seen::{PodSeen, PodState},
    work::Worker,
};
use gpuwise_broker::{Observation, OrderId, ended_by};
use gpuwise_domain::placement::JobId;
use std::time::Duration;

/// What there is of a part that does not run any more.
pub(super) enum End {
    /// Its pod is not there.
    Gone,
    Over(PodSeen),
}

impl Worker {
    pub(super) async fn reconcile(&mut self, job: JobId) {
        let Some(mut held) = self.held.remove(&job) else {
            return;
        };
        let stays = match held.phase {
            Phase::Starting => self.starting(&mut held).await,
            Phase::Answering(_) | Phase::Running => self.running(&mut held).await,
            Phase::Stopping { order, grace } => self.stopping(&mut held, order, grace).await,
            Phase::Over => self.over(&mut held).await,
        };
        self.says_waits(&mut held);
        if stays {
            self.held.insert(job, held);
        }
    }

    /// Deletes pods of a lease that nobody wants: of an older order, or of a lease that is over.
    pub(super) async fn sweep(&mut self, job: JobId) {
        let wanted = self.held.get(&job).map(|held| held.order);
        let stopping = self
            .held
            .get(&job)
            .is_some_and(|held| matches!(held.phase, Phase::Stopping { .. }));
        let strays = self.pods_of(job).filter(|(name, pod)| {
            let expected = self.expected.contains(&(job, pod.order));
            let stray = wanted != Some(pod.order) && !stopping && !expected;
            // What it wrote is read first.
            stray && !pod.leaving && !(pod.is_over() && self.followers.reads(name))
        });
        let strays: Vec<String> = strays.map(|(name, _)| name.clone()).collect();
        if !strays.is_empty() && !self.delete(&strays, None).await {
            // The next event of it tries again; a list comes where there was none.
            self.stirred.insert(job);
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    fn pods_of(&self, job: JobId) -> impl Iterator<Item = (&String, &PodSeen)> {
        self.pods.iter().filter(move |(_, pod)| pod.lease == job.0)
    }

    async fn stopping(&mut self, held: &mut Held, order: OrderId, grace: Duration) -> bool {
        let ran = held.known;
        let there = self.pods_of(held.job).filter(|(_, pod)| {
            let down = pod
                .node
                .as_ref()
                .is_some_and(|node| self.nodes.is_down(node));
            !pod.is_over() && !down
        });
        let there: Vec<(String, bool)> = there
            .map(|(name, pod)| (name.clone(), pod.leaving))
            .collect();
        if there.is_empty() {
            self.tell(Observation::Done(order));
            return false;
        }
        let stay: Vec<String> = there
            .into_iter()
            .filter_map(|(name, leaving)| (!leaving).then_some(name))
            .collect();
        let grace = if ran { grace } else { Duration::ZERO };
        if !self.delete(&stay, Some(grace)).await {
            Self::later(held);
        }
        true
    }

    /// A part that has ended, if one has. What is not there any more is looked up before that is believed.
    pub(super) async fn ended_part(&mut self, held: &mut Held) -> Option<(usize, End)> {
        for at in 0..held.parts.len() {
            let name = held.parts[at].name.clone();
            if !held.parts[at].made {
                continue;
            }
            if !self.pods.contains_key(&name) {
                match self.look_up(&name).await {
                    Ok(true) => {}
                    Ok(false) => return Some((at, End::Gone)),
                    Err(_) => {
                        Self::later(held);
                        continue;
                    }
                }
            }
            if let Some(pod) = self.pods.get(&name).filter(|pod| pod.is_over()) {
                return Some((at, End::Over(pod.clone())));
            }
        }
        None
    }

    pub(super) fn runs(&self, held: &mut Held) {
        held.phase = Phase::Running;
        if !std::mem::replace(&mut held.known, true) {
            self.tell(Observation::Done(held.order));
        }
    }

    pub(super) async fn answering(&mut self, held: &mut Held) -> bool {
        let ready = self.addresses(held);
        if ready.len() == held.parts.len() {
            self.answers(held, ready);
            self.runs(held);
            return true;
        }
        let (Phase::Answering(since), Some(readiness)) = (held.phase, held.readiness()) else {
            return true;
        };
        let within = Duration::from_nanos(readiness.within.0);
        if since.elapsed() < within {
            return true;
        }
        let (path, seconds) = (&readiness.path, within.as_secs_f64());
        let what = format!("it was not ready within {seconds} s: GET {path} is to answer 200");
        self.fails(held, &what).await
    }

    /// Where its pods answer that are ready.
    fn addresses(&self, held: &Held) -> Vec<String> {
        let each = held.parts.iter().filter_map(|part| {
            let pod = self.pods.get(&part.name)?;
            let (port, _) = part.ask.service.as_ref()?;
            let address = pod.address.as_ref()?;
            let node = pod.node.as_ref()?;
            let ready = pod.ready && !pod.leaving && self.nodes.answers(node);
            ready.then(|| format!("{address}:{port}"))
        });
        each.collect()
    }

    fn answers(&self, held: &mut Held, addresses: Vec<String>) {
        if held.answers != addresses {
            held.answers.clone_from(&addresses);
            self.host.answers(held.job.0, addresses);
        }
    }

    async fn running(&mut self, held: &mut Held) -> bool {
        if let Some((at, end)) = self.ended_part(held).await {
            return self.ended(held, at, end).await;
        }
        if matches!(held.phase, Phase::Answering(_)) {
            return self.answering(held).await;
        }
        if held.readiness().is_some() {
            let ready = self.addresses(held);
            self.answers(held, ready);
        }
        true
    }

    /// A part of it has ended.
    pub(super) async fn ended(&mut self, held: &mut Held, at: usize, end: End) -> bool {
        let node = held.parts[at].ask.node.clone();
        let (code, ran, why, leaving) = match end {
            End::Gone => (
                None,
                true,
                Some("somebody has deleted its pod".into()),
                false,
            ),
            End::Over(pod) => match pod.state {
                PodState::Over { code, ran, why } => (code, ran, why, pod.leaving),
                _ => (None, true, None, pod.leaving),
            },
        };
        if code.is_none() || leaving {
            self.look_at_node(&node).await;
        }
        if self.nodes.is_down(&node) {
            // That its node is lost is told, and where it goes then is decided anew.
            return self.over(held).await;
        }
        if !ran {
            let why = why.unwrap_or_else(|| "nobody knows why".into());
            let what = format!("its container cannot be started on {node}: {why}");
            return self.fails(held, &what).await;
        }
        let (code, said) = match (code, &why) {
            (None, Some(why)) => (None, format!("Kubernetes ended it: {why}")),
            _ => ended_by(code),
        };
        let said = match (code, why) {
            (Some(_), Some(why)) => format!("{said} ({why})"),
            _ if leaving => format!("somebody has deleted its pod: {said}"),
            _ => said,
        };
        let worker = held.parts[at].ask.worker;
        let said = match held.parts.len() {
            1 => said,
            _ => format!("worker {worker}: {said}"),
        };
        if !held.known && held.readiness().is_some() {
            let what = format!("{said} before it was ready");
            return self.fails(held, &what).await;
        }
        if !std::mem::replace(&mut held.known, true) {
            // As if its end had followed its start at once.
            self.tell(Observation::Done(held.order));
        }
        self.exits(held, code, said).await
    }

    pub(super) async fn fails(&mut self, held: &mut Held, reason: &str) -> bool {
        if held.known {
            // Its order is over.
            return self.exits(held, None, reason.to_owned()).await;
        }
        // All of its pods or none.
        self.tell(Observation::failed(held.order, reason.to_owned()));
        self.over(held).await
    }

    async fn exits(&mut self, held: &mut Held, code: Option<i32>, reason: String) -> bool {
        self.tell(Observation::Exited {
            job: held.job,
            order: held.order,
            code,
            reason,
            ago: None,
        });
        self.over(held).await
    }

    /// What is left of it ends; what has ended stays, to be read.
    async fn over(&mut self, held: &mut Held) -> bool {
        self.answers(held, Vec::new());
        held.phase = Phase::Over;
        let left = held.parts.iter().filter(|part| {
            let pod = self.pods.get(&part.name);
            pod.is_some_and(|pod| !pod.is_over() && !pod.leaving)
        });
        let left: Vec<String> = left.map(|part| part.name.clone()).collect();
        if !self.delete(&left, None).await {
            Self::later(held);
        }
        true
    }
}
