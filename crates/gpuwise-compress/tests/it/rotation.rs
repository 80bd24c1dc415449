//! Turned and turned back, beside the matrix written out.

use gpuwise_compress::Rotation;
use proptest::prelude::*;

/// Q, row by row: what the unit vectors become.
fn written_out(rotation: &Rotation) -> Vec<f64> {
    let size = rotation.dimensions();
    let mut all = vec![0.0; size * size];
    for at in 0..size {
        let row = &mut all[at * size..(at + 1) * size];
        row[at] = 1.0_f32;
        rotation.turn(row);
    }
    all.into_iter().map(f64::from).collect()
}

#[test]
fn it_is_orthogonal_and_spreads_each_number_over_its_block() {
    for size in [1, 2, 8, 12, 64, 96, 384] {
        let rotation = Rotation::of(size).expect("a size");
        let matrix = written_out(&rotation);
        let even = 1.0 / (rotation.block() as f64).sqrt();
        for a in 0..size {
            for b in 0..size {
                let dot: f64 = (0..size)
                    .map(|at| matrix[a * size + at] * matrix[b * size + at])
                    .sum();
                let expected = f64::from(u8::from(a == b));
                assert!(
                    (dot - expected).abs() < 1e-5,
                    "{size}: rows {a} and {b}: {dot}"
                );
                let same_block = a / rotation.block() == b / rotation.block();
                let expected = if same_block { even } else { 0.0 };
                assert!((matrix[a * size + b].abs() - expected).abs() < 1e-6);
            }
        }
    }
    assert!(Rotation::of(0).is_none());
}

proptest! {
    /// W · Q and Qᵀ · V: their product is what W · V was.
    #[test]
    fn what_reads_and_what_writes_cancel(
        size in prop::sample::select(vec![4_usize, 12, 16, 40, 64]),
        values in prop::collection::vec(-2.0_f32..2.0, 64 * 7 * 2),
    ) {
        let rotation = Rotation::of(size).expect("a size");
        let (reads, writes) = (&values[..size * 3], &values[size * 3..size * 10]);
        let product = |reads: &[f32], writes: &[f32]| -> Vec<f64> {
            let places = (0..3).flat_map(|row| (0..7).map(move |column| (row, column)));
            let dot = |(row, column)| (0..size).map(|at| {
                f64::from(reads[row * size + at]) * f64::from(writes[at * 7 + column])
            }).sum();
            places.map(dot).collect()
        };
        let mut turned = reads.to_vec();
        rotation.turn(&mut turned);
        let mut back = vec![0.0; size * 7];
        for range in [0..2, 2..7] {
            rotation.turn_columns(writes, 7, range, |first, some| {
                let count = some.len() / size;
                for (row, numbers) in some.chunks_exact(count).enumerate() {
                    back[row * 7 + first..][..count].copy_from_slice(numbers);
                }
            });
        }
        for (before, after) in product(reads, writes).iter().zip(product(&turned, &back)) {
            prop_assert!((before - after).abs() < 1e-3 * (size as f64).sqrt(), "{before} {after}");
        }
    }
}
