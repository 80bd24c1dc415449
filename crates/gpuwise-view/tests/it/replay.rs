//! Tables of replays.

use gpuwise_domain::placement::ReplayRow;
use gpuwise_view::{Style, replay::rows};

fn row(policy: &str, seed: u64, mark: f64, held: f64, placed: u64) -> ReplayRow {
    ReplayRow {
        trace: "openb:x".into(),
        policy: policy.into(),
        seed: Some(seed),
        arrived_percent: Some(mark),
        gpu_allocated_percent: Some(held),
        placed,
        ..ReplayRow::default()
    }
}

#[test]
fn who_holds_more_and_serves_fewer_is_named() {
    let said = |rows_of: &[ReplayRow]| rows(rows_of).to_text(Style::default());
    // Over both seeds ours holds more; it serves 10 fewer at 100 % and, on average, 20 fewer at 130 %.
    let both = [
        row("fgd", 1, 100.0, 85.0, 500),
        row("fgd", 1, 130.0, 86.0, 600),
        row("fgd", 2, 130.0, 86.0, 620),
        row("ours", 1, 100.0, 86.0, 490),
        row("ours", 1, 130.0, 88.0, 590),
        row("ours", 2, 130.0, 88.0, 590),
    ];
    let text = said(&both);
    assert!(text.contains("fgd (20 fewer at 130 %)"), "{text}");
    assert_eq!(text.matches("fewer jobs").count(), 1, "{text}");
    // Who holds less and serves fewer, or more and serves more, needs no note.
    let plain = [
        row("fgd", 1, 130.0, 85.0, 500),
        row("ours", 1, 130.0, 86.0, 510),
    ];
    assert!(!said(&plain).contains("fewer jobs"));
}
