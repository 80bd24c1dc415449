//! The cheapest replica by what it has cached, has yet to compute, and holds: Dynamo's rule.

use super::{Candidate, RoutingRequest, any};
use gpuwise_units::RandomStream;

/// The parameters of Dynamo's cost. Caches in host memory or on disk are not modelled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KvAware {
    /// Weight of prompt blocks to compute.
    pub scale: f64,
    /// Blocks saved by each block found; 0 in a pool that only decodes.
    pub credit: f64,
    /// 0: the cheapest. Above: chance, by a softmax of costs over their range.
    pub temperature: f64,
    /// Tokens of a block.
    pub block: u32,
}

impl Default for KvAware {
    fn default() -> Self {
        Self {
            scale: 1.0,
            credit: 1.0,
            temperature: 0.0,
            block: 16,
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Rule {
    settings: KvAware,
    chance: RandomStream,
    costs: Vec<f64>,
}

impl Rule {
    pub(super) fn new(settings: KvAware, chance: RandomStream) -> Self {
        Self {
            settings,
            chance,
            costs: Vec::new(),
        }
    }

    pub(super) fn pick(
        &mut self,
        ask: &RoutingRequest<'_>,
        candidates: &[Candidate],
    ) -> Option<usize> {
        let settings = self.settings;
        self.costs.clear();
        self.costs.extend(
            candidates
                .iter()
                .map(|candidate| cost(settings, ask, candidate)),
        );
        let costs = &self.costs;
        let open = || {
            candidates
                .iter()
                .zip(costs)
                .filter(|(one, _)| one.open)
                .map(|(_, cost)| *cost)
        };
        let cheapest = open().min_by(f64::total_cmp)?;
        let dearest = open().max_by(f64::total_cmp)?;
        if settings.temperature <= 0.0 || cheapest >= dearest {
            return any(candidates, &mut self.chance, |place, one| {
                one.open && costs[place] <= cheapest
            });
        }
        let weight =
            |cost: f64| libm::exp((cheapest - cost) / (dearest - cheapest) / settings.temperature);
        let total: f64 = open().map(weight).sum();
        let mut left = self.chance.uniform() * total;
        let mut last = None;
        for (place, (candidate, cost)) in candidates.iter().zip(costs).enumerate() {
            if candidate.open {
                last = Some(place);
                left -= weight(*cost);
                if left < 0.0 {
                    break;
                }
            }
        }
        last
    }
}

/// Blocks to compute, less what is found, and blocks held.
fn cost(settings: KvAware, ask: &RoutingRequest<'_>, candidate: &Candidate) -> f64 {
    let block = u64::from(settings.block.max(1));
    let queued = candidate.queued_tokens + u64::from(ask.request.input);
    let prefill = queued.div_ceil(block) as f64;
    let found = if settings.credit > 0.0 && candidate.open {
        u64::from((ask.hits)(candidate.replica)) / block
    } else {
        0
    };
    settings.scale * (prefill - settings.credit * found as f64).max(0.0) + candidate.kv_used as f64
}

#[cfg(test)]
mod tests {
    use super::{super::as_sent, *};
    use gpuwise_domain::request::Request;

    fn candidate(replica: u16, queued_tokens: u64, kv_used: u64) -> Candidate {
        Candidate {
            replica,
            open: true,
            queued_tokens,
            kv_used,
            kv_blocks: 1_000,
            ..Candidate::default()
        }
    }

    #[test]
    fn the_cheapest_by_blocks_to_compute_and_blocks_held() {
        let request = Request {
            input: 1_600,
            ..Request::default()
        };
        let candidates = [
            candidate(0, 0, 50),
            candidate(1, 320, 20),
            candidate(2, 0, 120),
        ];
        // Costs without hits: 100 + 50, 120 + 20, 100 + 120.
        for (hits, credit, scale, expected) in [
            ([0, 0, 0], 1.0, 1.0, 1),
            ([320, 0, 0], 1.0, 1.0, 0),
            ([0, 0, 1_600], 1.0, 1.0, 2),
            ([320, 0, 1_600], 0.0, 1.0, 1),
            ([0, 0, 0], 1.0, 2.0, 0),
        ] {
            let settings = KvAware {
                scale,
                credit,
                ..KvAware::default()
            };
            let mut rule = Rule::new(settings, RandomStream::new(1, "kv", 0));
            let ask = RoutingRequest {
                request: &request,
                time: 0,
                hits: &|replica| hits[usize::from(replica)],
                has: &as_sent,
            };
            assert_eq!(
                rule.pick(&ask, &candidates),
                Some(expected),
                "{hits:?} {credit} {scale}"
            );
        }
    }

    #[test]
    fn chance_decides_between_equals_and_by_temperature() {
        let request = Request {
            input: 160,
            ..Request::default()
        };
        let ask = RoutingRequest {
            request: &request,
            time: 0,
            hits: &|_| 0,
            has: &as_sent,
        };
        let count = |temperature: f64, used: [u64; 3]| {
            let settings = KvAware {
                temperature,
                ..KvAware::default()
            };
            let mut rule = Rule::new(settings, RandomStream::new(1, "kv", 0));
            let candidates = [0, 1, 2].map(|place| candidate(place as u16, 0, used[place]));
            let mut counts = [0; 3];
            for _ in 0..6_000 {
                counts[rule.pick(&ask, &candidates).unwrap_or(0)] += 1;
            }
            counts
        };
        let equal = count(0.0, [10, 10, 30]);
        assert!(
            equal[2] == 0 && (2_800..3_200).contains(&equal[0]),
            "{equal:?}"
        );
        // Over the range costs are 0, 1/2 and 1: shares of 1, e^-1/2 and e^-1 of their sum.
        let soft = count(1.0, [10, 20, 30]);
        for (count, expected) in soft.iter().zip([3_039.0, 1_843.0, 1_118.0]) {
            assert!((f64::from(*count) - expected).abs() < 150.0, "{soft:?}");
        }
    }
}
