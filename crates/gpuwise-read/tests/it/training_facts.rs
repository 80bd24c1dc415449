//! What the catalogue says of training: its own file is understood, wrong ones say where.

use gpuwise_read::catalogue::read_training_facts;

const OURS: &str = include_str!("../../../../catalogue/training.toml");

#[test]
fn rows_are_found_by_gpu_and_else_by_generation() {
    let facts = read_training_facts("training.toml", OURS).expect("the catalogue");
    let half = |gpu, generation| facts.matmul_share(gpu, generation).map(|row| row.half);
    assert_eq!(half("H100 SXM5 80GB", "Hopper"), Some(0.83));
    assert_eq!(half("H800", "Hopper"), Some(0.82));
    assert_eq!(half("T4", "Turing"), None);
    let network = |gpu| {
        facts
            .network(gpu, "Blackwell")
            .map(|row| row.bytes_per_second)
    };
    assert_eq!(network("GB300 279GB"), Some(100e9));
    assert_eq!(network("B200 SXM 180GB"), Some(50e9));
    // Whatever was fitted lies between nothing and everything.
    for benchmark in &facts.benchmarks {
        assert!(benchmark.sample_bytes > 0.0 && benchmark.step_seconds < 1.0);
    }
}

#[test]
fn wrong_rows_are_named() {
    let cases = [
        ("matmul = 3", "line 1"),
        (
            "[[matmul]]\ngeneration = \"Hopper\"\nhalf = 1.3\nsource = \"s\"",
            "matmul Hopper",
        ),
        (
            "[[matmul]]\ngeneration = \"Hopper\"\nhalf = 0.8\nsource = \" \"",
            "source",
        ),
        (
            "[[matmul]]\ngeneration = \"Hopper\"\nhalves = 0.8\nsource = \"s\"",
            "halves",
        ),
        (
            "[[attention]]\ngeneration = \"Hopper\"\nflash2 = 0\nvendor = 1\nsource = \"s\"",
            "attention Hopper",
        ),
        (
            "[[network]]\ngeneration = \"Hopper\"\ngbs = -1\nsource = \"s\"",
            "network Hopper",
        ),
        (
            "[[network]]\ngeneration = \"Hopper\"\ngbs = inf\nsource = \"s\"",
            "network Hopper",
        ),
        (
            "[[set]]\nname = \"x\"\nrows = 1\nerror_percent = 1\n[set.value]\npasses = 0.0",
            "set x",
        ),
        (
            "[[benchmark]]\nname = \"b\"\nnetwork = \"n\"\nsample_gflop = 1\nsamples = [[8, 2], [8, 3]]\nusual_batch = 1\nsource = \"s\"",
            "benchmark b",
        ),
        (
            "[[benchmark]]\nname = \"b\"\nnetwork = \"n\"\nsample_gflop = 1\nsamples = []\nusual_batch = 1\nsource = \"s\"",
            "benchmark b",
        ),
        (
            "[[run]]\nbenchmark = \"b\"\nshare = nan\nsample_megabytes = 1\nstep_ms = 1",
            "run b",
        ),
    ];
    for (text, said) in cases {
        let error = read_training_facts("mine.toml", text)
            .expect_err(text)
            .to_string();
        assert!(error.starts_with("mine.toml: "), "{error}");
        assert!(error.contains(said), "{error}, not {said}");
    }
}
