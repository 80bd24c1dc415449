//! Counters of kernels: what real exports say, and how kernels are classed.

use gpuwise_domain::profile::kernel_counters::{Bound, BoundLimits, CountedValue, KernelCounters};
use gpuwise_domain::profile::sources::CountedFigures;
use gpuwise_measure::kernel_counters::{bound, counted_figures, counters_source};
use gpuwise_read::kernel_counters::{default_counter_rules, read_kernel_counters};

fn read(text: &[u8]) -> (KernelCounters, Vec<CountedFigures>) {
    let rules = default_counter_rules().expect("rules");
    let counters = read_kernel_counters(text, &rules).expect("counters");
    let figures = counters.launches.iter();
    let figures = figures
        .map(|launch| counted_figures(&counters, launch, &rules))
        .collect();
    (counters, figures)
}

#[test]
fn exports_of_the_sample_data_are_read_whole() {
    let Some(folder) = gpuwise_needs::data("profile") else {
        return;
    };
    // Kernel, metrics, advice; time in ns and throughput of the multiprocessors by eye from the files.
    let cases = [
        ("rtx5070_gemm_naive", 12, 0, 9_589_248.0, Some(97.32)),
        (
            "rtx5070_gemm_register_blocked",
            12,
            0,
            2_970_912.0,
            Some(80.80),
        ),
        ("rtx5070_gemm_tiled", 12, 0, 10_195_552.0, Some(88.90)),
        ("rtx5070_saxpy", 12, 0, 292_928.0, Some(22.30)),
        ("rtx5070_transpose_naive", 12, 0, 163_072.0, Some(6.40)),
        (
            "superbench_cublaslt_cc100_details",
            50,
            8,
            406_240.0,
            Some(23.59),
        ),
        ("fixture_kernelpilot_wide", 5, 0, 44_000.0, None),
    ];
    for (name, metrics, advice, duration, compute) in cases {
        let bytes = std::fs::read(folder.join(format!("ncu/{name}.csv"))).expect(name);
        let (counters, figures) = read(&bytes);
        let launch = &counters.launches[0];
        assert_eq!(
            (launch.metrics.len(), launch.advice.len()),
            (metrics, advice),
            "{name}"
        );
        assert_eq!(figures[0].duration_ns, Some(duration), "{name}");
        assert_eq!(figures[0].compute_percent, compute, "{name}");
        assert!(counters.losses.is_empty(), "{name}: {:?}", counters.losses);
        assert!(counters.printed[0].starts_with("==PROF=="), "{name}");
    }
}

#[test]
fn a_details_page_is_classed_as_its_own_rule_says() {
    let Some(folder) = gpuwise_needs::data("profile") else {
        return;
    };
    let bytes =
        std::fs::read(folder.join("ncu/superbench_cublaslt_cc100_details.csv")).expect("it");
    let (counters, figures) = read(&bytes);
    let launch = &counters.launches[0];
    // The profiler's rule: low compute and memory throughput "typically indicate latency issues".
    assert!(
        launch.advice[0].text.contains("latency issues"),
        "{}",
        launch.advice[0].text
    );
    assert_eq!(figures[0].bound, Some(Bound::Latency));
    assert_eq!(figures[0].near_peak, Some(false));
    assert_eq!(figures[0].occupancy_percent, Some(15.53));
    assert_eq!(figures[0].occupancy_limit_percent, Some(18.75));
    assert_eq!(figures[0].waves, Some(1.89));
    assert_eq!(
        (launch.block, launch.grid),
        (Some([384, 1, 1]), Some([9, 32, 1]))
    );
    assert_eq!(launch.compute_capability, Some((10, 0)));
    let policy = launch
        .metrics
        .iter()
        .find(|m| counters.names.text(m.name) == "Cluster Scheduling Policy");
    assert_eq!(
        policy.map(|m| &m.value),
        Some(&CountedValue::Text("PolicySpread".into()))
    );
    let speedups: Vec<_> = launch
        .advice
        .iter()
        .filter_map(|advice| advice.speedup_percent)
        .collect();
    assert_eq!(speedups, [50.0, 81.25, 5.818, 6.24, 5.818, 14.55]);
}

#[test]
fn bytes_and_what_is_missing_are_told() {
    let Some(folder) = gpuwise_needs::data("profile") else {
        return;
    };
    let bytes = std::fs::read(folder.join("ncu/rtx5070_saxpy.csv")).expect("it");
    let (_, figures) = read(&bytes);
    assert_eq!(figures[0].memory_bytes, Some(134_221_568.0 + 43_631_104.0));
    // 607 GB/s of the 672 that the program printed as the card's peak.
    let rate = figures[0].bytes_per_second().expect("a rate");
    assert!((rate / 1e9 - 607.155).abs() < 0.01, "{rate}");
    assert_eq!(
        (figures[0].bound, figures[0].arithmetic_intensity()),
        (None, None)
    );
    let needed = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed";
    assert_eq!(figures[0].needed, [needed]);
}

#[test]
fn operations_place_a_kernel_on_the_roofline() {
    let (_, figures) = read(
        b"\"ID\",\"Kernel Name\",\"gpu__time_duration.sum\",\"dram__bytes_read.sum\",\"dram__bytes_write.sum\",\
\"smsp__sass_thread_inst_executed_op_ffma_pred_on.sum\",\"smsp__sass_thread_inst_executed_op_fadd_pred_on.sum\",\
\"sm__sass_thread_inst_executed_op_ffma_pred_on.sum\"\n\
\"\",\"\",\"us\",\"Mbyte\",\"Kbyte\",\"inst\",\"inst\",\"inst\"\n\
\"0\",\"k\",\"2\",\"1.5\",\"500\",\"4,000,000\",\"2,000,000\",\"4,000,000\"\n",
    );
    // 2 x 4e6 + 2e6 operations over 2 MB in 2 us.
    assert_eq!(figures[0].total_operations(), Some(1e7));
    assert_eq!(figures[0].arithmetic_intensity(), Some(5.0));
    assert!((figures[0].operations_per_second().expect("a rate") / 5e12 - 1.0).abs() < 1e-12);
}

#[test]
fn kernels_are_classed_by_their_two_throughputs() {
    let limits = BoundLimits {
        latency: 60.0,
        near_peak: 80.0,
        balanced: 10.0,
        waves: 1.0,
        l2_hit: 50.0,
        bank_conflicts: 10.0,
    };
    for (compute, memory, waves, class) in [
        (97.0, 40.0, None, Bound::Compute),
        (40.0, 61.0, None, Bound::Memory),
        (92.0, 85.0, None, Bound::Balanced),
        (59.9, 59.9, None, Bound::Latency),
        (10.0, 20.0, Some(0.4), Bound::SmallGrid),
        (10.0, 20.0, Some(4.0), Bound::Latency),
        (10.0, 90.0, Some(0.4), Bound::Memory),
    ] {
        assert_eq!(
            bound(compute, memory, waves, &limits),
            class,
            "{compute} {memory}"
        );
    }
}

/// Roofs are work a cycle times cycles a second, as Nsight Compute draws them; else bandwidth follows
/// from the launch that used most of it.
#[test]
fn roofs_are_those_of_the_counters() {
    let rules = default_counter_rules().expect("rules");
    let roofs = |header: &str, units: &str, row: &str| {
        let text =
            format!("\"ID\",\"Kernel Name\",{header}\n\"\",\"\",{units}\n\"0\",\"k\",{row}\n");
        let counters = read_kernel_counters(text.as_bytes(), &rules).expect("counters");
        counters_source(counters, &rules).roofs
    };
    let stated = roofs(
        "\"dram__bytes.sum.peak_sustained\",\"dram__cycles_elapsed.avg.per_second\",\"sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained\",\"sm__cycles_elapsed.avg.per_second\"",
        "\"byte/cycle\",\"cycle/second\",\"inst/cycle\",\"cycle/second\"",
        "\"512\",\"1000000000\",\"8192\",\"2000000000\"",
    );
    assert_eq!(stated.memory, Some(512e9));
    assert_eq!(stated.fp32, Some(2.0 * 8192.0 * 2e9));
    let used = roofs(
        "\"gpu__time_duration.sum\",\"dram__bytes.sum\",\"gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed\"",
        "\"ns\",\"byte\",\"%\"",
        "\"1000\",\"300000\",\"50\"",
    );
    assert_eq!(
        (used.memory.map(f64::round), used.fp32),
        (Some(600e9), None)
    );
}
