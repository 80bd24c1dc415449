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

/// Shares GPUs out; the order of services decides only where nothing else does.
pub fn share(gpus: u32, asks: &[Ask]) -> Vec<Grant> {
    let mut left = gpus;
    let mut grants = vec![Grant::default(); asks.len()];
    for level in [Level::Guarantee, Level::Need, Level::Want] {
        while let Some(at) = next(level, left, asks, &grants) {
            let (Some(ask), Some(grant)) = (asks.get(at), grants.get_mut(at)) else {
                break;
            };
            left -= ask.each.max(1);
            grant.gpus += ask.each.max(1);
            grant.by = ask.by(level);
        }
    }
    for (grant, ask) in grants.iter_mut().zip(asks) {
        grant.short = ask.wants.saturating_sub(grant.gpus);
    }
    grants
}

/// Who gets the next replica at a level.
fn next(level: Level, left: u32, asks: &[Ask], grants: &[Grant]) -> Option<usize> {
    let mut best: Option<(usize, [f64; 4])> = None;
    for (at, (ask, grant)) in asks.iter().zip(grants).enumerate() {
        if ask.each.max(1) > left || grant.gpus >= ask.most(level) {
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
