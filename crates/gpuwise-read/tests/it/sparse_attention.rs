//! What sparse attention scores and reads, against the published configurations.

use super::models::catalogue;
use gpuwise_domain::model::Mixer;

/// (layers, index heads, index width, tokens per index key, tokens or entries read, tokens per entry).
fn selections(model: &str) -> Vec<(u64, u64, u64, u64, u64, u64)> {
    let catalogue = catalogue();
    let (_, architecture) = catalogue.resolve(model).unwrap();
    let mut found: Vec<(u64, u64, u64, u64, u64, u64)> = Vec::new();
    for run in &architecture.layers {
        let what = match run.layer.mixer {
            Mixer::Attention {
                index_heads,
                index_dim,
                top_tokens,
                ..
            } => (index_heads, index_dim, 1, top_tokens, 1),
            Mixer::Latent {
                index_heads,
                index_dim,
                index_pool,
                top_tokens,
                ..
            } => (index_heads, index_dim, index_pool, top_tokens, 1),
            Mixer::Compressed {
                index_heads,
                index_dim,
                ratio,
                top_entries,
                ..
            } => (index_heads, index_dim, ratio, top_entries, ratio),
            Mixer::Recurrent(_) | Mixer::None => continue,
        };
        let (heads, dim, pool, top, ratio) = what;
        let same = |known: &&mut (u64, u64, u64, u64, u64, u64)| {
            (known.1, known.2, known.3, known.4, known.5) == what
        };
        match found.iter_mut().find(same) {
            Some(known) => known.0 += run.count,
            None => found.push((run.count, heads, dim, pool, top, ratio)),
        }
    }
    found
}

#[test]
fn every_layer_of_deepseek_v3_2_scores_all_tokens_and_reads_2048() {
    assert_eq!(
        selections("deepseek-ai/DeepSeek-V3.2"),
        [(61, 64, 128, 1, 2048, 1)]
    );
    assert_eq!(selections("deepseek-ai/DeepSeek-V3"), [(61, 0, 0, 1, 0, 1)]);
}

#[test]
fn glm_5_2_takes_the_index_of_an_earlier_layer_in_three_of_four_layers() {
    assert_eq!(selections("zai-org/GLM-5"), [(78, 32, 128, 1, 2048, 1)]);
    assert_eq!(
        selections("zai-org/GLM-5.2"),
        [(21, 32, 128, 1, 2048, 1), (57, 0, 0, 1, 2048, 1)]
    );
}

#[test]
fn deepseek_v4_reads_the_best_of_its_quarters_and_all_of_its_128ths() {
    // Layers that see their window only, indexed ones, and heavily compressed ones.
    assert_eq!(
        selections("deepseek-ai/DeepSeek-V4-Flash"),
        [
            (2, 0, 0, 0, 0, 0),
            (21, 64, 128, 4, 512, 4),
            (20, 0, 0, 128, 0, 128)
        ]
    );
    assert_eq!(
        selections("deepseek-ai/DeepSeek-V4-Pro"),
        [(31, 0, 0, 128, 0, 128), (30, 64, 128, 4, 1024, 4)]
    );
}

#[test]
fn minimax_m3_reads_sixteen_blocks_of_128_tokens_behind_its_first_layers() {
    assert_eq!(
        selections("MiniMaxAI/MiniMax-M3"),
        [(3, 0, 0, 1, 0, 1), (57, 4, 128, 1, 2048, 1)]
    );
}

#[test]
fn pooled_index_keys_stand_for_sixteen_tokens() {
    let found = selections("zai-org/GLM-5.3-Flash");
    assert_eq!(found, [(11, 32, 128, 16, 2048, 1)]);
}
