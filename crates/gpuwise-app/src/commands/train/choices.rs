//! What is trained how, as flags say it.

use super::{alignment, amount};
use crate::{error::Problem, settings};
use anyhow::Context as _;
use gpuwise_domain::{
    alignment::Alignment,
    catalogue::distance,
    model::Architecture,
    note::TrainingNote,
    training::{
        Adapter, AdapterKind, BaseStorage, Framework, LossKernel, Method, Offload, Optimizer,
        Recipe, Recompute, Sharding,
    },
};
use gpuwise_size::training::{
    memory::{self, adapter_named, adapters_like},
    search::{Degrees, TrainChoices},
};
use gpuwise_units::Parameters;
use gpuwise_view::training::emit::RecipeForm;
use std::collections::BTreeSet;

/// Rank of adapters where none is stated.
const RANK: u32 = 16;

/// The choices of a command.
pub(super) fn choices(
    flags: &settings::Train,
    form: Option<RecipeForm>,
    architecture: &Architecture,
) -> anyhow::Result<TrainChoices> {
    let (what, layout) = (&flags.method, &flags.layout);
    let (kind, name) = alignment::split(what.method.trim());
    let alignment = alignment::alignment(kind, &flags.alignment)?;
    let method = method(what, name, architecture)?;
    let framework = framework(what, form, kind)?;
    let sequence = amount::sequence(flags.amount.seq.as_deref(), alignment.as_ref())?;
    let loss = loss(what.loss.as_deref(), alignment.as_ref())?;
    let off = |name| layout.offload.contains(&name);
    Ok(TrainChoices {
        recipe: recipe(what, &method, form)?,
        without_bf16: what.recipe.is_none().then_some(Recipe::Fp16),
        optimizer: one_of("--optimizer", &what.optimizer, Optimizer::ALL, |o| o.name())?,
        framework,
        loss,
        alignment,
        recompute: layout
            .recompute
            .as_deref()
            .map(|text| one_of("--recompute", text, Recompute::ALL, |r| r.name()))
            .transpose()?,
        // torchtune has no copies of everything on each rank.
        sharding: layout
            .sharding
            .as_deref()
            .map(sharding)
            .transpose()?
            .or((form == Some(RecipeForm::Torchtune)).then_some(Sharding::Full)),
        offload: Offload {
            optimizer: off(settings::OffloadName::Optimizer),
            parameters: off(settings::OffloadName::Parameters),
            activations: off(settings::OffloadName::Activations),
        },
        compiled: what.compile,
        sequence,
        micro_batch: counted("--micro-batch", layout.micro_batch.as_deref())?,
        global_batch: counted("--global-batch", flags.amount.global_batch.as_deref())?,
        degrees: Degrees {
            tensor: layout.tp,
            pipeline: layout.pp,
            interleave: layout.vp,
            context: layout.cp,
            expert: layout.ep,
            data: layout.dp,
        },
        method,
    })
}

/// How logits become a loss; TRL computes those of DPO and GRPO whole, or in Liger's chunks.
fn loss(stated: Option<&str>, alignment: Option<&Alignment>) -> anyhow::Result<Option<LossKernel>> {
    let Some(text) = stated else { return Ok(None) };
    let loss = one_of("--loss", text, LossKernel::ALL, |loss| loss.name())?;
    let Some(alignment) = alignment else {
        return Ok(Some(loss));
    };
    if !matches!(loss, LossKernel::Eager | LossKernel::Chunked) {
        return Err(Problem::new(format!(
            "--loss {}: TRL has no such loss for {}",
            loss.name(),
            alignment.name()
        ))
        .hint("--loss eager, or chunked (use_liger_kernel)")
        .into());
    }
    if loss == LossKernel::Chunked && *alignment == (Alignment::Dpo { precomputed: true }) {
        return Err(Problem::new(
            "--loss chunked: TRL's loss of pairs by Liger takes no precomputed log-probs",
        )
        .hint("leave --precompute-ref-log-probs or --loss chunked out")
        .into());
    }
    Ok(Some(loss))
}

/// A whole number from 1, such as `1024` or `1e6`.
pub(super) fn counted(flag: &'static str, text: Option<&str>) -> anyhow::Result<Option<u64>> {
    let Some(text) = text else { return Ok(None) };
    let count: Parameters = text.parse().context(flag)?;
    if count.0 == 0 || count.0 > 1_000_000_000_000 {
        return Err(Problem::new(format!("{flag} {text}: expected a whole number from 1")).into());
    }
    Ok(Some(count.0))
}

fn one_of<T: Copy + 'static>(
    flag: &str,
    text: &str,
    all: &'static [T],
    name: impl Fn(&T) -> &'static str,
) -> anyhow::Result<T> {
    let wanted = text.trim().to_ascii_lowercase().replace('_', "-");
    if let Some(found) = all.iter().find(|one| name(one) == wanted) {
        return Ok(*found);
    }
    let names: Vec<&str> = all.iter().map(&name).collect();
    Err(unknown(flag, text, &wanted, &names).into())
}

/// The name among these.
pub(super) fn one_of_names(
    flag: &str,
    text: &str,
    names: &[&'static str],
) -> anyhow::Result<&'static str> {
    let wanted = text.trim().to_ascii_lowercase();
    let found = names.iter().find(|name| **name == wanted).copied();
    found.ok_or_else(|| unknown(flag, text, &wanted, names).into())
}

fn unknown(flag: &str, text: &str, wanted: &str, names: &[&str]) -> Problem {
    let nearest = names.iter().min_by_key(|known| distance(known, wanted));
    let like: Vec<String> = nearest.iter().map(|known| (**known).to_string()).collect();
    Problem::new(format!("{flag} {text}: not known"))
        .did_you_mean(&like)
        .hint(format!("one of {}", names.join(", ")))
}

fn framework(
    flags: &settings::MethodFlags,
    form: Option<RecipeForm>,
    aligned: Option<&'static str>,
) -> anyhow::Result<Option<Framework>> {
    let stated = flags
        .framework
        .as_deref()
        .map(|text| one_of("--framework", text, Framework::ALL, |f| f.name()))
        .transpose()?;
    if let Some(kind) = aligned {
        // TRL's trainers, by transformers and accelerate.
        return match stated {
            None | Some(Framework::HuggingFace) => Ok(Some(Framework::HuggingFace)),
            Some(other) => Err(Problem::new(format!(
                "--framework {}: {kind} is sized as TRL runs it, on Hugging Face",
                other.name()
            ))
            .hint("leave --framework out")
            .into()),
        };
    }
    let Some(form) = form else { return Ok(stated) };
    let other = stated.filter(|stated| {
        let data_only = |f: Framework| f != Framework::Megatron;
        *stated != form.framework() && !(form == RecipeForm::Accelerate && data_only(*stated))
    });
    if let Some(other) = other {
        return Err(Problem::new(format!(
            "--emit {} runs as {}, the plan is for {}",
            form.name(),
            form.framework().title(),
            other.title()
        ))
        .hint("leave --framework out")
        .into());
    }
    Ok(stated.or(Some(form.framework())))
}

/// The recipe of a flag, else the usual one.
fn recipe(
    flags: &settings::MethodFlags,
    method: &Method,
    form: Option<RecipeForm>,
) -> anyhow::Result<Recipe> {
    let adapter = matches!(method, Method::Adapter(_));
    match flags.recipe.as_deref() {
        Some(text) => one_of("--recipe", text, Recipe::ALL, |recipe| recipe.name()),
        // torchtune keeps weights and states in the type that it computes in.
        None if adapter || form == Some(RecipeForm::Torchtune) => Ok(Recipe::PureBf16),
        None => Ok(Recipe::MixedBf16),
    }
}

fn sharding(text: &str) -> anyhow::Result<Sharding> {
    let lower = text.trim().to_ascii_lowercase();
    Ok(match lower.as_str() {
        "none" | "ddp" | "no_shard" => Sharding::None,
        "optimizer" | "zero1" | "zero-1" => Sharding::Optimizer,
        "gradients" | "zero2" | "zero-2" | "shard_grad_op" => Sharding::Gradients,
        "full" | "zero3" | "zero-3" | "fsdp" | "full_shard" => Sharding::Full,
        other => {
            let group = other
                .strip_prefix("hybrid:")
                .or_else(|| other.strip_prefix("hsdp:"))
                .and_then(|group| group.parse().ok())
                .filter(|group: &u32| *group > 0);
            let Some(group) = group else {
                return Err(Problem::new(format!("--sharding {text}: not known"))
                    .hint("one of none, optimizer, gradients, full, hybrid:N; or ddp, zero1, zero2, zero3, fsdp, hsdp:N")
                    .into());
            };
            Sharding::Hybrid { group }
        }
    })
}

/// The method with its size.
fn method(
    flags: &settings::MethodFlags,
    name: &str,
    architecture: &Architecture,
) -> anyhow::Result<Method> {
    let lower = name.to_ascii_lowercase();
    if matches!(
        lower.as_str(),
        "full" | "full-finetune" | "pretrain" | "sft"
    ) {
        for (flag, given) in [
            ("--rank", flags.rank.is_some()),
            ("--modules", !flags.modules.is_empty()),
            ("--base", flags.base.is_some()),
        ] {
            if given {
                return Err(Problem::new(format!(
                    "{flag}: every weight is trained, there is no adapter"
                ))
                .hint(format!("add --method {}", with_adapter(&flags.method)))
                .into());
            }
        }
        return Ok(Method::Full);
    }
    let kind = adapter_named(name).ok_or_else(|| {
        let written = flags.method.trim();
        Problem::new(format!("--method {written}: no such method is known"))
            .did_you_mean(&adapters_like(name))
            .hint("full, lora, qlora, dora, or another method of PEFT; dpo, grpo, dpo-lora, grpo-qlora")
    })?;
    let rank = counted("--rank", flags.rank.as_deref())?
        .map(|rank| {
            u32::try_from(rank)
                .ok()
                .filter(|rank| *rank <= 65_536)
                .ok_or_else(|| {
                    Problem::new(format!(
                        "--rank {rank}: expected a whole number up to 65536"
                    ))
                })
        })
        .transpose()?;
    let rankless = matches!(kind, AdapterKind::Ia3 | AdapterKind::Partial);
    Ok(Method::Adapter(Adapter {
        kind,
        name: Some(lower.clone()),
        rank: rank.or((!rankless).then_some(RANK)),
        modules: modules(&flags.modules, architecture)?,
        trainable: None,
        base: base(flags.base.as_deref(), lower.starts_with('q')),
    }))
}

/// The method of an adapter that is nearest to one of every weight.
fn with_adapter(written: &str) -> String {
    match alignment::split(written.trim()) {
        (Some(kind), _) => format!("{kind}-lora"),
        (None, _) => "lora".into(),
    }
}

fn base(stated: Option<&str>, quantised: bool) -> BaseStorage {
    match stated {
        Some("32bit") => BaseStorage::ThirtyTwoBit,
        Some("8bit") => BaseStorage::EightBit,
        Some("nf4") => BaseStorage::Nf4 { double: false },
        Some("nf4-double") => BaseStorage::Nf4 { double: true },
        None if quantised => BaseStorage::Nf4 { double: true },
        _ => BaseStorage::SixteenBit,
    }
}

/// Modules that the model has; `all-linear` is every matrix of its layers.
fn modules(stated: &[String], architecture: &Architecture) -> anyhow::Result<Vec<String>> {
    let linear: BTreeSet<&str> = architecture
        .layers
        .iter()
        .flat_map(|run| memory::modules(architecture, &run.layer))
        .map(|module| module.name)
        .collect();
    let mut out: Vec<String> = Vec::new();
    for module in stated {
        let module = module.trim();
        if matches!(module, "all-linear" | "all_linear") {
            out.extend(linear.iter().map(|name| (*name).to_owned()));
            continue;
        }
        let outside = matches!(module, "lm_head" | "embed_tokens");
        if !linear.contains(module) && !outside {
            let known: Vec<&str> = linear.iter().copied().collect();
            let nearest = known.iter().min_by_key(|name| distance(name, module));
            let like: Vec<String> = nearest.iter().map(|name| (**name).to_owned()).collect();
            return Err(Problem::new(format!(
                "--modules {module}: the model has no module of this name"
            ))
            .did_you_mean(&like)
            .hint(format!(
                "it has {}, lm_head and embed_tokens",
                known.join(", ")
            ))
            .into());
        }
        out.push(module.to_owned());
    }
    out.dedup();
    Ok(out)
}

/// That sequences are longer than the model was made for.
pub(super) fn beyond(architecture: &Architecture, sequence: u64) -> Option<TrainingNote> {
    let most = architecture.max_context?.0;
    (sequence > most).then_some(TrainingNote::BeyondContext { sequence, most })
}
