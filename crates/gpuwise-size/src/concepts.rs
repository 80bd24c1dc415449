//! The worked examples of `docs/concepts`, run as tests.

macro_rules! pages {
    ($($page:ident: $file:literal,)*) => {
        $(
            #[doc = include_str!(concat!("../../../docs/concepts/", $file))]
            mod $page {}
        )*
    };
}

pages! {
    collectives: "collectives.md",
    composed_gpus: "composed-gpus.md",
    cost: "cost.md",
    decode_step: "decode-step.md",
    energy: "energy.md",
    engine_memory: "engine-memory.md",
    experts: "experts.md",
    failures_and_checkpoints: "failures-and-checkpoints.md",
    kv_cache: "kv-cache.md",
    mixed_steps: "mixed-steps.md",
    operator_graph_trace: "operator-graph-trace.md",
    prefill: "prefill.md",
    queueing: "queueing.md",
    ranges: "ranges.md",
    training_memory: "training-memory.md",
    training_step: "training-step.md",
    total_cost: "total-cost.md",
    rules_of_thumb: "rules-of-thumb.md",
    system_balance: "system-balance.md",
    weights: "weights.md",
    diffusion_vision_embedding: "diffusion-vision-embedding.md",
}
