//! A model whose name is not known but says its size, such as `foo-13B` or `foo-30B-A3B`: the known
//! one of the nearest size stands for it, with as many layers as make its parameters.

use gpuwise_domain::model::Architecture;
use gpuwise_lab::answer::STAND_IN;
use gpuwise_read::catalogue::ModelCatalogue;

/// Decoders of usual shape over the range of sizes; the first ones dense.
const USUAL: [&str; 20] = [
    "EleutherAI/pythia-160m",
    "Qwen/Qwen3-0.6B",
    "meta-llama/Llama-3.2-1B",
    "meta-llama/Llama-3.2-3B",
    "meta-llama/Llama-3.1-8B",
    "Qwen/Qwen3-14B",
    "Qwen/Qwen3-32B",
    "meta-llama/Llama-3.1-70B",
    "meta-llama/Llama-3.1-405B",
    "allenai/OLMoE-1B-7B-0924",
    "openai/gpt-oss-20b",
    "Qwen/Qwen3-30B-A3B",
    "mistralai/Mixtral-8x7B-v0.1",
    "openai/gpt-oss-120b",
    "zai-org/GLM-4.5-Air",
    "mistralai/Mixtral-8x22B-v0.1",
    "Qwen/Qwen3-235B-A22B",
    "zai-org/GLM-4.5",
    "deepseek-ai/DeepSeek-V3",
    "moonshotai/Kimi-K2-Instruct",
];
/// Words of names that are of no decoder of text.
const OTHER: [&str; 16] = [
    "flux",
    "wan",
    "diffusion",
    "sdxl",
    "t2v",
    "i2v",
    "t2i",
    "video",
    "image",
    "whisper",
    "clip",
    "bert",
    "embed",
    "rerank",
    "tts",
    "asr",
];
/// A known model stands for one up to so much larger or smaller.
const FARTHEST: f64 = 2.5;
/// Parameters that the stand-in may have more or fewer.
const TOLERANCE: f64 = 0.15;

/// Parameters that a name says: in all, and those that work on a token where it says them.
fn sizes(name: &str) -> Option<(f64, Option<f64>)> {
    let mut total = None;
    let mut active = None;
    let words = name.split(|c: char| !c.is_ascii_alphanumeric() && c != '.');
    for word in words.map(str::to_ascii_lowercase) {
        if let Some(count) = word.strip_prefix('a').and_then(count) {
            active = active.or(Some(count));
        } else if let Some((experts, each)) = word.split_once('x')
            && let (Ok(experts), Some(each)) = (experts.parse::<f64>(), count(each))
        {
            // Attention is shared: two experts of a token are hardly more than one and a half models.
            total = total.or(Some(0.82 * experts * each));
            active = active.or(Some(1.7 * each));
        } else {
            total = total.or(count(&word));
        }
    }
    let total = total.filter(|count| (1e7..=1e13).contains(count))?;
    Some((total, active.filter(|count| *count < total)))
}

/// `13b`, `1.5b`, `350m`, `1t`.
fn count(word: &str) -> Option<f64> {
    let (digits, unit) = word.split_at(word.len().checked_sub(1)?);
    let unit = match unit {
        "m" => 1e6,
        "b" => 1e9,
        "t" => 1e12,
        _ => return None,
    };
    let starts = digits.starts_with(|c: char| c.is_ascii_digit());
    digits
        .parse::<f64>()
        .ok()
        .filter(|_| starts)
        .map(|n| n * unit)
}

/// What stands for a model of this name; `None` where the name says no size, or none near it is known.
pub fn stand_in(name: &str, models: &ModelCatalogue) -> Option<Architecture> {
    let lower = name.to_ascii_lowercase();
    if OTHER.iter().any(|word| lower.contains(word)) {
        return None;
    }
    let short = name.rsplit('/').next().unwrap_or(name);
    let (total, active) = sizes(short)?;
    let (distance, id, mut found) = USUAL
        .iter()
        .filter_map(|id| {
            let (_, known) = models.resolve(id).ok()?;
            if known.has_experts() != active.is_some() {
                return None;
            }
            let apart = |a: f64, b: f64| (a / b).ln().abs();
            let working = active.map_or(0.0, |active| {
                apart(active, known.active_parameters().0 as f64)
            });
            let all = apart(total, known.parameters().0 as f64);
            Some((all.max(working), *id, known))
        })
        .min_by(|a, b| a.0.total_cmp(&b.0))?;
    if distance > FARTHEST.ln() {
        return None;
    }
    let before = found.layer_count();
    stretch(&mut found, total);
    let made = found.parameters().0 as f64;
    if (made / total - 1.0).abs() > TOLERANCE {
        return None;
    }
    found.prediction.clear();
    found.stored = None;
    found.quantization = None;
    let like = models.names_like(name).join(", ");
    found.assumptions = vec![format!(
        "{STAND_IN}: {id} stands for it with {} layers in place of {before}, {:.1}e9 parameters (names like it: {like})",
        found.layer_count(),
        made / 1e9
    )];
    Some(found)
}

/// Takes as many of each run of layers as make so many parameters in all.
fn stretch(architecture: &mut Architecture, total: f64) {
    let all = architecture.parameters().0 as f64;
    let in_layers: f64 = architecture
        .layers
        .iter()
        .flat_map(|run| run.layer.tensors.iter().map(move |t| (run.count, t)))
        .map(|(count, tensor)| count as f64 * tensor.elements() as f64)
        .sum();
    let factor = ((total - (all - in_layers)) / in_layers).max(0.0);
    let (mut exact, mut taken) = (0.0, 0.0);
    for run in &mut architecture.layers {
        // What one run leaves over goes to the next.
        exact += run.count as f64 * factor;
        let count = (exact - taken).round().max(1.0);
        taken += count;
        run.count = count as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_their_sizes() {
        assert_eq!(sizes("foo-13B"), Some((13e9, None)));
        assert_eq!(sizes("foo-1.5b-instruct"), Some((1.5e9, None)));
        assert_eq!(sizes("Foo3-30B-A3B"), Some((30e9, Some(3e9))));
        assert_eq!(sizes("foo-350m"), Some((3.5e8, None)));
        let (total, active) = sizes("foo-8x7B").unwrap_or_default();
        assert!((4.4e10..4.8e10).contains(&total) && active.is_some());
        for none in [
            "foo", "foo-4bit", "LLaMA ?B", "b", "", "foo-NaNb", "foo-infb", "foo-0b",
        ] {
            assert_eq!(sizes(none), None, "{none}");
        }
    }
}
