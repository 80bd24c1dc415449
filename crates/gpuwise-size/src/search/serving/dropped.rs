//! Why alternatives are not there: of every GPU that people would ask for, the candidate that came
//! nearest.

use super::{Failed, Screening, cures::Cures, rank, relaxed, request::Request};
use crate::search::{Failure, failure, whole_gpus};
use alloc::{collections::BTreeMap, format, string::String, vec::Vec};
use gpuwise_domain::{
    deployment::Dropped,
    fix::{Fix, Flag},
    gpu::Device,
    reason::Reason,
};

/// How many alternatives are explained unasked.
const SHOWN: usize = 5;
/// How many candidates of a GPU are explained when asked.
const ASKED: usize = 12;

/// The alternatives to explain: those asked for in full, else of the GPUs with most offers that
/// are not among those shown.
pub(crate) fn dropped(
    request: &Request<'_>,
    judged: &Screening<'_>,
    shown: &[usize],
    elsewhere: Option<Fix>,
) -> Vec<Dropped> {
    let mut cures = Cures::new(request, elsewhere);
    let mut failure = |failed: &Failed<'_>| failure(request, judged, failed, &mut cures);
    let mut out = Vec::new();
    for wanted in &request.choices.why_not {
        // A GPU with its slices, or one of these.
        let is = |device: &Device<'_>| device.gpu.name == *wanted || device.name() == *wanted;
        let mut of_gpu: Vec<&Failed<'_>> = judged
            .failed
            .iter()
            .filter(|f| is(&f.candidate.device))
            .collect();
        of_gpu.sort_by(|a, b| nearer(a, b));
        out.extend(of_gpu.into_iter().take(ASKED).map(&mut failure));
        if let Some(cheapest) = cheapest_of(judged, is) {
            out.push(dominated(judged, cheapest, shown));
        }
    }
    if !request.choices.why_not.is_empty() {
        return out;
    }
    let mut popularity: BTreeMap<&str, usize> = BTreeMap::new();
    for offer in &request.catalogue.offers {
        *popularity.entry(offer.gpu.as_str()).or_default() += 1;
    }
    let mut names: Vec<(&str, usize)> = popularity.into_iter().collect();
    names.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let is_shown = |name: &str| {
        shown
            .iter()
            .any(|at| judged.feasible[*at].candidate.device.gpu.name == name)
    };
    for (name, _) in names {
        if out.len() >= SHOWN {
            break;
        }
        if is_shown(name) {
            continue;
        }
        if let Some(cheapest) = cheapest_of(judged, |device| device.gpu.name == name) {
            out.push(dominated(judged, cheapest, shown));
            continue;
        }
        let nearest = judged
            .failed
            .iter()
            .filter(|f| f.candidate.device.gpu.name == name)
            .min_by(|a, b| {
                // What is not asked for, a lower precision, explains less.
                let lower = |f: &Failed<'_>| !judged.choices[f.candidate.choice].published;
                lower(a).cmp(&lower(b)).then(nearer(a, b))
            });
        if let Some(nearest) = nearest {
            out.push(failure(nearest));
        }
    }
    if shown.is_empty()
        && let Some(nearest) = nearest(judged)
    {
        out.retain(|one: &Dropped| one.gpu != nearest.candidate.device.gpu.name);
        out.insert(0, failure(nearest));
    }
    if shown.is_empty() && out.is_empty() {
        let mut all: Vec<&Failed<'_>> = judged.failed.iter().collect();
        all.sort_by(|a, b| nearer(a, b));
        out.extend(all.into_iter().take(SHOWN).map(&mut failure));
    }
    out
}

/// Of all GPUs and formats what breaks its limits least, where these alone are in its way: the smallest change of
/// the question that is known to have an answer.
fn nearest<'a>(judged: &'a Screening<'a>) -> Option<&'a Failed<'a>> {
    let limited = judged.failed.iter().filter(|failed| {
        let shortfall = &failed.failure.shortfall;
        relaxed::is_limit(shortfall) && !matches!(shortfall, Reason::NotOffered(_))
    });
    limited.min_by(|a, b| nearer(a, b))
}

pub(super) fn nearer(a: &Failed<'_>, b: &Failed<'_>) -> core::cmp::Ordering {
    let of = |failed: &Failed<'_>| (failed.failure.test, failed.failure.ratio);
    failure::nearer(of(a), of(b)).then(a.candidate.layout.cmp(&b.candidate.layout))
}

fn label(judged: &Screening<'_>, failed: &Failed<'_>) -> String {
    let candidate = &failed.candidate;
    let gpus = candidate.layout.replica_gpus();
    let layout = if gpus > 1 {
        format!(" {}", candidate.layout)
    } else {
        String::new()
    };
    format!(
        "{gpus} × {}{layout} {}",
        candidate.device.name(),
        judged.format(candidate)
    )
}

fn failure(
    request: &Request<'_>,
    judged: &Screening<'_>,
    failed: &Failed<'_>,
    cures: &mut Cures<'_, '_>,
) -> Dropped {
    let mut failure = failed.failure.clone();
    if failure.fixes.is_empty() {
        failure.fixes.extend(fix(request, judged, failed, cures));
    } else if let Some(limits) = relaxed::question(request, judged, failed) {
        // Beside the limit that was broken first, those that are broken then.
        failure.fixes = alloc::vec![limits];
    } else {
        // What was tried breaks another limit: no fix is better than one that is none. A price of one's own is within
        // every limit but that of power.
        let priced = request.workload.limits.power.is_none();
        let limit = relaxed::is_limit(&failure.shortfall);
        failure.fixes.retain(|fix| match fix {
            Fix::OwnPrice { .. } => priced,
            _ => !limit,
        });
    }
    failure.dropped(label(judged, failed), &failed.candidate.device.gpu.name)
}

/// The smallest change that passes on the same GPU: lower precision, or more ranks; else the SLO under
/// which it passes, or another change of the question, found by trying.
fn fix(
    request: &Request<'_>,
    judged: &Screening<'_>,
    failed: &Failed<'_>,
    cures: &mut Cures<'_, '_>,
) -> Option<Fix> {
    let device = &failed.candidate.device;
    let same_gpu = judged
        .feasible
        .iter()
        .filter(|f| f.candidate.device.gpu.name == device.gpu.name)
        .min_by_key(|f| (f.evaluated.setup.layout.replica_gpus(), f.candidate.choice));
    if let Some(feasible) = same_gpu {
        return Some(Fix::Flags {
            flags: alloc::vec![Flag::new("--gpu", feasible.candidate.device.name())],
            gives: Some(rank::label(judged, feasible)),
        });
    }
    // Where others do, what would be needed here is told where it was asked for.
    let asked = judged.feasible.is_empty() || !request.choices.why_not.is_empty();
    relaxed::question(request, judged, failed).or_else(|| asked.then(|| cures.of(device)).flatten())
}

fn cheapest_of(judged: &Screening<'_>, is: impl Fn(&Device<'_>) -> bool) -> Option<usize> {
    let hour = |at: &usize| {
        let figures = &judged.feasible[*at].figures;
        figures
            .cost
            .per_hour
            .map_or(f64::INFINITY, |h| h.0.as_f64())
    };
    let lower = |at: &usize| !judged.choices[judged.feasible[*at].candidate.choice].published;
    let devices = |at: &usize| judged.feasible[*at].evaluated.devices();
    (0..judged.feasible.len())
        .filter(|at| is(&judged.feasible[*at].candidate.device))
        .min_by(|a, b| {
            let kind = lower(a).cmp(&lower(b));
            kind.then(hour(a).total_cmp(&hour(b)))
                .then(devices(a).cmp(&devices(b)))
        })
}

fn dominated(judged: &Screening<'_>, at: usize, shown: &[usize]) -> Dropped {
    let feasible = &judged.feasible[at];
    let hour = |at: usize| judged.feasible[at].figures.cost.per_hour;
    let mut failure = Failure::dominated(hour(at), shown.first().and_then(|at| hour(*at)));
    if feasible.rental.is_none() {
        let device = &feasible.candidate.device;
        failure = failure.fixed_by(Fix::OwnPrice {
            gpu: device.gpu.name.clone(),
            gpus: whole_gpus(device, feasible.evaluated.devices()),
            at_most: None,
        });
    }
    failure.dropped(
        rank::label(judged, feasible),
        &feasible.candidate.device.gpu.name,
    )
}
