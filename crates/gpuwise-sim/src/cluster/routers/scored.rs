//! The highest sum of weighted scores, each from 0 to 1: llm-d's way.

use super::{Candidate, Needs, RoutingRequest, any, memory::Memory};
use gpuwise_units::RandomStream;
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use std::collections::BTreeMap;

/// Prompt tokens at which the token load scores nothing.
const FULL_TOKENS: f64 = 4.0 * 1024.0 * 1024.0;
/// Nodes of remembered prompts, beyond which the least recently used are forgotten.
const NODES: usize = 32_768;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weighted {
    pub scorer: Scorer,
    pub weight: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scorer {
    /// The share of the prompt that it has cached, as it tells.
    Prefix,
    /// The share of the prompt that was sent to it before: a guess.
    GuessedPrefix,
    /// How few wait, between the most and the fewest.
    Queue,
    /// How few run, between the most and the fewest.
    Running,
    /// The share of its KV cache that is free.
    KvFree,
    /// How few prompt tokens are under way, of four million.
    TokenLoad,
    /// How few requests are under way, of the most.
    Active,
    /// Whether it served the session last.
    Session,
    /// 1 where the adapter is in use, 0.8 where there is room for one more, else 0.
    Adapter,
    /// For a prompt that nobody has: how long ago it got such a one.
    ColdTurn,
}

#[derive(Debug, Clone)]
pub(super) struct Rule {
    scorers: Vec<Weighted>,
    chance: RandomStream,
    memory: Memory,
    sessions: IndexMap<u32, u16, FxBuildHasher>,
    /// Of each replica its adapters in use, with how many requests.
    adapters: BTreeMap<u16, BTreeMap<u16, u32>>,
    most_adapters: Option<u32>,
    /// Of each replica, which of all cold prompts it got last.
    cold: BTreeMap<u16, u64>,
    colds: u64,
    sums: Vec<f64>,
}

impl Rule {
    pub(super) fn new(scorers: Vec<Weighted>, chance: RandomStream, adapters: Option<u32>) -> Self {
        Self {
            scorers,
            chance,
            memory: Memory::default(),
            sessions: IndexMap::default(),
            adapters: BTreeMap::new(),
            most_adapters: adapters,
            cold: BTreeMap::new(),
            colds: 0,
            sums: Vec::new(),
        }
    }

    fn uses(&self, scorer: Scorer) -> bool {
        self.scorers
            .iter()
            .any(|weighted| weighted.scorer == scorer)
    }

    pub(super) fn needs(&self) -> Needs {
        Needs {
            load: [Scorer::Queue, Scorer::Running, Scorer::KvFree]
                .into_iter()
                .any(|scorer| self.uses(scorer)),
            adapters: self.uses(Scorer::Adapter),
        }
    }

    pub(super) fn pick(
        &mut self,
        ask: &RoutingRequest<'_>,
        candidates: &[Candidate],
    ) -> Option<usize> {
        let mut sums = std::mem::take(&mut self.sums);
        sums.clear();
        sums.resize(candidates.len(), 0.0);
        let cold = self.uses(Scorer::ColdTurn) && self.is_cold(ask, candidates);
        for weighted in &self.scorers {
            for (sum, candidate) in sums.iter_mut().zip(candidates) {
                if candidate.open {
                    *sum += weighted.weight
                        * self.score(weighted.scorer, ask, candidate, candidates, cold);
                }
            }
        }
        let best = candidates
            .iter()
            .zip(&sums)
            .filter(|(candidate, _)| candidate.open)
            .map(|(_, sum)| *sum)
            .max_by(f64::total_cmp);
        let place = best.and_then(|best| {
            any(candidates, &mut self.chance, |place, one| {
                one.open && sums[place] >= best
            })
        });
        self.sums = sums;
        let place = place?;
        self.remember(ask, candidates[place].replica, cold);
        Some(place)
    }

    fn score(
        &self,
        scorer: Scorer,
        ask: &RoutingRequest<'_>,
        one: &Candidate,
        all: &[Candidate],
        cold: bool,
    ) -> f64 {
        let input = f64::from(ask.request.input.max(1));
        match scorer {
            Scorer::Prefix => f64::from((ask.hits)(one.replica)) / input,
            Scorer::GuessedPrefix => {
                let sent = self.memory.sent_to(ask.request, one.replica);
                (ask.has)(one.replica, sent) as f64 / input
            }
            Scorer::Queue => between(one, all, |one| one.waiting),
            Scorer::Running => between(one, all, |one| one.running),
            Scorer::KvFree => 1.0 - one.kv_used as f64 / one.kv_blocks.max(1) as f64,
            Scorer::TokenLoad => (1.0 - one.tokens as f64 / FULL_TOKENS).max(0.0),
            Scorer::Active => {
                let most = all
                    .iter()
                    .filter(|other| other.open)
                    .map(|other| other.requests)
                    .max();
                match most {
                    Some(most) if most > 0 => 1.0 - f64::from(one.requests) / f64::from(most),
                    _ => 1.0,
                }
            }
            Scorer::Session => {
                let last = ask
                    .request
                    .session
                    .and_then(|session| self.sessions.get(&session));
                f64::from(u8::from(last == Some(&one.replica)))
            }
            Scorer::Adapter => self.adapter_score(one.replica, ask.request.adapter),
            Scorer::ColdTurn if cold => self.cold_score(one.replica, all),
            Scorer::ColdTurn => 0.0,
        }
    }

    fn adapter_score(&self, replica: u16, adapter: u16) -> f64 {
        let Some(used) = self.adapters.get(&replica) else {
            return 0.8;
        };
        if used.contains_key(&adapter) {
            1.0
        } else if self
            .most_adapters
            .is_none_or(|most| (used.len() as u64) < u64::from(most))
        {
            0.8
        } else {
            0.0
        }
    }

    /// Those that got no cold prompt yet score highest, the last that did lowest.
    fn cold_score(&self, replica: u16, all: &[Candidate]) -> f64 {
        let turn = |replica: u16| self.cold.get(&replica).copied().unwrap_or(0);
        let own = turn(replica);
        let later = all.iter().filter(|other| turn(other.replica) > own).count();
        let others = all.len().saturating_sub(1).max(1);
        if own == 0 {
            1.0
        } else {
            later as f64 / others as f64
        }
    }

    fn is_cold(&self, ask: &RoutingRequest<'_>, candidates: &[Candidate]) -> bool {
        let has = |replica: u16| {
            if self.uses(Scorer::GuessedPrefix) {
                (ask.has)(replica, self.memory.sent_to(ask.request, replica)) > 0
            } else {
                (ask.hits)(replica) > 0
            }
        };
        !candidates.iter().any(|candidate| has(candidate.replica))
    }

    fn remember(&mut self, ask: &RoutingRequest<'_>, replica: u16, cold: bool) {
        if self.uses(Scorer::GuessedPrefix) {
            self.memory.insert(ask.request, replica);
            // Twice as many before they are cut keeps the cost of each prompt constant.
            if self.memory.len() > 2 * NODES {
                self.memory.shrink(NODES);
            }
        }
        if let Some(session) = ask.request.session.filter(|_| self.uses(Scorer::Session)) {
            self.sessions.insert(session, replica);
        }
        if self.uses(Scorer::Adapter) {
            *self
                .adapters
                .entry(replica)
                .or_default()
                .entry(ask.request.adapter)
                .or_default() += 1;
        }
        if cold {
            self.colds += 1;
            self.cold.insert(replica, self.colds);
        }
    }

    pub(super) fn ended(&mut self, replica: u16, adapter: u16) {
        let Some(used) = self.adapters.get_mut(&replica) else {
            return;
        };
        if let Some(count) = used.get_mut(&adapter) {
            *count -= 1;
            if *count == 0 {
                used.remove(&adapter);
            }
        }
    }

    pub(super) fn lost(&mut self, replica: u16) {
        self.memory.lost(replica);
        self.cold.remove(&replica);
    }
}

/// 1 for the fewest of the open ones, 0 for the most, and 1 where all are equal.
fn between(one: &Candidate, all: &[Candidate], count: impl Fn(&Candidate) -> u32) -> f64 {
    let counts = || all.iter().filter(|other| other.open).map(&count);
    match (counts().max(), counts().min()) {
        (Some(most), Some(fewest)) if most > fewest => {
            f64::from(most.saturating_sub(count(one))) / f64::from(most - fewest)
        }
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::{super::as_sent, *};
    use gpuwise_domain::request::{Request, Segment};

    fn rule(scorers: &[(Scorer, f64)]) -> Rule {
        let scorers = scorers.iter().map(|(scorer, weight)| Weighted {
            scorer: *scorer,
            weight: *weight,
        });
        Rule::new(
            scorers.collect(),
            RandomStream::new(1, "scored", 0),
            Some(2),
        )
    }

    fn candidates() -> Vec<Candidate> {
        let candidate = |replica, waiting, running, kv_used, tokens, requests| Candidate {
            replica,
            open: true,
            waiting,
            running,
            kv_used,
            kv_blocks: 100,
            tokens,
            requests,
            ..Candidate::default()
        };
        vec![
            candidate(0, 8, 1, 50, 4 << 20, 9),
            candidate(1, 2, 5, 90, 1 << 20, 7),
            candidate(2, 4, 3, 10, 2 << 20, 0),
        ]
    }

    #[test]
    fn each_scorer_by_its_rule() {
        let request = Request {
            input: 400,
            ..Request::default()
        };
        let hits = [100, 400, 0];
        let ask = RoutingRequest {
            request: &request,
            time: 0,
            hits: &|replica| hits[usize::from(replica)],
            has: &as_sent,
        };
        let all = candidates();
        for (scorer, expected) in [
            (Scorer::Prefix, [0.25, 1.0, 0.0]),
            (Scorer::GuessedPrefix, [0.0, 0.0, 0.0]),
            (Scorer::Queue, [0.0, 1.0, 2.0 / 3.0]),
            (Scorer::Running, [1.0, 0.0, 0.5]),
            (Scorer::KvFree, [0.5, 0.1, 0.9]),
            (Scorer::TokenLoad, [0.0, 0.75, 0.5]),
            (Scorer::Active, [0.0, 2.0 / 9.0, 1.0]),
            (Scorer::Session, [0.0, 0.0, 0.0]),
            (Scorer::Adapter, [0.8, 0.8, 0.8]),
        ] {
            let rule = rule(&[(scorer, 1.0)]);
            for (one, expected) in all.iter().zip(expected) {
                let found = rule.score(scorer, &ask, one, &all, false);
                assert!(
                    (found - expected).abs() < 1e-12,
                    "{scorer:?} {}: {found}",
                    one.replica
                );
            }
        }
    }

    #[test]
    fn weights_decide() {
        let request = Request {
            input: 400,
            ..Request::default()
        };
        let ask = RoutingRequest {
            request: &request,
            time: 0,
            hits: &|replica| [0, 400, 0][usize::from(replica)],
            has: &as_sent,
        };
        for (weights, expected) in [
            ([(Scorer::Prefix, 3.0), (Scorer::KvFree, 2.0)], 1),
            ([(Scorer::Prefix, 1.0), (Scorer::KvFree, 2.0)], 2),
        ] {
            assert_eq!(rule(&weights).pick(&ask, &candidates()), Some(expected));
        }
    }

    #[test]
    fn sessions_adapters_and_prompts_are_remembered() {
        let request = Request {
            input: 100,
            session: Some(4),
            adapter: 3,
            prefix: Some(
                [Segment {
                    content: 1,
                    tokens: 100,
                }]
                .into(),
            ),
            ..Request::default()
        };
        let ask = RoutingRequest {
            request: &request,
            time: 0,
            hits: &|_| 0,
            has: &as_sent,
        };
        let all = candidates();
        for scorer in [Scorer::Session, Scorer::Adapter, Scorer::GuessedPrefix] {
            let mut rule = rule(&[(scorer, 1.0)]);
            let first = rule.pick(&ask, &all);
            for _ in 0..10 {
                assert_eq!(rule.pick(&ask, &all), first, "{scorer:?}");
            }
        }
        let mut rule = rule(&[(Scorer::Adapter, 1.0)]);
        rule.remember(&ask, 0, false);
        for adapter in [3, 5] {
            let request = Request {
                adapter,
                ..request.clone()
            };
            rule.remember(
                &RoutingRequest {
                    request: &request,
                    ..ask
                },
                1,
                false,
            );
        }
        assert!(
            (rule.adapter_score(0, 7) - 0.8).abs() < 1e-12,
            "room for one more"
        );
        assert!(rule.adapter_score(1, 7) < 1e-12, "full");
        rule.ended(1, 5);
        assert!((rule.adapter_score(1, 7) - 0.8).abs() < 1e-12, "room again");
    }

    #[test]
    fn cold_prompts_take_turns() {
        let request = Request {
            input: 100,
            ..Request::default()
        };
        let ask = RoutingRequest {
            request: &request,
            time: 0,
            hits: &|_| 0,
            has: &as_sent,
        };
        let mut rule = rule(&[(Scorer::ColdTurn, 1.0)]);
        let mut picks: Vec<_> = (0..3)
            .filter_map(|_| rule.pick(&ask, &candidates()))
            .collect();
        let again: Vec<_> = (0..3)
            .filter_map(|_| rule.pick(&ask, &candidates()))
            .collect();
        assert_eq!(picks, again);
        picks.sort_unstable();
        assert_eq!(picks, [0, 1, 2]);
    }
}
