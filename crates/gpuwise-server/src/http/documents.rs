//! What is so, as documents of answers.

use super::{Problem, Shared};
use gpuwise_broker::{Broker, Lease, LeaseState, exact};
use gpuwise_domain::placement::{
    Assignment, GpuId, GpuKind, Health, Home, NodeId, Part, PoolId, Queue,
};
use gpuwise_sched::{
    queues::milli_of,
    world::{Link, NodeState, Tenancy, World},
};
use gpuwise_units::{Money, Nanoseconds};
use gpuwise_wire::broker::{
    FleetAnswer, GpuAnswer, HealthAnswer, HeldGpu, HolderAnswer, LeaseAnswer, NodeAnswer,
    PoolAnswer, QuotaAsk, SuspensionAnswer, TenantAnswer,
};

/// A moment as RFC 3339 in UTC, to the millisecond.
pub(crate) fn time(at: Nanoseconds) -> String {
    let millis = i64::try_from(at.0 / 1_000_000).unwrap_or(i64::MAX);
    let moment = jiff::Timestamp::from_millisecond(millis);
    moment.map_or_else(|_| millis.to_string(), |moment| format!("{moment:.3}"))
}

pub(crate) fn lease(broker: &Broker, now: Nanoseconds, lease: &Lease) -> LeaseAnswer {
    let (state, since) = broker.state(lease);
    LeaseAnswer {
        id: lease.id(),
        tenant: lease.ask.tenant.clone(),
        name: lease.ask.name.clone().unwrap_or_else(|| lease.id()),
        state: state.name().to_owned(),
        since: time(since),
        reason: reason(lease),
        requested_at: time(lease.requested),
        started_at: lease.started.map(time),
        ends_at: lease.ends().map(time),
        gpus: match state {
            // Where a start failed it is no more.
            LeaseState::Requested => Vec::new(),
            _ => held(broker.world(), &lease.place),
        },
        ask: lease.ask.clone(),
        size: lease.size.clone(),
        suspension: suspension(lease),
        scaling: super::scaling::answer(broker, lease),
        queued: None,
        health: None,
        cost: amounts(&broker.cost_of(now, lease)),
        waits_for: None,
        exit_code: lease.over.as_ref().and_then(|over| over.exit_code),
    }
}

/// What the replicas of a service say of themselves; `None`: it is no service, or none answers.
pub(super) fn health_of(shared: &Shared, lease: &Lease) -> Option<HealthAnswer> {
    lease.ask.service.as_ref()?;
    let replicas = shared.endpoints.of(lease.number);
    if replicas.is_empty() {
        return None;
    }
    let unwell = replicas.iter().filter_map(|one| {
        let health = one.health();
        let health = health.borrow();
        let (since, why) = health.unwell()?;
        Some((since, why.to_owned()))
    });
    let unwell: Vec<(Nanoseconds, String)> = unwell.collect();
    let first = unwell.iter().min();
    Some(HealthAnswer {
        well: (replicas.len() - unwell.len()) as u64,
        unwell: unwell.len() as u64,
        since: first.map(|(since, _)| time(*since)),
        reason: first.map(|(_, why)| why.clone()),
        silent_requests: shared
            .traffic
            .of(lease.number)
            .map_or(0, |tally| tally.silent),
    })
}

/// Amounts, each of another currency; `None`: there is none.
pub(crate) fn amounts(sums: &[Money]) -> Option<String> {
    let each: Vec<String> = sums.iter().copied().map(exact).collect();
    (!each.is_empty()).then(|| each.join(" + "))
}

fn suspension(lease: &Lease) -> Option<SuspensionAnswer> {
    let how = lease.ask.suspend.clone();
    if how.is_none() && lease.freed.is_empty() {
        return None;
    }
    let seconds = |times: &[Nanoseconds]| Lease::p99(times).map(|time| time.seconds().get());
    Some(SuspensionAnswer {
        how: how.unwrap_or_else(|| "requeue".into()),
        returns: lease.returned.len() as u64,
        freed_p99: seconds(&lease.freed),
        return_p99: seconds(&lease.returned),
    })
}

fn reason(lease: &Lease) -> Option<String> {
    match (&lease.over, &lease.draining) {
        (Some(over), _) => Some(over.reason.clone()),
        (None, Some((_, reason))) => Some(reason.clone()),
        (None, None) if lease.halted.is_some() => {
            lease.halted.as_ref().map(|(_, reason)| reason.clone())
        }
        (None, None) => lease
            .failed_because
            .as_ref()
            .map(|why| format!("the last start failed: {why}")),
    }
}

pub(crate) fn held(world: &World, place: &[Assignment]) -> Vec<HeldGpu> {
    let shares = place.iter().flat_map(|one| {
        let shares = one.gpus.iter();
        shares.map(move |share| (one.node, share))
    });
    shares
        .filter_map(|(node, share)| {
            let state = world.gpu(share.gpu)?;
            Some(HeldGpu {
                node: world.node(node)?.node.name.clone(),
                index: state.gpu.index,
                uid: state.gpu.uid.to_string(),
                gpu: world.kind(state.gpu.kind)?.name.clone(),
                part: part(world, share.gpu, share.part),
            })
        })
        .collect()
}

fn part(world: &World, gpu: GpuId, part: Part) -> String {
    match part {
        Part::Whole => "whole".into(),
        Part::Fraction { milli, .. } => format!("{}", f64::from(milli) / 1000.0),
        Part::Slice { shape, .. } => {
            let kind = world.gpu(gpu).and_then(|state| world.kind(state.gpu.kind));
            let mig = kind.and_then(|kind| kind.mig.as_ref());
            let shape = mig.and_then(|mig| mig.shape(shape));
            shape.map_or_else(|| "slice".into(), |shape| shape.profile.clone())
        }
    }
}

/// Quotas of a queue, as they are asked for.
pub(crate) fn quotas(world: &World, queue: &Queue) -> Vec<QuotaAsk> {
    let gpus = |milli: u64| milli as f64 / 1000.0;
    let each = queue.quotas.iter().map(|quota| {
        let kinds = quota.kinds.iter().filter_map(|kind| world.kind(kind));
        let names = GpuKind::names(kinds);
        let nominal = gpus(quota.nominal_milli);
        QuotaAsk {
            gpus: match names.as_slice() {
                names if names.len() == GpuKind::names(world.kinds()).len() => format!("{nominal}"),
                names => format!("{nominal}x{}", names.join("|")),
            },
            borrow: quota.borrowing_milli.map(gpus),
            lend: quota.lending_milli.map(gpus),
        }
    });
    each.collect()
}

pub(crate) fn tenant(broker: &Broker, now: Nanoseconds, name: &str) -> Option<TenantAnswer> {
    let tenant = broker.tenant(name)?;
    let world = broker.world();
    let queue = world.queues().iter().find(|queue| queue.name == name);
    let gpus = |milli: u64| milli as f64 / 1000.0;
    let open = || broker.open_of(name);
    let held = open().filter(|lease| broker.state(lease).0.holds());
    let held: u64 = held.map(|lease| milli_of(world, &lease.place)).sum();
    let budget = broker.budget(name);
    let spending = broker.spending(now, name);
    let money = |micros: i128| {
        let currency = budget?.currency;
        let micros = i64::try_from(micros).ok()?;
        Some(exact(Money { micros, currency }))
    };
    Some(TenantAnswer {
        name: name.to_owned(),
        created_at: time(tenant.created),
        quota: queue.map_or_else(Vec::new, |queue| quotas(world, queue)),
        weight: queue.map_or(1.0, |queue| f64::from(queue.weight_milli) / 1000.0),
        budget: budget.map(exact),
        spent: amounts(&broker.spent(now, name)),
        reserved: spending.and_then(|(_, reserved)| money(reserved)),
        gpus: gpus(held),
        leases: u32::try_from(open().count()).unwrap_or(u32::MAX),
        suspended: tenant.suspended,
        account: None,
    })
}

/// The fleet as somebody may see it: leases that he may not see are held by `-`.
pub(crate) fn fleet(broker: &Broker, now: Nanoseconds, sees: impl Fn(&str) -> bool) -> FleetAnswer {
    let world = broker.world();
    let nodes = (0..).map(NodeId).zip(world.nodes().iter());
    let nodes = nodes.filter(|(_, state)| !state.left);
    let nodes = nodes.map(|(id, state)| NodeAnswer {
        name: state.node.name.clone(),
        uid: state.node.uid.to_string(),
        health: node_health(broker, id, state),
        gpus: state
            .gpus
            .iter()
            .filter_map(|id| gpu(broker, *id, &sees))
            .collect(),
    });
    FleetAnswer {
        name: world.name().to_owned(),
        now: time(now),
        nodes: nodes.collect(),
        pools: (0..)
            .map(PoolId)
            .zip(world.pools())
            .map(|(id, _)| pool(broker, id, &sees))
            .collect(),
    }
}

/// A pool, and those of its GPUs that are in it.
fn pool(broker: &Broker, id: PoolId, sees: &impl Fn(&str) -> bool) -> PoolAnswer {
    let world = broker.world();
    let known = world.pools().get(id.index());
    let gpus = (0..).map(GpuId).zip(world.gpus().iter());
    let own =
        gpus.filter(|(_, state)| state.gpu.home == Home::Pool(id) && state.link != Link::Gone);
    let own: Vec<(GpuId, bool)> = own
        .map(|(gpu, state)| (gpu, state.link == Link::InPool))
        .collect();
    let seconds = |time: Option<Nanoseconds>| time.unwrap_or_default().seconds().get();
    let free = own.iter().filter(|(_, free)| *free);
    PoolAnswer {
        name: known.map_or_else(String::new, |pool| pool.name.clone()),
        size: u32::try_from(own.len()).unwrap_or(u32::MAX),
        gpus: free
            .filter_map(|(gpu, _)| self::gpu(broker, *gpu, sees))
            .collect(),
        attach_seconds: seconds(world.attach_time(id)),
        detach_seconds: seconds(world.detach_time(id)),
        hot_plug: known.is_some_and(|pool| pool.hot_plug),
    }
}

fn gpu(broker: &Broker, id: GpuId, sees: &impl Fn(&str) -> bool) -> Option<GpuAnswer> {
    let world = broker.world();
    let state = world.gpu(id)?;
    let holder = |job: gpuwise_domain::placement::JobId, of: Part| {
        let lease = broker.lease(job.0);
        let own = lease.filter(|lease| sees(&lease.ask.tenant));
        HolderAnswer {
            lease: own.map_or_else(|| "-".into(), Lease::id),
            tenant: own.map_or_else(|| "-".into(), |lease| lease.ask.tenant.clone()),
            part: part(world, id, of),
        }
    };
    let holders = match &state.held {
        Tenancy::Free => Vec::new(),
        Tenancy::Whole(job) => vec![holder(*job, Part::Whole)],
        Tenancy::Shared {
            isolation, holders, ..
        } => {
            let each = holders.iter().map(|one| {
                let of = Part::Fraction {
                    milli: one.milli,
                    memory_mib: one.memory_mib,
                    isolation: *isolation,
                };
                holder(one.job, of)
            });
            each.collect()
        }
        Tenancy::Sliced(instances) => {
            let each = instances.iter().filter_map(|one| {
                let (shape, start) = (one.shape, one.start);
                Some(holder(one.holder?, Part::Slice { shape, start }))
            });
            each.collect()
        }
    };
    Some(GpuAnswer {
        index: state.gpu.index,
        uid: state.gpu.uid.to_string(),
        gpu: world.kind(state.gpu.kind)?.name.clone(),
        health: health(state.gpu.health),
        holders,
    })
}

/// How a node is taken to be: also whether it is silent, and whether what it ran counts as ended.
fn node_health(broker: &Broker, id: NodeId, state: &NodeState) -> String {
    match state.fence() {
        Some(fence) if fence.fenced.is_some() => "fenced".into(),
        Some(_) => "suspected".into(),
        None if broker.is_cordoned(id) && state.node.health.keeps_work() => "cordoned".into(),
        None => health(state.node.health),
    }
}

fn health(health: Health) -> String {
    match health {
        Health::Up => "up".into(),
        Health::Draining => "draining".into(),
        Health::Maintenance => "maintenance".into(),
        Health::Lost { xid: 0 } => "lost".into(),
        Health::Lost { xid } => format!("xid {xid}"),
    }
}

/// The state of a name; `None`: there is none.
pub(crate) fn state(name: &str) -> Option<LeaseState> {
    LeaseState::ALL
        .into_iter()
        .find(|state| state.name() == name)
}

/// A moment of RFC 3339; without an offset in UTC, and without a time the first of a day.
///
/// # Errors
/// When it is neither.
pub(crate) fn moment(field: &str, text: &str) -> Result<Nanoseconds, Problem> {
    // A civil time with the name of a zone would be read without it.
    let utc = || -> Option<jiff::Timestamp> {
        let civil: jiff::civil::DateTime = (!text.contains('[')).then(|| text.parse().ok())??;
        Some(civil.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
    };
    let Some(at) = text.parse().ok().or_else(utc) else {
        let what = format!(
            "{text:?}: expected a day or moment such as 2026-12-01 or 2026-12-01T08:00:00Z"
        );
        return Err(Problem::invalid(field, what));
    };
    u64::try_from(at.as_nanosecond())
        .map(Nanoseconds)
        .map_err(|_| {
            Problem::invalid(
                field,
                format!("{text:?}: expected a time from 1970 to 2553"),
            )
        })
}
