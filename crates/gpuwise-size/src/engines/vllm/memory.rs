//! What vLLM keeps besides weights and cache, by release.
//!
//! The rules are those of its memory profile: it runs the largest step that its settings allow,
//! takes PyTorch's peak, adds what else the process took, and leaves the rest of its budget to the
//! cache. What changed from release to release stands in `catalogue/engines/vllm.toml`.

use crate::{
    memory::{
        GIB, Overhead, Part, allocator_slack, cache_shape, longest_context, part, rotary,
        widest_layer,
    },
    setup::Setup,
};
use alloc::{format, vec, vec::Vec};
use gpuwise_domain::model::{Mixer, Tower};

/// Bytes for each logit where the profile sorts them in PyTorch: 16- and 32-bit logits (6), sorted
/// values with 64-bit places (12), the sort's second buffers (12) and its segments (8), and what
/// rounding adds. Checked against logged peaks of 0.6 to 0.11 at S·V from 38 to 155 million: 38.4.
const SORTED: f64 = 38.4;
/// The same where a kernel finds the threshold without sorting: logits in 16 and 32 bits,
/// probabilities, and the noise that they are divided by.
const UNSORTED: f64 = 14.0;
/// The same where the kernel samples from probabilities: logits in 16 and 32 bits, probabilities.
const SAMPLED_IN_KERNEL: f64 = 10.0;
/// The same where the profile leaves top-k and top-p out: logits in 16 and 32 bits.
const PLAIN: f64 = 6.0;

/// Context and kernels of a single rank before 0.12, fitted on logged profiles.
const CONTEXT: f64 = 0.13 * GIB;
/// What collectives take for each peer while they lie inside of the budget (before 0.11): over a
/// direct link, and over the host. Fitted on logged profiles of two ranks; those of four and eight
/// show it for each peer.
const PEER_DIRECT: f64 = 0.42 * GIB;
const PEER_HOST: f64 = 0.12 * GIB;
/// What the profile counts and no tensor explains since 0.12, as a share of the weights that a rank
/// holds: fitted on nine logged capacities of 0.15.1 (0.018 to 0.035 of 11 to 53 GiB).
const UNEXPLAINED: f64 = 0.03;
/// The estimate of CUDA graphs, as logged for sixteen of them. What graphs take in the end is as
/// much for several times as many: the estimate grows with their number, they share what they hold.
const GRAPHS: f64 = 0.36 * GIB;
const GRAPHS_LOGGED: f64 = 16.0;

/// What of vLLM's behaviour decides memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Behaviour {
    /// The first engine (V0).
    first: bool,
    /// The newer model runner.
    second_runner: bool,
}

fn behaviour(setup: &Setup<'_>) -> Behaviour {
    let engine = &setup.engine;
    let hybrid = setup
        .architecture
        .attention_layers()
        .any(|(_, m)| matches!(m, Mixer::Recurrent(_)));
    let dense = !setup.architecture.has_experts() && !hybrid;
    Behaviour {
        first: !engine.at_least([0, 8, 0]),
        second_runner: engine.at_least([0, 29, 0]) || engine.at_least([0, 25, 0]) && dense,
    }
}

/// Bytes that sampling takes for each logit of the profile's step.
fn bytes_per_logit(setup: &Setup<'_>, behaviour: Behaviour) -> f64 {
    let engine = &setup.engine;
    if behaviour.second_runner && !engine.at_least([0, 33, 0]) {
        return PLAIN;
    }
    let capability = setup.device.gpu.compute_capability;
    if engine.at_least([0, 21, 0]) && capability.is_some_and(|c| c >= (7, 5)) {
        return SAMPLED_IN_KERNEL;
    }
    if engine.at_least([0, 17, 0]) {
        UNSORTED
    } else {
        SORTED
    }
}

/// The budget in bytes, and what lies in it besides weights and cache.
pub(super) fn overheads(setup: &Setup<'_>, weights: f64) -> Vec<Overhead> {
    let behaviour = behaviour(setup);
    let slack = allocator_slack(setup);
    let mut parts = vec![
        rotary(setup),
        part(
            Part::Allocator,
            "allocator blocks",
            slack,
            "weights of 10 MiB and more in blocks of 2 MiB",
        ),
        activations(setup, behaviour),
    ];
    let states = states_beside(setup);
    if states > 0.0 {
        parts.push(part(
            Part::Activations,
            "states of all sequences",
            states,
            "the largest number of sequences × their states, kept beside the cache until 0.10.2",
        ));
    }
    if setup.engine.at_least([0, 12, 0]) {
        parts.push(part(
            Part::NonTorch,
            "context and kernels",
            UNEXPLAINED * weights,
            "0.03 × weights, fitted on logged capacities",
        ));
    } else {
        parts.push(context(setup));
    }
    // Before 0.20 graphs came out of what the budget leaves; the newer runner does not estimate them.
    let reserved = setup.engine.at_least([0, 20, 0]) && !behaviour.second_runner;
    if !setup.settings.eager {
        parts.push(if reserved {
            let count = captured_graphs(setup);
            let bytes = GRAPHS * count / GRAPHS_LOGGED;
            let formula =
                format!("the engine's estimate for {count} graphs, subtracted since 0.20");
            part(Part::Graphs, "CUDA graphs", bytes, formula)
        } else {
            Overhead {
                outside_budget: true,
                ..part(Part::Graphs, "CUDA graphs", GRAPHS, "outside of the budget")
            }
        });
    }
    parts
}

/// Graphs that are captured: of pieces of a step for sizes up to twice the sequences, at most 512
/// tokens (gpt-oss 1,024), and whole decode steps for sizes up to the sequences. Sizes are 1, 2, 4,
/// then multiples of 8 up to 256, then of 16.
fn captured_graphs(setup: &Setup<'_>) -> f64 {
    let sequences = setup.settings.sequences as f64;
    let most = if setup.architecture.model_type == "gpt_oss" {
        1024.0
    } else {
        512.0
    };
    let pieces = (2.0 * sequences).min(most);
    let sizes = |largest: f64| {
        let small = [1.0, 2.0, 4.0].iter().filter(|size| **size <= largest);
        let eights = libm::floor(largest.min(256.0) / 8.0);
        small.count() as f64 + eights + libm::floor((largest - 256.0).max(0.0) / 16.0)
    };
    sizes(pieces) + sizes(pieces.min(sequences))
}

/// Recurrent states of as many sequences as may run: the first engine, which served such models until
/// 0.10.2, allocates them in its profile.
fn states_beside(setup: &Setup<'_>) -> f64 {
    if setup.engine.at_least([0, 10, 2]) {
        return 0.0;
    }
    let shape = cache_shape(setup);
    let groups = shape.groups.iter().filter(|group| group.positions <= 0.0);
    let each: f64 = groups.map(|group| group.layers * group.state_bytes).sum();
    each * setup.settings.sequences as f64
}

/// Context, kernels and, where they lie inside of the budget, collectives.
fn context(setup: &Setup<'_>) -> Overhead {
    // Since 0.11 they start outside of it; what the first collectives add is still counted.
    let most = if setup.engine.at_least([0, 11, 0]) {
        1.0
    } else {
        f64::INFINITY
    };
    let ranks = f64::from((setup.layout.stage_gpus() * setup.layout.pipeline).max(1));
    let peers = (ranks - 1.0).min(most);
    let own = setup.device.gpu.scale_up.as_ref();
    let direct = own.is_some_and(|link| link.fabric.is_none());
    let each = if direct { PEER_DIRECT } else { PEER_HOST };
    let formula = if peers > 0.0 {
        format!(
            "0.13 GiB and {:.2} GiB for each of {peers} peers, fitted on logged profiles",
            each / GIB
        )
    } else {
        "0.13 GiB, fitted on logged profiles".into()
    };
    part(
        Part::NonTorch,
        "context and collectives",
        CONTEXT + each * peers,
        formula,
    )
}

/// PyTorch's peak beyond the weights in the profile's step: either the widest layer, or logits and
/// what sampling makes of them, or the tower on its largest items.
fn activations(setup: &Setup<'_>, behaviour: Behaviour) -> Overhead {
    let tokens = setup.settings.batched_tokens as f64;
    let hidden = setup.architecture.hidden as f64;
    let vocabulary = setup.architecture.vocabulary as f64;
    let sequences = sampled(setup, behaviour);
    let each = bytes_per_logit(setup, behaviour);
    // The step's output, and since 0.12 its input beside it.
    let buffers = if setup.engine.at_least([0, 12, 0]) {
        4.0
    } else {
        2.0
    };
    let sampler = each * sequences * vocabulary + buffers * tokens * hidden;
    let forward = widest_layer(setup, tokens);
    // The first engine merges a multimodal step's embeddings with the text's.
    let towers = &setup.architecture.towers;
    let crossed = crosses(setup);
    let merged = if behaviour.first && !towers.is_empty() && !crossed {
        2.0 * tokens * hidden
    } else {
        0.0
    };
    let (mut encoder, mut kept) = (0.0_f64, 0.0_f64);
    for tower in towers {
        let (peak, rest) = if crossed && behaviour.first {
            tiles_peak(tower, setup)
        } else {
            tower_peak(tower, setup, behaviour)
        };
        encoder = encoder.max(peak);
        kept = kept.max(rest);
    }
    part(
        Part::Activations,
        "activations",
        (sampler.max(forward + merged) + kept).max(encoder),
        format!(
            "the largest of sampling ({each} B × {sequences} sequences × {vocabulary} logits + {buffers} B × \
             {tokens} tokens × {hidden}), the widest layer, and the tower's largest items"
        ),
    )
}

/// The peak on ranks that do not sample: the first engine gathers logits on one of several ranks,
/// and the others log a smaller peak. `None` where every rank samples.
pub(super) fn peak_without_sampling(setup: &Setup<'_>) -> Option<f64> {
    if !behaviour(setup).first || setup.layout.tensor <= 1 {
        return None;
    }
    let tokens = setup.settings.batched_tokens as f64;
    let tensor = f64::from(setup.layout.tensor);
    let own_logits =
        2.0 * setup.settings.sequences as f64 * setup.architecture.vocabulary as f64 / tensor;
    Some(widest_layer(setup, tokens) + own_logits)
}

/// Sequences that the profile samples for.
fn sampled(setup: &Setup<'_>, behaviour: Behaviour) -> f64 {
    let tokens = setup.settings.batched_tokens as f64;
    let sequences = (setup.settings.sequences as f64).min(tokens);
    // The first engine profiles only as many multimodal sequences as have room for their items.
    let items = item_tokens(setup);
    if behaviour.first && items > 0.0 {
        return sequences.min(libm::floor(tokens / items)).max(1.0);
    }
    sequences
}

/// Tokens of the items that a sequence of the first engine's profile brings: the largest of each kind since 0.6.6, the
/// largest image before; 0 where none stands among the text.
fn item_tokens(setup: &Setup<'_>) -> f64 {
    if crosses(setup) {
        return 0.0;
    }
    let context = longest_context(setup);
    let towers = setup.architecture.towers.iter();
    let kinds = towers.map(|tower| kinds(tower, context));
    let tokens = |kind: Option<(f64, f64)>| kind.map_or(0.0, |(_, tokens)| tokens);
    if merges(setup) {
        return kinds.flatten().map(tokens).sum();
    }
    kinds.map(|[image, _]| tokens(image)).fold(0.0, f64::max)
}

/// Whether the profile's items are made by the model's own processor, as real ones are (since 0.6.6): they are not made
/// smaller, and a sequence without room for all of them is profiled as text
/// (`vllm/multimodal/profiling.py:get_dummy_data`, first engine).
fn merges(setup: &Setup<'_>) -> bool {
    setup.engine.at_least([0, 6, 6])
}

/// Pairs of frames of the profile's video at most (16 frames, `vllm/model_executor/models/qwen2_vl.py`).
const MOST_PAIRS: f64 = 8.0;

/// Patches and tokens of the largest image, and of the largest video where a tower takes them: as many pairs of frames
/// as a context has room for beside the image, at least one.
fn kinds(tower: &Tower, context: f64) -> [Option<(f64, f64)>; 2] {
    let (Some(patches), Some(item)) = (tower.largest_patches, tower.largest_item) else {
        return [None, None];
    };
    let (patches, item) = (patches as f64, (item.0 as f64).max(1.0));
    let pairs = libm::floor((context - item) / item).clamp(1.0, MOST_PAIRS);
    let video = tower.videos.then_some((pairs * patches, pairs * item));
    [Some((patches, item)), video]
}

/// Whether layers attend to what a tower makes of images, instead of reading it among their tokens.
fn crosses(setup: &Setup<'_>) -> bool {
    let mut runs = setup.architecture.layers.iter();
    setup.architecture.encoder.is_none() && runs.any(|run| run.layer.cross_attention > 0)
}

/// The peak of a tower whose output is attended to, in the first engine, and what stays of it beside
/// the step. Each sequence of the profile brings its largest item, however many tokens a step has
/// (`vllm/worker/enc_dec_model_runner.py`). All tiles of an item attend to each other under a mask in
/// 16 bits, in rows padded to eights; outputs of five layers are listed, then stacked
/// (`vllm/model_executor/models/mllama.py`, 0.7.3).
fn tiles_peak(tower: &Tower, setup: &Setup<'_>) -> (f64, f64) {
    const KEPT_LAYERS: f64 = 5.0;
    let (Some(patches), Some(item)) = (tower.largest_patches, tower.largest_item) else {
        return (0.0, 0.0);
    };
    let tensor = f64::from(setup.layout.tensor.max(1));
    let items = setup.settings.sequences as f64;
    let patches = patches as f64;
    let rows = libm::ceil(patches / 32.0) * 32.0;
    let mask = 2.0 * rows * rows;
    let width = (2.0 + 2.0 * KEPT_LAYERS) * tower.hidden as f64 + 2.0 * tower.width as f64 / tensor;
    let pixels = patches * PIXELS;
    let embeddings = 2.0 * item.0 as f64 * setup.architecture.hidden as f64;
    (
        items * (2.0 * rows * width + mask + pixels),
        items * (pixels + embeddings),
    )
}

/// Bytes of the pixels of a patch of 14 × 14 in three colours, in 16 bits.
const PIXELS: f64 = 3.0 * 14.0 * 14.0 * 2.0;

/// The peak of a tower on the items that a step may hold, and what stays of it beside the step:
/// pixels or frames, and embeddings. The newer runner does not profile towers.
fn tower_peak(tower: &Tower, setup: &Setup<'_>, behaviour: Behaviour) -> (f64, f64) {
    if behaviour.second_runner {
        return (0.0, 0.0);
    }
    let tokens = setup.settings.batched_tokens as f64;
    let context = longest_context(setup);
    let [image, video] = kinds(tower, context);
    let Some((patches, item)) = image else {
        return (0.0, 0.0);
    };
    if behaviour.first && merges(setup) {
        let sequences = sampled(setup, behaviour);
        if item_tokens(setup) > libm::floor(tokens / sequences) {
            return (0.0, 0.0);
        }
        let passes = [image, video].into_iter().flatten();
        let passes = passes.map(|(patches, item)| (sequences * patches, sequences * item));
        return passes
            .map(|pass| pass_peak(tower, setup, pass))
            .fold((0.0, 0.0), |(peak, kept): (f64, f64), (one, rest)| {
                (peak.max(one + kept), kept + rest)
            });
    }
    // The second engine profiles the kind of item with the most tokens; how many frames it takes from 0.10 on is not
    // known here.
    let video = video.filter(|_| !behaviour.first && !setup.engine.at_least([0, 10, 0]));
    let (patches, item) = video.unwrap_or((patches, item));
    // An item that no request has room for is made smaller before an older first engine takes it.
    let room = if behaviour.first { tokens } else { context };
    let scale = (room / item).min(1.0);
    let items = libm::floor(tokens / item).max(1.0);
    let pass = (patches * items * scale, items * item * scale);
    pass_peak(tower, setup, pass)
}

/// The peak of one pass of a tower over so many patches that become so many tokens, and what stays of it.
fn pass_peak(tower: &Tower, setup: &Setup<'_>, (patches, tokens): (f64, f64)) -> (f64, f64) {
    let embeddings = tokens * setup.architecture.hidden as f64 * 2.0;
    let tensor = f64::from(setup.layout.tensor.max(1));
    let pixels = patches * PIXELS;
    let width = 6.0 * tower.hidden as f64 + 2.0 * tower.width as f64 / tensor;
    (
        2.0 * patches * width + pixels + embeddings,
        pixels + embeddings,
    )
}
