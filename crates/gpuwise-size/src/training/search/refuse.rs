//! Choices that no layout can meet, said with the nearest that one can.

use super::{
    Cluster,
    request::TrainChoices,
    shape::{Shape, divisors},
    space,
};
use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};
use gpuwise_domain::training::{Framework, Recompute};

/// A choice that cannot be met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What does not go, and why.
    pub why: String,
    /// The nearest that does.
    pub nearest: Vec<String>,
}

fn refusal(why: impl Into<String>, nearest: Vec<String>) -> Refusal {
    Refusal {
        why: why.into(),
        nearest,
    }
}

/// Everything that is wrong with fixed degrees and batches on a cluster; empty: some placement
/// exists.
pub fn refusals(shape: &Shape, choices: &TrainChoices, cluster: &Cluster<'_>) -> Vec<Refusal> {
    let mut out = Vec::new();
    out.extend(framework(choices));
    out.extend(offload(choices));
    out.extend(tensor(shape, choices, cluster));
    out.extend(pipeline(shape, choices));
    out.extend(experts(shape, choices));
    out.extend(context(choices));
    // What does not divide heads or layers needs no second reason.
    if out.is_empty() {
        out.extend(product(choices, cluster));
    }
    if out.is_empty() {
        out.extend(batch(shape, choices, cluster));
    }
    out
}

fn offload(choices: &TrainChoices) -> Option<Refusal> {
    let stated = choices.recompute.filter(|r| *r != Recompute::Full)?;
    choices.offload.activations.then(|| {
        refusal(
            format!(
                "--offload activations: with --recompute {} no layer's input is kept apart that could be offloaded",
                stated.name()
            ),
            alloc::vec!["--recompute full".into()],
        )
    })
}

fn framework(choices: &TrainChoices) -> Option<Refusal> {
    let framework = choices.framework.filter(|f| *f != Framework::Megatron)?;
    let (flag, degree) = choices.degrees.beyond_data()?;
    Some(refusal(
        format!(
            "{flag} {degree}: {} divides over data-parallel ranks alone",
            framework.title()
        ),
        alloc::vec!["--framework megatron".into()],
    ))
}

/// The two numbers of a list that lie around one.
fn around(all: impl Iterator<Item = u64>, stated: u64) -> Vec<u64> {
    let (mut below, mut above) = (None, None);
    for number in all {
        if number < stated {
            below = Some(number);
        } else if number > stated && above.is_none() {
            above = Some(number);
        }
    }
    below.into_iter().chain(above).collect()
}

fn flags(flag: &str, numbers: Vec<u64>) -> Vec<String> {
    numbers
        .into_iter()
        .map(|number| format!("{flag} {number}"))
        .collect()
}

fn tensor(shape: &Shape, choices: &TrainChoices, cluster: &Cluster<'_>) -> Option<Refusal> {
    let tensor = choices.degrees.tensor?;
    if shape.takes_tensor(tensor) {
        return None;
    }
    let most = cluster.gpus.min(shape.heads);
    let fits = divisors(shape.heads).filter(|degree| *degree <= most);
    Some(refusal(
        format!(
            "--tp {tensor} does not divide the {} attention heads",
            shape.heads
        ),
        flags("--tp", around(fits, u64::from(tensor))),
    ))
}

fn pipeline(shape: &Shape, choices: &TrainChoices) -> Option<Refusal> {
    let stages = u64::from(choices.degrees.pipeline?);
    let takes = |stages: &u64| shape.takes_stages(*stages);
    let nearest = || around((1..=shape.layers).filter(takes), stages);
    if stages > shape.layers {
        return Some(refusal(
            format!(
                "--pp {stages}: {} layers leave {} stages without a layer",
                shape.layers,
                stages - shape.layers
            ),
            flags("--pp", nearest()),
        ));
    }
    if !shape.takes_stages(stages) {
        return Some(refusal(
            format!(
                "--pp {stages} divides neither the {} layers nor these with embedding and head",
                shape.layers
            ),
            flags("--pp", nearest()),
        ));
    }
    let interleave = u64::from(choices.degrees.interleave?);
    if interleave == 1 || (stages > 1 && shape.takes_stages(stages * interleave)) {
        return None;
    }
    let fits = (1..=shape.layers / stages).filter(|v| shape.takes_stages(stages * v));
    let why = if stages == 1 {
        format!("--vp {interleave} needs a pipeline")
    } else {
        format!(
            "--vp {interleave}: {} layers cannot be dealt to {stages} × {interleave} virtual stages",
            shape.layers
        )
    };
    Some(refusal(why, flags("--vp", around(fits, interleave))))
}

fn experts(shape: &Shape, choices: &TrainChoices) -> Option<Refusal> {
    let degree = choices.degrees.expert?;
    if shape.takes_experts(degree) {
        return None;
    }
    if shape.experts == 0 {
        return Some(refusal(
            format!("--ep {degree}: the model has no experts"),
            flags("--ep", alloc::vec![1]),
        ));
    }
    Some(refusal(
        format!(
            "--ep {degree} does not divide the {} experts",
            shape.experts
        ),
        flags("--ep", around(divisors(shape.experts), u64::from(degree))),
    ))
}

fn context(choices: &TrainChoices) -> Option<Refusal> {
    let degree = choices.degrees.context?;
    if space::divides_sequence(choices.sequence, degree) {
        return None;
    }
    let unit = 2 * u64::from(degree);
    let sequences = [
        choices.sequence / unit * unit,
        choices.sequence.next_multiple_of(unit),
    ];
    Some(refusal(
        format!(
            "--cp {degree}: {} tokens cannot be dealt in {unit} equal chunks, two a rank",
            choices.sequence
        ),
        flags(
            "--seq",
            sequences.into_iter().filter(|tokens| *tokens > 0).collect(),
        ),
    ))
}

fn product(choices: &TrainChoices, cluster: &Cluster<'_>) -> Option<Refusal> {
    let fixed = &choices.degrees;
    let stated = [
        ("TP", fixed.tensor),
        ("PP", fixed.pipeline),
        ("CP", fixed.context),
        ("DP", fixed.data),
    ];
    let product: u64 = stated
        .iter()
        .filter_map(|(_, degree)| *degree)
        .map(u64::from)
        .fold(1, u64::saturating_mul);
    let all = stated.iter().all(|(_, degree)| degree.is_some());
    let divides = product > 0 && cluster.gpus.is_multiple_of(product);
    if divides && (!all || product == cluster.gpus) {
        return None;
    }
    let words: Vec<String> = stated
        .iter()
        .filter_map(|(word, degree)| degree.map(|degree| format!("{word}{degree}")))
        .collect();
    let nearest = match product {
        0 => Vec::new(),
        _ if all => alloc::vec![product],
        _ => around(
            (1..=cluster.gpus / product + 1).map(|copies| copies * product),
            cluster.gpus,
        ),
    };
    Some(refusal(
        format!(
            "{} is {product}, which does not make {} GPUs",
            words.join(" × "),
            cluster.gpus
        ),
        nearest
            .into_iter()
            .map(|gpus| format!("{gpus} GPUs"))
            .collect(),
    ))
}

/// A global batch that no placement can deal out.
fn batch(shape: &Shape, choices: &TrainChoices, cluster: &Cluster<'_>) -> Option<Refusal> {
    let batch = space::global_batch(choices, cluster.gpus);
    let placements = space::placements(shape, choices, cluster);
    let micro = choices.micro_batch.unwrap_or(1);
    let takes = |batch: u64| {
        placements
            .iter()
            .any(|placement| !space::micro_batches(choices, placement, batch).is_empty())
    };
    if placements.is_empty() {
        return Some(refusal(
            format!(
                "no degrees of parallelism that divide heads, layers and experts make {} GPUs",
                cluster.gpus
            ),
            Vec::new(),
        ));
    }
    if takes(batch) {
        return None;
    }
    // A rank takes whole micro-batches; the smallest batch is one for each rank.
    let least = placements
        .iter()
        .map(|placement| u64::from(placement.layout.data) * micro)
        .min()
        .unwrap_or(1);
    let most = placements
        .iter()
        .map(|placement| u64::from(placement.layout.data) * micro)
        .max()
        .unwrap_or(1);
    let below = (1..batch).rev().take(4096).find(|b| takes(*b));
    let above = (batch + 1..).take(4096).find(|b| takes(*b));
    let ranks = if least == most {
        least.to_string()
    } else {
        format!("{least} to {most}")
    };
    Some(refusal(
        format!(
            "a global batch of {batch} does not divide into micro-batches of {micro} over data-parallel \
             ranks: it must be a multiple of {ranks}"
        ),
        flags("--global-batch", below.into_iter().chain(above).collect()),
    ))
}
