//! The promise under which a candidate that is too slow would pass: tried, not reckoned.

use super::{Failed, Judged, candidates, evaluate, offers, priced, request::Request};
use alloc::{format, string::String, vec::Vec};
use gpuwise_domain::{
    reason::seconds,
    workload::{Promise, Target},
};
use gpuwise_units::{Percentile, Seconds};

/// By how much what one request alone takes is exceeded in the bounds that are tried: with nothing to
/// spare no load is borne.
const SPARE: [f64; 5] = [1.02, 1.1, 1.25, 1.5, 2.0];

/// The tightest of the promises tried that the candidate keeps under the load and limits, in words:
/// `TTFT p95 ≤ 1.1 s, TPOT p95 ≤ 70 ms`. `None`: none of them.
pub(crate) fn promise(
    request: &Request<'_>,
    judged: &Judged<'_>,
    failed: &Failed<'_>,
) -> Option<String> {
    SPARE.iter().find_map(|spare| {
        let promise = kept(request, judged, failed, *spare)?;
        let changed = changes(&request.workload.promise, &promise);
        (!changed.is_empty()).then(|| changed.join(", "))
    })
}

/// The promise with the bounds that one request alone breaks widened, where it is kept.
fn kept(
    request: &Request<'_>,
    judged: &Judged<'_>,
    failed: &Failed<'_>,
    spare: f64,
) -> Option<Promise> {
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
    let promise = &mut workload.promise;
    widen(&mut promise.ttft, spare, |at| alone.ttft(at));
    widen(&mut promise.tpot, spare, |at| alone.tpot(at));
    widen(&mut promise.end_to_end, spare, |at| alone.end_to_end(at));
    let relaxed = Request {
        workload: &workload,
        ..request.clone()
    };
    let evaluated = evaluate::evaluate(&relaxed, setup).ok()?;
    let offers = offers::offers_of(&relaxed, &candidate.device.gpu.name);
    priced(&relaxed, evaluated, &offers, &choice.quality).ok()?;
    Some(workload.promise)
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
fn rounded_up(value: f64) -> f64 {
    let unit = libm::pow(10.0, libm::floor(libm::log10(value.max(1e-12))) - 1.0);
    libm::ceil(value / unit - 1e-9) * unit
}

fn changes(asked: &Promise, kept: &Promise) -> Vec<String> {
    let change = |name: &str, asked: Option<Target>, kept: Option<Target>| {
        let kept = kept.filter(|_| asked != kept)?;
        let at = kept
            .percentile
            .map_or_else(|| "mean".into(), |p| format!("{p}"));
        let bound = seconds(kept.at_most.get());
        Some(format!("{name} {at} ≤ {bound}"))
    };
    [
        change("TTFT", asked.ttft, kept.ttft),
        change("TPOT", asked.tpot, kept.tpot),
        change("end to end", asked.end_to_end, kept.end_to_end),
    ]
    .into_iter()
    .flatten()
    .collect()
}
