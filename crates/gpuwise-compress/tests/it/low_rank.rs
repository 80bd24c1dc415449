//! A low rank added to a matrix, beside the sum written out in 64 bits.

use super::bytes;
use gpuwise_compress::{LowRank, Stored};
use proptest::prelude::*;

fn numbers(count: usize) -> impl Strategy<Value = Vec<f32>> {
    prop::collection::vec(-2.0_f32..2.0, count)
}

/// Rows, columns and rank, some of them wider than what is summed at once.
fn shapes() -> impl Strategy<Value = (usize, usize, usize)> {
    (
        1_usize..4,
        prop::sample::select(vec![1_usize, 7, 63, 64, 65, 512, 700]),
        1_usize..6,
    )
}

fn case() -> impl Strategy<Value = (Vec<f32>, Vec<f32>, Vec<f32>, usize, usize)> {
    shapes().prop_flat_map(|(rows, columns, rank)| {
        let matrices = (
            numbers(rows * columns),
            numbers(rows * rank),
            numbers(rank * columns),
        );
        (matrices, Just((rank, columns)))
            .prop_map(|((was, left, right), (rank, columns))| (was, left, right, rank, columns))
    })
}

proptest! {
    #[test]
    fn each_element_is_the_sum_rounded_once(
        (was, left, right, rank, columns) in case(),
        stored in super::stored(),
        cut in 0.0_f64..1.0,
    ) {
        let (mut all, was) = bytes(&was, stored);
        let low = LowRank::new(left.clone(), right.clone(), rank, 0.5).expect("two matrices");
        let exact: Vec<f64> = (0..was.len()).map(|at| {
            let (row, column) = (at / columns, at % columns);
            let product: f64 = (0..rank).map(|k| {
                f64::from(left[row * rank + k]) * f64::from(right[k * columns + column])
            }).sum();
            f64::from(was[at]) + 0.5 * product
        }).collect();
        // In two runs that meet anywhere.
        let first = (cut * was.len() as f64) as usize;
        let (begin, rest) = all.split_at_mut(first * stored.bytes());
        let one = low.add(stored, 0, begin);
        let said = one.then(first as u64, low.add(stored, first as u64, rest));
        let mut now = Vec::new();
        stored.widen(&all, &mut now);
        let step = match stored { Stored::Bf16 => 2.0_f64.powi(-8), Stored::F16 => 2.0_f64.powi(-11), Stored::F32 => 2.0_f64.powi(-24) };
        let (mut power, mut added) = (0.0, 0.0);
        for (at, exact) in exact.iter().enumerate() {
            let off = (f64::from(now[at]) - exact).abs();
            // Half a step of what is stored, and what sums of 32 bits are off.
            prop_assert!(off <= exact.abs() * step * 1.01 + 4e-6, "{at}: {} for {exact}", now[at]);
            power += f64::from(was[at]).powi(2);
            added += (exact - f64::from(was[at])).powi(2);
        }
        prop_assert!((said.power - power).abs() <= power * 1e-5);
        prop_assert!((said.added - added).abs() <= added * 1e-3 + 1e-6, "{} {added}", said.added);
        prop_assert_eq!(said.odd, None);
    }
}

#[test]
fn what_is_not_finite_is_found_where_it_is() {
    let low =
        LowRank::new(vec![1.0, 1.0], vec![1.0, f32::INFINITY, 0.0], 1, 1.0).expect("matrices");
    let mut all = [0_u8; 6 * 4];
    assert_eq!(low.add(Stored::F32, 0, &mut all[..4]).odd, None);
    let rest = low.add(Stored::F32, 1, &mut all[4..]);
    assert_eq!(rest.odd, Some(0));
    assert_eq!(
        low.add(Stored::F32, 0, &mut [0; 4]).then(1, rest).odd,
        Some(1)
    );
    // What lies below the last row stays, and so do bytes of no whole number.
    let mut below = [7_u8; 10];
    low.add(Stored::F32, 6, &mut below);
    assert_eq!(below, [7; 10]);
    let mut part = [0_u8; 3];
    low.add(Stored::F32, 0, &mut part);
    assert_eq!(part, [0; 3]);
}

#[test]
fn matrices_that_do_not_fit_are_none() {
    assert!(LowRank::new(vec![1.0; 3], vec![1.0; 4], 2, 1.0).is_none());
    assert!(LowRank::new(vec![1.0; 4], vec![1.0; 3], 2, 1.0).is_none());
    assert!(LowRank::new(vec![1.0; 4], vec![], 2, 1.0).is_none());
    assert!(LowRank::new(vec![], vec![], 0, 1.0).is_none());
}
