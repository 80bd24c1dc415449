//! An access log of any form.

use gpuwise_read::access_log::{Mapping, nanoseconds_of, read_access_log};

/// Hands bytes over and holds what is true of every answer.
pub(crate) fn check(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = nanoseconds_of(text);
        let _ = Mapping::read(text);
    }
    if let Ok(log) = read_access_log(data, &Mapping::default(), None) {
        assert!(log.entries.is_sorted_by_key(|entry| entry.arrival));
        assert!(
            log.prefix_hit()
                .is_none_or(|share| (0.0..=1.0).contains(&share))
        );
        assert!(log.counts(60.0).iter().sum::<f64>() <= log.entries.len() as f64);
        assert_eq!(log.trace().requests.len(), log.entries.len());
    }
}
