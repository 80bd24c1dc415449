//! Who gets GPUs of a pool of which more are asked for than there are.
//!
//! Guarantees first; then what services need to keep their SLO, those whose error budget is used up before the
//! others; then what they would like to have beside it, by the money that is left. One replica at a time, to the one
//! who has the smallest part of what it needs, so that nobody waits for another to be served whole.

use serde::{Deserialize, Serialize};

/// What a service asks of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ask {
    /// GPUs that are its own where it asks for them.
    pub guaranteed: u32,
    /// GPUs without which requests are late, and all that it asks for.
    pub needs: u32,
    pub wants: u32,
    /// GPUs of a replica.
    pub each: u32,
    /// The share of its error budget that is used: 1, all of it.
    pub at_risk: f64,
    /// Money that is left; infinite where nobody counts it.
    pub budget: f64,
    /// GPUs that it holds now.
    pub holds: u32,
}

/// The rule by which a service got the last of what it got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantedBy {
    /// It got none.
    #[default]
    Nothing,
    /// Its guarantee.
    Guarantee,
    /// It needs them for its SLO, of which the error budget is used up.
    AtRisk,
    /// It needs them for its SLO.
    Need,
    /// It has money for more than it needs.
    Budget,
}

/// What a service gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Grant {
    pub gpus: u32,
    pub by: GrantedBy,
    /// GPUs that it asked for and did not get.
    pub short: u32,
}

/// A level at which GPUs are given out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Guarantee,
    Need,
    Want,
}

impl Ask {
    /// GPUs that it may have at a level at most, in whole replicas.
    fn most(&self, level: Level) -> u32 {
        let most = match level {
            Level::Guarantee => self.guaranteed.min(self.wants),
            Level::Need => self.needs.min(self.wants),
            Level::Want if self.budget > 0.0 => self.wants,
            Level::Want => 0,
        };
        most - most % self.each.max(1)
    }

    fn by(&self, level: Level) -> GrantedBy {
        match level {
            Level::Guarantee => GrantedBy::Guarantee,
            Level::Need if self.is_at_risk() => GrantedBy::AtRisk,
            Level::Need => GrantedBy::Need,
            Level::Want => GrantedBy::Budget,
        }
    }

    fn is_at_risk(&self) -> bool {
        self.at_risk >= 1.0
    }

    /// Who comes first has the greatest: compared from the first on.
    fn claim(&self, level: Level, has: u32) -> [f64; 4] {
        let unmet = 1.0 - f64::from(has) / f64::from(self.most(level).max(1));
        let risk = 1.0 + self.at_risk.max(0.0);
        let keeps = f64::from(u8::from(self.holds > has));
        match level {
            Level::Guarantee => [unmet, risk, self.budget, keeps],
            Level::Need => [
                f64::from(u8::from(self.is_at_risk())),
                risk * unmet,
                self.budget,
                keeps,
            ],
            Level::Want => [self.budget, unmet, risk, keeps],
        }
    }
}

/// GPUs that some of those who ask get together at most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    pub gpus: u32,
    /// Their places among those who ask.
    pub asks: Vec<usize>,
}

/// Shares GPUs out of which each may have any; the order of services decides only where nothing else does.
pub fn share(gpus: u32, asks: &[Ask]) -> Vec<Grant> {
    let asked = (0..asks.len()).collect();
    share_within(&[Bound { gpus, asks: asked }], asks)
}

/// The same where not each may have any of them: within all of the bounds. One of whom no bound speaks gets nothing.
pub fn share_within(bounds: &[Bound], asks: &[Ask]) -> Vec<Grant> {
    let mut left: Vec<u32> = bounds.iter().map(|bound| bound.gpus).collect();
    let mut grants = vec![Grant::default(); asks.len()];
    for level in [Level::Guarantee, Level::Need, Level::Want] {
        loop {
            let fits = |at: usize| room(bounds, &left, at);
            let Some(at) = next(level, fits, asks, &grants) else {
                break;
            };
            let (Some(ask), Some(grant)) = (asks.get(at), grants.get_mut(at)) else {
                break;
            };
            for (bound, left) in bounds.iter().zip(&mut left) {
                if bound.asks.contains(&at) {
                    *left = left.saturating_sub(ask.each.max(1));
                }
            }
            grant.gpus = grant.gpus.saturating_add(ask.each.max(1));
            grant.by = ask.by(level);
        }
    }
    for (grant, ask) in grants.iter_mut().zip(asks) {
        grant.short = ask.wants.saturating_sub(grant.gpus);
    }
    grants
}

/// GPUs that one of those who ask can still get.
fn room(bounds: &[Bound], left: &[u32], at: usize) -> u32 {
    let own = bounds.iter().zip(left);
    let own = own.filter(|(bound, _)| bound.asks.contains(&at));
    own.map(|(_, left)| *left).min().unwrap_or(0)
}

/// Who gets the next replica at a level; `left`: GPUs that each can still get.
fn next(
    level: Level,
    left: impl Fn(usize) -> u32,
    asks: &[Ask],
    grants: &[Grant],
) -> Option<usize> {
    let mut best: Option<(usize, [f64; 4])> = None;
    for (at, (ask, grant)) in asks.iter().zip(grants).enumerate() {
        if ask.each.max(1) > left(at) || grant.gpus >= ask.most(level) {
            continue;
        }
        let claim = ask.claim(level, grant.gpus);
        let beats = best.is_none_or(|(_, best)| {
            let each = claim
                .iter()
                .zip(&best)
                .map(|(one, best)| one.total_cmp(best));
            each.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
                .is_gt()
        });
        if beats {
            best = Some((at, claim));
        }
    }
    best.map(|(at, _)| at)
}
