//! Whether replicas that were ready are well: each is asked again and again, side by side. One that is not gets no
//! requests until it is.

use super::EnginePatience;
use crate::{endpoints::Replica, http::Shared, message::Command, standing::Gate};
use axum::{body::Body, http::Request};
use gpuwise_broker::{LeaseState, Readiness};
use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

/// Looks until it is dropped.
pub(crate) async fn check(gate: Arc<Gate>) {
    let mut known: BTreeMap<(u32, String), Weak<Replica>> = BTreeMap::new();
    let mut unwell = BTreeMap::new();
    loop {
        let Some(shared) = gate.shared() else {
            tokio::time::sleep(Duration::from_secs(1)).await;
            continue;
        };
        known.retain(|_, replica| replica.strong_count() > 0);
        let (all, ended) = {
            let all = ready(shared);
            let ended = over(shared.patience, &all, &mut unwell);
            (all, ended)
        };
        for (lease, path, replica) in all {
            let key = (lease, replica.address.clone());
            let same = |known: &Weak<Replica>| std::ptr::eq(known.as_ptr(), Arc::as_ptr(&replica));
            if !known.get(&key).is_some_and(same) {
                known.insert(key, Arc::downgrade(&replica));
                tokio::spawn(follow(Arc::clone(shared), path, Arc::downgrade(&replica)));
            }
        }
        for (lease, why) in ended {
            // Where it cannot be kept now it is looked at again.
            let _ = shared.ask(Command::Release(lease, why)).await;
        }
        tokio::time::sleep(shared.patience.every.min(Duration::from_secs(1))).await;
    }
}

/// Replicas of services, and where each says that it is well.
fn ready(shared: &Shared) -> Vec<(u32, String, Arc<Replica>)> {
    let broker = shared.broker();
    let services = broker.services().map(|(_, lease)| lease);
    let active = services.filter(|lease| broker.state(lease).0 == LeaseState::Active);
    let mut all = Vec::new();
    for lease in active {
        let Some(service) = &lease.ask.service else {
            continue;
        };
        let path = Readiness::of(service).path;
        let replicas = shared.endpoints.of(lease.number).into_iter();
        all.extend(replicas.map(|replica| (lease.number, path.clone(), replica)));
    }
    all
}

/// Leases none of whose replicas has been well for as long as that may be.
fn over(
    patience: EnginePatience,
    all: &[(u32, String, Arc<Replica>)],
    since: &mut BTreeMap<u32, Instant>,
) -> Vec<(u32, String)> {
    let mut leases: BTreeMap<u32, Option<String>> = BTreeMap::new();
    for (lease, _, replica) in all {
        let health = replica.health();
        let why = health.borrow().unwell().map(|(_, why)| why.to_owned());
        let known = leases.entry(*lease).or_insert_with(|| why.clone());
        if why.is_none() {
            *known = None;
        }
    }
    let now = Instant::now();
    since.retain(|lease, _| leases.get(lease).is_some_and(Option::is_some));
    let mut over = Vec::new();
    for (lease, why) in leases {
        let Some(why) = why else { continue };
        let began = *since.entry(lease).or_insert(now);
        let Some(limit) = patience.ends else { continue };
        if now.saturating_duration_since(began) >= limit {
            let limit = limit.as_secs_f64();
            over.push((lease, format!("no worker was well for {limit} s: {why}")));
        }
    }
    over
}

/// Asks one replica, for as long as it is there.
async fn follow(shared: Arc<Shared>, path: String, replica: Weak<Replica>) {
    let patience = shared.patience;
    let mut closing = shared.closing.clone();
    loop {
        let Some(replica) = replica.upgrade() else {
            return;
        };
        let seen = asked(&shared, patience.within, &replica.address, &path).await;
        replica.is_seen(seen, patience.failures, shared.clock.now());
        drop(replica);
        tokio::select! {
            () = tokio::time::sleep(patience.every) => {}
            _ = closing.wait_for(|closing| *closing) => return,
        }
    }
}

/// Whether it answers 200 in time; else why it does not.
async fn asked(shared: &Shared, within: Duration, address: &str, path: &str) -> Result<(), String> {
    let request = Request::get(format!("http://{address}{path}")).body(Body::empty());
    let request = request.map_err(|error| format!("GET {path}: {error}"))?;
    let answer = tokio::time::timeout(within, shared.client.request(request)).await;
    let answer = answer.map_err(|_| {
        format!(
            "GET {path} was not answered within {} s",
            within.as_secs_f64()
        )
    })?;
    let answer = answer.map_err(|error| format!("GET {path}: {error}"))?;
    match answer.status().as_u16() {
        200 => Ok(()),
        status => Err(format!("GET {path} answered {status}")),
    }
}
