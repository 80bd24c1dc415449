//! vLLM's releases: which was current when, and what each does by itself.

use gpuwise_domain::engine::{Engine, EngineKind, Release};
use gpuwise_size::{memory::longest_context, setup::Setup};

/// The newest release of vLLM in each month, by the day of its source distribution.
const VLLM: &[(u16, u8, [u32; 3])] = &[
    (2024, 4, [0, 4, 1]),
    (2024, 5, [0, 4, 3]),
    (2024, 6, [0, 5, 0]),
    (2024, 7, [0, 5, 3]),
    (2024, 8, [0, 5, 5]),
    (2024, 9, [0, 6, 2]),
    (2024, 10, [0, 6, 3]),
    (2024, 11, [0, 6, 4]),
    (2024, 12, [0, 6, 6]),
    (2025, 1, [0, 7, 0]),
    (2025, 2, [0, 7, 3]),
    (2025, 3, [0, 8, 2]),
    (2025, 4, [0, 8, 5]),
    (2025, 5, [0, 9, 0]),
    (2025, 6, [0, 9, 1]),
    (2025, 7, [0, 9, 2]),
    (2025, 8, [0, 10, 1]),
    (2025, 9, [0, 10, 2]),
    (2025, 10, [0, 11, 0]),
    (2025, 11, [0, 11, 2]),
    (2025, 12, [0, 12, 0]),
    (2026, 1, [0, 14, 1]),
    (2026, 2, [0, 16, 0]),
    (2026, 3, [0, 18, 1]),
    (2026, 4, [0, 19, 1]),
    (2026, 5, [0, 21, 0]),
    (2026, 6, [0, 23, 0]),
    (2026, 7, [0, 26, 0]),
    (2026, 8, [0, 28, 0]),
    (2026, 9, [0, 30, 0]),
    (2026, 10, [0, 32, 0]),
];

/// The release that was current in the engine's month; `None` where no month is stated, or it is
/// newer than the last known.
pub(crate) fn release_of(engine: &Engine) -> Option<Release> {
    let month = engine.month.filter(|_| engine.kind == EngineKind::Vllm)?;
    let at = (month.year, month.month);
    let newest = VLLM
        .last()
        .is_some_and(|(year, month, _)| (*year, *month) < at);
    let known = VLLM
        .iter()
        .rev()
        .find(|(year, month, _)| (*year, *month) <= at);
    let numbers = known.or(VLLM.first()).map(|(_, _, numbers)| *numbers)?;
    (!newest).then_some(Release { numbers })
}

/// A release written without its patch (`0.6`) is the newest patch of it.
pub(crate) fn newest_patch(engine: &Engine) -> Option<Release> {
    let release = engine.release.filter(|_| engine.kind == EngineKind::Vllm)?;
    let short = engine
        .written
        .split(|c: char| !c.is_ascii_digit() && c != '.')
        .any(|word| word.matches('.').count() == 1 && word.parse() == Ok(release));
    let [major, minor, _] = release.numbers;
    let mut patches = VLLM.iter().rev().map(|(_, _, numbers)| *numbers);
    let newest = patches.find(|numbers| numbers[..2] == [major, minor])?;
    short.then_some(Release { numbers: newest })
}

/// `V0` and `V1` in a row name the first and the second engine, whatever the release's default is.
pub(crate) fn first_engine(engine: &mut Engine, said: &str) {
    if engine.kind != EngineKind::Vllm {
        return;
    }
    let mut words = said.split(|c: char| !c.is_ascii_alphanumeric() && c != '.');
    let (last_first, first_second) = ([0, 7, 3], [0, 8, 0]);
    let named = words.find(|word| matches!(*word, "V0" | "V1"));
    match (named, engine.release) {
        (Some("V0"), release) if release.is_none_or(|r| r.numbers > last_first) => {
            engine.release = Some(Release {
                numbers: last_first,
            });
        }
        (Some("V1"), Some(release)) if release.numbers < first_second => {
            engine.release = Some(Release {
                numbers: first_second,
            });
        }
        _ => {}
    }
}

/// Fills in what vLLM does by itself where a setting is not stated.
pub(crate) fn vllm_settings(setup: &mut Setup<'_>, fraction: bool, tokens: bool, sequences: bool) {
    let engine = setup.engine.clone();
    let since = |numbers: [u32; 3]| engine.at_least(numbers);
    let context = longest_context(setup) as u64;
    if !fraction {
        setup.settings.memory_fraction = if since([0, 20, 0]) { 0.92 } else { 0.9 };
    }
    if !tokens {
        setup.settings.batched_tokens = if since([0, 8, 0]) {
            second_tokens(setup)
        } else {
            first_tokens(setup, context)
        };
    }
    if !sequences {
        let large = large(setup);
        // 0.8.0 to 0.8.3 took the same for every GPU.
        let all = since([0, 8, 0]) && !since([0, 8, 4]);
        setup.settings.sequences = if since([0, 8, 0]) && (large || all) {
            1024
        } else {
            256
        };
        if since([0, 10, 1]) {
            setup.settings.sequences = setup.settings.sequences.min(setup.settings.batched_tokens);
        }
    }
    setup.settings.max_context = context;
}

/// Tokens of a step of the first engine: a whole prompt, unless chunked prefill turns itself on for
/// long contexts.
fn first_tokens(setup: &Setup<'_>, context: u64) -> u64 {
    let chunked = setup.engine.at_least([0, 5, 3]) && context > 32768;
    let multimodal = !setup.architecture.towers.is_empty() && setup.engine.at_least([0, 6, 0]);
    match (chunked && !multimodal, setup.engine.at_least([0, 6, 5])) {
        (true, true) => 2048,
        (true, false) => 512,
        (false, _) => context.max(if multimodal { 5120 } else { 2048 }),
    }
}

fn second_tokens(setup: &Setup<'_>) -> u64 {
    if !large(setup) {
        return 2048;
    }
    if setup.engine.at_least([0, 28, 0]) && gib(setup) >= 160.0 {
        16384
    } else {
        8192
    }
}

/// Whether the release counts the GPU as large: by name until 0.8.5 (H100, H200), by memory since,
/// without the A100 from 0.9 on.
fn large(setup: &Setup<'_>) -> bool {
    let capability = setup.device.gpu.compute_capability;
    if !setup.engine.at_least([0, 8, 5]) {
        return capability == Some((9, 0));
    }
    let ampere = capability == Some((8, 0)) && setup.engine.at_least([0, 9, 0]);
    let spark = capability == Some((12, 1)) && setup.engine.at_least([0, 33, 0]);
    gib(setup) >= 70.0 && !ampere && !spark
}

/// Memory of the GPU as the driver reports it, in GiB.
fn gib(setup: &Setup<'_>) -> f64 {
    let gpu = setup.device.gpu;
    gpu.memory_reported
        .map_or(gpu.memory_marketing_gb, gpuwise_units::Bytes::gib)
}
