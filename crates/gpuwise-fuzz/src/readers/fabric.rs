//! Fabric files, and lists of fleets.

use gpuwise_read::{
    fabric::read_fabric,
    fleet::{read_openb_nodes, read_openb_tasks},
};

/// Hands bytes over and holds what is true of every answer.
pub(crate) fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(fabric) = read_fabric("fabric.toml", text) {
        assert!(fabric.gpus() > 0 && fabric.largest_host() > 0);
    }
    let _ = read_openb_nodes("nodes.csv", text);
    let _ = read_openb_tasks("pods.csv", text);
}
