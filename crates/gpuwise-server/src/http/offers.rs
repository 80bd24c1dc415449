//! What could be had now, and when.

use super::{Problem, call::Call, documents::time, json};
use axum::{http::StatusCode, response::Response};
use gpuwise_broker::Broker;
use gpuwise_domain::placement::{Health, KindId};
use gpuwise_sched::world::{Link, Tenancy};
use gpuwise_units::Nanoseconds;
use gpuwise_wire::broker::{ColdStart, OfferAnswer, OfferList};
use std::collections::{BTreeMap, BTreeSet};

/// GPUs on one node that may be asked for.
const MOST: u32 = 1024;

pub(crate) async fn list(call: Call) -> Result<Response, Problem> {
    let count = match call.query("count") {
        None => 1,
        Some(text) => text
            .parse::<u32>()
            .ok()
            .filter(|count| (1..=MOST).contains(count))
            .ok_or_else(|| Problem::invalid("count", format!("{text:?}: expected 1 to {MOST}")))?,
    };
    let gpu = call.query("gpu").map(str::to_lowercase);
    let tenant = call.tenant().or(call.query("tenant")).unwrap_or_default();
    let now = call.now();
    let broker = call.shared.broker();
    let kinds = broker.world().kinds().iter().zip(0..);
    let wanted = kinds.filter(|(kind, _)| {
        let name = kind.name.to_lowercase();
        gpu.as_ref().is_none_or(|gpu| name.contains(gpu))
    });
    let items = wanted.filter_map(|(kind, id)| {
        let mut offer = counted(&broker, KindId(id), count, now)?;
        offer.gpu.clone_from(&kind.name);
        offer.features.clone_from(&kind.features);
        offer.price = broker.price_at(now, tenant, &kind.name, false);
        offer.spot_price = broker.price_at(now, tenant, &kind.name, true);
        Some(offer)
    });
    let items = items.collect();
    let now = time(now);
    let seen = broker.services();
    let seen = seen.map(|(model, lease)| (lease.ask.tenant.as_str(), model));
    let names: BTreeSet<(&str, &str)> = seen.filter(|(tenant, _)| call.sees(tenant)).collect();
    let cold = |(tenant, model)| cold(&broker, tenant, model);
    let list = OfferList {
        now,
        count,
        items,
        services: names.into_iter().filter_map(cold).collect(),
    };
    Ok(json(StatusCode::OK, &list))
}

/// What a service takes to answer from nothing; `None`: that was never seen.
pub(super) fn cold(broker: &Broker, tenant: &str, model: &str) -> Option<ColdStart> {
    let seen = broker.cold(tenant, model)?;
    Some(ColdStart {
        tenant: tenant.to_owned(),
        service: model.to_owned(),
        starts: seen.starts as u64,
        p50: seen.p50.seconds().get(),
        p99: seen.p99.seconds().get(),
    })
}

/// GPUs of a kind and when so many of one node are free; `None`: there is none of it.
fn counted(broker: &Broker, kind: KindId, count: u32, now: Nanoseconds) -> Option<OfferAnswer> {
    let world = broker.world();
    let (mut gpus, mut free, mut together) = (0, 0, 0);
    let mut first: Option<Nanoseconds> = None;
    for node in world.nodes() {
        if node.node.health != Health::Up || node.left {
            continue;
        }
        let of_kind = node.gpus.iter().filter_map(|id| world.gpu(*id));
        let usable = of_kind.filter(|one| {
            one.gpu.kind == kind && one.gpu.health == Health::Up && one.link == Link::Here
        });
        let (mut here, mut ends) = (0, BTreeMap::<Nanoseconds, u32>::new());
        for one in usable {
            gpus += 1;
            match &one.held {
                Tenancy::Free => here += 1,
                held => {
                    if let Some(end) = end_of(broker, held) {
                        *ends.entry(end.max(now)).or_default() += 1;
                    }
                }
            }
        }
        free += here;
        together = together.max(here);
        // Those who end first free what is missing, where nobody else takes it.
        let mut room = here;
        let mut at = (room >= count).then_some(now);
        for (end, more) in ends {
            room += more;
            if at.is_none() && room >= count {
                at = Some(end);
            }
        }
        first = [first, at].into_iter().flatten().min();
    }
    (gpus > 0).then(|| OfferAnswer {
        features: Vec::new(),
        gpu: String::new(),
        gpus,
        free,
        together,
        from: first.map(time),
        now: first == Some(now),
        price: None,
        spot_price: None,
    })
}

/// When all who hold a GPU have ended; `None`: somebody has no end.
fn end_of(broker: &Broker, held: &Tenancy) -> Option<Nanoseconds> {
    let jobs: Vec<u32> = match held {
        Tenancy::Free => Vec::new(),
        Tenancy::Whole(job) => vec![job.0],
        Tenancy::Shared { holders, .. } => holders.iter().map(|one| one.job.0).collect(),
        Tenancy::Sliced(instances) => {
            let each = instances.iter().filter_map(|one| one.holder);
            each.map(|job| job.0).collect()
        }
    };
    let ends = jobs.into_iter().map(|number| broker.lease(number)?.ends());
    ends.collect::<Option<Vec<_>>>()?.into_iter().max()
}
