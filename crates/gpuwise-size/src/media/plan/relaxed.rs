//! The question under which a candidate passes that breaks several limits: tried, not reckoned.

use super::{Request, judged};
use crate::search::{Failure, Market, SPARE, can_widen, rounded_up, widen, widened};
use alloc::vec::Vec;
use gpuwise_domain::{
    fix::{Fix, Flag},
    gpu::Device,
    precision::Compute,
    reason::Reason,
    workload::Target,
};
use gpuwise_units::Seconds;

/// Limits that one candidate may break: latency, provider, region, power, money.
const BROKEN: usize = 6;

/// Puts flags in the place of a fix under which a candidate passes; without such, and beside other limits, there is none.
pub(super) fn fixed(
    request: &Request<'_>,
    device: Device<'_>,
    format: Compute,
    failure: &mut Failure,
) {
    let missed = matches!(failure.shortfall, Reason::Missed(_));
    if missed || can_widen(&failure.shortfall) {
        let found = SPARE
            .iter()
            .find_map(|spare| kept(request, device, format, *spare));
        match found {
            Some(fix) => failure.fixes = alloc::vec![fix],
            // A price of one's own is within every limit but that of power.
            None => failure.fixes.retain(|fix| {
                matches!(fix, Fix::OwnPrice { .. }) && request.limits.power.is_none()
            }),
        }
        return;
    }
    let limits = request.limits;
    let priced = matches!(
        failure.shortfall,
        Reason::UnknownPrice { .. } | Reason::NoInstance { .. }
    );
    // A price of one's own is within a budget, whoever asks it.
    let others = limits.power.is_some()
        || !priced
            && (limits.budget.is_some()
                || !limits.providers.is_empty()
                || !limits.regions.is_empty());
    // What was tried for itself may break one of these.
    if others {
        failure.fixes.clear();
    }
}

/// The flags of every limit that the candidate breaks, widened to what it keeps.
fn kept(request: &Request<'_>, device: Device<'_>, format: Compute, spare: f64) -> Option<Fix> {
    let mut limits = request.limits.clone();
    let mut latency = request.latency;
    for _ in 0..BROKEN {
        let changed = Request {
            limits: &limits,
            latency,
            ..request.clone()
        };
        let market = Market::new(changed.catalogue, &limits, changed.terms);
        let Err(failure) = judged(&changed, &market, device, (format, false)) else {
            let bound = latency.filter(|_| latency != request.latency);
            let bound = bound.map(|target| Flag::target("--latency", target));
            let flags: Vec<Flag> = bound
                .into_iter()
                .chain(widened(request.limits, &limits))
                .collect();
            return (!flags.is_empty()).then(|| Fix::flags(flags));
        };
        let before = (limits.clone(), latency);
        match &failure.shortfall {
            Reason::Missed(missed) => {
                let alone = missed.first()?.value;
                latency = latency.map(|target| Target {
                    at_most: Seconds::new(rounded_up(alone * spare).max(target.at_most.get())),
                    ..target
                });
            }
            _ => widen(&mut limits, &failure),
        }
        if before == (limits.clone(), latency) {
            return None;
        }
    }
    None
}
