//! What the kernel decided; how the fleet is used.

use super::{
    Problem,
    call::Call,
    documents::{self, time},
    json, logged,
};
use crate::replay::event;
use axum::{http::StatusCode, response::Response};
use gpuwise_broker::{Broker, lease_id};
use gpuwise_domain::placement::{Action, Plan};
use gpuwise_sched::report::{fleet_figures, typical};
use gpuwise_units::Nanoseconds;
use gpuwise_wire::{
    Mirror as _,
    broker::{
        BrokerEvent, FleetReport, PlacedAnswer, PlanAnswer, PlanList, StrandedAnswer, WeighedAnswer,
    },
};

/// Plans, the newest first; of others' leases nothing is said.
pub(crate) async fn list(call: Call) -> Result<Response, Problem> {
    let limit = call.limit()?;
    let mut before: u64 = call.before(u64::MAX)?;
    let (mut items, mut more) = (Vec::new(), true);
    while items.len() < limit && more {
        let page = logged::events_of(&call, &["planned"], before, 1000).await?;
        more = page.len() == 1000;
        let broker = call.shared.broker();
        for entry in page {
            before = entry.seq;
            let Ok(logged) = event(&entry) else {
                continue;
            };
            if let Some(plan) = plan(&call, &broker, entry.seq, logged.at_ns, logged.event) {
                items.push(plan);
            }
            if items.len() == limit {
                more = true;
                break;
            }
        }
    }
    let last = items.last().map(|item: &PlanAnswer| item.seq.to_string());
    let next = last.filter(|_| more && items.len() == limit);
    Ok(json(StatusCode::OK, &PlanList { items, next }))
}

fn plan(
    call: &Call,
    broker: &Broker,
    seq: u64,
    at_ns: u64,
    event: BrokerEvent,
) -> Option<PlanAnswer> {
    let BrokerEvent::Planned { plan, placed } = event else {
        return None;
    };
    let plan: Plan = plan.noun();
    let sees = |number: u32| {
        let lease = broker.lease(number);
        lease.is_some_and(|lease| call.sees(&lease.ask.tenant))
    };
    let words = |action: &Action| {
        let (word, job) = match action {
            Action::Place { job, .. } => ("place", job.0),
            Action::Preempt { job, .. } => ("stop", job.0),
            Action::Move { job, .. } => ("move", job.0),
            Action::Resize { job, .. } => ("resize", job.0),
            Action::Reclaim { job } => ("take back from", job.0),
            Action::Restore { job, .. } => ("give back to", job.0),
            Action::SetMig { gpu, .. } => return gpu_words(call, broker, "switch MIG of", *gpu),
            Action::CreateInstance { gpu, .. } => {
                return gpu_words(call, broker, "create an instance on", *gpu);
            }
            Action::DestroyInstance { gpu, .. } => {
                return gpu_words(call, broker, "destroy an instance on", *gpu);
            }
            Action::Attach { gpu, .. } => return gpu_words(call, broker, "attach", *gpu),
            Action::Detach { gpu, .. } => return gpu_words(call, broker, "detach", *gpu),
        };
        sees(job).then(|| format!("{word} {}", lease_id(job)))
    };
    let actions: Vec<String> = plan.actions.iter().filter_map(words).collect();
    let placed = placed.into_iter().filter(|one| sees(one.lease));
    let placed = placed.map(|one| PlacedAnswer {
        lease: lease_id(one.lease),
        candidates: one.candidates,
        weighed: one
            .weighed
            .into_iter()
            .map(|(name, score)| WeighedAnswer { name, score })
            .collect(),
    });
    (!actions.is_empty()).then(|| PlanAnswer {
        seq,
        at: time(Nanoseconds(at_ns)),
        actions,
        placed: placed.collect(),
    })
}

/// What is done to a GPU; whose it is meanwhile is told to who sees all.
fn gpu_words(
    call: &Call,
    broker: &Broker,
    word: &str,
    gpu: gpuwise_domain::placement::GpuId,
) -> Option<String> {
    if call.tenant().is_some() {
        return None;
    }
    let state = broker.world().gpu(gpu)?;
    Some(format!("{word} {}", state.gpu.uid))
}

pub(crate) async fn report(call: Call) -> Result<Response, Problem> {
    let broker = call.shared.broker();
    let world = broker.world();
    let figures = fleet_figures(world, &typical(world, 950));
    let gpus = |milli: u64| milli as f64 / 1000.0;
    let seconds = |time: Nanoseconds| time.0 as f64 / 1e9;
    let waiting = broker.open().filter(|lease| {
        let state = broker.state(lease).0;
        state == gpuwise_broker::LeaseState::Requested
    });
    let stranded = figures.stranded.causes().into_iter();
    let answer = FleetReport {
        at: documents::time(call.now()),
        gpus: gpus(figures.basic.capacity_milli),
        held: gpus(figures.basic.allocated_milli),
        free: gpus(figures.free_milli),
        stranded: stranded
            .filter(|(_, milli)| *milli > 0)
            .map(|(cause, milli)| StrandedAnswer {
                cause: cause.to_owned(),
                gpus: gpus(milli),
            })
            .collect(),
        waiting: u32::try_from(waiting.count()).unwrap_or(u32::MAX),
        mean_wait_s: figures.waiting.map(|(mean, _)| seconds(mean)),
        longest_wait_s: figures.waiting.map(|(_, longest)| seconds(longest)),
        fairness: figures
            .fairness_milli
            .map(|milli| f64::from(milli) / 1000.0),
    };
    Ok(json(StatusCode::OK, &answer))
}
