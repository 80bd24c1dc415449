//! Choices that no layout can meet, said with the nearest that one can.

use super::{
    Cluster,
    engines::{no_trainers, rollout_ranks},
    request::TrainChoices,
    shape::{Shape, divisors},
    space,
};
use alloc::vec::Vec;
use gpuwise_domain::{
    clash::Clash,
    fix::{Fix, Flag},
    training::{Framework, Recompute},
};

/// A choice that cannot be met.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    pub why: Clash,
    /// The nearest that can.
    pub nearest: Vec<Fix>,
}

pub(super) const fn refusal(why: Clash, nearest: Vec<Fix>) -> Refusal {
    Refusal { why, nearest }
}

/// Everything that is wrong with fixed degrees and batches on a cluster; empty: some placement
/// exists.
pub fn refusals(shape: &Shape, choices: &TrainChoices, cluster: &Cluster<'_>) -> Vec<Refusal> {
    let mut out = Vec::new();
    let Some(cluster) = &choices.trainers(cluster) else {
        return alloc::vec![no_trainers(choices, cluster)];
    };
    out.extend(rollout_ranks(choices, cluster));
    out.extend(framework(choices));
    out.extend(recompute(choices));
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
        let full = Fix::flag("--recompute", Recompute::Full.name());
        refusal(Clash::OffloadedActivations(stated), alloc::vec![full])
    })
}

/// Recomputation of less than a layer under frameworks that have none.
fn recompute(choices: &TrainChoices) -> Option<Refusal> {
    choices.recompute.filter(|r| *r == Recompute::Selective)?;
    let frameworks = space::frameworks(choices);
    if frameworks.iter().any(|f| f.recomputes_parts()) {
        return None;
    }
    let whole = ["full", "none"].map(|all| Fix::flag("--recompute", all));
    Some(refusal(
        Clash::WholeLayers(*frameworks.first()?),
        whole.into(),
    ))
}

fn framework(choices: &TrainChoices) -> Option<Refusal> {
    let framework = choices.framework.filter(|f| !f.divides_models())?;
    let (flag, degree) = choices.degrees.beyond_data()?;
    let why = Clash::DataParallelOnly {
        flag,
        degree,
        framework,
    };
    // TRL, which pairs and rollouts are sized for, has no other framework.
    let fix = match choices.alignment {
        Some(_) => Fix::flag(flag, 1),
        None => Fix::flag("--framework", Framework::Megatron.name()),
    };
    Some(refusal(why, alloc::vec![fix]))
}

/// The two numbers of a list that lie around one.
pub(super) fn around(all: impl Iterator<Item = u64>, stated: u64) -> Vec<u64> {
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

pub(super) fn flags(flag: &'static str, numbers: Vec<u64>) -> Vec<Fix> {
    let fix = |number| Fix::flag(flag, number);
    numbers.into_iter().map(fix).collect()
}

fn tensor(shape: &Shape, choices: &TrainChoices, cluster: &Cluster<'_>) -> Option<Refusal> {
    let tensor = choices.degrees.tensor?;
    if shape.takes_tensor(tensor) {
        return None;
    }
    let most = cluster.gpus.min(shape.heads);
    let fits = divisors(shape.heads).filter(|degree| *degree <= most);
    let why = Clash::Heads {
        tensor,
        heads: shape.heads,
    };
    Some(refusal(why, flags("--tp", around(fits, u64::from(tensor)))))
}

fn pipeline(shape: &Shape, choices: &TrainChoices) -> Option<Refusal> {
    let stages = u64::from(choices.degrees.pipeline?);
    let layers = shape.layers;
    if stages > layers {
        let why = Clash::EmptyStages { stages, layers };
        let nearest = around(1..=layers, stages);
        return Some(refusal(why, flags("--pp", nearest)));
    }
    let interleave = u64::from(choices.degrees.interleave?);
    if interleave == 1 || (stages > 1 && shape.fills_stages(stages * interleave)) {
        return None;
    }
    let fits = (1..=layers / stages).filter(|v| shape.fills_stages(stages * v));
    let why = if stages == 1 {
        Clash::NoPipeline { interleave }
    } else {
        Clash::VirtualStages {
            interleave,
            stages,
            layers,
        }
    };
    Some(refusal(why, flags("--vp", around(fits, interleave))))
}

fn experts(shape: &Shape, choices: &TrainChoices) -> Option<Refusal> {
    let degree = choices.degrees.expert?;
    if shape.takes_experts(degree) {
        return None;
    }
    if shape.experts == 0 {
        let why = Clash::NoExperts { degree };
        return Some(refusal(why, flags("--ep", alloc::vec![1])));
    }
    let experts = shape.experts;
    Some(refusal(
        Clash::Experts { degree, experts },
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
    let why = Clash::Sequence {
        context: degree,
        tokens: choices.sequence,
    };
    Some(refusal(
        why,
        flags(
            "--seq",
            sequences.into_iter().filter(|tokens| *tokens > 0).collect(),
        ),
    ))
}

fn product(choices: &TrainChoices, cluster: &Cluster<'_>) -> Option<Refusal> {
    let fixed = &choices.degrees;
    let stated = [fixed.tensor, fixed.pipeline, fixed.context, fixed.data];
    let product: u64 = stated
        .iter()
        .flatten()
        .copied()
        .map(u64::from)
        .fold(1, u64::saturating_mul);
    let all = stated.iter().all(Option::is_some);
    let divides = product > 0 && cluster.gpus.is_multiple_of(product);
    if divides && (!all || product == cluster.gpus) {
        return None;
    }
    let nearest = match product {
        0 => Vec::new(),
        _ if all => alloc::vec![product],
        _ => around(
            (1..=cluster.gpus / product + 1).map(|copies| copies * product),
            cluster.gpus,
        ),
    };
    let why = Clash::Product {
        stated,
        product,
        gpus: cluster.gpus,
    };
    let own = choices.alignment.map_or(0, |one| one.own_gpus());
    let fix = |count| Flag::gpus(count + own, &cluster.gpu.name).into();
    Some(refusal(why, nearest.into_iter().map(fix).collect()))
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
        let why = Clash::NoPlacement { gpus: cluster.gpus };
        return Some(refusal(why, Vec::new()));
    }
    if takes(batch) {
        return None;
    }
    // A rank takes whole micro-batches; the smallest batch is one for each rank.
    let group = choices.group();
    let multiples = || {
        placements
            .iter()
            .map(|placement| space::least_common(u64::from(placement.layout.data) * micro, group))
    };
    let least = multiples().min().unwrap_or(1);
    let most = multiples().max().unwrap_or(1);
    let below = (1..batch).rev().take(4096).find(|b| takes(*b));
    let above = (batch + 1..).take(4096).find(|b| takes(*b));
    let why = Clash::GlobalBatch {
        batch,
        micro,
        group,
        multiple: (least, most),
    };
    Some(refusal(
        why,
        flags("--global-batch", below.into_iter().chain(above).collect()),
    ))
}
