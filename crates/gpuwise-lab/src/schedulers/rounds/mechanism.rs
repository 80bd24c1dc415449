//! From shares of time to allocations: the mechanism of rounds.
//!
//! Each job, or pair, has on each kind a share of time that it is owed and a time that it got since
//! shares were last computed. Who has the greatest share over its part of the time got on a kind goes
//! first there; of equals the one that was owed more before, then the one of greater share. Kinds are
//! filled one after the other; who does not fit is passed over, and so is who has a allocation already.
//!
//! Shares are computed anew when a job has come or ended, but no sooner than 1,920 s after the last
//! time; until then a new job has none and runs only where nobody else can. Each starts with half a
//! round on its account, so that no account is empty.

use super::{Allocation, Ground, Ran, RoundJob, RoundPolicy, shares::ShareRule};
use gpuwise_units::RandomStream;
use std::collections::BTreeMap;

/// Shares stand at least so long, in seconds.
const LEAST_BETWEEN_S: f64 = 1920.0;

/// A rule for shares, followed round by round.
pub(super) struct Mechanism<R> {
    rule: R,
    draws: RandomStream,
    accounts: BTreeMap<Party, Account>,
    /// When shares were last computed; 0 also before.
    computed_s: f64,
    changed: bool,
}

/// A job alone, or with a partner of higher number; those alone come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Party {
    partner: Option<u32>,
    job: u32,
}

#[derive(Debug, Clone)]
struct Account {
    share: Vec<f64>,
    got_s: Vec<f64>,
    owed_s: Vec<f64>,
}

/// Who stands where in the queue of a kind.
struct Place {
    first: f64,
    owed: f64,
    share: f64,
    job: usize,
    partner: Option<usize>,
}

impl<R: ShareRule> Mechanism<R> {
    pub(super) fn new(rule: R, seed: u64) -> Self {
        let draws = RandomStream::new(seed, "order of kinds", 0);
        Self {
            rule,
            draws,
            accounts: BTreeMap::new(),
            computed_s: 0.0,
            changed: false,
        }
    }

    /// New jobs get an account, and where it is time, everybody new shares.
    fn settle(&mut self, now_s: f64, jobs: &[RoundJob], ground: &Ground<'_>) {
        let kinds = ground.supply.len();
        let half = ground.round_s / 2.0;
        for job in jobs {
            let party = Party {
                partner: None,
                job: job.number,
            };
            self.accounts.entry(party).or_insert_with(|| {
                self.changed = true;
                Account::new(kinds, half)
            });
        }
        let since = now_s - self.computed_s;
        let due = since >= LEAST_BETWEEN_S || self.computed_s == 0.0;
        if !self.changed || !due {
            return;
        }
        for account in self.accounts.values_mut() {
            account.close(since, half);
        }
        self.computed_s = now_s;
        self.changed = false;
        let shares = self.rule.shares(now_s, jobs, ground);
        let mut pairs = Vec::new();
        for share in shares {
            let Some(job) = jobs.get(share.job) else {
                continue;
            };
            let partner = share.partner.and_then(|partner| jobs.get(partner));
            let party = Party::of(job.number, partner.map(|partner| partner.number));
            pairs.push(party);
            let account = self.accounts.entry(party);
            account.or_insert_with(|| Account::new(kinds, half)).share = share.of;
        }
        pairs.sort_unstable();
        self.accounts
            .retain(|party, _| party.partner.is_none() || pairs.binary_search(party).is_ok());
    }

    /// The order in which parties are taken on a kind.
    fn queue(&self, kind: usize, jobs: &[RoundJob], ground: &Ground<'_>) -> Vec<Place> {
        let total: f64 = self.accounts.values().map(|a| a.got_s[kind]).sum();
        let at = |number: u32| jobs.binary_search_by_key(&number, |job| job.number).ok();
        let mut queue: Vec<Place> = (self.accounts.iter())
            .filter_map(|(party, account)| {
                let job = at(party.job)?;
                let partner = match party.partner {
                    Some(partner) => Some(at(partner)?),
                    None => None,
                };
                let runs = match partner {
                    None => ground.speeds.alone(jobs[job].class, kind) > 0.0,
                    Some(partner) => ground
                        .speeds
                        .beside(kind, jobs[job].class, jobs[partner].class)
                        .is_some(),
                };
                let share = account.share[kind];
                runs.then_some(Place {
                    first: share * total / account.got_s[kind].max(1e-9),
                    owed: account.owed_s[kind],
                    share,
                    job,
                    partner,
                })
            })
            .collect();
        queue.sort_by(|a, b| {
            (b.first.total_cmp(&a.first))
                .then(b.owed.total_cmp(&a.owed))
                .then(b.share.total_cmp(&a.share))
        });
        queue
    }
}

impl Party {
    fn of(one: u32, other: Option<u32>) -> Self {
        Self {
            partner: other.map(|other| one.max(other)),
            job: other.map_or(one, |other| one.min(other)),
        }
    }
}

impl Account {
    fn new(kinds: usize, half: f64) -> Self {
        Self {
            share: vec![0.0; kinds],
            got_s: vec![half; kinds],
            owed_s: vec![0.0; kinds],
        }
    }

    /// What was owed and not got is remembered; then a new account begins.
    fn close(&mut self, since_s: f64, half: f64) {
        for ((owed, got), share) in (self.owed_s.iter_mut())
            .zip(&mut self.got_s)
            .zip(&mut self.share)
        {
            *owed += *share * since_s - (*got - half);
            *got = half;
            *share = 0.0;
        }
    }
}

impl<R: ShareRule> RoundPolicy for Mechanism<R> {
    fn shares_gpus(&self) -> bool {
        self.rule.pairs()
    }

    fn allocate(&mut self, now_s: f64, jobs: &[RoundJob], ground: &Ground<'_>) -> Vec<Allocation> {
        self.settle(now_s, jobs, ground);
        let mut kinds: Vec<usize> = (0..ground.supply.len()).collect();
        if !self.rule.ordered() {
            for at in (1..kinds.len()).rev() {
                kinds.swap(at, self.draws.below(at as u64 + 1) as usize);
            }
        }
        let mut busy = vec![false; jobs.len()];
        let mut allocations = Vec::new();
        for kind in kinds {
            let mut free = ground.supply[kind];
            for place in self.queue(kind, jobs, ground) {
                let Place { job, partner, .. } = place;
                let gpus = ground.speeds.gpus(jobs[job].class);
                let taken = busy[job] || partner.is_some_and(|partner| busy[partner]);
                if taken || gpus > free || self.rule.strict() && place.first <= 0.0 {
                    continue;
                }
                free -= gpus;
                busy[job] = true;
                if let Some(partner) = partner {
                    busy[partner] = true;
                }
                allocations.push(Allocation { job, partner, kind });
            }
        }
        allocations
    }

    fn round_ended(&mut self, taken: &[Ran], ended: &[u32]) {
        for one in taken {
            let party = Party::of(one.job, one.partner);
            let account = self.accounts.get_mut(&party);
            if let Some(got) = account.and_then(|account| account.got_s.get_mut(one.kind)) {
                *got += one.ran_s;
            }
        }
        if !ended.is_empty() {
            self.changed = true;
            let gone = |number: u32| ended.contains(&number);
            self.accounts
                .retain(|party, _| !gone(party.job) && !party.partner.is_some_and(gone));
        }
    }

    fn idle(&mut self) {
        self.computed_s = 0.0;
    }
}
