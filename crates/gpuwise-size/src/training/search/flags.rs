//! A change of a training setup, as the flags that ask for it.

use super::request::TrainChoices;
use alloc::{format, string::String, vec::Vec};
use gpuwise_domain::{
    alignment::Alignment,
    fix::Flag,
    training::{AdapterKind, BaseStorage, Method, Recipe, Sharding, TrainingSetup},
};

/// The flags under which a setup becomes another.
pub(super) fn flags(from: &TrainingSetup, to: &TrainingSetup, gpu: &str) -> Vec<Flag> {
    let mut out = Vec::new();
    let gpus = to.layout.gpus();
    if from.layout.gpus() != gpus {
        let own = to.alignment.map_or(0, |one| one.own_gpus());
        out.push(Flag::gpus(gpus + own, gpu));
    }
    out.extend(method(from, to));
    let mut named = |flag: &'static str, changed: bool, name: &str| {
        out.extend(changed.then(|| Flag::new(flag, name)));
    };
    let recipe = recipe(from, to);
    named("--recipe", from.recipe != recipe, recipe.name());
    named(
        "--optimizer",
        from.optimizer != to.optimizer,
        to.optimizer.name(),
    );
    named("--loss", from.loss != to.loss, to.loss.name());
    named(
        "--recompute",
        from.recompute != to.recompute,
        to.recompute.name(),
    );
    let hybrid = matches!(to.sharding, Sharding::Hybrid { .. });
    let sharded = from.sharding != to.sharding && !hybrid;
    named("--sharding", sharded, to.sharding.name());
    let offloaded = to.offload.optimizer && !from.offload.optimizer;
    named("--offload", offloaded, "optimizer");
    for (flag, before, after) in [
        ("--micro-batch", from.micro_batch, to.micro_batch),
        ("--global-batch", from.global_batch, to.global_batch),
    ] {
        out.extend((before != after).then(|| Flag::new(flag, after)));
    }
    if from.alignment != to.alignment {
        out.push(Flag::switch(match to.alignment {
            Some(Alignment::Grpo(_)) => "--vllm-enable-sleep-mode",
            _ => "--precompute-ref-log-probs",
        }));
    }
    out
}

/// The choices that these flags state.
pub(super) fn chosen(
    choices: &TrainChoices,
    from: &TrainingSetup,
    to: &TrainingSetup,
) -> TrainChoices {
    let mut out = choices.clone();
    let recipe = recipe(from, to);
    if from.method != to.method {
        out.method = to.method.clone();
    }
    if from.recipe != recipe {
        out.recipe = recipe;
    }
    if from.optimizer != to.optimizer {
        out.optimizer = to.optimizer;
    }
    if from.alignment != to.alignment {
        out.alignment = to.alignment;
    }
    out.loss = (from.loss != to.loss).then_some(to.loss).or(out.loss);
    let recomputed = from.recompute != to.recompute;
    out.recompute = recomputed.then_some(to.recompute).or(out.recompute);
    let sharded = from.sharding != to.sharding;
    out.sharding = sharded.then_some(to.sharding).or(out.sharding);
    out.offload.optimizer |= to.offload.optimizer;
    let micro = from.micro_batch != to.micro_batch;
    out.micro_batch = micro.then_some(to.micro_batch).or(out.micro_batch);
    let global = from.global_batch != to.global_batch;
    out.global_batch = global.then_some(to.global_batch).or(out.global_batch);
    out
}

/// The recipe of the changed setup: adapters are usually trained beside weights of 16 bits alone.
fn recipe(from: &TrainingSetup, to: &TrainingSetup) -> Recipe {
    let adapted = from.method == Method::Full && to.method != Method::Full;
    match to.recipe {
        Recipe::MixedBf16 if adapted => Recipe::PureBf16,
        recipe => recipe,
    }
}

/// The method, where it is another, or how its base is stored.
fn method(from: &TrainingSetup, to: &TrainingSetup) -> Vec<Flag> {
    let Method::Adapter(adapter) = &to.method else {
        return Vec::new();
    };
    if from.method == to.method {
        return Vec::new();
    }
    if matches!(&from.method, Method::Adapter(before) if before.kind == adapter.kind) {
        return alloc::vec![Flag::new("--base", "nf4-double")];
    }
    let name = match (adapter.kind, &adapter.base) {
        (AdapterKind::Lora, BaseStorage::Nf4 { .. }) => "qlora",
        (kind, _) => kind.name(),
    };
    let name = match &to.alignment {
        Some(alignment) => format!("{}-{name}", alignment.name()),
        None => String::from(name),
    };
    let modules = adapter.modules.join(",");
    let modules = (!modules.is_empty()).then(|| Flag::new("--modules", modules));
    [Flag::new("--method", name)]
        .into_iter()
        .chain(modules)
        .collect()
}
