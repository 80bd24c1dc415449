//! A trace of any kind, packed or not.

use gpuwise_read::traffic::{TrafficFile, decompress, read_traffic, text};

/// Hands bytes over and holds what is true of every answer.
pub(crate) fn check(data: &[u8]) {
    let Ok(bytes) = decompress(data, 1 << 20) else {
        return;
    };
    assert!(bytes.len() <= 1 << 20, "the limit holds");
    let Ok(text) = text(&bytes) else {
        return;
    };
    match read_traffic(text) {
        Ok(TrafficFile::Trace(trace)) => {
            assert!(trace.requests.is_sorted_by_key(|request| request.due));
            for request in &trace.requests {
                assert!(request.covered() <= u64::from(request.input));
            }
            let summary = trace.summary();
            assert!(summary.input.mean.is_finite() && summary.output.variation.is_finite());
            assert!(
                summary.rate.is_none_or(f64::is_finite)
                    && summary.burstiness.is_none_or(f64::is_finite)
            );
        }
        Ok(TrafficFile::Rates(table)) => {
            for model in 0..table.models.len().min(10) {
                assert!(
                    table
                        .summary(model)
                        .is_none_or(|summary| summary.mean.is_finite())
                );
                for client in table.clients(model, None) {
                    let windows = &client.windows;
                    assert!(windows.is_sorted_by_key(|window| window.start));
                }
            }
        }
        Ok(TrafficFile::Lengths(table)) => {
            for model in 0..table.models.len().min(10) {
                let lengths = table.distribution(model, "input_tokens", None);
                assert!(lengths.is_none_or(
                    |lengths| lengths.mean.is_finite() && lengths.variation.is_finite()
                ));
            }
        }
        Err(_) => {}
    }
}
