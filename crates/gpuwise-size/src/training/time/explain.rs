//! How the time of a step came about.

use super::{
    beside::Beside,
    constants_of, set_of, step_parts,
    system::TrainingSystem,
    work::{StepWork, passes},
};
use crate::training::rollout::Rollout;
use alloc::{format, string::String, vec, vec::Vec};
use gpuwise_domain::{
    estimate::Derivation,
    gpu::Gpu,
    model::Architecture,
    training::{StepCause, TrainingSetup},
    training_facts::TrainingFacts,
};

/// The derivation of a step's time on a stated system.
pub fn explain_step(
    architecture: &Architecture,
    setup: &TrainingSetup,
    gpu: &Gpu,
    system: &TrainingSystem,
    facts: &TrainingFacts,
    rollout: Option<&Rollout>,
) -> Derivation {
    let plain = setup.plain();
    let work = StepWork::new(architecture, &plain, system).scored(setup.scored_share());
    let constants = constants_of(setup.framework, facts);
    let parts = step_parts(&work, &plain, system, &constants);
    let beside = Beside::new(architecture, setup, &work, system, facts, rollout);
    let written = rollout.map(|rollout| (StepCause::Rollout, rollout.seconds.value));
    let causes = parts.parts.iter().copied().chain(written);
    let causes = causes.chain(beside.stated).chain(beside.passes);
    let mut total = 0.0;
    let mut inputs: Vec<Derivation> = Vec::new();
    for (cause, seconds) in causes {
        total += seconds;
        let amounts = match (cause, rollout) {
            (StepCause::Rollout, Some(rollout)) => completions(rollout),
            _ => amounts(cause, &work),
        };
        inputs.push(Derivation::computed(
            name(cause),
            format!("{seconds:.4} s"),
            formula(cause),
            amounts,
        ));
    }
    inputs.push(Derivation::fact(
        "matmuls of this GPU, timed alone",
        format!("{:.0} TFLOP/s in BF16", system.half / 1e12),
        facts
            .matmul_share(&gpu.name, &gpu.generation)
            .map_or_else(|| "share of other GPUs".into(), |row| row.source.clone()),
    ));
    inputs.push(Derivation::fact(
        "constants",
        format!("set {:?}", set_of(setup.framework)),
        "fitted: catalogue/training.toml",
    ));
    let each = passes(&setup.method);
    let flops = work.model_operations() * work.gpus / work.tokens.max(1.0);
    inputs.push(Derivation::computed(
        "model work",
        format!("{:.2} GFLOP a token", flops / 1e9),
        format!("{each} x weights that multiply a token + what the mask leaves of attention, three times"),
        Vec::new(),
    ));
    Derivation::computed("step", format!("{total:.4} s"), "sum of its causes", inputs)
}

/// What a rollout follows from.
fn completions(rollout: &Rollout) -> Vec<Derivation> {
    let fact = |name: &str, value: String, formula: &str| {
        Derivation::computed(name, value, formula, Vec::new())
    };
    vec![
        fact(
            "waves",
            format!("{:.0}", rollout.waves),
            "⌈completions / capacity⌉",
        ),
        fact(
            "completions of one engine",
            format!("{:.0}", rollout.completions),
            "global batch / engines",
        ),
        fact(
            "capacity",
            format!("{:.0}", rollout.capacity),
            "cache of an engine / cache of a prompt with its completion; of a server max_num_seqs at most",
        ),
        fact("cache of a rank", format!("{}", rollout.cache), ""),
        fact(
            "prompts of a wave",
            format!("{:.4} s", rollout.prefill),
            "each prompt of a group once, by the serving model of vLLM",
        ),
        fact(
            "a decode step",
            format!("{:.5} s", rollout.decode),
            "all completions of a wave at their mean context, by the serving model of vLLM",
        ),
        fact(
            "decode steps",
            format!("{:.0}", rollout.steps),
            "completion - 1",
        ),
    ]
}

fn name(cause: StepCause) -> &'static str {
    match cause {
        StepCause::Matmul => "matmuls",
        StepCause::Attention => "attention",
        StepCause::Elementwise => "norms, activations, copies of tokens",
        StepCause::Loss => "head and loss",
        StepCause::Recompute => "recomputation",
        StepCause::Launch => "launches",
        StepCause::TensorParallel => "tensor parallelism",
        StepCause::Pipeline => "pipeline",
        StepCause::ContextParallel => "context parallelism",
        StepCause::ExpertParallel => "experts' dispatch",
        StepCause::DataParallel => "weights and gradients between ranks",
        StepCause::Optimizer => "optimizer",
        StepCause::Offload => "host and back",
        StepCause::Data => "data",
        StepCause::Rollout => "rollout",
        StepCause::WeightSync => "weights to the engine",
        StepCause::Reward => "reward",
        StepCause::OldLogProbs => "old log-probs",
        StepCause::Reference => "reference log-probs",
    }
}

fn formula(cause: StepCause) -> &'static str {
    match cause {
        StepCause::Matmul => {
            "micro-batches x (operations / rate x (1 + narrow_width / width) + experts' operations / rate)"
        }
        StepCause::Attention => "micro-batches x operations / (kernel's rate x attention)",
        StepCause::Elementwise => "micro-batches x bytes x passes / (0.85 x bandwidth)",
        StepCause::Loss => {
            "micro-batches x (operations / rate in 16 bits + bytes of logits / bandwidth)"
        }
        StepCause::Recompute => {
            "a second forward pass where layers are recomputed: shares of matmuls, of attention and of all else"
        }
        StepCause::Launch => {
            "micro-batches x (layers x layer_launch + layers of experts x expert_launch)"
        }
        StepCause::TensorParallel => "micro-batches x bytes / (link x tensor_link)",
        StepCause::Pipeline => {
            "micro-batches x (sends + fullest stage - mean stage) + waiting of (stages - 1) / (micro-batches x interleave)"
        }
        StepCause::ContextParallel => {
            "what of exchanging keys and values attention does not hide, and a tenth"
        }
        StepCause::ExpertParallel => {
            "bytes near / (link x dispatch_link) + bytes far / (network x dispatch_network)"
        }
        StepCause::DataParallel => {
            "micro-batches x ((busy^3 + gather^3)^(1/3) - busy + gather_exposed x the lesser) + gather_exposed x reductions / link"
        }
        StepCause::Optimizer => "30 bytes a parameter of this rank / (bandwidth x optimizer_rate)",
        StepCause::Offload => "bytes / (0.85 x host link)",
        StepCause::Data | StepCause::Reward => "stated",
        StepCause::Rollout => "waves x (prompts + decode steps x a decode step) + front end",
        StepCause::WeightSync => {
            "2 bytes a parameter: gathered / (link x gather_link) where sharded, sent / (link x gather_link) to a server, and written / (0.85 x bandwidth)"
        }
        StepCause::OldLogProbs | StepCause::Reference => {
            "micro-batches x a forward pass: shares of matmuls, of attention and of all else, and weights gathered once"
        }
    }
}

fn amounts(cause: StepCause, work: &StepWork) -> Vec<Derivation> {
    let fact = |name: &str, value: String| Derivation::computed(name, value, "", Vec::new());
    let tera =
        |name: &str, flops: f64| fact(name, format!("{:.3} TFLOP a micro-batch", flops / 1e12));
    let giga = |name: &str, bytes: f64| fact(name, format!("{:.3} GB", bytes / 1e9));
    match cause {
        StepCause::Matmul => vec![
            fact("micro-batches", format!("{:.0}", work.micro_batches)),
            tera("operations", work.matmul),
            tera("experts' operations", work.expert),
            fact("width", format!("{:.0}", work.width)),
        ],
        StepCause::Attention => vec![tera("operations", work.attention)],
        StepCause::Elementwise => vec![giga("bytes of a pass", work.elements)],
        StepCause::Loss => vec![tera("operations", work.head), giga("logits", work.loss)],
        StepCause::Launch => vec![
            fact("layers of a stage", format!("{:.2}", work.layers)),
            fact(
                "of these with experts",
                format!("{:.2}", work.expert_layers),
            ),
        ],
        StepCause::TensorParallel => vec![giga("bytes", work.tensor)],
        StepCause::ExpertParallel => vec![
            giga("bytes near", work.dispatch_near),
            giga("bytes far", work.dispatch_far),
        ],
        StepCause::DataParallel => vec![
            giga("gathered a micro-batch", work.gathers),
            giga("reduced a step", work.reductions),
        ],
        StepCause::Optimizer => vec![giga("bytes", work.optimizer)],
        StepCause::Offload => vec![giga("bytes", work.offloaded)],
        StepCause::OldLogProbs | StepCause::Reference => {
            let share = |name: &str, of: f64| fact(name, format!("{:.1} %", 100.0 * of));
            vec![
                share("of matmuls and head", work.forward.weights),
                share("of attention", work.forward.attention),
                share("of all else", work.forward.rest),
            ]
        }
        StepCause::Recompute => {
            let share = |name: &str, of: f64| fact(name, format!("{:.1} %", 100.0 * of));
            vec![
                share("of matmuls", work.again.weights),
                share("of attention", work.again.attention),
                share("of all else", work.again.rest),
            ]
        }
        StepCause::Pipeline => vec![
            giga("sends a micro-batch", work.sends),
            fact("waiting", format!("{:.1} %", 100.0 * work.bubble)),
        ],
        _ => Vec::new(),
    }
}
