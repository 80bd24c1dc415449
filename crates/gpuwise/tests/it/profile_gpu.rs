//! Timing a GPU: without one it says so and stops.

use crate::support::Place;

#[test]
fn without_a_gpu_it_says_so_and_stops() {
    let place = Place::new();
    let ran = place.run(&[
        "profile",
        "gpu",
        "--only",
        "launch",
        "--repeats",
        "1",
        "--format",
        "json",
    ]);
    if ran.code == 0 {
        gpuwise_needs::skipped("a machine without a GPU, or a gpuwise without CUDA");
        return;
    }
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert_eq!(ran.out, "");
    let expect = if cfg!(feature = "cuda") {
        "error: no GPU can be timed: "
    } else {
        "error: this gpuwise was built without CUDA"
    };
    assert!(ran.err.starts_with(expect), "{}", ran.err);
    assert!(ran.err.contains("\n\nhint: "), "{}", ran.err);
    assert!(!ran.err.contains("panicked"), "{}", ran.err);
}

#[test]
fn wrong_sizes_are_refused() {
    let place = Place::new();
    let check = |arguments: &[&str], expect: &str| {
        let mut all = vec!["profile", "gpu"];
        all.extend(arguments);
        let ran = place.run(&all);
        assert_eq!(ran.code, 2, "{arguments:?}");
        assert!(ran.err.contains(expect), "{arguments:?}: {}", ran.err);
    };
    check(&["--weights", "4096"], "such as 14336x4096");
    check(&["--tokens", "0"], "it must be from 1");
    check(&["--precisions", "fp4"], "fp16");
    check(&["--repeats", "0"], "it must be from 1");
}
