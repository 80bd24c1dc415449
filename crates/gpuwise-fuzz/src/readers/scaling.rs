//! Files of variants.

use gpuwise_read::scaling::read_scaling;

/// Hands bytes over and holds what is true of every answer.
pub(crate) fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(fleet) = read_scaling("variants.toml", text) {
        assert!(!fleet.variants.is_empty());
        assert!(
            fleet
                .variants
                .iter()
                .all(|one| one.rate.is_none_or(|rate| rate > 0.0))
        );
    }
}
