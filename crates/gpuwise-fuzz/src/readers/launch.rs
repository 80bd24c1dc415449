//! A launch command, with the facts of every engine.

use gpuwise_domain::facts::EngineFacts;
use gpuwise_read::{
    catalogue::read_engine_facts,
    launch::{parse_all, pools},
};
use std::sync::LazyLock;

static FACTS: LazyLock<Vec<EngineFacts>> = LazyLock::new(|| {
    [
        include_str!("../../../../catalogue/engines/vllm.toml"),
        include_str!("../../../../catalogue/engines/sglang.toml"),
        include_str!("../../../../catalogue/engines/trtllm.toml"),
        include_str!("../../../../catalogue/engines/llamacpp.toml"),
        include_str!("../../../../catalogue/engines/transformers.toml"),
    ]
    .into_iter()
    .map(|text| read_engine_facts("engine", text).expect("our own catalogue"))
    .collect()
});

/// Hands bytes over and holds what is true of every answer.
pub(crate) fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let _ = pools(text, &FACTS);
    for launch in parse_all(text, &FACTS, None).unwrap_or_default() {
        let _ = (launch.layout(true), launch.layout(false));
        if let Some(share) = launch.memory_fraction {
            assert!(share > 0.0 && share <= 1.0);
        }
    }
}
