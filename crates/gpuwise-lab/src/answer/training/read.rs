//! From the cells of a row to a training setup.

use super::{
    Stated, TrainingReading, TrainingWanted,
    recipes::{CONVERSATIONS, Techniques, framework, named_recipe, usual},
};
use crate::answer::reading::Refusal;
use gpuwise_domain::{
    catalogue::{Catalogue, run_together},
    gpu::Gpu,
    model::{Architecture, Role, Split, Tensor},
    question::{Load, Question},
    training::{
        Adapter, AdapterKind, BaseStorage, Framework, Method, Offload, Optimizer, Recipe,
        Recompute, Sharding, TrainingLayout, TrainingSetup,
    },
};
use gpuwise_size::training::memory::{adapter_named, adapters_like};
use gpuwise_units::Tokens;
use std::borrow::Cow;

/// Sequences and tokens of a fine-tuning row that states neither: what PEFT's own examples train
/// with (`huggingface/peft@5d602fdbff04c33c1c4de55cda9d4ae1d7cb7e40:examples/causal_language_modeling/peft_lora_clm_accelerate_ds_zero3_offload.py`).
const EXAMPLE: (u64, u64) = (8, 64);

/// Sequence length of published pre-training runs that state none.
const USUAL_SEQUENCE: u64 = 4096;

/// The same of torchtitan's configurations of Llama 3.
const TORCHTITAN_SEQUENCE: u64 = 8192;

pub(super) fn read<'a>(
    question: &Question,
    architecture: &'a Architecture,
    catalogue: &'a Catalogue,
    wanted: TrainingWanted,
) -> Result<TrainingReading<'a>, Refusal> {
    let gpu = catalogue
        .gpu(&question.gpu)
        .ok_or_else(|| Refusal::UnknownGpu {
            name: question.gpu.clone(),
            like: catalogue.gpus_like(&question.gpu).join(", "),
        })?;
    let mut notes = Vec::new();
    let mut stated = Stated::default();
    let framework = framework(question);
    let techniques = Techniques::of(question);
    if let Some(word) = techniques.unknown() {
        return Err(Refusal::Unstated(format!(
            "no technique of training is known as {word:?}; known are packed, compile, chunked loss, activation \
             checkpointing, optimizer in backward, activation offloading, 8-bit AdamW, float8, and degrees such as tp8"
        )));
    }
    let (layout, sharding) = layout(
        question,
        architecture,
        (framework, &techniques),
        &mut stated,
    )?;
    let method = trained(question, architecture, gpu, (&layout, sharding), &mut notes)?;
    let recipe = recipe(question, (framework, &techniques), &mut stated, &mut notes);
    let (sequence, micro_batch, global_batch) = batch(
        question,
        (wanted, framework, &techniques),
        &layout,
        &mut stated,
        &mut notes,
    );
    let compiled = flag(question, "compile") || techniques.any(&["compile"]);
    let ranks = (framework, layout.gpus() as u32);
    let usual = usual(ranks, architecture, &method, &techniques, compiled);
    let fine_tuning = framework == Framework::HuggingFace;
    let offloaded = flag(question, "cpu_offload")
        || question
            .extra("method")
            .is_some_and(|method| method.to_ascii_lowercase().contains("offload"));
    let setup = TrainingSetup {
        method,
        alignment: None,
        recipe,
        optimizer: optimizer(question).unwrap_or(usual.optimizer),
        recompute: recompute(question, &mut stated).unwrap_or(usual.recompute),
        loss: usual.loss,
        framework,
        sequence: Tokens(sequence),
        micro_batch,
        global_batch,
        layout,
        sharding: if offloaded { Sharding::Full } else { sharding },
        offload: Offload {
            optimizer: offloaded,
            parameters: offloaded,
            activations: techniques.any(&["activationoffload"]),
        },
        compiled,
        step_in_backward: usual.step_in_backward,
    };
    Ok(TrainingReading {
        architecture: as_trained(question, architecture, sequence),
        gpu,
        packed: !fine_tuning,
        fixed_shapes: run_together(&question.model).contains("tokendrop"),
        setup,
        wanted,
        stated,
        notes,
    })
}

/// The model as the row trains it: where it counts more parameters than the configuration has, by
/// as much as one learned position for every token of its sequence, it learns positions.
fn as_trained<'a>(
    question: &Question,
    architecture: &'a Architecture,
    sequence: u64,
) -> Cow<'a, Architecture> {
    let Some(billions) = number(question, "params_b") else {
        return Cow::Borrowed(architecture);
    };
    let counted = architecture.parameters().0 as f64;
    let missing = billions * 1e9 - counted;
    let learned = architecture
        .outside
        .iter()
        .any(|t| t.role == Role::Position);
    let positions = (sequence * architecture.hidden) as f64;
    // Rows print four digits, and count a padded vocabulary.
    if learned || missing < 0.7 * positions || missing > positions + 0.02 * counted {
        return Cow::Borrowed(architecture);
    }
    let mut trained = architecture.clone();
    trained.outside.push(Tensor::matrix(
        "wpe",
        Role::Position,
        sequence,
        architecture.hidden,
        Split::Replicated,
    ));
    Cow::Owned(trained)
}

fn method(question: &Question, notes: &mut Vec<String>) -> Result<Method, Refusal> {
    let techniques = Techniques::of(question);
    let written = question
        .extra("method")
        .or(techniques.method())
        .unwrap_or_default();
    let name = written
        .split(['+', ',', '('])
        .next()
        .unwrap_or_default()
        .trim();
    let folded = run_together(name);
    let lora_benchmark = question
        .extra("benchmark")
        .is_some_and(|name| name.ends_with("_lora"));
    if folded.is_empty() && !lora_benchmark || folded.starts_with("full") {
        return Ok(Method::Full);
    }
    let name = if folded.is_empty() { "lora" } else { name };
    let kind = adapter_named(name).ok_or_else(|| {
        Refusal::Unstated(format!(
            "no method of fine-tuning is called {name:?}; nearest: {}",
            adapters_like(name).join(", ")
        ))
    })?;
    if lora_benchmark {
        notes.push("adapters of rank 16 on attention, as the benchmark sets".into());
    }
    let quantized = run_together(name).starts_with('q');
    Ok(Method::Adapter(Adapter {
        kind,
        name: Some(name.to_string()),
        rank: number(question, "r")
            .map(|rank| rank as u32)
            .or(lora_benchmark.then_some(16)),
        modules: modules(question, kind),
        trainable: number(question, "trainable").map(|count| count as u64),
        base: match question.precision.to_ascii_lowercase().as_str() {
            "nf4" | "int4" | "4bit" => BaseStorage::Nf4 { double: true },
            "int8" | "8bit" => BaseStorage::EightBit,
            "" | "fp32" | "float32" if question.engine.contains("peft") && !quantized => {
                BaseStorage::ThirtyTwoBit
            }
            _ if quantized => BaseStorage::Nf4 { double: true },
            _ => BaseStorage::SixteenBit,
        },
    }))
}

/// Modules that the row names; else those of torchtune's recipes, or none: the method's usual ones.
fn modules(question: &Question, kind: AdapterKind) -> Vec<String> {
    let low_rank = matches!(kind, AdapterKind::Lora | AdapterKind::Dora);
    let usual = if low_rank && framework(question) == Framework::Torchtune {
        "q_proj v_proj o_proj gate_proj up_proj down_proj"
    } else {
        ""
    };
    question
        .extra("target_modules")
        .unwrap_or(usual)
        .split([',', '|', ' '])
        .filter(|name| !name.is_empty())
        .map(String::from)
        .collect()
}

/// What is trained; LoRA where a row says nothing and every weight's states would not fit.
fn trained(
    question: &Question,
    architecture: &Architecture,
    gpu: &Gpu,
    (layout, sharding): (&TrainingLayout, Sharding),
    notes: &mut Vec<String>,
) -> Result<Method, Refusal> {
    let method = method(question, notes)?;
    let unsaid = question.extra.is_empty() && method == Method::Full;
    if unsaid && !holds_states(architecture, gpu, layout, sharding) {
        notes.push("states of every weight do not fit: read as LoRA".into());
        return Ok(usual_adapter());
    }
    Ok(method)
}

/// Whether weights, gradients and optimizer states of every weight fit a GPU, activations apart:
/// 6 bytes a parameter of the rank and 12 divided over data-parallel ranks.
fn holds_states(
    architecture: &Architecture,
    gpu: &Gpu,
    layout: &TrainingLayout,
    sharding: Sharding,
) -> bool {
    let parameters = architecture.parameters().0 as f64;
    let all = layout.gpus() as f64;
    let expert = f64::from(layout.expert.max(1));
    let rank = f64::from(layout.tensor.max(1)) * f64::from(layout.pipeline.max(1)) * expert;
    let divided = if sharding == Sharding::Full {
        all
    } else {
        rank
    };
    let bytes = parameters * (6.0 / divided.min(all) + 12.0 / all);
    bytes <= gpu.memory_marketing_gb * 1e9
}

/// LoRA of rank 16 on the framework's usual modules.
fn usual_adapter() -> Method {
    Method::Adapter(Adapter {
        kind: AdapterKind::Lora,
        name: None,
        rank: Some(16),
        modules: Vec::new(),
        trainable: None,
        base: BaseStorage::SixteenBit,
    })
}

/// What the row names; `None` where it names none.
fn optimizer(question: &Question) -> Option<Optimizer> {
    let name = run_together(question.extra("optimizer")?);
    Some(match name.as_str() {
        "adamw8bit" | "adam8bit" => Optimizer::AdamW8bit,
        "pagedadamw" | "pagedadamw32bit" => Optimizer::PagedAdamW,
        "pagedadamw8bit" => Optimizer::PagedAdamW8bit,
        "adafactor" => Optimizer::Adafactor,
        "muon" => Optimizer::Muon,
        "lion" => Optimizer::Lion,
        "sgd" => Optimizer::Sgd,
        _ => Optimizer::AdamW,
    })
}

/// What the row states; `None` where it does not.
fn recompute(question: &Question, stated: &mut Stated) -> Option<Recompute> {
    let asked = ["act_ckpt", "grad_ckpt", "recompute", "ac"]
        .iter()
        .find_map(|key| question.extra(key));
    stated.recompute = asked.is_some();
    Some(match asked?.to_ascii_lowercase().as_str() {
        "true" | "full" | "1" => Recompute::Full,
        "selective" | "op" => Recompute::Selective,
        _ => Recompute::None,
    })
}

fn recipe(
    question: &Question,
    (framework, techniques): (Framework, &Techniques),
    stated: &mut Stated,
    notes: &mut Vec<String>,
) -> Recipe {
    let written = question.precision.to_ascii_lowercase();
    stated.recipe = !written.is_empty();
    let fine_tuning = matches!(framework, Framework::HuggingFace | Framework::Torchtune);
    if let Some(named) = named_recipe(techniques) {
        return named;
    }
    match written.as_str() {
        "nvfp4" | "fp4" => Recipe::Nvfp4,
        "mxfp8" | "fp8-mx" | "fp8-sc" | "fp8-block" => Recipe::Fp8Block,
        "fp8" | "fp8-cs" | "fp8-ds" => Recipe::Fp8,
        "fp32" | "float32" => Recipe::Fp32,
        "tf32" => Recipe::Tf32,
        "bfloat16" | "bf16" | "float16" | "fp16" if fine_tuning => Recipe::PureBf16,
        // torchtune's recipes set BF16 for everything.
        "" if framework == Framework::Torchtune => Recipe::PureBf16,
        "" if fine_tuning => {
            notes
                .push("precision not stated: read as FP32, in which such models are loaded".into());
            Recipe::Fp32
        }
        "" if framework == Framework::Megatron => {
            notes.push("precision not stated: read as FP8, in which Megatron's tables are".into());
            Recipe::Fp8
        }
        "" => {
            notes.push("precision not stated: read as BF16".into());
            Recipe::MixedBf16
        }
        _ => Recipe::MixedBf16,
    }
}

fn layout(
    question: &Question,
    architecture: &Architecture,
    (framework, techniques): (Framework, &Techniques),
    stated: &mut Stated,
) -> Result<(TrainingLayout, Sharding), Refusal> {
    let count = |key: &str| number(question, key).map_or(1, |n| (n as u32).max(1));
    let gpus = question.gpus.unwrap_or(1).max(1);
    // What a cell states counts before what a technique names.
    let degree = |stated: Option<u32>, kind: &str, left: u32| {
        let stated = stated.filter(|degree| *degree > 1);
        stated.unwrap_or_else(|| techniques.degree(kind, left))
    };
    let tensor = degree(question.tensor, "tp", gpus);
    let pipeline = degree(question.pipeline, "pp", gpus / tensor);
    let left = gpus / tensor.saturating_mul(pipeline).max(1);
    let context = count("CP").max(count("cp")).max(context_left(question));
    let context = degree(Some(context), "cp", left);
    stated.layout = question.tensor.is_some() || question.pipeline.is_some() || gpus == 1;
    let one = u64::from(tensor) * u64::from(pipeline) * u64::from(context);
    if one > u64::from(gpus) || !u64::from(gpus).is_multiple_of(one) {
        return Err(Refusal::Unstated(format!(
            "{gpus} GPUs do not divide into TP {tensor} x PP {pipeline} x CP {context} = {one}"
        )));
    }
    if u64::from(pipeline) > architecture.layer_count() {
        return Err(Refusal::Unstated(format!(
            "{pipeline} pipeline stages, but the model has {} layers",
            architecture.layer_count()
        )));
    }
    let data = gpus / one as u32;
    let layout = TrainingLayout {
        tensor,
        pipeline,
        interleave: if pipeline > 1
            && framework == Framework::Megatron
            && (question.extra.is_empty() || question.extra("VP") == Some("n/a"))
        {
            // Megatron's tables that state no schedule give each layer a stage of its own; PyTorch's pipelines have one
            // stage a rank unless more are asked for.
            (architecture.layer_count() as u32 / pipeline).max(1)
        } else {
            count("VP")
        },
        context,
        expert: count("EP"),
        data,
        sequence_parallel: tensor > 1
            && matches!(framework, Framework::Megatron | Framework::Torchtitan),
    };
    let written = run_together(question.extra("sharding").unwrap_or_default());
    stated.sharding = !written.is_empty() || question.extra("FSDP").is_some();
    let sharding = match written.as_str() {
        "fullshard" | "zero3" | "fsdp" => Sharding::Full,
        "shardgradop" | "zero2" => Sharding::Gradients,
        "zero1" | "distributedoptimizer" => Sharding::Optimizer,
        "noshard" | "ddp" | "none" => Sharding::None,
        "hybridshard" | "hsdp" => Sharding::Hybrid { group: data.min(8) },
        _ => match (framework, number(question, "FSDP").map_or(0, |n| n as u32)) {
            (Framework::Megatron, group) if group > 1 && group < data => Sharding::Hybrid { group },
            (Framework::Megatron, group) if group > 1 => Sharding::Full,
            (Framework::Megatron, _) => Sharding::Optimizer,
            _ if techniques.any(&["hsdp"]) && data > 8 => Sharding::Hybrid { group: 8 },
            _ if techniques.any(&["ddp"]) => Sharding::None,
            _ if u64::from(data) * u64::from(context) > 1 => Sharding::Full,
            _ => Sharding::None,
        },
    };
    Ok((layout, sharding))
}

/// Context-parallel ranks where the row states every other degree and not this one.
fn context_left(question: &Question) -> u32 {
    let stated = ["CP", "cp"].iter().any(|key| question.extra(key).is_some());
    let (Some(gpus), Some(tensor), Some(pipeline), Some(data)) = (
        question.gpus,
        question.tensor,
        question.pipeline,
        question.data,
    ) else {
        return 1;
    };
    let others = u64::from(tensor.max(1))
        .saturating_mul(u64::from(pipeline.max(1)))
        .saturating_mul(u64::from(data.max(1)));
    if stated || !u64::from(gpus).is_multiple_of(others) {
        return 1;
    }
    (u64::from(gpus) / others) as u32
}

/// Tokens of a sequence, sequences of a micro-batch, sequences of a step.
fn batch(
    question: &Question,
    (wanted, framework, techniques): (TrainingWanted, Framework, &Techniques),
    layout: &TrainingLayout,
    stated: &mut Stated,
    notes: &mut Vec<String>,
) -> (u64, u64, u64) {
    let fine_tuning = matches!(framework, Framework::HuggingFace | Framework::Torchtune);
    let (example, whose) = match framework {
        Framework::Torchtune => (CONVERSATIONS, "Alpaca's, which torchtune's recipes take"),
        _ => (EXAMPLE, "in PEFT's examples"),
    };
    let packed = techniques.any(&["pack"]) || flag(question, "packed");
    let sequence = question
        .input
        .filter(|tokens| *tokens >= 1.0)
        // A baseline packs nothing, whatever its bound.
        .filter(|_| framework != Framework::Torchtune || packed || !techniques.whole);
    let global = match question.load {
        Load::InFlight(sequences) => Some((sequences as u64).max(1)),
        _ => None,
    };
    if sequence.is_none() && fine_tuning {
        notes.push(format!(
            "sequences not stated: read as {} of {} tokens, as {whose}",
            example.0, example.1
        ));
    }
    let sequence = sequence.map_or(
        match framework {
            _ if fine_tuning => example.1,
            Framework::Torchtitan => TORCHTITAN_SEQUENCE,
            _ => USUAL_SEQUENCE,
        },
        |t| t as u64,
    );
    let ranks = u64::from(layout.data);
    let own = matches!(framework, Framework::Torchtune | Framework::Torchtitan);
    // A batch of fewer sequences than ranks is that of one rank.
    let global = global.map(|all| if own && all < ranks { all * ranks } else { all });
    let global = global.unwrap_or(if fine_tuning {
        example.0 * ranks
    } else {
        ranks
    });
    let first = |keys: &[&str]| keys.iter().find_map(|key| number(question, key));
    let local = first(&["local_batch"]);
    // torchtitan cuts a rank's batch into sequences for its pipeline (`pipeline_parallel_microbatch_size`, 1).
    let cut = framework == Framework::Torchtitan && layout.pipeline > 1;
    let given = first(&["microbatch", "MBS", "mbs"]).or(local.filter(|_| !cut));
    stated.micro_batch = given.is_some();
    let micro = match (given, wanted) {
        (Some(sequences), _) => (sequences as u64).max(1),
        (None, TrainingWanted::MicroBatchFits) => 1,
        (None, _) if fine_tuning => {
            let steps = number(question, "grad_accum")
                .map_or(1, |n| n as u64)
                .max(1);
            (global / (ranks * steps)).max(1)
        }
        (None, _) if own && !cut => (global / ranks).max(1),
        _ => 1,
    };
    let least = local.filter(|_| cut).map_or(micro, |rank| rank as u64);
    let global = if own {
        global.max(ranks * least.max(micro))
    } else {
        global
    };
    (sequence, micro, global)
}

fn flag(question: &Question, key: &str) -> bool {
    question
        .extra(key)
        .is_some_and(|value| value.eq_ignore_ascii_case("true") || value == "1")
}

fn number(question: &Question, key: &str) -> Option<f64> {
    question
        .extra(key)?
        .parse()
        .ok()
        .filter(|number: &f64| number.is_finite() && *number > 0.0)
}
