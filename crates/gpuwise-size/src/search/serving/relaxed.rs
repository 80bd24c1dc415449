//! The SLO and the limits under which a candidate that breaks them would pass: tried, not reckoned.

use super::{
    Failed, Screening, candidates,
    evaluate::{self, bearable, rounded_down},
    priced,
    request::Request,
};
use crate::search::{Failure, Market, can_widen, whole_gpus, widen as widen_limits, widened};
use alloc::{format, vec::Vec};
use gpuwise_domain::{
    deployment::Test,
    fix::{Fix, Flag},
    reason::Reason,
    workload::{Target, Traffic, Workload},
};
use gpuwise_units::{PerSecond, Percentile, Seconds};

/// By how much what one request alone takes is exceeded in the bounds that are tried: with nothing to
/// spare no load is borne.
pub(crate) const SPARE: [f64; 5] = [1.02, 1.1, 1.25, 1.5, 2.0];
/// Limits that one candidate may break: those of the SLO, power, money, quality and hosts.
const BROKEN: usize = 8;

/// The flags of the tightest of the questions tried that the candidate answers, `None`: of none.
pub(crate) fn question(
    request: &Request<'_>,
    judged: &Screening<'_>,
    failed: &Failed<'_>,
) -> Option<Fix> {
    let latency = is_latency(failed.failure.test);
    if !latency && !is_limit(&failed.failure.shortfall) {
        return None;
    }
    let spares = if latency { &SPARE[..] } else { &SPARE[..1] };
    let too_many = matches!(failed.failure.shortfall, Reason::TooMany { .. });
    let under = |load: bool| {
        spares.iter().find_map(|spare| {
            let kept = kept(request, judged, failed, (*spare, load))?;
            let changed = changes(request.workload, &kept);
            (!changed.is_empty()).then(|| Fix::flags(changed))
        })
    };
    // A looser bound before a smaller load.
    under(too_many).or_else(|| under(true))
}

const fn is_latency(test: Test) -> bool {
    matches!(test, Test::Ttft | Test::Tpot | Test::EndToEnd)
}

/// Whether a candidate passes where this alone is asked otherwise, and nothing else is broken then.
pub(crate) const fn is_limit(reason: &Reason) -> bool {
    can_widen(reason)
        || matches!(
            reason,
            Reason::Tokens { .. }
                | Reason::TooMany { .. }
                | Reason::Quality { .. }
                | Reason::NotOwned { .. }
        )
}

/// The question with every limit that the candidate breaks widened to what it keeps.
fn kept(
    request: &Request<'_>,
    judged: &Screening<'_>,
    failed: &Failed<'_>,
    (spare, load): (f64, bool),
) -> Option<Workload> {
    let candidate = &failed.candidate;
    let choice = judged.choices.get(candidate.choice)?;
    let mut workload = request.workload.clone();
    for _ in 0..BROKEN {
        let relaxed = Request {
            workload: &workload,
            ..request.clone()
        };
        let setup = candidates::setup(
            &relaxed,
            candidate.device,
            candidate.layout,
            choice,
            candidate.cache,
            super::context(&relaxed),
        );
        let market = Market::new(relaxed.catalogue, &workload.limits, relaxed.choices.terms);
        let offers = market.offers(&candidate.device.gpu.name);
        let verdict = evaluate::evaluate(&relaxed, setup.clone())
            .and_then(|one| priced(&relaxed, one, (&market, &offers), &choice.quality));
        let Err(failure) = verdict else {
            return Some(workload);
        };
        let before = workload.clone();
        if is_latency(failure.test) {
            let alone = evaluate::alone(&relaxed, &setup);
            let slo = &mut workload.slo;
            widen(&mut slo.ttft, spare, |at| alone.ttft(at));
            widen(&mut slo.tpot, spare, |at| alone.tpot(at));
            widen(&mut slo.end_to_end, spare, |at| alone.end_to_end(at));
        } else if load || !matches!(failure.shortfall, Reason::TooMany { .. }) {
            widen_limit(&mut workload, failed, &failure);
        }
        if workload == before {
            return None;
        }
    }
    None
}

fn widen_limit(workload: &mut Workload, failed: &Failed<'_>, failure: &Failure) {
    widen_limits(&mut workload.limits, failure);
    let limits = &mut workload.limits;
    match &failure.shortfall {
        Reason::Tokens { given, .. } => {
            workload.slo.throughput = Some(PerSecond::new(rounded_down(*given)));
        }
        Reason::TooMany {
            sustains,
            wanted,
            gpus,
        } => {
            let least = bearable(*sustains, *wanted, *gpus);
            match &mut workload.traffic {
                Traffic::Open { rate, .. } => *rate = PerSecond::new(least),
                Traffic::Closed { concurrency } => *concurrency = libm::floor(least) as u64,
            }
        }
        Reason::Quality { percent, .. } => limits.quality_loss = Some(hundredths_up(*percent)),
        Reason::NotOwned { wanted, .. } => {
            let device = &failed.candidate.device;
            let of = limits
                .owned
                .iter_mut()
                .find(|(gpu, _)| *gpu == device.gpu.name);
            if let Some((_, owned)) = of {
                *owned = whole_gpus(device, *wanted);
            }
        }
        _ => {}
    }
}

/// No less than a percentage, in hundredths.
pub(super) fn hundredths_up(percent: f64) -> f64 {
    libm::ceil(percent * 100.0 - 1e-9) / 100.0
}

/// Widens a bound to what is taken with something to spare, where that is more.
fn widen(bound: &mut Option<Target>, spare: f64, taken: impl Fn(Option<Percentile>) -> f64) {
    if let Some(target) = bound {
        let wanted = taken(target.percentile) * spare;
        if wanted > target.at_most.get() {
            target.at_most = Seconds::new(rounded_up(wanted));
        }
    }
}

/// Rounded up to two figures.
pub(crate) fn rounded_up(value: f64) -> f64 {
    let unit = libm::pow(10.0, libm::floor(libm::log10(value.max(1e-12))) - 1.0);
    libm::ceil(value / unit - 1e-9) * unit
}

/// The flags that ask for another question.
fn changes(asked: &Workload, kept: &Workload) -> Vec<Flag> {
    let bound = |test, asked: Option<Target>, kept: Option<Target>| {
        let target = kept.filter(|_| asked != kept)?;
        Some(Flag::bound(test, target))
    };
    let (before, after) = (&asked.slo, &kept.slo);
    let mut out: Vec<Flag> = [
        bound(Test::Ttft, before.ttft, after.ttft),
        bound(Test::Tpot, before.tpot, after.tpot),
        bound(Test::EndToEnd, before.end_to_end, after.end_to_end),
    ]
    .into_iter()
    .flatten()
    .collect();
    if let Some(rate) = after
        .throughput
        .filter(|_| before.throughput != after.throughput)
    {
        out.push(Flag::new("--throughput", format!("{}/s", rate.get())));
    }
    if asked.traffic != kept.traffic {
        out.push(match kept.traffic {
            Traffic::Open { rate, .. } => Flag::new("--rate", format!("{}/s", rate.get())),
            Traffic::Closed { concurrency } => Flag::new("--concurrency", concurrency),
        });
    }
    let (before, after) = (&asked.limits, &kept.limits);
    let loss = after
        .quality_loss
        .filter(|_| before.quality_loss != after.quality_loss);
    out.extend(loss.map(|percent| Flag::new("--max-quality-loss", format!("{percent}%"))));
    let more = after
        .owned
        .iter()
        .filter(|owned| !before.owned.contains(owned));
    out.extend(more.map(|(gpu, owned)| Flag::new("--owned", format!("{gpu}:{owned}"))));
    out.extend(widened(before, after));
    out
}
