//! Services that want more GPUs than there are: who gets how many, by the arbiter of `gpuwise-scale`.
//!
//! A pool is the GPUs of the kinds that a service may get, with those of services that may get some of the same. What
//! it has is counted by `super::devices`. Services are looked at one by one; what the others want is what they wanted
//! when they were looked at last.

use super::{ReplicaRole, Scaling};
use crate::Broker;
use gpuwise_domain::placement::{GpuAsk, JobId, KindId, Kinds};
use gpuwise_scale::{
    arbitrate::{Ask, GrantedBy, share_within},
    controller::Wanted,
};
use gpuwise_units::Nanoseconds;
use gpuwise_wire::broker::{GrantDocument, ScaledDocument};
use std::collections::BTreeMap;

/// What a service is to have, and what it was granted, where not all can have what they want.
pub(super) struct Given {
    pub(super) wanted: Wanted,
    pub(super) grant: Option<GrantDocument>,
}

/// A service of a pool.
struct Member {
    service: u32,
    kinds: Kinds,
    /// GPUs of a replica.
    each: u32,
    wanted: Wanted,
    requests: f64,
    late: f64,
}

impl Broker {
    /// What of this a service gets.
    pub(super) fn arbitrated(
        &self,
        now: Nanoseconds,
        look: &ScaledDocument,
        wanted: Wanted,
    ) -> Given {
        let whole = Given {
            wanted,
            grant: None,
        };
        let Some(own) = self.member(look, wanted) else {
            return whole;
        };
        if !self.is_short(look.service, wanted) {
            return whole;
        }
        let members = self.pool_of(own);
        let Some(at) = members.iter().position(|one| one.service == look.service) else {
            return whole;
        };
        let none = Kinds::NONE;
        let kinds = members
            .iter()
            .fold(none, |all, one| one.kinds.iter().fold(all, Kinds::with));
        let free = self.free_devices();
        let gpus = free.of(kinds);
        let asks = self.asks(now, kinds, &members);
        let sets: Vec<Kinds> = members.iter().map(|one| one.kinds).collect();
        let grants = share_within(&free.bounds(&sets), &asks);
        let (Some(one), Some(ask), Some(grant)) = (members.get(at), asks.get(at), grants.get(at))
        else {
            return whole;
        };
        if grant.short == 0 {
            return whole;
        }
        // Who leaves holds what is granted until it is gone.
        let leaving = self.count(look.service, ReplicaRole::Leaving);
        let many = (grant.gpus / one.each.max(1)).saturating_sub(leaving);
        let replicas = wanted.replicas.min(many);
        let given = Wanted {
            replicas,
            warm: wanted.warm.min(many - replicas),
        };
        Given {
            wanted: given,
            grant: Some(GrantDocument {
                pool: kinds.iter().filter_map(|kind| self.name_of(kind)).collect(),
                gpus,
                services: u32::try_from(members.len()).unwrap_or(u32::MAX),
                asked: asks
                    .iter()
                    .fold(0, |all: u32, ask| all.saturating_add(ask.wants)),
                guaranteed: ask.guaranteed,
                wants: ask.wants,
                gets: grant.gpus,
                by: by(grant.by).into(),
                replicas: wanted.replicas,
                warm: wanted.warm,
            }),
        }
    }

    /// Whether somebody may have too few: this one wants more than it has, a replica of some service waits, or one was
    /// given fewer than it wanted when it was looked at last.
    fn is_short(&self, service: u32, wanted: Wanted) -> bool {
        let roles = [ReplicaRole::Serving, ReplicaRole::Warm];
        let has: u32 = roles.iter().map(|role| self.count(service, *role)).sum();
        let follows =
            |lease: &u32| self.replicas.contains(lease) || self.scaling.contains_key(lease);
        let given = |scaling: &Scaling| {
            let last = scaling.last.as_ref();
            last.is_some_and(|last| last.grant.is_some())
        };
        wanted.replicas.saturating_add(wanted.warm) > has
            || self.seekers.iter().any(follows)
            || self.scaling.values().any(given)
    }

    fn count(&self, service: u32, wanted: ReplicaRole) -> u32 {
        let scaling = self.scaling.get(&service).into_iter();
        let own = scaling.flat_map(Scaling::replicas);
        let many = own.filter(|(_, role)| *role == wanted).count();
        u32::try_from(many).unwrap_or(u32::MAX)
    }

    fn name_of(&self, kind: KindId) -> Option<String> {
        Some(self.world.kind(kind)?.name.clone())
    }

    /// A service by what it wants now; `None`: it asks for parts of GPUs, or for none.
    fn member(&self, look: &ScaledDocument, wanted: Wanted) -> Option<Member> {
        let (kinds, each) = self.whole_gpus(look.service)?;
        Some(Member {
            service: look.service,
            kinds,
            each,
            wanted,
            requests: look.seen.requests,
            late: look.seen.late,
        })
    }

    /// The kinds of GPU that a service may get, and how many a replica takes.
    pub(super) fn whole_gpus(&self, service: u32) -> Option<(Kinds, u32)> {
        let job = &self.world.job(JobId(service))?.job;
        let GpuAsk::Whole { count, .. } = job.worker.gpu else {
            return None;
        };
        let kinds = job.worker.gpu.kinds().and(self.present);
        let each = count.saturating_mul(job.gang.most.max(1));
        (each > 0).then_some((kinds, each))
    }

    /// Services that may get GPUs that this one may get, and those that may get some of theirs, in order.
    fn pool_of(&self, own: Member) -> Vec<Member> {
        let mut kinds = own.kinds;
        let others = self.scaling.iter().filter(|(one, _)| **one != own.service);
        let wished = others.filter_map(|(service, scaling)| {
            let (kinds, each) = self.whole_gpus(*service)?;
            let last = scaling.last.as_ref();
            Some(Member {
                service: *service,
                kinds,
                each,
                wanted: last.map_or(
                    Wanted {
                        replicas: 1,
                        warm: 0,
                    },
                    wished,
                ),
                requests: last.map_or(0.0, |last| last.seen.requests),
                late: last.map_or(0.0, |last| last.seen.late),
            })
        });
        let mut rest: Vec<Member> = wished.collect();
        let mut pool = vec![own];
        loop {
            let meets = |one: &Member| one.kinds.iter().any(|kind| kinds.has(kind));
            let (more, others): (Vec<_>, Vec<_>) = rest.into_iter().partition(meets);
            rest = others;
            if more.is_empty() {
                break;
            }
            for one in &more {
                kinds = one.kinds.iter().fold(kinds, Kinds::with);
            }
            pool.extend(more);
        }
        pool.sort_by_key(|one| one.service);
        pool
    }

    fn asks(&self, now: Nanoseconds, kinds: Kinds, members: &[Member]) -> Vec<Ask> {
        let mut guarantees: BTreeMap<&str, u32> = BTreeMap::new();
        let mut budgets: BTreeMap<&str, f64> = BTreeMap::new();
        let mut asks = Vec::new();
        for one in members {
            let Some(first) = self.lease(one.service) else {
                asks.push(Ask {
                    guaranteed: 0,
                    needs: 0,
                    wants: 0,
                    each: 1,
                    at_risk: 0.0,
                    budget: 0.0,
                    holds: 0,
                });
                continue;
            };
            let tenant = first.ask.tenant.as_str();
            let leaving = self.count(one.service, ReplicaRole::Leaving);
            let gpus = |replicas: u32| replicas.saturating_mul(one.each);
            let needs = gpus(one.wanted.replicas.saturating_add(leaving));
            let left = guarantees
                .entry(tenant)
                .or_insert_with(|| self.guarantee(tenant, kinds));
            // A tenant's guarantee goes to what its services need, in the order in which they came.
            let own = needs.min(*left);
            *left -= own;
            let budget = budgets
                .entry(tenant)
                .or_insert_with(|| self.money_left(now, tenant));
            let scaling = self.scaling.get(&one.service);
            let objective = scaling.map_or(1.0, |scaling| scaling.rules().objective);
            let allowed = one.requests * (1.0 - objective);
            let has = scaling.map_or(0, |scaling| scaling.roles.len());
            asks.push(Ask {
                guaranteed: own,
                needs,
                wants: needs.saturating_add(gpus(one.wanted.warm)),
                each: one.each,
                at_risk: if allowed > 0.0 {
                    one.late / allowed
                } else {
                    0.0
                },
                budget: *budget,
                holds: gpus(u32::try_from(has).unwrap_or(u32::MAX)),
            });
        }
        asks
    }

    /// What is left of a tenant's budget of the month, in units of its currency; infinite: it has none.
    fn money_left(&self, now: Nanoseconds, tenant: &str) -> f64 {
        let budget = self.budget(tenant).zip(self.spending(now, tenant));
        budget.map_or(f64::INFINITY, |(budget, (spent, reserved))| {
            (i128::from(budget.micros) - spent - reserved) as f64 / 1e6
        })
    }
}

/// What was wanted at a look, before it was shared out.
fn wished(look: &ScaledDocument) -> Wanted {
    let (replicas, warm) = look
        .grant
        .as_ref()
        .map_or((look.replicas, look.warm), |grant| {
            (grant.replicas, grant.warm)
        });
    Wanted { replicas, warm }
}

/// The name of a rule in documents.
const fn by(by: GrantedBy) -> &'static str {
    match by {
        GrantedBy::Nothing => "nothing",
        GrantedBy::Guarantee => "guarantee",
        GrantedBy::AtRisk => "at_risk",
        GrantedBy::Need => "need",
        GrantedBy::Budget => "budget",
    }
}
