//! Why alternatives are not there: of every GPU that people would ask for, the candidate that came
//! nearest.

use super::{Failed, Judged, rank, relaxed, request::Request};
use alloc::{
    collections::BTreeMap,
    format,
    string::{String, ToString},
    vec::Vec,
};
use gpuwise_domain::{
    deployment::{Dropped, Test},
    gpu::Device,
    reason::Reason,
};
use gpuwise_units::significant;

/// How many alternatives are explained unasked.
const SHOWN: usize = 5;
/// How many candidates of a GPU are explained when asked.
const ASKED: usize = 12;

/// The alternatives to explain: those asked for in full, else of the GPUs with most offers that
/// are not among those shown.
pub(crate) fn dropped(request: &Request<'_>, judged: &Judged<'_>, shown: &[usize]) -> Vec<Dropped> {
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
        out.extend(
            of_gpu
                .into_iter()
                .take(ASKED)
                .map(|failed| failure(request, judged, failed)),
        );
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
            out.push(failure(request, judged, nearest));
        }
    }
    if shown.is_empty() && out.is_empty() {
        let mut all: Vec<&Failed<'_>> = judged.failed.iter().collect();
        all.sort_by(|a, b| nearer(a, b));
        out.extend(
            all.into_iter()
                .take(SHOWN)
                .map(|failed| failure(request, judged, failed)),
        );
    }
    out
}

/// What failed later and by less came nearer; support comes first because nothing else was looked at.
fn nearer(a: &Failed<'_>, b: &Failed<'_>) -> core::cmp::Ordering {
    b.failure
        .test
        .cmp(&a.failure.test)
        .then(a.failure.ratio.total_cmp(&b.failure.ratio))
        .then(a.candidate.layout.cmp(&b.candidate.layout))
}

fn label(judged: &Judged<'_>, failed: &Failed<'_>) -> String {
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

fn failure(request: &Request<'_>, judged: &Judged<'_>, failed: &Failed<'_>) -> Dropped {
    Dropped {
        label: label(judged, failed),
        gpu: failed.candidate.device.gpu.name.clone(),
        test: failed.failure.test,
        shortfall: failed.failure.shortfall.clone(),
        cure: failed
            .failure
            .cure
            .clone()
            .or_else(|| cure(request, judged, failed)),
        ratio: failed.failure.ratio,
    }
}

/// The smallest change that passes on the same GPU: lower precision, or more ranks; else the
/// promise under which it passes, found by trying.
fn cure(request: &Request<'_>, judged: &Judged<'_>, failed: &Failed<'_>) -> Option<String> {
    let same_gpu = judged
        .feasible
        .iter()
        .filter(|f| f.candidate.device.gpu.name == failed.candidate.device.gpu.name)
        .min_by_key(|f| (f.evaluated.setup.layout.replica_gpus(), f.candidate.choice));
    if let Some(feasible) = same_gpu {
        return Some(rank::label(judged, feasible));
    }
    match failed.failure.test {
        Test::Memory => Some(format!(
            "{} times the memory",
            significant(failed.failure.ratio, 2)
        )),
        Test::Ttft | Test::Tpot | Test::EndToEnd => relaxed::promise(request, judged, failed),
        _ => None,
    }
}

fn cheapest_of(judged: &Judged<'_>, is: impl Fn(&Device<'_>) -> bool) -> Option<usize> {
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

fn dominated(judged: &Judged<'_>, at: usize, shown: &[usize]) -> Dropped {
    let feasible = &judged.feasible[at];
    let hour = |at: usize| judged.feasible[at].figures.cost.per_hour;
    let best = shown.first().and_then(|at| hour(*at));
    let (shortfall, ratio) = match (hour(at), best) {
        (Some(own), Some(best)) => {
            let ratio = own.0.as_f64() / best.0.as_f64().max(1e-9);
            let times = Some(ratio);
            (Reason::Dearer { hour: own, times }, ratio)
        }
        (Some(hour), None) => (Reason::Dearer { hour, times: None }, 1.0),
        (None, _) => (Reason::Unoffered, f64::INFINITY),
    };
    let cure = feasible
        .rental
        .is_none()
        .then(|| "a price of your own (--prices)".to_string());
    Dropped {
        label: rank::label(judged, feasible),
        gpu: feasible.candidate.device.gpu.name.clone(),
        test: Test::Dominated,
        shortfall,
        cure,
        ratio,
    }
}
