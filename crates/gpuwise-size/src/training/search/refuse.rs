//! Choices that no layout can meet, said with the nearest that one can.

use super::{
    Cluster,
    change::{ParallelDegree, QuestionChange},
    engines::{no_trainers, rollout_ranks},
    request::TrainChoices,
    shape::{Shape, divisors},
    space,
};
use alloc::vec::Vec;
use gpuwise_domain::{
    clash::Clash,
    training::{Framework, Recompute, Sharding},
};

/// Values of one degree, and multiples of a batch, that are told at most.
const NEAREST: usize = 6;

/// A choice that cannot be met.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    pub why: Clash,
    /// Changes that mend this, the nearest first; another refusal may follow.
    pub nearest: Vec<QuestionChange>,
}

pub(super) const fn refusal(why: Clash, nearest: Vec<QuestionChange>) -> Refusal {
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
    out.extend(pipeline(shape, choices, cluster));
    out.extend(experts(shape, choices));
    out.extend(context(choices, cluster));
    // What does not divide heads or layers needs no second reason.
    if out.is_empty() {
        out.extend(product(choices, cluster));
    }
    if out.is_empty() {
        out.extend(sharding(shape, choices, cluster));
    }
    if out.is_empty() {
        out.extend(batch(shape, choices, cluster));
    }
    out
}

fn offload(choices: &TrainChoices) -> Option<Refusal> {
    let stated = choices.recompute.filter(|r| *r != Recompute::Full)?;
    choices.offload.activations.then(|| {
        let full = QuestionChange::Recompute(Recompute::Full);
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
    let whole = [Recompute::Full, Recompute::None].map(QuestionChange::Recompute);
    Some(refusal(
        Clash::WholeLayers(*frameworks.first()?),
        whole.into(),
    ))
}

fn framework(choices: &TrainChoices) -> Option<Refusal> {
    let framework = choices.framework.filter(|f| !f.divides_models())?;
    let (beyond, degree) = choices.degrees.beyond_data()?;
    let why = Clash::DataParallelOnly {
        flag: beyond.flag(),
        degree,
        framework,
    };
    // TRL, which pairs and rollouts are sized for, has no other framework.
    let fix = match choices.alignment {
        Some(_) => QuestionChange::Degree(beyond, 1),
        None => QuestionChange::Framework(Framework::Megatron),
    };
    Some(refusal(why, alloc::vec![fix]))
}

/// Degrees of a list by how near they lie to one, those that the GPUs can be dealt to first.
pub(super) fn near(all: impl Iterator<Item = u64>, stated: u64, gpus: u64) -> Vec<u32> {
    let mut all: Vec<u64> = all.filter(|number| *number != stated).collect();
    all.sort_by_key(|number| {
        let deals = *number > 0 && gpus.is_multiple_of(*number);
        (!deals, number.abs_diff(stated), *number)
    });
    let all = all
        .into_iter()
        .filter_map(|number| u32::try_from(number).ok());
    all.take(NEAREST).collect()
}

fn degrees(degree: ParallelDegree, values: Vec<u32>) -> Vec<QuestionChange> {
    let change = |value| QuestionChange::Degree(degree, value);
    values.into_iter().map(change).collect()
}

fn tensor(shape: &Shape, choices: &TrainChoices, cluster: &Cluster<'_>) -> Option<Refusal> {
    let tensor = choices.degrees.tensor?;
    if shape.takes_tensor(tensor) {
        return None;
    }
    let why = Clash::Heads {
        tensor,
        heads: shape.heads,
    };
    let fits = near(divisors(shape.heads), u64::from(tensor), cluster.gpus);
    Some(refusal(why, degrees(ParallelDegree::Tensor, fits)))
}

fn pipeline(shape: &Shape, choices: &TrainChoices, cluster: &Cluster<'_>) -> Option<Refusal> {
    let stages = u64::from(choices.degrees.pipeline?);
    let layers = shape.layers;
    if stages > layers {
        let why = Clash::EmptyStages { stages, layers };
        let fits = near(1..=layers, stages, cluster.gpus);
        return Some(refusal(why, degrees(ParallelDegree::Pipeline, fits)));
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
    // Virtual stages are no GPUs.
    let fits = near(fits, interleave, 0);
    Some(refusal(why, degrees(ParallelDegree::Interleave, fits)))
}

fn experts(shape: &Shape, choices: &TrainChoices) -> Option<Refusal> {
    let degree = choices.degrees.expert?;
    if shape.takes_experts(degree) {
        return None;
    }
    if shape.experts == 0 {
        let why = Clash::NoExperts { degree };
        return Some(refusal(
            why,
            degrees(ParallelDegree::Expert, alloc::vec![1]),
        ));
    }
    let experts = shape.experts;
    let fits = near(divisors(experts), u64::from(degree), 0);
    Some(refusal(
        Clash::Experts { degree, experts },
        degrees(ParallelDegree::Expert, fits),
    ))
}

fn context(choices: &TrainChoices, cluster: &Cluster<'_>) -> Option<Refusal> {
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
    let sequences = sequences.into_iter().filter(|tokens| *tokens > 0);
    let deals = |ranks: &u64| {
        u32::try_from(*ranks).is_ok_and(|ranks| space::divides_sequence(choices.sequence, ranks))
    };
    let fits = near(
        divisors(cluster.gpus).filter(deals),
        u64::from(degree),
        cluster.gpus,
    );
    let mut nearest: Vec<QuestionChange> = sequences.map(QuestionChange::Sequence).collect();
    nearest.extend(degrees(ParallelDegree::Context, fits));
    Some(refusal(why, nearest))
}

/// Degrees that do not make the GPUs.
fn product(choices: &TrainChoices, cluster: &Cluster<'_>) -> Option<Refusal> {
    let gpus = cluster.gpus;
    // What only Megatron searches is 1 elsewhere.
    let searched = space::frameworks(choices).contains(&Framework::Megatron);
    let counted = if searched {
        choices.degrees
    } else {
        choices.degrees.or_none()
    };
    let counted = ParallelDegree::PRODUCT.map(|degree| (degree, degree.stated(&counted)));
    let made = |other: Option<ParallelDegree>| {
        let all = counted.iter().filter(|(degree, _)| Some(*degree) != other);
        let all = all.filter_map(|(_, stated)| *stated).map(u64::from);
        all.fold(1, u64::saturating_mul)
    };
    let product = made(None);
    let all = counted.iter().all(|(_, stated)| stated.is_some());
    let divides = product > 0 && gpus.is_multiple_of(product);
    if divides && (!all || product == gpus) {
        return None;
    }
    let why = Clash::Product {
        stated: [
            choices.degrees.tensor,
            choices.degrees.pipeline,
            choices.degrees.context,
            choices.degrees.data,
        ],
        product,
        gpus,
    };
    let mut nearest = Vec::new();
    let stated = counted
        .iter()
        .filter(|(degree, _)| degree.stated(&choices.degrees).is_some());
    for (degree, value) in stated {
        let others = made(Some(*degree)).max(1);
        let left = gpus.is_multiple_of(others).then_some(gpus / others);
        let value = value.map_or(1, u64::from);
        let fits = divisors(left.unwrap_or(0)).filter(|fits| !all || Some(*fits) == left);
        nearest.extend(degrees(*degree, near(fits, value, gpus)));
    }
    let counts: Vec<u64> = match product {
        0 => Vec::new(),
        _ if all => alloc::vec![product],
        _ => {
            let least = gpus / product;
            let copies = [least, least + 1].into_iter().filter(|copies| *copies > 0);
            copies.map(|copies| copies * product).collect()
        }
    };
    let own = choices.alignment.map_or(0, |one| one.own_gpus());
    nearest.extend(
        counts
            .into_iter()
            .map(|count| QuestionChange::Gpus(count + own)),
    );
    Some(refusal(why, nearest))
}

/// Groups of a hybrid sharding that no number of copies is made of.
fn sharding(shape: &Shape, choices: &TrainChoices, cluster: &Cluster<'_>) -> Option<Refusal> {
    let Some(Sharding::Hybrid { group }) = choices.sharding else {
        return None;
    };
    let open = TrainChoices {
        sharding: None,
        ..choices.clone()
    };
    let copies = |placement: &space::Placement| {
        u64::from(placement.layout.data) * u64::from(placement.layout.context)
    };
    let all: Vec<u64> = space::placements(shape, &open, cluster)
        .iter()
        .map(copies)
        .collect();
    let most = all.iter().copied().max()?;
    if !space::placements(shape, choices, cluster).is_empty() {
        return None;
    }
    let groups = divisors(most).filter(|fits| *fits > 1);
    let groups = near(groups, u64::from(group), most).into_iter();
    let mut nearest: Vec<QuestionChange> = groups
        .map(|group| QuestionChange::Sharding(Sharding::Hybrid { group }))
        .collect();
    nearest.push(QuestionChange::Sharding(Sharding::Full));
    let why = Clash::HybridGroup {
        group,
        copies: most,
    };
    Some(refusal(why, nearest))
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
        let all = ParallelDegree::PRODUCT.into_iter();
        let all = all.chain([ParallelDegree::Expert, ParallelDegree::Interleave]);
        let stated = all.filter_map(|degree| Some((degree, degree.stated(&choices.degrees)?)));
        let nearest = stated.flat_map(|(degree, value)| {
            let fits = near(divisors(cluster.gpus), u64::from(value), cluster.gpus);
            degrees(degree, fits)
        });
        return Some(refusal(why, nearest.collect()));
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
    let nearest = below
        .into_iter()
        .chain(above)
        .map(QuestionChange::GlobalBatch);
    Some(refusal(why, nearest.collect()))
}
