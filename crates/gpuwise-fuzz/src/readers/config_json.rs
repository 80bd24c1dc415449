//! A model configuration, also read as a diffusion, vision or embedding model.

use gpuwise_read::{config::read_config, network::read_network};

/// Hands bytes over and holds what is true of every answer.
pub(crate) fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(architecture) = read_config(text) {
        let _ = architecture.parameters();
        let _ = architecture.active_parameters();
        let _ = architecture.cache_elements_per_token();
    }
    let _ = read_network("fuzzed", text);
}
