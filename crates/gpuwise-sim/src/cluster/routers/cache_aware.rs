//! The replica that has probably cached the prompt, by the prompts sent before.

use super::{
    Candidate, Measure, RoutingRequest, any,
    least_loaded::least,
    memory::{Memory, PrefixMatch},
};
use gpuwise_units::RandomStream;

/// SGLang's rule. Its tree holds characters; here a segment is found whole or not at all.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CacheAware {
    /// The share of the prompt that must be known for it to decide.
    pub threshold: f64,
    /// Loads are uneven if the most requests exceed the fewest by more than so many,
    pub absolute: u32,
    /// and are more than so many times them.
    pub relative: f64,
    /// Nodes of the tree that are kept.
    pub nodes: usize,
    /// Nanoseconds between the times at which the others are forgotten.
    pub every: u64,
}

impl Default for CacheAware {
    fn default() -> Self {
        Self {
            threshold: 0.5,
            absolute: 32,
            relative: 1.1,
            nodes: 10_000,
            every: 30_000_000_000,
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Rule {
    settings: CacheAware,
    memory: Memory,
    forgot: u64,
}

impl Rule {
    pub(super) fn new(settings: CacheAware) -> Self {
        Self {
            settings,
            memory: Memory::default(),
            forgot: 0,
        }
    }

    pub(super) fn pick(
        &mut self,
        ask: &RoutingRequest<'_>,
        candidates: &[Candidate],
    ) -> Option<usize> {
        if ask.time - self.forgot >= self.settings.every {
            self.forgot = ask.time;
            self.memory.shrink(self.settings.nodes);
        }
        let place = if self.is_uneven(candidates) {
            least(candidates, Measure::Requests)?
        } else {
            let known = self.memory.longest(ask.request, |replica, sent| {
                (ask.has)(replica, sent) >= sent
            });
            let enough = self.settings.threshold * f64::from(ask.request.input);
            let cached = (known.tokens as f64 > enough)
                .then(|| place_of(*known.holders.first()?, candidates))
                .flatten();
            cached.or_else(|| least(candidates, Measure::Requests))?
        };
        self.memory.insert(ask.request, candidates[place].replica);
        Some(place)
    }

    fn is_uneven(&self, candidates: &[Candidate]) -> bool {
        let loads = || {
            candidates
                .iter()
                .filter(|one| one.open)
                .map(|one| one.requests)
        };
        let (Some(most), Some(fewest)) = (loads().max(), loads().min()) else {
            return false;
        };
        most - fewest > self.settings.absolute
            && f64::from(most) > self.settings.relative * f64::from(fewest)
    }

    pub(super) fn lost(&mut self, replica: u16) {
        self.memory.lost(replica);
    }
}

/// The place of an open candidate of this number.
fn place_of(replica: u16, candidates: &[Candidate]) -> Option<usize> {
    let place = candidates
        .binary_search_by_key(&replica, |candidate| candidate.replica)
        .ok()?;
    candidates[place].open.then_some(place)
}

/// Any of those that were sent most of the prompt, whatever their load.
#[derive(Debug, Clone)]
pub(super) struct Blind {
    memory: Memory,
    chance: RandomStream,
}

impl Blind {
    pub(super) fn new(chance: RandomStream) -> Self {
        Self {
            memory: Memory::default(),
            chance,
        }
    }

    pub(super) fn pick(
        &mut self,
        ask: &RoutingRequest<'_>,
        candidates: &[Candidate],
    ) -> Option<usize> {
        let open = |replica: u16, sent: u64| {
            place_of(replica, candidates).is_some() && (ask.has)(replica, sent) >= sent
        };
        let PrefixMatch { holders, .. } = self.memory.longest(ask.request, open);
        let place = any(candidates, &mut self.chance, |_, one| {
            one.open && (holders.is_empty() || holders.contains(&one.replica))
        })?;
        self.memory.insert(ask.request, candidates[place].replica);
        Some(place)
    }

    pub(super) fn lost(&mut self, replica: u16) {
        self.memory.lost(replica);
    }
}

#[cfg(test)]
mod tests {
    use super::{super::as_sent, *};
    use gpuwise_domain::request::{Request, Segment};

    fn request(content: u64, shared: u32, own: u32) -> Request {
        Request {
            input: shared + own,
            prefix: Some(
                [Segment {
                    content,
                    tokens: shared,
                }]
                .into(),
            ),
            ..Request::default()
        }
    }

    fn candidates(loads: &[u32]) -> Vec<Candidate> {
        let candidate = |(replica, requests): (u16, &u32)| Candidate {
            replica,
            requests: *requests,
            open: true,
            ..Candidate::default()
        };
        (0..).zip(loads).map(candidate).collect()
    }

    fn ask(request: &Request) -> RoutingRequest<'_> {
        RoutingRequest {
            request,
            time: 0,
            hits: &|_| 0,
            has: &as_sent,
        }
    }

    #[test]
    fn a_known_prompt_goes_where_it_was_unless_loads_are_uneven() {
        let mut rule = Rule::new(CacheAware::default());
        assert_eq!(
            rule.pick(&ask(&request(7, 600, 400)), &candidates(&[5, 4, 6])),
            Some(1)
        );
        for (content, shared, own, loads, expected, why) in [
            (
                7,
                600,
                400,
                [0, 30, 0],
                1,
                "known, and loads are even enough",
            ),
            (
                7,
                600,
                600,
                [0, 30, 2],
                0,
                "half of it is not over half of it",
            ),
            (9, 600, 400, [3, 9, 2], 2, "unknown: the least loaded"),
            (7, 600, 400, [1, 40, 2], 0, "39 more is uneven"),
            (
                7,
                600,
                400,
                [400, 433, 401],
                1,
                "33 more, but not 1.1 times as many",
            ),
        ] {
            let mut rule = rule.clone();
            let found = rule.pick(&ask(&request(content, shared, own)), &candidates(&loads));
            assert_eq!(found, Some(expected), "{why}");
        }
        rule.lost(1);
        assert_eq!(
            rule.pick(&ask(&request(7, 600, 400)), &candidates(&[1, 5, 2])),
            Some(0)
        );
    }

    #[test]
    fn the_tree_is_cut_every_half_minute() {
        let settings = CacheAware {
            nodes: 2,
            ..CacheAware::default()
        };
        let mut rule = Rule::new(settings);
        for content in 0..5 {
            let request = request(content, 100, 0);
            let ask = RoutingRequest {
                time: content,
                ..ask(&request)
            };
            assert!(rule.pick(&ask, &candidates(&[0, 0])).is_some());
        }
        assert_eq!(rule.memory.len(), 5);
        let request = request(0, 100, 0);
        let ask = RoutingRequest {
            time: settings.every,
            ..ask(&request)
        };
        assert!(rule.pick(&ask, &candidates(&[0, 0])).is_some());
        assert_eq!(rule.memory.len(), 3);
    }

    #[test]
    fn the_blind_rule_follows_the_prefix_into_any_load() {
        let mut rule = Blind::new(RandomStream::new(1, "blind", 0));
        let first = rule.pick(&ask(&request(7, 100, 900)), &candidates(&[0, 0, 0]));
        for _ in 0..20 {
            let mut loads = [0; 3];
            loads[first.unwrap_or(0)] = 1_000;
            assert_eq!(
                rule.pick(&ask(&request(7, 100, 900)), &candidates(&loads)),
                first
            );
        }
        let elsewhere: Vec<_> = (0..50)
            .filter_map(|content| {
                rule.pick(&ask(&request(content + 100, 100, 0)), &candidates(&[0; 3]))
            })
            .collect();
        assert!((0..3).all(|place| elsewhere.contains(&place)));
    }
}
