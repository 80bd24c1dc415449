//! Is what runs the right size? What runs is sized as a plan with nothing to choose, beside a plan
//! with everything to choose, and its host is held against what it asks for.

mod current;
mod dimensions;

use crate::{
    balance::{BalanceConstants, Known, balance, serving},
    search::{Request, plan},
};
use alloc::{
    format,
    string::{String, ToString},
    vec,
    vec::Vec,
};
use current::{Sized, sized};
use dimensions::{excess, lack, spread_otherwise};
use gpuwise_domain::{
    balance::{Balance, HostSystem},
    deployment::Deployment,
    verdict::{Current, Dimension, DimensionUse, Standing, Verdict},
    workload::{Traffic, Workload},
};
use gpuwise_units::{Money, PerSecond, significant};

/// Judges what runs under a workload.
///
/// `request` is what a plan would be asked for: its limits say what may take the place of what runs.
/// Weights stay as they are published unless formats are asked for. `host` is what surrounds the
/// GPUs of one host; `None`: nothing is said of it.
pub fn check(
    request: &Request<'_>,
    current: &Current,
    host: Option<&HostSystem>,
    constants: &BalanceConstants,
) -> Verdict {
    let mut request = request.clone();
    if request.choices.weights.is_empty() {
        request.choices.weights = vec!["published".into()];
    }
    let now = sized(&request, current, host);
    let roomy = roomy(request.workload, constants.get(Known::Room));
    let free = plan(&Request {
        workload: &roomy,
        ..request.clone()
    });
    let best = free.ranked.first();
    let around = host
        .zip(now.deployment.as_ref())
        .map(|(host, running)| around(&request, current, running, host, constants));
    let mut verdict = judged(&request, current, &now, best, around.as_ref(), constants);
    // What keeps the SLO lacks nothing, however much more it could do.
    if verdict.standing != Standing::UnderProvisioned {
        verdict
            .notes
            .extend(spread_otherwise(&now).map(|spread| spread.to_string()));
    }
    verdict.notes.extend(now.notes);
    verdict
        .notes
        .extend(free.notes.iter().map(ToString::to_string));
    verdict.balance = around;
    verdict.running = now.deployment;
    verdict
}

/// The workload with a larger load: what takes the place of something must bear more than was asked,
/// by the error of what is predicted of it.
fn roomy(workload: &Workload, room: f64) -> Workload {
    let traffic = match workload.traffic {
        Traffic::Open { rate, burstiness } => Traffic::Open {
            rate: PerSecond::new(rate.get() * room),
            burstiness,
        },
        Traffic::Closed { concurrency } => Traffic::Closed {
            concurrency: libm::ceil(concurrency as f64 * room) as u64,
        },
    };
    Workload {
        traffic,
        ..workload.clone()
    }
}

/// The host of what runs, part by part.
fn around(
    request: &Request<'_>,
    current: &Current,
    running: &Deployment,
    host: &HostSystem,
    constants: &BalanceConstants,
) -> Balance {
    let mut work = serving(
        running,
        request.architecture,
        request.workload,
        current.gpus_per_host,
        constants,
    );
    work.node_price = current.price;
    let host = HostSystem {
        gpus: host.gpus.or(Some(current.gpus_per_host)),
        ..host.clone()
    };
    balance(work, host, constants)
}

fn judged(
    request: &Request<'_>,
    current: &Current,
    now: &Sized,
    best: Option<&Deployment>,
    around: Option<&Balance>,
    constants: &BalanceConstants,
) -> Verdict {
    let verdict =
        |standing, uses: Vec<DimensionUse>, reason: String, instead: Option<&Deployment>| {
            let saving = instead.and_then(|instead| saving(current, instead));
            Verdict {
                standing,
                current: current.clone(),
                uses,
                reason,
                running: None,
                instead: instead.cloned(),
                saving,
                balance: None,
                notes: Vec::new(),
            }
        };
    if let Some(short) = lack(request, current, now) {
        // The same GPUs spread otherwise cost nothing more, and fewer of them or others less.
        let least = constants.get(Known::LeastSaving);
        let cheaper = best.filter(|best| saved(current, now, best) >= least);
        let instead = cheaper.or(now.spread_otherwise.as_ref()).or(best);
        return verdict(
            Standing::UnderProvisioned,
            short.uses,
            short.reason,
            instead,
        );
    }
    if let Some((balance, cause)) = around.and_then(|found| Some((found, found.cause()?))) {
        let uses = balance
            .parts
            .iter()
            .filter(|part| part.short)
            .map(|part| DimensionUse {
                dimension: Dimension::Host(part.part),
                factor: part
                    .has
                    .map_or(0.0, |has| has / part.needed.value.max(1e-12)),
                words: dimensions::of_part(part),
            })
            .collect();
        let slower = if cause.slower.is_finite() {
            format!("work takes {} times as long", significant(cause.slower, 3))
        } else {
            "it does not run".into()
        };
        let reason = format!(
            "the GPUs wait for {}: {slower}; {}",
            cause.part.name(),
            cause.why
        );
        return verdict(Standing::UnderProvisioned, uses, reason, None);
    }
    let Some(best) = best else {
        let reason = "nothing that costs less was found under these limits".into();
        return verdict(Standing::RightSized, Vec::new(), reason, None);
    };
    let saved = saved(current, now, best);
    if saved < constants.get(Known::LeastSaving) {
        let reason = format!(
            "what would cost least saves {}",
            if saved > 0.0 {
                format!("{:.0} %", saved * 100.0)
            } else {
                "nothing".into()
            }
        );
        return verdict(Standing::RightSized, Vec::new(), reason, None);
    }
    let uses = excess(request, current, now, best);
    if current.per_hour().is_none() {
        let (enough, all) = (enough(current, now, best), current.gpus());
        let verb = if enough == 1 { "suffices" } else { "suffice" };
        let reason = format!("{enough} of {all} GPUs {verb}, at a price that is not known");
        let own = now.deployment.as_ref().filter(|_| best.gpu != current.gpu);
        return verdict(Standing::OverProvisioned, uses, reason, own.or(Some(best)));
    }
    let reason = format!("{:.0} % of what it costs suffices", (1.0 - saved) * 100.0);
    verdict(Standing::OverProvisioned, uses, reason, Some(best))
}

/// The share of what runs costs that another saves; below 0 it costs more.
fn saved(current: &Current, now: &Sized, best: &Deployment) -> f64 {
    match (current.per_hour(), best.cost.per_hour) {
        (Some(own), Some(other)) if own.0.currency == other.0.currency => {
            1.0 - other.0.as_f64() / own.0.as_f64().max(1e-9)
        }
        // Without prices only GPUs of the same kind can be counted.
        _ => 1.0 - f64::from(enough(current, now, best)) / f64::from(current.gpus().max(1)),
    }
}

/// GPUs of the kind that runs which are enough.
fn enough(current: &Current, now: &Sized, best: &Deployment) -> u32 {
    let own = now.deployment.as_ref().filter(|_| best.gpu != current.gpu);
    own.unwrap_or(best).devices()
}

/// What runs less what would, an hour; `None` where a price is unknown or in another currency.
fn saving(current: &Current, instead: &Deployment) -> Option<Money> {
    let (own, other) = (current.per_hour()?.0, instead.cost.per_hour?.0);
    (own.currency == other.currency).then(|| Money {
        micros: own.micros.saturating_sub(other.micros),
        currency: own.currency,
    })
}
