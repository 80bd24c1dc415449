//! Memory of made-up models against an independent sum of their tensors' shapes.
#![allow(clippy::float_cmp, reason = "whole numbers of bytes are exact")]

use crate::fixture::catalogue;
use gpuwise_domain::{gpu::Device, layout::Layout, model::Architecture, precision::CacheFormat};
use gpuwise_read::config::read_config;
use gpuwise_size::{
    engines,
    knowledge::Corrections,
    memory::{cache_shape, published_bytes, weights_per_rank},
    setup::{Setup, Weights},
};
use proptest::prelude::*;

#[derive(Debug, Clone, Copy)]
struct Shape {
    layers: u64,
    hidden: u64,
    heads: u64,
    kv_heads: u64,
    head: u64,
    width: u64,
    vocabulary: u64,
    experts: u64,
    tied: bool,
}

fn shapes() -> impl Strategy<Value = Shape> {
    (
        1u64..12,
        1u64..9,
        0u32..4,
        1u64..9,
        1u64..40,
        0u32..3,
        any::<bool>(),
    )
        .prop_map(
            |(layers, hidden, kv, width, vocabulary, experts, tied)| Shape {
                layers,
                hidden: hidden * 256,
                heads: 8,
                kv_heads: 1 << kv,
                head: 64,
                width: width * 128,
                vocabulary: vocabulary * 512,
                experts: if experts == 0 {
                    0
                } else {
                    4 * u64::from(experts)
                },
                tied,
            },
        )
}

fn architecture(shape: Shape) -> Architecture {
    let experts = match shape.experts {
        0 => String::new(),
        count => format!(r#""num_local_experts": {count}, "num_experts_per_tok": 2,"#),
    };
    let kind = if shape.experts > 0 {
        "mixtral"
    } else {
        "llama"
    };
    let Shape {
        layers,
        hidden,
        heads,
        kv_heads,
        head,
        width,
        vocabulary,
        tied,
        ..
    } = shape;
    read_config(&format!(
        r#"{{"model_type": "{kind}", "hidden_size": {hidden}, "num_hidden_layers": {layers},
        "num_attention_heads": {heads}, "num_key_value_heads": {kv_heads}, "head_dim": {head},
        "intermediate_size": {width}, "vocab_size": {vocabulary}, "tie_word_embeddings": {tied},
        {experts} "max_position_embeddings": 4096, "torch_dtype": "bfloat16"}}"#
    ))
    .expect("a configuration")
}

/// Elements by kind: (split over ranks, key and value, on every rank).
fn elements(shape: Shape) -> (u64, u64, u64) {
    let queries = shape.hidden * shape.heads * shape.head * 2;
    let keys = shape.hidden * shape.kv_heads * shape.head * 2;
    let mlp = 3 * shape.hidden * shape.width;
    let (mlp, router) = match shape.experts {
        0 => (mlp, 0),
        experts => (mlp * experts, shape.hidden * experts),
    };
    let table = shape.vocabulary * shape.hidden * if shape.tied { 1 } else { 2 };
    (
        shape.layers * (queries + mlp) + table,
        shape.layers * keys,
        shape.layers * (2 * shape.hidden + router) + shape.hidden,
    )
}

fn with_setup<R>(shape: Shape, tensor: u32, run: impl FnOnce(&Setup<'_>) -> R) -> R {
    let catalogue = catalogue();
    let device = Device::whole(catalogue.gpu("H100 SXM5 80GB").expect("an H100"));
    let engine = crate::setups::engine("vllm 0.15.1");
    let architecture = architecture(shape);
    run(&Setup {
        architecture: &architecture,
        device,
        settings: engines::model(engine.kind).settings(
            &engine,
            &device,
            Layout::tensor(tensor),
            None,
        ),
        engine,
        bucket: gpuwise_domain::engine::VersionBucket::new("vllm"),
        layout: Layout::tensor(tensor),
        weights: Weights::published(&architecture),
        cache: CacheFormat::HALF,
        draft: None,
        adapters: None,
        corrections: Corrections::default(),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn weights_are_the_sum_of_their_shapes(shape in shapes(), ranks in 0u32..4) {
        let tensor = 1 << ranks;
        let (dealt, keys, everywhere) = elements(shape);
        // With more ranks than key-value heads each holds one.
        let key_share = shape.kv_heads.div_ceil(u64::from(tensor)) as f64 / shape.kv_heads as f64;
        let expected = 2.0 * (dealt as f64 / f64::from(tensor) + keys as f64 * key_share + everywhere as f64);
        with_setup(shape, tensor, |setup| {
            let bytes = weights_per_rank(setup);
            prop_assert!((bytes - expected).abs() < 1.0, "{bytes} against {expected}");
            prop_assert_eq!(published_bytes(setup), 2.0 * (dealt + keys + everywhere) as f64);
            Ok(())
        })?;
    }

    #[test]
    fn a_token_takes_keys_and_values_of_every_layer(shape in shapes(), ranks in 0u32..4) {
        let tensor = 1 << ranks;
        let heads = shape.kv_heads.div_ceil(u64::from(tensor));
        let expected = (2 * 2 * shape.layers * heads * shape.head) as f64;
        with_setup(shape, tensor, |setup| {
            let cache = cache_shape(setup);
            prop_assert_eq!(cache.token_bytes(), expected);
            prop_assert_eq!(cache.reported_tokens(expected * 160.0), 160.0);
            Ok(())
        })?;
    }
}
