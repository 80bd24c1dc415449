//! Layers that stay, by names under which loaders find them: `transformers` 5 puts `model.` before names of towers and of
//! language models inside of others, and files have the names from before.

use super::{
    checkpoint::Shard,
    choose::{self, Fate, Reason},
    recipe::escaped,
};
use gpuwise_read::stored::tower;
use serde_json::Value;
use std::collections::BTreeSet;

/// The head of a language model that has no tensor where it shares the embeddings, if it is not `lm_head`.
fn shared_head(model_type: &str) -> Option<&'static str> {
    Some(match model_type {
        "bert" | "mobilebert" | "megatron-bert" | "big_bird" | "nezha" | "ernie" | "deberta"
        | "deberta-v2" | "squeezebert" | "layoutlm" | "visual_bert" => "cls.predictions.decoder",
        "roberta" | "xlm-roberta" | "xlm-roberta-xl" | "camembert" | "longformer" | "mpnet"
        | "data2vec-text" | "esm" => "lm_head.decoder",
        "albert" => "predictions.decoder",
        "distilbert" => "vocab_projector",
        "electra" => "generator_lm_head",
        "modernbert" => "decoder",
        "gpt_neox" => "embed_out",
        "whisper" => "proj_out",
        "xlm" | "flaubert" => "pred_layer.proj",
        _ => return None,
    })
}

/// Linear layers that stay, as `ignore` has them: norms and embeddings are none, and engines would ask for them.
pub(super) fn kept(shards: &[Shard], fates: &[Vec<Fate>], config: &Value) -> Vec<String> {
    let tensors = shards.iter().flat_map(|shard| &shard.tensors);
    // Where it shares the embeddings it has no tensor.
    let mut kept = BTreeSet::from(["lm_head".to_owned()]);
    let model_type = config["model_type"].as_str().unwrap_or_default();
    kept.extend(shared_head(model_type).map(str::to_owned));
    for (tensor, fate) in tensors.zip(fates.iter().flatten()) {
        let name = tensor.name.as_str();
        match (fate, choose::layer(name)) {
            (Fate::Kept(Reason::Tower), _) => {
                if let Some(part) = tower(name) {
                    kept.insert(format!(r"re:(.*\.)?{}(\..*)?$", escaped(part)));
                }
            }
            (Fate::Kept(Reason::NoMatrix | Reason::Embedding) | Fate::Encoded { .. }, _)
            | (_, None) => {}
            (Fate::Kept(_), Some(layer)) => kept.extend(named(layer)),
        }
        if name.contains("language_model.") {
            kept.insert(r"re:(.*\.)?lm_head$".into());
        }
    }
    kept.into_iter().collect()
}

/// A layer by all names that its module may have.
fn named(layer: &str) -> Vec<String> {
    if let Some((_, rest)) = layer.split_once("language_model.") {
        let rest = rest.strip_prefix("model.").unwrap_or(rest);
        let before = r"re:.*language_model\.(model\.)?";
        return vec![format!("{before}{}$", escaped(rest))];
    }
    let own = layer.to_owned();
    match (tower(layer), layer.split_once('.')) {
        (Some(part), _) => {
            let from = layer.find(part).unwrap_or_default();
            vec![own, format!(r"re:(.*\.)?{}$", escaped(&layer[from..]))]
        }
        (None, Some((before, rest))) if before != "model" => {
            vec![own, format!(r"re:(.*\.)?{}$", escaped(rest))]
        }
        _ => vec![own],
    }
}

#[cfg(test)]
mod tests {
    use super::named;

    #[test]
    fn a_layer_is_found_under_each_prefix() {
        assert_eq!(
            named("model.layers.0.mlp.up_proj"),
            ["model.layers.0.mlp.up_proj"]
        );
        assert_eq!(
            named("language_model.model.layers.0.mlp.up_proj"),
            [r"re:.*language_model\.(model\.)?layers\.0\.mlp\.up_proj$"]
        );
        assert_eq!(
            named("bert.encoder.layer.0.output.dense"),
            [
                "bert.encoder.layer.0.output.dense",
                r"re:(.*\.)?encoder\.layer\.0\.output\.dense$"
            ]
        );
    }
}
