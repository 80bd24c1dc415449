//! Host files, what runs, and constants of the balance.
#![no_main]

use gpuwise_read::{
    catalogue::read_balance,
    host::{read_host, running},
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
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
});
