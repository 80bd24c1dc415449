//! The SLO under which a candidate that is too slow would pass: tried, not reckoned.

use super::{Failed, Screening, candidates, evaluate, priced, request::Request};
use crate::search::Market;
use alloc::vec::Vec;
use gpuwise_domain::{
    deployment::Test,
    fix::{Fix, Flag},
    workload::{Slo, Target},
};
use gpuwise_units::{Percentile, Seconds};

/// By how much what one request alone takes is exceeded in the bounds that are tried: with nothing to
/// spare no load is borne.
pub(crate) const SPARE: [f64; 5] = [1.02, 1.1, 1.25, 1.5, 2.0];

/// The tightest of the SLOs tried that the candidate keeps under the load and limits, `None`: none of
/// them.
pub(crate) fn slo(
    request: &Request<'_>,
    judged: &Screening<'_>,
    failed: &Failed<'_>,
) -> Option<Fix> {
    SPARE.iter().find_map(|spare| {
        let slo = kept(request, judged, failed, *spare)?;
        let changed = changes(&request.workload.slo, &slo);
        (!changed.is_empty()).then(|| Fix::flags(changed))
    })
}

/// The SLO with the bounds that one request alone breaks widened, where it is kept.
fn kept(
    request: &Request<'_>,
    judged: &Screening<'_>,
    failed: &Failed<'_>,
    spare: f64,
) -> Option<Slo> {
    let candidate = &failed.candidate;
    let choice = judged.choices.get(candidate.choice)?;
    let setup = candidates::setup(
        request,
        candidate.device,
        candidate.layout,
        choice,
        candidate.cache,
        super::context(request),
    );
    let alone = evaluate::alone(request, &setup);
    let mut workload = request.workload.clone();
    let slo = &mut workload.slo;
    widen(&mut slo.ttft, spare, |at| alone.ttft(at));
    widen(&mut slo.tpot, spare, |at| alone.tpot(at));
    widen(&mut slo.end_to_end, spare, |at| alone.end_to_end(at));
    let relaxed = Request {
        workload: &workload,
        ..request.clone()
    };
    let evaluated = evaluate::evaluate(&relaxed, setup).ok()?;
    let market = Market::new(relaxed.catalogue, &workload.limits, relaxed.choices.terms);
    let offers = market.offers(&candidate.device.gpu.name);
    priced(&relaxed, evaluated, (&market, &offers), &choice.quality).ok()?;
    Some(workload.slo)
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

fn changes(asked: &Slo, kept: &Slo) -> Vec<Flag> {
    let change = |test, asked: Option<Target>, kept: Option<Target>| {
        let target = kept.filter(|_| asked != kept)?;
        Some(Flag::bound(test, target))
    };
    [
        change(Test::Ttft, asked.ttft, kept.ttft),
        change(Test::Tpot, asked.tpot, kept.tpot),
        change(Test::EndToEnd, asked.end_to_end, kept.end_to_end),
    ]
    .into_iter()
    .flatten()
    .collect()
}
