//! What is read again, for every scheme.
#![allow(clippy::float_cmp, reason = "codes are exact")]

mod low_rank;
mod rotation;
mod sparse;

use gpuwise_compress::{Encoded, PartKind, Scan, Scheme, Stored, Strategy, decode};
use proptest::prelude::*;
use std::collections::BTreeMap;

const SCHEMES: [Scheme; 13] = [
    Scheme::Fp8(Strategy::Tensor),
    Scheme::Fp8(Strategy::Channel),
    Scheme::Fp8(Strategy::Block(128, 128)),
    Scheme::Fp8(Strategy::Group(32)),
    Scheme::Int8(Strategy::Channel),
    Scheme::Int8(Strategy::Tensor),
    packed(8, Strategy::Channel, true),
    packed(8, Strategy::Group(32), false),
    packed(4, Strategy::Group(32), true),
    packed(4, Strategy::Group(32), false),
    packed(4, Strategy::Channel, true),
    Scheme::Nvfp4,
    Scheme::Mxfp4,
];

const fn packed(bits: u32, strategy: Strategy, symmetric: bool) -> Scheme {
    Scheme::Packed {
        bits,
        strategy,
        symmetric,
    }
}

fn bytes(values: &[f32], stored: Stored) -> (Vec<u8>, Vec<f32>) {
    let mut all = Vec::new();
    for value in values {
        stored.put(stored.round(*value), &mut all);
    }
    let mut again = Vec::new();
    stored.widen(&all, &mut again);
    (all, again)
}

/// The parts of a matrix, by runs of some rows.
fn encoded(
    scheme: Scheme,
    (rows, columns): (u64, u64),
    stored: Stored,
    all: &[u8],
    run: u64,
) -> Encoded {
    let row = columns as usize * stored.bytes();
    let mut scan = Scan::of(scheme);
    for some in all.chunks(row) {
        scan.see(stored, some, &mut Vec::new());
    }
    let together = scheme.rows_together();
    let size = row * (run.div_ceil(together) * together) as usize;
    let mut whole = Encoded::default();
    for some in all.chunks(size) {
        whole.then(scheme.encode(stored, columns, some, &scan));
    }
    whole
        .parts
        .extend(scheme.once(rows, columns, stored, &scan));
    whole
}

fn stored() -> impl Strategy_ {
    prop_oneof![Just(Stored::Bf16), Just(Stored::F16), Just(Stored::F32)]
}

/// proptest's trait has the name of one of our types.
trait Strategy_: proptest::strategy::Strategy<Value = Stored> {}
impl<T: proptest::strategy::Strategy<Value = Stored>> Strategy_ for T {}

proptest! {
    // Unoptimised, a case takes some tenths of a second.
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn what_is_lost_is_what_is_told(
        seed in proptest::collection::vec(-4.0_f32..4.0, 20 * 64),
        rows in 1_u64..20,
        size in prop_oneof![Just(1.0_f32), Just(1e-3), Just(200.0)],
        stored in stored(),
    ) {
        let columns = 64;
        // Most weights are small.
        let values: Vec<f32> = seed[..(rows * columns) as usize].iter().map(|one| one * one * one * size / 64.0).collect();
        let (all, was) = bytes(&values, stored);
        for scheme in SCHEMES {
            let whole = encoded(scheme, (rows, columns), stored, &all, rows);
            let again = decode(scheme, (rows, columns), stored, &whole.parts).expect("all parts");
            let lost: f64 = was.iter().zip(&again).map(|(a, b)| f64::from(a - b).powi(2)).sum();
            let power: f64 = was.iter().map(|a| f64::from(*a).powi(2)).sum();
            let error = if power == 0.0 { 0.0 } else { (lost / power).sqrt() };
            prop_assert!((error - whole.error()).abs() <= 0.004, "{scheme:?}: {error} {}", whole.error());
            prop_assert!(error < 0.3, "{scheme:?}: {error}");
        }
    }

    #[test]
    fn runs_of_rows_make_the_same_parts(
        values in proptest::collection::vec(-1.0_f32..1.0, 140 * 32),
        run in 1_u64..140,
    ) {
        let (all, _) = bytes(&values, Stored::Bf16);
        for scheme in SCHEMES {
            let whole = encoded(scheme, (140, 32), Stored::Bf16, &all, 140);
            let pieces = encoded(scheme, (140, 32), Stored::Bf16, &all, run);
            prop_assert_eq!(whole.parts, pieces.parts, "{:?}", scheme);
        }
    }
}

#[test]
fn parts_have_the_bytes_that_are_said() {
    let values: Vec<f32> = (0..130 * 96)
        .map(|at| ((at * 37 % 101) as f32 - 50.0) / 70.0)
        .collect();
    let (all, _) = bytes(&values, Stored::F16);
    for scheme in SCHEMES {
        let whole = encoded(scheme, (130, 96), Stored::F16, &all, 128);
        let said = scheme.parts(130, 96, Stored::F16).expect("fits");
        let said: BTreeMap<PartKind, u64> =
            said.iter().map(|part| (part.kind, part.bytes())).collect();
        let there: BTreeMap<PartKind, u64> = whole
            .parts
            .iter()
            .map(|(kind, part)| (*kind, part.len() as u64))
            .collect();
        assert_eq!(said, there, "{scheme:?}");
    }
}

#[test]
fn zeros_stay_zeros() {
    let (all, _) = bytes(&[0.0; 4 * 32], Stored::Bf16);
    for scheme in SCHEMES {
        let whole = encoded(scheme, (4, 32), Stored::Bf16, &all, 4);
        assert_eq!(whole.error(), 0.0);
        let again = decode(scheme, (4, 32), Stored::Bf16, &whole.parts).expect("all parts");
        assert!(again.iter().all(|one| *one == 0.0), "{scheme:?}");
    }
}

#[test]
fn what_is_not_finite_is_counted_where_it_is() {
    let mut scan = Scan::default();
    let (all, _) = bytes(&[1.0, f32::NAN, -3.0, f32::INFINITY], Stored::F32);
    scan.see(Stored::F32, &all[..4], &mut Vec::new());
    scan.see(Stored::F32, &all[4..], &mut Vec::new());
    assert_eq!(
        (scan.largest, scan.not_finite, scan.first),
        (3.0, 2, Some(1))
    );
}

#[test]
fn groups_must_divide_rows() {
    let scheme = packed(4, Strategy::Group(128), true);
    let said = scheme.fits(64, 200).expect_err("does not fit");
    assert!(said.to_string().contains("200") && said.to_string().contains("128"));
}
