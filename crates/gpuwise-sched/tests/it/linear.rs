//! Linear programs whose optimum is known.

use gpuwise_sched::linear::{Steps, maximise};

#[test]
fn textbook_programs() {
    for (c, rows, b, value) in [
        // Wyndor Glass (Hillier and Lieberman): 3x + 5y, x ≤ 4, 2y ≤ 12, 3x + 2y ≤ 18.
        (
            vec![3.0, 5.0],
            vec![vec![1.0, 0.0], vec![0.0, 2.0], vec![3.0, 2.0]],
            vec![4.0, 12.0, 18.0],
            Some(36.0),
        ),
        // Beale's example, on which the usual rule cycles.
        (
            vec![0.75, -150.0, 0.02, -6.0],
            vec![
                vec![0.25, -60.0, -0.04, 9.0],
                vec![0.5, -90.0, -0.02, 3.0],
                vec![0.0, 0.0, 1.0, 0.0],
            ],
            vec![0.0, 0.0, 1.0],
            Some(0.05),
        ),
        (vec![1.0], vec![vec![-1.0]], vec![1.0], None),
    ] {
        let best = maximise(&c, &rows, &b, Steps::bland(1000))
            .map(|best| (best.value * 1e6).round() / 1e6);
        assert_eq!(best, value);
    }
}
