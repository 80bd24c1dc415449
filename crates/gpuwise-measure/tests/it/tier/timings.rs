//! Timed products: hand-made ones, and the sample table where it is there.

use super::deciding::{processor, silicon};
use gpuwise_domain::{
    catalogue::Catalogue,
    gpu::Device,
    profile::matmul::{MatmulPrecision as P, MatmulShape, Processor, TimedMatmul},
};
use gpuwise_measure::{
    learn::median,
    tier::{
        timings::{Timings, roofline},
        unseen::{LeftOut, fold, unseen},
    },
};
use gpuwise_operators::{Basis, Silicon};
use std::io::Read as _;

const SHAPE: MatmulShape = MatmulShape {
    m: 1,
    n: 1000,
    k: 1000,
};

fn timed(system: &str, shape: MatmulShape, seconds: f64) -> TimedMatmul {
    TimedMatmul {
        system: system.into(),
        precision: P::Bf16,
        shape,
        seconds,
    }
}

#[test]
fn the_roofline_is_the_longer_of_both_and_a_launch() {
    let there = processor("Hopper", 1e15, 1e12);
    // (1000 + 1000·1000)·2 bytes + 1000 results of 2 bytes, at 10¹² bytes/s, and 3 µs.
    let seconds = roofline(&there, P::Bf16, SHAPE).unwrap();
    assert!((seconds - (2.004e-6 + 3e-6)).abs() < 1e-12, "{seconds}");
    let none = Processor {
        peak_fp8: None,
        ..there
    };
    assert_eq!(roofline(&none, P::Fp8, SHAPE), None);
}

#[test]
fn what_is_unknown_timed_twice_or_the_hosts_is_left_out() {
    let find = |system: &str| {
        (system != "x").then(|| (processor("Hopper", 1e15, 3e12), silicon("a", 1e15, 3e12)))
    };
    let other = MatmulShape { m: 2, ..SHAPE };
    let rows = [
        timed("x", SHAPE, 1e-5),
        timed("x", SHAPE, 1e-5),
        timed("a", SHAPE, 1e-5),
        timed("a", SHAPE, 2e-5),
        timed("host", SHAPE, 5e-5),
        timed("host", other, 6e-5),
    ];
    let timings = Timings::new(&rows, find);
    assert_eq!(timings.unknown, vec![("x".into(), 2)]);
    assert_eq!(timings.host_bound, vec![("host".into(), P::Bf16, 2)]);
    let seconds: Vec<f64> = timings.rows.iter().map(|row| row.seconds).collect();
    assert_eq!(seconds, vec![1e-5]);
}

#[test]
fn boards_on_one_chip_are_left_out_together() {
    let systems = ["a100", "h100", "h200"];
    let capability = [(8, 0), (9, 0), (9, 0)];
    let mut rows = Vec::new();
    for system in systems {
        for m in [1, 16, 256, 4096] {
            for n in [512, 1024, 2048, 4096, 8192] {
                for k in [512, 1024, 2048, 4096, 8192] {
                    let shape = MatmulShape { m, n, k };
                    rows.push(timed(system, shape, shape.operations() / 5e14 + 5e-6));
                }
            }
        }
    }
    let timings = Timings::new(&rows, |system| {
        let at = systems.iter().position(|name| *name == system)?;
        let mut processor = processor("any", 1e15, 3e12);
        processor.capability = Some(capability[at]);
        let mut silicon = silicon(system, 1e15, 3e12);
        silicon.architecture = (
            format!("sm{}x", capability[at].0),
            format!("sm{}0", capability[at].0),
        );
        Some((processor, silicon))
    });
    assert!(timings.twins(1, 2) && !timings.twins(0, 1));
    let samples = timings.samples();
    let said = unseen(&timings, &samples, LeftOut::Gpus, 0);
    // With its twin left out, nothing of its compute capability was seen.
    assert!(
        said.iter()
            .flatten()
            .all(|said| said.basis > Basis::Architecture)
    );
    assert!(said.iter().all(Option::is_some));
    let shapes = unseen(&timings, &samples, LeftOut::Shapes, 0);
    assert!(
        shapes
            .iter()
            .flatten()
            .all(|said| said.basis == Basis::Measured)
    );
    let folds = rows.iter().map(|row| fold(row.shape, 0));
    assert_eq!(folds.collect::<std::collections::BTreeSet<_>>().len(), 5);
}

/// The sample table with the catalogue's GPUs; `None`, said aloud, where it is not there.
fn sample() -> Option<Timings> {
    let file = gpuwise_needs::data("")?.join("profile/gemm/gemm_latency.csv.gz");
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(file).unwrap())
        .read_to_string(&mut text)
        .unwrap();
    let rows = gpuwise_read::matmul::read_matmuls(&text).unwrap().rows;
    let gpus = include_str!("../../../../../catalogue/gpus.toml");
    let catalogue = Catalogue {
        gpus: gpuwise_read::catalogue::read_gpus("gpus.toml", gpus).unwrap(),
        ..Catalogue::default()
    };
    Some(Timings::new(&rows, |system| {
        let gpu = catalogue.gpu(&system.replace('_', " "))?;
        Some((Processor::of(gpu), Silicon::of(&Device::whole(gpu))))
    }))
}

#[test]
fn gpus_of_the_sample_that_are_left_out_with_their_twins_are_foretold() {
    let Some(timings) = sample() else { return };
    assert!(timings.unknown.is_empty(), "{:?}", timings.unknown);
    let unseen = unseen(&timings, &timings.samples(), LeftOut::Gpus, 0);
    for (precision, most) in [(P::Bf16, 0.09), (P::Fp8, 0.13)] {
        let rows = timings.rows.iter().zip(&unseen);
        let errors: Vec<f64> = rows
            .filter(|(row, _)| row.precision == precision)
            .filter_map(|(row, said)| Some((said.as_ref()?.seconds / row.seconds - 1.0).abs()))
            .collect();
        assert!(errors.len() > 30_000);
        assert!(median(&errors) <= most, "{precision:?} {}", median(&errors));
    }
}
