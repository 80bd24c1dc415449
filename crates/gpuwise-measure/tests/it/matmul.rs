//! Times of matrix products: hand-made processors, and the sample table where it is there.

use gpuwise_domain::{
    catalogue::Catalogue,
    profile::matmul::{MatmulPrecision as P, MatmulShape, Processor, TimedMatmul},
};
use gpuwise_measure::{
    learn::median,
    matmul::{
        MatmulModel, Settings, Timing, Timings,
        elsewhere::{Abstention, Carry, carried, weights},
        physics,
        validation::{by_shape, fold, unseen_processors},
    },
};
use std::io::Read as _;

pub(crate) fn processor(generation: &str, peak: f64, bandwidth: f64) -> Processor {
    Processor {
        vendor: "NVIDIA".into(),
        generation: generation.into(),
        capability: Some((if generation == "Hopper" { 9 } else { 8 }, 0)),
        peak_bf16: Some(peak),
        peak_fp8: Some(2.0 * peak),
        bandwidth,
        units: Some(4),
        power: Some(700.0),
        host_link: Some(6.3e10),
    }
}

const SHAPE: MatmulShape = MatmulShape {
    m: 129,
    n: 256,
    k: 512,
};

#[test]
fn tiles_and_waves_are_counted() {
    let row = physics::features(&processor("Hopper", 1e15, 1e12), P::Bf16, SHAPE);
    let of = |name: &str| {
        let at = physics::FEATURES.iter().position(|f| *f == name).unwrap();
        row[at]
    };
    // 2 × 2 tiles of 128 × 128 on four multiprocessors are one full wave; 3 × 4 of 64 × 64 are three.
    assert!((of("waves 128×128") - 0.0).abs() < 1e-12);
    assert!((of("round-up 128×128") - 1.0).abs() < 1e-12);
    assert!((of("waves 64×64") - 3f64.ln()).abs() < 1e-12);
    // 2 × 1 tiles of 128 × 256 fill half of a wave.
    assert!((of("round-up 128×256") - 2.0).abs() < 1e-12);
    assert!((of("padding of m to 128") - 256.0 / 129.0).abs() < 1e-12);
    assert!((of("powers of 2 in k") - 9.0).abs() < 1e-12);
    assert!(row.iter().all(|value| value.is_finite()));
}

#[test]
fn the_roofline_is_the_longer_of_both_and_a_launch() {
    let shape = MatmulShape {
        m: 1,
        n: 1000,
        k: 1000,
    };
    let there = processor("Hopper", 1e15, 1e12);
    // (1000 + 1000·1000)·2 bytes + 1000 results of 2 bytes, at 10¹² bytes/s, and 3 µs.
    let seconds = physics::plain(&there, P::Bf16, shape).unwrap();
    assert!((seconds - (2.004e-6 + 3e-6)).abs() < 1e-12, "{seconds}");
    let none = Processor {
        peak_fp8: None,
        ..there
    };
    assert_eq!(physics::seconds(&none, P::Fp8, shape), None);
}

#[test]
fn what_a_donor_leaves_of_its_roofline_is_carried_over() {
    let (from, to) = (
        processor("Hopper", 1e15, 3e12),
        processor("Hopper", 1e15, 5e12),
    );
    let slow = 1.3 * physics::seconds(&from, P::Bf16, SHAPE).unwrap();
    let (seconds, spread) = carried(&to, &[(1.0, slow, &from)], P::Bf16, SHAPE).unwrap();
    let wanted = 1.3 * physics::seconds(&to, P::Bf16, SHAPE).unwrap();
    assert!((seconds / wanted - 1.0).abs() < 1e-9 && spread < 1e-6);
}

#[test]
fn kin_are_asked_first_and_strangers_never() {
    let carry = Carry::default();
    let target = processor("Hopper", 1e15, 4.8e12);
    let (kin, other) = (
        processor("Hopper", 1e15, 3.35e12),
        processor("Ampere", 3e14, 2e12),
    );
    let donors = [(0, &kin), (1, &other)];
    let said = weights(&target, &donors, P::Bf16, &carry).unwrap();
    assert_eq!(said, vec![(0, 1.0)]);
    let far = weights(&target, &[(1, &other)], P::Bf16, &carry).unwrap();
    assert_eq!(far, vec![(1, 1.0)]);
    let foreign = Processor {
        vendor: "Intel".into(),
        ..target.clone()
    };
    assert_eq!(
        weights(&foreign, &donors, P::Bf16, &carry),
        Err(Abstention::Vendor("Intel".into()))
    );
    assert_eq!(
        weights(&target, &[(1, &other)], P::Fp8Block, &carry),
        Err(Abstention::Architecture("fp8_block"))
    );
    assert_eq!(
        weights(&target, &[], P::Bf16, &carry),
        Err(Abstention::Nothing("bf16"))
    );
    let without = Processor {
        peak_bf16: None,
        ..target
    };
    assert!(weights(&without, &donors, P::Bf16, &carry).is_err());
}

#[test]
fn silicon_without_fp8_takes_its_bf16_peak_once_fp8_was_timed_on_it() {
    let row = |precision| TimedMatmul {
        system: "x".into(),
        precision,
        shape: SHAPE,
        seconds: 1e-5,
    };
    let plain = Processor {
        peak_fp8: None,
        ..processor("Ampere", 3e14, 2e12)
    };
    for (rows, peak) in [
        (vec![row(P::Bf16)], None),
        (vec![row(P::Bf16), row(P::Fp8)], Some(3e14)),
    ] {
        let timings = Timings::new(&rows, |_| Some(plain.clone()));
        assert_eq!(timings.processors[0].peak_fp8, peak);
    }
    let unknown = Timings::new(&[row(P::Bf16), row(P::Bf16)], |_| None);
    assert_eq!(unknown.unknown, vec![("x".into(), 2)]);
    assert!(unknown.rows.is_empty());
}

/// Times that follow tiles of 128 rows and grow stepwise: what neighbours alone do not know.
fn stepped() -> Timings {
    let one = processor("Hopper", 1e15, 3e12);
    let mut rows = Vec::new();
    for m in (8..2048).step_by(24) {
        for n in [256, 512, 1024, 2048] {
            for k in [512, 1024, 4096] {
                let shape = MatmulShape { m, n, k };
                let tiles = f64::from(m.div_ceil(128));
                let seconds = physics::seconds(&one, P::Bf16, shape).unwrap();
                rows.push(Timing {
                    processor: 0,
                    precision: P::Bf16,
                    shape,
                    seconds: seconds * (1.0 + 0.2 * (tiles % 3.0)),
                });
            }
        }
    }
    Timings {
        processors: vec![one],
        names: vec!["one".into()],
        rows,
        unknown: Vec::new(),
    }
}

#[test]
fn shapes_that_were_not_seen_are_foretold() {
    let timings = stepped();
    let unseen = |row: &Timing| fold(row.shape, 5, 0) == 0;
    let seen: Vec<&Timing> = timings.rows.iter().filter(|row| !unseen(row)).collect();
    let model = MatmulModel::fit_rows(&timings.processors, &seen, &Settings::default());
    let errors: Vec<f64> = timings
        .rows
        .iter()
        .filter(|row| unseen(row))
        .map(|row| {
            let said = model.predict(0, row.precision, row.shape).unwrap();
            (said.seconds / row.seconds - 1.0).abs()
        })
        .collect();
    assert!(errors.len() > 100);
    assert!(median(&errors) < 0.03, "{}", median(&errors));
    assert!(model.knows(0, P::Bf16) && !model.knows(0, P::Fp8) && !model.knows(1, P::Bf16));
    assert_eq!(model.predict(0, P::Fp8, SHAPE), None);
    let again = MatmulModel::fit_rows(&timings.processors, &seen, &Settings::default());
    assert_eq!(model, again);
}

/// The sample table with the catalogue's GPUs; `None`, said aloud, where it is not there.
pub(crate) fn sample() -> Option<Timings> {
    let file = gpuwise_needs::data("")?.join("profile/gemm/gemm_latency.csv.gz");
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(file).unwrap())
        .read_to_string(&mut text)
        .unwrap();
    let rows = gpuwise_read::matmul::read_matmuls(&text).unwrap().rows;
    let gpus = include_str!("../../../../catalogue/gpus.toml");
    let catalogue = Catalogue {
        gpus: gpuwise_read::catalogue::read_gpus("gpus.toml", gpus).unwrap(),
        ..Catalogue::default()
    };
    Some(Timings::new(&rows, |system| {
        catalogue.gpu(&system.replace('_', " ")).map(Processor::of)
    }))
}

#[test]
fn gpus_of_the_sample_that_are_left_out_are_foretold() {
    let Some(timings) = sample() else { return };
    assert!(timings.unknown.is_empty(), "{:?}", timings.unknown);
    let seen = by_shape(&timings);
    let unseen = unseen_processors(&timings, &seen, &Carry::default(), |_, _| false);
    for (precision, most) in [(P::Bf16, 0.09), (P::Fp8, 0.13), (P::Fp8Block, 0.13)] {
        let rows = timings.rows.iter().zip(&unseen);
        let errors: Vec<f64> = rows
            .filter(|(row, _)| row.precision == precision)
            .filter_map(|(row, said)| Some((said.as_ref().ok()?.seconds / row.seconds - 1.0).abs()))
            .collect();
        assert!(errors.len() > 30_000);
        assert!(median(&errors) <= most, "{precision:?} {}", median(&errors));
    }
    for (row, said) in timings.rows.iter().zip(&unseen) {
        if timings.processors[row.processor].vendor == "Intel" {
            assert!(said.is_err());
        }
    }
}
