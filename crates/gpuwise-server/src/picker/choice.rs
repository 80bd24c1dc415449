//! Who of a pool's endpoints may be picked, how full they are, and why nobody is picked.

use super::{exchange::Refused, pool::Endpoint};
use gpuwise_sim::cluster::routers::Candidate;
use std::collections::BTreeMap;

/// Models and adapters that are told apart, at most: names come from who asks.
const ADAPTERS: usize = 1024;

/// An engine has as much as it can do where so many wait, or so much of its KV cache is in use: llm-d's detector of
/// saturation by utilization, where nobody sets it. There the mean of a pool counts; here nobody waits while one has room.
const WAITING: u32 = 5;
const KV_USED: f64 = 0.8;

fn allowed(address: &String, subset: Option<&[String]>) -> bool {
    subset.is_none_or(|only| only.contains(address))
}

/// Whether every endpoint of a subset that answers has as much to do as it can. Nobody who answers is nobody who is
/// full.
pub(super) fn is_full(
    endpoints: &BTreeMap<u16, Endpoint>,
    subset: Option<&[String]>,
    most: Option<u32>,
    unseen: bool,
) -> bool {
    let all = endpoints.values();
    let mut all = all
        .filter(|one| !one.away && allowed(&one.address, subset))
        .peekable();
    all.peek().is_some() && all.all(|one| has_enough(one, most, unseen))
}

fn has_enough(one: &Endpoint, most: Option<u32>, unseen: bool) -> bool {
    let told = one.told;
    let seen = told.running.saturating_add(told.waiting);
    // One that says nothing of itself has not seen them either.
    let more = match told.kv_used {
        Some(_) if unseen => one.requests.saturating_sub(seen),
        _ => 0,
    };
    told.waiting.saturating_add(more) >= WAITING
        || told.kv_used.is_some_and(|used| used >= KV_USED)
        || most.is_some_and(|most| one.requests >= most)
}

pub(super) fn candidates(
    endpoints: &BTreeMap<u16, Endpoint>,
    subset: Option<&[String]>,
    most: Option<u32>,
) -> Vec<Candidate> {
    /// The share of a KV cache in use is all that engines say of it.
    const BLOCKS: u64 = 10_000;
    let candidate = |(number, one): (&u16, &Endpoint)| Candidate {
        replica: *number,
        open: !one.away
            && allowed(&one.address, subset)
            && most.is_none_or(|most| one.requests < most),
        requests: one.requests,
        tokens: one.tokens,
        waiting: one.told.waiting,
        running: one.told.running,
        queued_tokens: 0,
        kv_used: (one.told.kv_used.unwrap_or(0.0).clamp(0.0, 1.0) * BLOCKS as f64) as u64,
        kv_blocks: BLOCKS,
    };
    endpoints.iter().map(candidate).collect()
}

/// The number of a model or adapter; those beyond the last that is told apart share one.
pub(super) fn adapter(known: &mut BTreeMap<String, u16>, model: &str) -> u16 {
    if let Some(number) = known.get(model) {
        return *number;
    }
    let number = known.len().min(ADAPTERS) as u16;
    if known.len() < ADAPTERS {
        known.insert(model.to_owned(), number);
    }
    number
}

pub(super) fn why(endpoints: &BTreeMap<u16, Endpoint>, subset: Option<&[String]>) -> Refused {
    let allowed: Vec<&Endpoint> = endpoints
        .values()
        .filter(|one| allowed(&one.address, subset))
        .collect();
    if allowed.iter().any(|one| !one.away) {
        let many = allowed.len();
        return Refused {
            status: 429,
            code: "busy".into(),
            detail: format!("all {many} endpoints have as many requests as they may"),
            dropped: Some("rejected-saturated"),
        };
    }
    let detail = match (subset, endpoints.len()) {
        (_, 0) => "there is no endpoint in the pool".to_owned(),
        (Some(only), many) if allowed.is_empty() => format!(
            "none of the {} endpoints that the gateway allows is among the {many} of the pool",
            only.len()
        ),
        _ => format!("none of {} endpoints answers", allowed.len()),
    };
    Refused {
        status: 503,
        code: "no-endpoint".into(),
        detail,
        dropped: Some("rejected-no-endpoints"),
    }
}
