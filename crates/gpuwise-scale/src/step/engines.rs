//! Requests on engines: each goes to the replica that has the fewest and has room, or waits before them.

use super::{
    batch::{Batch, Happened, Job},
    engine::{Engines, Steps},
    outcome::StepOutcome,
    replicas::{Replicas, State},
};
use gpuwise_units::RandomStream;
use std::collections::VecDeque;

#[derive(Debug)]
pub(super) struct Batches {
    service: Engines,
    /// Seconds between two readings of lengths.
    period: f64,
    /// By variant.
    steps: Vec<Steps>,
    stream: RandomStream,
    /// By replica.
    all: Vec<Batch>,
    queue: VecDeque<Job>,
    /// How many of those that wait, from the first on, have been counted as late.
    counted: usize,
    /// Tokens of prompts that came since somebody last asked.
    prompts: f64,
    /// Replicas that take requests.
    open: Vec<usize>,
}

impl Batches {
    pub(super) fn new(service: &Engines, period: f64, stream: RandomStream) -> Self {
        Self {
            steps: service.of.iter().map(Steps::new).collect(),
            service: service.clone(),
            period,
            stream,
            all: Vec::new(),
            queue: VecDeque::new(),
            counted: 0,
            prompts: 0.0,
            open: Vec::new(),
        }
    }

    /// Those that wait, before replicas and in them.
    pub(super) fn queued(&self) -> f64 {
        let inside: f64 = self.all.iter().map(Batch::waiting).sum();
        self.queue.len() as f64 + inside
    }

    pub(super) fn running(&self) -> f64 {
        let each = self.all.iter().map(|one| f64::from(one.running()));
        each.sum()
    }

    /// Tokens of prompts that came, and tokens that were decoded, since it was last asked.
    pub(super) fn tokens(&mut self) -> (f64, f64) {
        let decoded = self.all.iter_mut().map(Batch::decoded).sum();
        (std::mem::take(&mut self.prompts), decoded)
    }

    /// The share of the cache of replicas that serve that is used; `None`: none serves.
    pub(super) fn cache(&self, replicas: &Replicas) -> Option<f64> {
        let each = replicas.all.iter().zip(&self.all);
        let ready = each.filter(|(one, _)| one.state == State::Ready);
        let (mut used, mut there) = (0.0, 0.0);
        for (one, batch) in ready {
            used += batch.cached();
            there += self.steps.get(one.variant).map_or(0.0, |steps| steps.cache);
        }
        (there > 0.0).then(|| used / there)
    }

    pub(super) fn frees(&self, replicas: usize) -> Vec<f64> {
        let mut frees: Vec<f64> = self.all.iter().map(Batch::free).collect();
        frees.resize(replicas, 0.0);
        frees
    }

    /// A replica is gone: what ran on it begins anew, before all that waits, and is late.
    pub(super) fn lose(&mut self, replica: usize, out: &mut StepOutcome) {
        let lost = self.all.get_mut(replica).map(Batch::lose);
        for job in lost.unwrap_or_default().into_iter().rev() {
            self.queue.push_front(Job { late: true, ..job });
            self.counted += 1;
            out.late += f64::from(u8::from(!job.late));
            out.restarted += 1.0;
        }
    }

    /// From one time to another, with requests that come in between, in order.
    pub(super) fn run(
        &mut self,
        (now, until): (f64, f64),
        arrivals: &[f64],
        replicas: &mut Replicas,
        out: &mut StepOutcome,
    ) {
        self.all.resize_with(replicas.all.len(), || Batch::at(now));
        self.open.clear();
        for (at, one) in replicas.all.iter().enumerate() {
            if one.state == State::Ready {
                self.open.push(at);
            }
        }
        if self.open.is_empty() {
            out.held += arrivals.len() as f64;
        }
        self.fill(now, replicas);
        for comes in arrivals {
            self.advance(*comes, replicas, out);
            let job = self.job(*comes);
            self.prompts += job.prompt;
            out.requests += 1.0;
            self.queue.push_back(job);
            self.fill(*comes, replicas);
        }
        self.advance(until, replicas, out);
        for (batch, one) in self.all.iter_mut().zip(&replicas.all) {
            batch.pass(until);
            // Contexts have grown.
            if let Some(steps) = self.steps.get(one.variant) {
                batch.retime(steps);
            }
        }
        let wait = self.service.first_token;
        while let Some(job) = self.queue.get_mut(self.counted)
            && job.arrived + wait < until
        {
            out.late += f64::from(u8::from(!job.late));
            job.late = true;
            self.counted += 1;
        }
        for (one, batch) in replicas.all.iter_mut().zip(&self.all) {
            one.running = batch.running();
        }
    }

    fn job(&mut self, now: f64) -> Job {
        let (prompt, answer) = self.service.means(now, self.period);
        Job {
            arrived: now,
            prompt: self.service.prompt.draw(prompt, &mut self.stream),
            answer: self.service.answer.draw(answer, &mut self.stream),
            late: false,
        }
    }

    /// What ends on engines until a time, one after the other; what waits fills the room.
    fn advance(&mut self, until: f64, replicas: &Replicas, out: &mut StepOutcome) {
        loop {
            let each = self.all.iter().enumerate();
            let next = each.map(|(at, batch)| (batch.next(), at));
            let next = next.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            let Some((time, at)) = next.filter(|(time, _)| *time <= until) else {
                return;
            };
            let variant = replicas.all.get(at).map(|one| one.variant);
            let steps = variant.and_then(|variant| self.steps.get(variant));
            let (Some(steps), Some(batch)) = (steps, self.all.get_mut(at)) else {
                return;
            };
            let (first, token) = (self.service.first_token, self.service.token);
            batch.run(time, steps, |now, happened| {
                let late = match happened {
                    Happened::First(job) => !job.late && now - job.arrived > first,
                    Happened::Over { token: took, job } => {
                        !job.late && token.is_some_and(|token| took > token)
                    }
                };
                out.late += f64::from(u8::from(late));
                late
            });
            self.fill(time, replicas);
        }
    }

    /// Gives those that wait to replicas, as long as there is room.
    fn fill(&mut self, now: f64, replicas: &Replicas) {
        while let Some(job) = self.queue.front().copied() {
            let Some(at) = self.emptiest(&job, replicas) else {
                return;
            };
            self.queue.pop_front();
            self.counted = self.counted.saturating_sub(1);
            let variant = replicas.all.get(at).map(|one| one.variant);
            let steps = variant.and_then(|variant| self.steps.get(variant));
            if let (Some(steps), Some(batch)) = (steps, self.all.get_mut(at)) {
                batch.pass(now);
                batch.take(steps, job);
            }
        }
    }

    /// The replica with the fewest requests for what it can run at once, of those that have room.
    fn emptiest(&self, job: &Job, replicas: &Replicas) -> Option<usize> {
        let mut best: Option<(f64, usize)> = None;
        for at in &self.open {
            let (Some(one), Some(batch)) = (replicas.all.get(*at), self.all.get(*at)) else {
                continue;
            };
            let Some(steps) = self.steps.get(one.variant) else {
                continue;
            };
            let load = f64::from(batch.running()) / f64::from(one.slots);
            if best.is_none_or(|(least, _)| load < least) && batch.has_room(steps, job) {
                best = Some((load, *at));
            }
        }
        best.map(|(_, at)| at)
    }
}
