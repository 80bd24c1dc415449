//! A page of metrics.

use gpuwise_read::metrics::{observe, parse, read_answer};

/// Hands bytes over and holds what is true of every answer.
pub(crate) fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let _ = read_answer(text);
    let Ok(page) = parse(text) else {
        return;
    };
    assert!(page.samples.len() <= text.len());
    let Ok(seen) = observe(&page, None) else {
        return;
    };
    for histogram in [&seen.input, &seen.output, &seen.ttft]
        .into_iter()
        .flatten()
    {
        if let Some(found) = histogram.distribution(Some(1e6)) {
            assert!(found.mean.is_finite() && found.variation.is_finite());
            for quantile in &found.quantiles {
                assert!(quantile.low <= quantile.value && quantile.value <= quantile.high);
            }
        }
    }
    let _ = seen.since(&seen);
}
