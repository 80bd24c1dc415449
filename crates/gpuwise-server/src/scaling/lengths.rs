//! How long requests of a service are: the tokens of those that were answered lately.
//!
//! Tokens of an answer are known once it has ended. So what comes is counted in requests as it comes, and each is taken
//! to be as long as those that ended in the last minute: demand in tokens does not come late by an answer's length, and
//! does not stop at what replicas can decode.

use crate::desk::Answered;
use gpuwise_scale::controller::TokensSeen;
use gpuwise_units::Nanoseconds;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Requests are looked back on for so long, and further until there are so many.
const WINDOW: Nanoseconds = Nanoseconds(60_000_000_000);
const ENOUGH: u64 = 20;

/// What was answered of one replica.
#[derive(Debug, Clone, Default)]
pub(super) struct Counted {
    pub(super) lease: u32,
    /// By the gateway, since this daemon began: those whose engine said their tokens.
    pub(super) gateway: Answered,
    /// By its engines, since they started, by the addresses of their pages.
    pub(super) engines: Vec<(String, Answered)>,
}

/// Of one service.
#[derive(Debug, Default)]
pub(super) struct Lengths {
    gateway: BTreeMap<u32, Answered>,
    engines: BTreeMap<(u32, String), Answered>,
    /// What was answered between two looks, the newest last.
    recent: VecDeque<(Nanoseconds, Answered)>,
}

impl Lengths {
    /// Notes what was answered until now. Engines are believed where nothing went through the gateway.
    pub(super) fn note(&mut self, now: Nanoseconds, replicas: Vec<Counted>) {
        let there: BTreeSet<u32> = replicas.iter().map(|one| one.lease).collect();
        let mut sum = Answered::default();
        for one in replicas {
            let before = self.gateway.insert(one.lease, one.gateway);
            let passed = one.gateway.requests > 0;
            if passed {
                add(&mut sum, since(one.gateway, before.unwrap_or_default()));
            }
            for (address, said) in one.engines {
                let before = self.engines.insert((one.lease, address), said);
                // What an engine had answered before anybody looked is not of lately.
                if let Some(before) = before.filter(|_| !passed) {
                    add(&mut sum, since(said, before));
                }
            }
        }
        self.gateway.retain(|lease, _| there.contains(lease));
        self.engines.retain(|(lease, _), _| there.contains(lease));
        if sum.requests > 0 {
            self.recent.push_back((now, sum));
            self.forget(now);
        }
    }

    /// What is older than the window goes, as long as enough is left.
    fn forget(&mut self, now: Nanoseconds) {
        let mut left: u64 = self.recent.iter().map(|(_, one)| one.requests).sum();
        while let Some((at, one)) = self.recent.front() {
            left = left.saturating_sub(one.requests);
            if at.0.saturating_add(WINDOW.0) >= now.0 || left < ENOUGH {
                return;
            }
            self.recent.pop_front();
        }
    }

    /// Tokens of so many requests that came; `None`: none was answered whose tokens are known.
    pub(super) fn of(&self, arrived: f64) -> Option<TokensSeen> {
        let mut sum = Answered::default();
        for (_, one) in &self.recent {
            add(&mut sum, *one);
        }
        let each = |tokens: u64| arrived * tokens as f64 / sum.requests as f64;
        (sum.requests > 0).then(|| TokensSeen {
            prompts: each(sum.prompts),
            answers: each(sum.answers),
        })
    }
}

fn add(sum: &mut Answered, one: Answered) {
    sum.requests += one.requests;
    sum.prompts += one.prompts;
    sum.answers += one.answers;
}

/// What was counted since; counters that jumped back began anew.
fn since(now: Answered, before: Answered) -> Answered {
    let anew = now.requests < before.requests
        || now.prompts < before.prompts
        || now.answers < before.answers;
    let before = if anew { Answered::default() } else { before };
    Answered {
        requests: now.requests - before.requests,
        prompts: now.prompts - before.prompts,
        answers: now.answers - before.answers,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn answered(requests: u64, prompts: u64, answers: u64) -> Answered {
        Answered {
            requests,
            prompts,
            answers,
        }
    }

    fn noted(lengths: &mut Lengths, second: u64, gateway: Answered, engine: Option<Answered>) {
        let engines = engine.map(|said| ("http://e/metrics".into(), said));
        let one = Counted {
            lease: 1,
            gateway,
            engines: engines.into_iter().collect(),
        };
        lengths.note(Nanoseconds(second * 1_000_000_000), vec![one]);
    }

    fn answers(lengths: &Lengths, arrived: f64) -> Option<f64> {
        lengths.of(arrived).map(|one| one.answers)
    }

    #[test]
    fn requests_are_as_long_as_those_of_the_last_minute() {
        let mut lengths = Lengths::default();
        assert_eq!(
            lengths.of(10.0),
            None,
            "nothing is known, which is not none"
        );
        noted(&mut lengths, 15, answered(30, 3000, 6000), None);
        let said = lengths.of(10.0).expect("known");
        assert_eq!((said.prompts, said.answers), (1000.0, 2000.0));
        // Answers become twice as long: after a minute nothing else is known of.
        for at in 2..=7 {
            let many = 30 * (at - 1);
            let counted = answered(30 + many, 3000 + many * 100, 6000 + many * 400);
            noted(&mut lengths, 15 * at, counted, None);
        }
        assert_eq!(answers(&lengths, 10.0), Some(4000.0));
        // Nothing ends for an hour: what was known last is known.
        noted(&mut lengths, 3700, answered(210, 21_000, 78_000), None);
        assert_eq!(answers(&lengths, 10.0), Some(4000.0));
    }

    #[test]
    fn engines_are_believed_where_nothing_goes_through_the_gateway_and_may_start_anew() {
        let mut lengths = Lengths::default();
        let none = Answered::default();
        noted(
            &mut lengths,
            15,
            none,
            Some(answered(1000, 9_000_000, 9_000_000)),
        );
        assert_eq!(lengths.of(1.0), None, "that was before anybody looked");
        noted(
            &mut lengths,
            30,
            none,
            Some(answered(1010, 9_000_500, 9_002_000)),
        );
        let said = lengths.of(1.0).expect("known");
        assert_eq!((said.prompts, said.answers), (50.0, 200.0));
        noted(&mut lengths, 45, none, Some(answered(10, 500, 2000)));
        assert_eq!(answers(&lengths, 1.0), Some(200.0));
    }
}
