//! Rows of published benchmarks about diffusion, vision and embedding models: answers, errors, the refit.

mod file;
pub mod fit;
pub mod question;
mod refit;

pub use file::read_constants;
pub use refit::{left_out, refit};

use crate::{Loaded, QuestionRow, answer::Answer};
use gpuwise_domain::{
    estimate::{Basis, Estimate},
    media::MediaBenchmark,
    network::Walk,
    question::Question,
};
use gpuwise_size::media::{Constants, plan::measured_kind, walk::walk};
use question::{Reading, benchmark, read};
use std::{borrow::Cow, collections::BTreeMap};

/// What the benchmarks run, walked through.
pub type Walks = BTreeMap<String, Result<Walk, String>>;

/// The benchmark that a question is about, where it is one of a diffusion, vision or embedding model; a network that
/// is named by itself is asked for its usual input.
pub fn about<'a>(question: &Question, loaded: &'a Loaded) -> Option<Cow<'a, MediaBenchmark>> {
    let listed = benchmark(question, &loaded.media_benchmarks).map(Cow::Borrowed);
    listed.or_else(|| usual(question, loaded).map(Cow::Owned))
}

fn usual(question: &Question, loaded: &Loaded) -> Option<MediaBenchmark> {
    let metric = question.metric.as_str();
    let whole = ["sample_throughput", "output_throughput"].contains(&metric)
        || metric.starts_with("latency");
    if !whole || question.extra("benchmark").is_some() {
        return None;
    }
    let entry = loaded.networks.entry(&question.model)?;
    Some(MediaBenchmark {
        prefix: entry.id.clone(),
        network: entry.id.clone(),
        input: entry.usual,
        inputs: 1.0,
        compute: None,
        source: entry.source.clone(),
    })
}

pub fn walks(asked: &[QuestionRow], loaded: &Loaded) -> Walks {
    let mut out = Walks::new();
    for row in asked {
        let Some(benchmark) = about(&row.question, loaded) else {
            continue;
        };
        if !out.contains_key(&benchmark.prefix) {
            out.insert(benchmark.prefix.clone(), walked(&benchmark, loaded));
        }
    }
    out
}

fn walked(benchmark: &MediaBenchmark, loaded: &Loaded) -> Result<Walk, String> {
    let network = loaded
        .networks
        .resolve(&benchmark.network, &loaded.models)
        .map_err(|error| error.to_string())?;
    walk(&network, &benchmark.input).map_err(|error| error.to_string())
}

/// Reads a row; `None` where it is of another kind.
pub fn reading<'a>(
    question: &Question,
    loaded: &'a Loaded,
    walks: &'a Walks,
) -> Option<Result<Reading<'a>, String>> {
    let benchmark = about(question, loaded)?;
    Some(match walks.get(&benchmark.prefix)? {
        Ok(walk) => read(question, &benchmark, walk, &loaded.catalogue),
        Err(why) => Err(why.clone()),
    })
}

/// Answers a row; `None` where it is of another kind.
pub fn answer(
    question: &Question,
    loaded: &Loaded,
    walks: &Walks,
    constants: &Constants,
) -> Option<Answer> {
    let reading = match reading(question, loaded, walks)? {
        Ok(reading) => reading,
        Err(why) => return Some(Answer::none(why)),
    };
    let Some(figure) = reading.run.figure(constants) else {
        return Some(Answer::none("the model gives no figure for this row"));
    };
    let near = reading.set_aside.is_empty()
        && constants.knows(&reading.run.device.gpu.generation)
        && measured_kind(reading.run.walk);
    let (low, high) = if near {
        constants.range
    } else {
        constants.far_range
    };
    // A latency is slow where a rate is low.
    let (low, high) = if question.unit == "ms" {
        (1.0 / high, 1.0 / low)
    } else {
        (low, high)
    };
    let scale = if question.unit == "ms" { 1e3 } else { 1.0 };
    let mut reason = reading.notes.join("; ");
    if !reading.set_aside.is_empty() {
        reason = format!("{reason}; {}", reading.set_aside);
    }
    Some(Answer {
        estimate: Some(Estimate::with_factors(figure * scale, low, high)),
        basis: Some(if near {
            Basis::Calibrated
        } else {
            Basis::Extrapolated
        }),
        reason,
    })
}
