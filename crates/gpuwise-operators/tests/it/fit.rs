//! Rows made of a known law are met again, also where they were kept out.

use crate::support::{ANY, silicon};
use gpuwise_domain::engine::EngineKind;
use gpuwise_operators::{
    Basis, Columns, GemmFormat, Row,
    fit::{KeptOut, Samples, errors, fitted},
    tables::gemm::GEMM,
};

const HEADER: [&str; 9] = [
    "system", "engine", "version", "kernel", "launch", "dtype", "m", "n", "k",
];

/// Six tenths of the peak or seven tenths of the bandwidth and 5 µs, in milliseconds.
fn law(peak: f64, bandwidth: f64, [m, n, k]: [f64; 3]) -> f64 {
    let compute = 2.0 * m * n * k / (0.6 * peak);
    let memory = 2.0 * n * k / (0.7 * bandwidth);
    (compute.max(memory) + 5e-6) * 1e3
}

fn planted(names: &[&str]) -> Samples {
    let mut samples = Samples::new(&GEMM);
    let header = HEADER.into_iter().chain(["latency_ms"]);
    let columns = Columns::new("gemm", header);
    for name in names {
        let silicon = silicon(name);
        let sizes = |least: i32, most: i32| (least..=most).map(|e| f64::from(e).exp2());
        for m in sizes(0, 14) {
            for n in sizes(12, 15) {
                for k in sizes(12, 15) {
                    let time = law(silicon.half, silicon.bandwidth, [m, n, k]).to_string();
                    let [m, n, k] = [m, n, k].map(|x| x.to_string());
                    let fields = [
                        name, "vllm", "1.0", "", "graph", "bfloat16", &m, &n, &k, &time,
                    ];
                    let row = Row {
                        columns: &columns,
                        fields: &fields,
                    };
                    samples.push(&row, &silicon).unwrap();
                }
            }
        }
    }
    samples
}

#[test]
fn a_planted_law_is_found() {
    let samples = planted(&["H100 SXM5 80GB", "B200 SXM 180GB"]);
    for group in errors(&samples, &[KeptOut::Shapes]) {
        let mut off: Vec<f64> = group.logs.iter().map(|log| log.abs()).collect();
        off.sort_by(f64::total_cmp);
        assert!(
            off[off.len() / 2] < 0.02,
            "{}: {}",
            group.gpu,
            off[off.len() / 2]
        );
        assert_eq!(group.basis, Basis::Measured);
    }
    let functions = fitted([&samples]);
    let h200 = silicon("H200 SXM 141GB");
    let curve = functions
        .gemm(&h200, EngineKind::Vllm, GemmFormat::Bf16, [16384.0; 2], ANY)
        .unwrap();
    assert_eq!(curve.spread().basis, Basis::Architecture);
    for m in [1.0, 64.0, 8192.0] {
        let wanted = law(h200.half, h200.bandwidth, [m, 16384.0, 16384.0]) / 1e3;
        let found = curve.at(m);
        assert!(
            (found / wanted).ln().abs() < 0.2,
            "{m}: {found} for {wanted}"
        );
    }
}

#[test]
fn the_same_rows_give_the_same_text() {
    let names = ["A100 SXM4 80GB", "RTX PRO 6000 Blackwell Server"];
    assert_eq!(
        fitted([&planted(&names)]).text(),
        fitted([&planted(&names)]).text()
    );
}

#[test]
fn wrong_fields_are_named() {
    let silicon = silicon("H100 SXM5 80GB");
    let columns = Columns::new("gemm", HEADER);
    for (fields, part) in [
        (
            ["h100", "vllm", "1", "", "graph", "bf17", "1", "1", "1"],
            "dtype: \"bf17\"",
        ),
        (
            ["h100", "vllm", "1", "", "graph", "fp8", "0", "1", "1"],
            "m: \"0\" is not",
        ),
        (
            ["h100", "vllm", "1", "", "graph", "fp8", "1", "inf", "1"],
            "n: \"inf\" is not",
        ),
        (
            ["h100", "vllm", "1", "", "graph", "fp8", "1", "1", "1"],
            "no column \"latency_ms\"",
        ),
    ] {
        let row = Row {
            columns: &columns,
            fields: &fields,
        };
        let said = Samples::new(&GEMM)
            .push(&row, &silicon)
            .unwrap_err()
            .to_string();
        assert!(said.contains(part), "{said}");
    }
}
