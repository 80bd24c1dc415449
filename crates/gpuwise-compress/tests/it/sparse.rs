//! Two of each four: against a sort of each four, bit for bit.

use gpuwise_compress::{Encoded, PartKind, Scan, Scheme, SparseAs, Stored, decode};
use proptest::prelude::*;

const FORMS: [Scheme; 2] = [
    Scheme::TwoFour(SparseAs::Dense),
    Scheme::TwoFour(SparseAs::Bitmask),
];
const STORED: [Stored; 3] = [Stored::Bf16, Stored::F16, Stored::F32];

fn stored_bytes(values: &[f32], stored: Stored) -> (Vec<u8>, Vec<f32>) {
    let mut bytes = Vec::new();
    for value in values {
        stored.put(*value, &mut bytes);
    }
    let mut again = Vec::new();
    stored.widen(&bytes, &mut again);
    (bytes, again)
}

fn encoded(scheme: Scheme, columns: u64, stored: Stored, bytes: &[u8], run: usize) -> Encoded {
    let row = columns as usize * stored.bytes();
    let mut whole = Encoded::default();
    for some in bytes.chunks(row * run) {
        whole.then(scheme.encode(stored, columns, some, &Scan::default()));
    }
    let rows = (bytes.len() / row) as u64;
    let once = scheme.once(rows, columns, stored, &Scan::default());
    whole.parts.extend(once);
    whole
}

/// By a stable sort of each four: the largest first.
fn sorted(values: &[f32]) -> Vec<f32> {
    let mut left = vec![0.0; values.len()];
    for (four, left) in values.chunks(4).zip(left.chunks_mut(4)) {
        let mut order = [0, 1, 2, 3];
        order.sort_by(|a: &usize, b| four[*b].abs().total_cmp(&four[*a].abs()));
        for at in &order[..2] {
            left[*at] = four[*at];
        }
    }
    left
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn the_two_largest_stay(
        // Few values, so that many are equal, and zeros with both signs.
        values in prop::collection::vec(prop_oneof![
            (-3_i8..=3).prop_map(f32::from),
            Just(-0.0_f32),
            -1e3_f32..1e3,
        ], 7 * 44),
        rows in 1_usize..=7,
        fours in 1_usize..=11,
        run in 1_usize..=7,
    ) {
        let columns = fours * 4;
        for stored in STORED {
            let (bytes, was) = stored_bytes(&values[..rows * columns], stored);
            let oracle = sorted(&was);
            let lost: f64 = was.iter().zip(&oracle).map(|(a, b)| f64::from(a - b).powi(2)).sum();
            for form in FORMS {
                let all = encoded(form, columns as u64, stored, &bytes, run);
                let again = decode(form, (rows as u64, columns as u64), stored, &all.parts);
                prop_assert_eq!(bits(&again.expect("all parts")), bits(&oracle), "{:?} {:?}", form, stored);
                prop_assert!((all.lost - lost).abs() <= 1e-6 * lost, "{} {lost}", all.lost);
                let said = form.parts(rows as u64, columns as u64, stored).expect("fits");
                prop_assert_eq!(said.len(), all.parts.len());
                for part in said {
                    prop_assert_eq!(all.parts[&part.kind].len() as u64, part.bytes(), "{:?}", part);
                }
            }
        }
    }
}

#[test]
fn bits_are_those_of_the_published_form() {
    // Least bits first, by hand: 5 and 7 of the first four, 1 and 1 of the second, both of the last.
    let (bytes, _) = stored_bytes(
        &[5.0, 0.0, 0.5, -7.0, 1.0, 1.0, 1.0, 0.0, 0.0, 2.0, 4.0, 0.0],
        Stored::Bf16,
    );
    let all = encoded(FORMS[1], 12, Stored::Bf16, &bytes, 1);
    assert_eq!(all.parts[&PartKind::Bitmask], [0b0011_1001, 0b0000_0110]);
    let (left, _) = stored_bytes(&[5.0, -7.0, 1.0, 1.0, 2.0, 4.0], Stored::Bf16);
    assert_eq!(all.parts[&PartKind::Compressed], left);
    let shape: [u64; 2] = [1, 12];
    assert_eq!(
        all.parts[&PartKind::SparseShape],
        shape.map(u64::to_le_bytes).concat()
    );
}

#[test]
fn bits_that_are_too_many_or_too_few_are_none() {
    let (bytes, _) = stored_bytes(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], Stored::F16);
    for wrong in [0b1100_1000, 0b1100_1101] {
        let mut all = encoded(FORMS[1], 8, Stored::F16, &bytes, 1).parts;
        assert!(decode(FORMS[1], (1, 8), Stored::F16, &all).is_some());
        all.insert(PartKind::Bitmask, vec![wrong]);
        assert!(decode(FORMS[1], (1, 8), Stored::F16, &all).is_none());
    }
}

#[test]
fn rows_must_divide_into_fours_and_be_numbers() {
    let said = FORMS[0].fits(3, 6).expect_err("six elements");
    assert!(said.to_string().contains("groups of 4"), "{said}");
    let (bytes, _) = stored_bytes(&[1.0, f32::NAN, 3.0, 4.0], Stored::Bf16);
    assert!(encoded(FORMS[0], 4, Stored::Bf16, &bytes, 1).odd);
}
