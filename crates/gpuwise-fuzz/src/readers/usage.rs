//! Tables of usage, and files of thresholds and names.

use gpuwise_read::usage::{read_audit_catalogue, read_usage};

/// Hands bytes over and holds what is true of every answer.
pub(crate) fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let _ = read_audit_catalogue("audit.toml", text);
    if let Ok((rows, _)) = read_usage("usage.csv", text) {
        for row in rows {
            assert!(!row.holder.name.is_empty());
            assert!(row.hours >= 0.0 && row.device_hours >= 0.0);
            assert!(row.idle.is_none_or(|idle| idle.in_stretches <= idle.hours));
        }
    }
}
