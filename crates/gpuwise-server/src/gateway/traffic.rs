//! What goes through the gateway: requests, tokens, latencies, and when a service was last asked.

use super::{count::Tokens, demand::Judged};
use crate::desk::Answered;
use gpuwise_units::Nanoseconds;
use gpuwise_wire::broker::{LatencyHistogram, ServiceUse};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

/// Upper ends of the classes of latencies, in seconds.
pub(crate) const ENDS: [f64; 14] = [
    0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0,
];

/// How often something took how long.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Latencies {
    /// Of these classes, cumulated.
    pub(crate) counts: [u64; ENDS.len()],
    pub(crate) count: u64,
    pub(crate) sum: f64,
}

impl Latencies {
    fn add(&mut self, seconds: f64) {
        for (count, end) in self.counts.iter_mut().zip(ENDS) {
            *count += u64::from(seconds <= end);
        }
        self.count += 1;
        self.sum += seconds;
    }
}

/// What one service has done.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Tally {
    /// Requests that ended as they should, that did not, and that are on their way.
    pub(crate) good: u64,
    pub(crate) bad: u64,
    pub(crate) open: u64,
    pub(crate) prompt: u64,
    pub(crate) completion: u64,
    /// Requests whose engine did not say its tokens: pieces of answers are counted for them, no prompts.
    pub(crate) uncounted: u64,
    /// Requests whose engine said their tokens, and pieces of answers of the others.
    told: u64,
    pieces: u64,
    pub(crate) ttft: Latencies,
    /// When it was last asked, or answered last.
    pub(crate) last: Nanoseconds,
}

impl Tally {
    /// Requests whose tokens are known.
    pub(crate) const fn answered(&self) -> Answered {
        Answered {
            requests: self.told,
            prompts: self.prompt,
            answers: self.completion.saturating_sub(self.pieces),
        }
    }

    /// As telemetry has it.
    pub(crate) fn counted(&self) -> ServiceUse {
        let below = [0].iter().chain(&self.ttft.counts);
        let each = self.ttft.counts.iter().zip(below);
        let each = each.map(|(to, from)| to.saturating_sub(*from));
        let last = self.ttft.counts.last().copied().unwrap_or(0);
        ServiceUse {
            prompt_tokens: Some(self.prompt),
            completion_tokens: Some(self.completion),
            requests: Some(self.good),
            failed: Some(self.bad),
            ttft: Some(LatencyHistogram {
                bounds: ENDS.to_vec(),
                counts: each.chain([self.ttft.count.saturating_sub(last)]).collect(),
                sum: self.ttft.sum,
            }),
            ..ServiceUse::default()
        }
    }
}

/// By lease.
#[derive(Debug, Clone, Default)]
pub(crate) struct Traffic(Arc<Mutex<BTreeMap<u32, Tally>>>);

impl Traffic {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Tally>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request goes to a lease.
    pub(crate) fn begins(&self, lease: u32, now: Nanoseconds) -> Started {
        let mut all = self.lock();
        let tally = all.entry(lease).or_default();
        tally.open += 1;
        tally.last = tally.last.max(now);
        Started {
            traffic: self.clone(),
            lease,
            since: Instant::now(),
            now,
            first: None,
            judged: None,
        }
    }

    pub(crate) fn of(&self, lease: u32) -> Option<Tally> {
        self.lock().get(&lease).copied()
    }

    /// Of all services, by lease.
    pub(crate) fn all(&self) -> BTreeMap<u32, Tally> {
        self.lock().clone()
    }
}

/// A request that is on its way.
#[derive(Debug)]
pub(crate) struct Started {
    traffic: Traffic,
    lease: u32,
    since: Instant,
    now: Nanoseconds,
    /// Seconds until the first piece of the answer.
    first: Option<f64>,
    /// Whether it is late, where its service says what late is.
    judged: Option<Judged>,
}

impl Started {
    pub(super) fn judged_by(&mut self, judged: Option<Judged>) {
        self.judged = judged;
    }

    pub(super) fn first(&mut self) {
        self.first = Some(self.since.elapsed().as_secs_f64());
        if let Some(judged) = &mut self.judged {
            judged.first();
        }
    }

    /// Its answer comes whole: when its first token came nobody knows.
    pub(super) fn whole(&mut self) {
        self.judged = None;
    }

    /// It has ended; `tokens` as the engine said.
    pub(super) fn over(self, tokens: Option<Tokens>, pieces: u64, good: bool) {
        if let Some(judged) = self.judged {
            judged.over(tokens.map_or(pieces, |tokens| tokens.completion));
        }
        let mut all = self.traffic.lock();
        let tally = all.entry(self.lease).or_default();
        tally.open = tally.open.saturating_sub(1);
        if good {
            tally.good += 1;
        } else {
            tally.bad += 1;
        }
        match tokens {
            Some(tokens) => {
                tally.prompt += tokens.prompt;
                tally.completion += tokens.completion;
                tally.told += 1;
            }
            None if pieces > 0 => {
                tally.completion += pieces;
                tally.pieces += pieces;
                tally.uncounted += 1;
            }
            None => {}
        }
        if let Some(first) = self.first {
            tally.ttft.add(first);
        }
        let passed = Nanoseconds(u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(0));
        tally.last = tally.last.max(self.now + passed);
    }
}
