//! Whether what was proposed was done, whether the saving came, and what it did to latency.

use crate::audit::Market;
use gpuwise_domain::usage::{
    Fleet, ResourceRequest, Usage,
    proposal::{Change, ChangeKind, Judgement},
    remembered::{Outcome, Remembered, State},
};
use gpuwise_units::Money;

/// Which share of the predicted saving must have come to call it proven.
const TOLERANCE: f64 = 0.85;
/// Hours after a proposal before anything is said of it.
const LEAST_HOURS: i64 = 24;

/// What is to be remembered of a judgement: nothing where nothing was proposed, or where the change
/// saves nothing that could be counted.
pub fn remember(
    usage: &Usage,
    said: &Judgement,
    fleet: &Fleet,
    market: &Market<'_>,
) -> Option<Remembered> {
    let proposal = said.proposal.as_ref()?;
    let mut wanted = usage.asked.clone();
    for part in proposal.change.parts() {
        ask(&mut wanted, part);
    }
    let (held, price) = held(usage, market);
    Some(Remembered {
        scope: Some(fleet.scope.clone()),
        holder: usage.holder.clone(),
        tenant: usage.tenant.clone(),
        made_at: fleet.window.end,
        kind: proposal.change.kind(),
        parts: proposal.change.parts().iter().map(Change::kind).collect(),
        title: proposal.title.clone(),
        before: usage.asked.clone(),
        wanted,
        held,
        price,
        predicted_gpus: proposal.saving.gpus,
        predicted: proposal.saving.hourly,
        latency: usage.engine.as_ref().and_then(|engine| engine.latency),
    })
}

/// Asks for what a change wants.
fn ask(wanted: &mut ResourceRequest, change: &Change) {
    match change {
        Change::ScaleToZero => wanted.replicas = 0,
        Change::Schedule { .. } | Change::Combined(_) => {}
        Change::Slice { gpu, profile } => {
            (wanted.gpu, wanted.slice) = (Some(gpu.clone()), Some(profile.clone()));
            wanted.slice_untold = false;
        }
        Change::OtherGpu { gpu } => {
            (wanted.gpu, wanted.slice) = (Some(gpu.clone()), None);
            wanted.slice_untold = false;
        }
        Change::Replicas { to, .. } => wanted.replicas = *to,
        Change::Gpus { to, .. } => wanted.devices = *to,
        Change::Cpus { to, .. } => wanted.cpus = Some(*to),
        Change::MoreMemory { gpu } => wanted.gpu.clone_from(gpu),
    }
}

/// GPUs that a workload asks for now, slices and what it shares as shares, and what one costs an hour.
fn held(usage: &Usage, market: &Market<'_>) -> (f64, Option<Money>) {
    let portion = market.portion(&usage.asked);
    (
        f64::from(usage.devices()) * portion.low,
        portion.price.map(|price| price.0),
    )
}

/// The same now, for a proposal: a GPU that it held before costs what it did then, since what prices did
/// meanwhile is nobody's saving.
fn held_now(of: &Remembered, usage: &Usage, market: &Market<'_>) -> (f64, Option<Money>) {
    let (gpus, price) = held(usage, market);
    match (&of.before.gpu, &usage.asked.gpu) {
        (Some(before), Some(now)) if market.same_gpu(before, now) => (gpus, of.price),
        _ => (gpus, price),
    }
}

/// What became of a proposal, as a later look at the fleet shows it. Only a look at the same scope says
/// anything, and that something is not seen proves nothing by itself.
pub fn outcome(of: &Remembered, fleet: &Fleet, market: &Market<'_>) -> Outcome {
    if let Some(why) = out_of_scope(of, fleet) {
        return unmeasured(State::Elsewhere, why);
    }
    if fleet.window.end < of.made_at.saturating_add(LEAST_HOURS * 3600) {
        let why = format!("less than {LEAST_HOURS} h have passed");
        return unmeasured(State::Open, why);
    }
    let seen = fleet
        .workloads
        .iter()
        .find(|usage| usage.holder == of.holder);
    let declared = fleet.declared.replicas.get(&of.holder).copied();
    match (seen.filter(|usage| usage.present), declared) {
        (_, Some(0)) if of.kind == ChangeKind::ScaleToZero => {
            saved_whole(of, "it is declared with 0 replicas".into())
        }
        (None, Some(replicas)) if replicas > 0 => unmeasured(
            State::Untold,
            format!(
                "no GPU of it was seen at the end of these days, though it is declared with {replicas} replicas"
            ),
        ),
        (None, _) => gone(of, seen.is_some(), fleet),
        (Some(usage), _) if of.parts.contains(&ChangeKind::Schedule) => {
            scheduled(of, usage, fleet, market)
        }
        (Some(usage), _) => changed(of, usage, fleet, market),
    }
}

/// Why a look at a fleet says nothing of a proposal at all.
fn out_of_scope(of: &Remembered, fleet: &Fleet) -> Option<String> {
    let Some(scope) = &of.scope else {
        return Some("where it was proposed was not remembered by the gpuwise that did".into());
    };
    (*scope != fleet.scope)
        .then(|| format!("proposed for {scope}, and this look is at {}", fleet.scope))
}

fn unmeasured(state: State, why: String) -> Outcome {
    Outcome {
        state,
        gpus: None,
        saved: None,
        latency: None,
        why,
    }
}

/// All that it held is free.
fn saved_whole(of: &Remembered, why: String) -> Outcome {
    Outcome {
        state: State::Proven,
        gpus: Some(of.held),
        saved: of.predicted,
        latency: None,
        why,
    }
}

/// It holds no GPU at the end of these days. That proves a scale to zero only of what does not end by
/// itself, and only where others of its namespace are listed and it is not: it was deleted.
fn gone(of: &Remembered, seen: bool, fleet: &Fleet) -> Outcome {
    let untold = |why: String| unmeasured(State::Untold, why);
    let holder = &of.holder;
    let left = if seen {
        "its last GPU was seen before the end of these days"
    } else {
        "it was not seen in these days"
    };
    if of.kind != ChangeKind::ScaleToZero {
        return untold(format!("{left}: whether it ended by itself cannot be told"));
    }
    if !matches!(holder.kind.as_str(), "Deployment" | "StatefulSet") {
        return untold(format!(
            "{left}: a {} may have ended by itself",
            holder.kind
        ));
    }
    if !fleet.declared.whole {
        return untold(format!(
            "{left}, and no list of Deployments and StatefulSets says that it is gone or has 0 replicas"
        ));
    }
    let beside = || fleet.declared.replicas.keys();
    if beside().all(|other| other.kind != holder.kind) {
        return untold(format!("{left}, and no {} is listed at all", holder.kind));
    }
    let beside = beside().filter(|other| other.namespace == holder.namespace);
    match beside.count() {
        0 => untold(format!(
            "{left}, nor was any other Deployment or StatefulSet of namespace {:?}: it may lie outside of this look",
            holder.namespace
        )),
        others => saved_whole(
            of,
            format!("it was deleted: {others} others of its namespace are listed, and it is not"),
        ),
    }
}

/// Whether every part of the change was made as proposed; what is given back at hours shows in hours alone.
fn applied(of: &Remembered, now: &ResourceRequest, market: &Market<'_>) -> bool {
    of.parts.iter().all(|part| made(of, *part, now, market))
}

fn made(of: &Remembered, part: ChangeKind, now: &ResourceRequest, market: &Market<'_>) -> bool {
    let same_gpu = |a: &ResourceRequest, b: &ResourceRequest| match (&a.gpu, &b.gpu) {
        (Some(a), Some(b)) => market.same_gpu(a, b),
        _ => false,
    };
    match part {
        ChangeKind::Slice | ChangeKind::OtherGpu | ChangeKind::MoreMemory => {
            same_gpu(&of.wanted, now) && of.wanted.slice == now.slice && !now.slice_untold
        }
        ChangeKind::Replicas if of.wanted.replicas > of.before.replicas => {
            now.replicas >= of.wanted.replicas
        }
        ChangeKind::Replicas => now.replicas <= of.wanted.replicas,
        ChangeKind::Gpus => now.devices <= of.wanted.devices,
        ChangeKind::Cpus => now
            .cpus
            .zip(of.wanted.cpus)
            .is_some_and(|(now, wanted)| now >= 0.9 * wanted),
        ChangeKind::Schedule => true,
        ChangeKind::ScaleToZero | ChangeKind::Combined => false,
    }
}

/// Whether it asks for the same as before.
fn unchanged(of: &Remembered, now: &ResourceRequest) -> bool {
    let before = &of.before;
    before.gpu == now.gpu
        && before.slice == now.slice
        && before.slice_untold == now.slice_untold
        && before.devices == now.devices
        && before.replicas == now.replicas
        && before.cpus == now.cpus
}

fn cost(gpus: f64, price: Option<Money>) -> Option<Money> {
    price.map(|price| price.times((gpus * 1e6).round() as i64, 1_000_000))
}

fn less(before: Option<Money>, after: Option<Money>) -> Option<Money> {
    let (before, after) = before.zip(after)?;
    (before.currency == after.currency).then(|| Money {
        micros: before.micros.saturating_sub(after.micros),
        currency: before.currency,
    })
}

/// Latency counts only where all days that are looked at lie after the proposal.
fn latency(of: &Remembered, usage: &Usage, fleet: &Fleet) -> (Option<f64>, &'static str) {
    let now = usage.engine.as_ref().and_then(|engine| engine.latency);
    if now.is_none() || of.latency.is_none() {
        (None, "; its latency is not known")
    } else if fleet.window.start < of.made_at {
        (
            None,
            "; days before the proposal are in these: its latency since is told with fewer --days",
        )
    } else {
        (now, "")
    }
}

fn changed(of: &Remembered, usage: &Usage, fleet: &Fleet, market: &Market<'_>) -> Outcome {
    if unchanged(of, &usage.asked) {
        let why = "it asks for the same as before".into();
        return Outcome {
            state: State::Open,
            gpus: None,
            saved: None,
            latency: None,
            why,
        };
    }
    let (gpus, price) = held_now(of, usage, market);
    let saved = less(cost(of.held, of.price), cost(gpus, price));
    let freed = of.held - gpus;
    let (latency, said) = latency(of, usage, fleet);
    if !applied(of, &usage.asked, market) {
        return Outcome {
            state: State::Otherwise,
            gpus: Some(freed),
            saved,
            latency,
            why: format!("it asks for {}{said}", words(&usage.asked)),
        };
    }
    Outcome {
        state: if came(of, saved, freed) {
            State::Proven
        } else {
            State::Short
        },
        gpus: Some(freed),
        saved,
        latency,
        why: format!("it asks for {} now{said}", words(&usage.asked)),
    }
}

/// A schedule shows in the hours that it holds its GPUs.
fn scheduled(of: &Remembered, usage: &Usage, fleet: &Fleet, market: &Market<'_>) -> Outcome {
    if fleet.window.start < of.made_at {
        let why = "days before the proposal are in these: told with fewer --days".into();
        return Outcome {
            state: State::Untold,
            gpus: None,
            saved: None,
            latency: None,
            why,
        };
    }
    if !applied(of, &usage.asked, market) && !unchanged(of, &usage.asked) {
        return changed(of, usage, fleet, market);
    }
    let (asked, price) = held_now(of, usage, market);
    let devices = f64::from(usage.devices().max(1));
    let hours = fleet.window.hours().max(1) as f64;
    let average = usage.device_hours_seen / hours / devices * asked;
    let freed = of.held - average;
    let saved = less(cost(of.held, of.price), cost(average, price));
    let share = format!("{:.0} % of hours", 100.0 * average / asked.max(1e-9));
    let (state, why) = if came(of, saved, freed) {
        (State::Proven, format!("it held its GPUs in {share}"))
    } else if freed > 0.05 * of.held {
        (State::Short, format!("it still held its GPUs in {share}"))
    } else {
        (State::Open, "it holds its GPUs around the clock".into())
    };
    let (latency, _) = latency(of, usage, fleet);
    Outcome {
        state,
        gpus: Some(freed),
        saved,
        latency,
        why,
    }
}

/// Whether enough of the saving came: in money where prices are known, else in GPUs.
fn came(of: &Remembered, saved: Option<Money>, freed: f64) -> bool {
    match (saved, of.predicted) {
        (Some(saved), Some(predicted)) => saved.as_f64() >= TOLERANCE * predicted.as_f64(),
        _ => freed >= TOLERANCE * of.predicted_gpus,
    }
}

/// `2 × 1 × 1g.10gb of H100, 8 CPUs`.
fn words(asked: &ResourceRequest) -> String {
    let gpu = asked.gpu.as_deref().unwrap_or("GPU");
    let slice = asked
        .slice
        .as_ref()
        .map_or(String::new(), |slice| format!("{slice} of "));
    let cpus = asked
        .cpus
        .map_or(String::new(), |cpus| format!(", {cpus} CPUs"));
    format!(
        "{} × {} × {slice}{gpu}{cpus}",
        asked.replicas, asked.devices
    )
}
