//! A workload in each of its forms.

use gpuwise_read::workload::{budget, power, rate, read_workload, target, tokens};

/// Hands bytes over and holds what is true of every answer.
pub(crate) fn check(data: &[u8]) {
    let Some((form, text)) = data.split_first() else {
        return;
    };
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    let file = ["w.toml", "w.json", "w.yaml", "w"][usize::from(form % 4)];
    if let Ok(read) = read_workload(file, text) {
        let workload = read.workload;
        assert!((0.0..=1.0).contains(&workload.prefix_hit));
        // A tail that follows from a law is cut by the model's limit, later; means are what is said.
        let lengths = &workload.lengths;
        assert!(lengths.input.mean + lengths.output.mean <= 10_000_001.0);
    }
    let _ = (
        target(text),
        budget(text),
        power(text),
        rate(text),
        tokens(text),
    );
}
