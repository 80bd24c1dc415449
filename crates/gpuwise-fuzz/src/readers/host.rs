//! Host files, what runs, and constants of the balance.

use gpuwise_read::{
    catalogue::read_balance,
    host::{read_host, running},
};

/// Hands bytes over and holds what is true of every answer.
pub(crate) fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let _ = read_balance("balance.toml", text);
    if let Ok((count, name)) = running(text) {
        assert!(count > 0 && !name.is_empty());
    }
    if let Ok(host) = read_host("host.toml", text) {
        assert!(host.pcie.is_none_or(|rate| rate.get() > 0.0));
        assert!(host.cores.is_none_or(|cores| cores >= 1.0));
    }
}
