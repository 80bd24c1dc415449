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
    /// Requests that were given up as their engine was silent.
    pub(crate) silent: u64,
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

    /// A request goes to a lease; it is open until what is returned is dropped, by whatever path.
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
            tokens: None,
            pieces: 0,
            is_silent: false,
            end: End::Broken,
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

/// How a request ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The engine never had it: another replica is asked.
    NotSent,
    /// The client went away, or the engine broke off: so it is until the answer is whole.
    Broken,
    /// As it should.
    Good,
}

/// A request that is on its way. Dropping it, at whatever await point, closes it in the tally of its lease.
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
    /// Tokens as the engine said.
    tokens: Option<Tokens>,
    /// Pieces of the answer that came.
    pieces: u64,
    is_silent: bool,
    end: End,
}

impl Started {
    pub(super) fn judged_by(&mut self, judged: Option<Judged>) {
        self.judged = judged;
    }

    /// A piece of the answer has come.
    pub(super) fn text(&mut self) {
        if self.pieces == 0 {
            self.first = Some(self.since.elapsed().as_secs_f64());
            if let Some(judged) = &mut self.judged {
                judged.first();
            }
        }
        self.pieces += 1;
    }

    /// The engine said its tokens.
    pub(super) const fn told(&mut self, tokens: Tokens) {
        self.tokens = Some(tokens);
    }

    /// Its answer comes whole: when its first token came is not known.
    pub(super) fn whole(&mut self) {
        self.judged = None;
    }

    /// No connection came about: the engine never had it.
    pub(super) const fn not_sent(&mut self) {
        self.end = End::NotSent;
    }

    /// It is given up: its engine was silent for too long.
    pub(super) const fn silent(&mut self) {
        self.is_silent = true;
    }

    /// The answer is whole and good.
    pub(super) const fn good(&mut self) {
        self.end = End::Good;
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(judged) = self.judged.take() {
            let tokens = self.tokens.map_or(self.pieces, |tokens| tokens.completion);
            judged.over(tokens);
        }
        let mut all = self.traffic.lock();
        let tally = all.entry(self.lease).or_default();
        tally.open = tally.open.saturating_sub(1);
        match self.end {
            End::NotSent => return,
            End::Broken => tally.bad += 1,
            End::Good => tally.good += 1,
        }
        tally.silent += u64::from(self.is_silent);
        match self.tokens {
            Some(tokens) => {
                tally.prompt += tokens.prompt;
                tally.completion += tokens.completion;
                tally.told += 1;
            }
            None if self.pieces > 0 => {
                tally.completion += self.pieces;
                tally.pieces += self.pieces;
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Where a request is dropped on its way.
    #[derive(Debug, Clone, Copy)]
    enum Path {
        /// The client goes, or the engine breaks off, before anything of an answer came.
        BeforeTheAnswer,
        NotSent,
        /// After so many pieces.
        Amid(u64),
        /// Whole, with or without its tokens.
        Whole(u64, bool),
    }

    fn paths() -> impl Strategy<Value = Path> {
        prop_oneof![
            Just(Path::BeforeTheAnswer),
            Just(Path::NotSent),
            (0_u64..5).prop_map(Path::Amid),
            (1_u64..5, any::<bool>()).prop_map(|(pieces, told)| Path::Whole(pieces, told)),
        ]
    }

    fn goes(started: &mut Started, path: Path) {
        match path {
            Path::BeforeTheAnswer => {}
            Path::NotSent => started.not_sent(),
            Path::Amid(pieces) => (0..pieces).for_each(|_| started.text()),
            Path::Whole(pieces, told) => {
                (0..pieces).for_each(|_| started.text());
                if told {
                    started.told(Tokens {
                        prompt: 3,
                        completion: pieces,
                    });
                }
                started.good();
            }
        }
    }

    proptest! {
        #[test]
        fn none_is_open_after_all_have_ended_by_any_path(
            all in prop::collection::vec((0_u32..3, paths(), any::<bool>()), 0..40),
        ) {
            let traffic = Traffic::default();
            let mut held = Vec::new();
            for (at, (lease, path, stays)) in (1_u64..).zip(&all) {
                let mut started = traffic.begins(*lease, Nanoseconds(at));
                goes(&mut started, *path);
                if *stays {
                    held.push((*lease, started));
                } else {
                    drop(started);
                }
                for lease in 0..3_u32 {
                    let open = held.iter().filter(|(of, _)| *of == lease).count() as u64;
                    prop_assert_eq!(traffic.of(lease).unwrap_or_default().open, open);
                }
            }
            drop(held);
            for lease in 0..3_u32 {
                let own = || all.iter().filter(|(of, ..)| *of == lease).map(|(_, path, _)| *path);
                let tally = traffic.of(lease).unwrap_or_default();
                let good = own().filter(|path| matches!(path, Path::Whole(..))).count() as u64;
                let sent = own().filter(|path| !matches!(path, Path::NotSent)).count() as u64;
                let pieces: u64 = own().map(|path| match path {
                    Path::Amid(pieces) | Path::Whole(pieces, _) => pieces,
                    _ => 0,
                }).sum();
                prop_assert_eq!((tally.open, tally.good, tally.good + tally.bad), (0, good, sent));
                prop_assert_eq!(tally.completion, pieces);
            }
        }
    }
}
