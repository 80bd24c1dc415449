//! The parts of a matrix in fewer bits, as a checkpoint of others may have them, and what is made of these numbers.

use gpuwise_compress::{PartKind, Scan, Scheme, SparseAs, Stored, Strategy, decode};
use std::collections::BTreeMap;

const SCHEMES: [Scheme; 12] = [
    Scheme::Fp8(Strategy::Tensor),
    Scheme::Fp8(Strategy::Channel),
    Scheme::Fp8(Strategy::Block(128, 128)),
    Scheme::Int8(Strategy::Channel),
    packed(8, Strategy::Channel, true),
    packed(8, Strategy::Group(32), false),
    packed(4, Strategy::Group(32), true),
    packed(4, Strategy::Group(32), false),
    Scheme::Nvfp4,
    Scheme::Mxfp4,
    Scheme::TwoFour(SparseAs::Dense),
    Scheme::TwoFour(SparseAs::Bitmask),
];

const fn packed(bits: u32, strategy: Strategy, symmetric: bool) -> Scheme {
    Scheme::Packed {
        bits,
        strategy,
        symmetric,
    }
}

/// Elements that a case has at most, so that it takes no longer than others.
const MOST: u64 = 1 << 12;

/// Hands bytes over and holds what is true of every answer: a scheme, the numbers of the matrix, rows and columns, then
/// what lies in each part, from the beginning again where that is not enough.
pub(crate) fn check(data: &[u8]) {
    let [scheme, stored, wide, rows, columns, rest @ ..] = data else {
        return;
    };
    let scheme = SCHEMES[usize::from(*scheme) % SCHEMES.len()];
    let stored = [Stored::Bf16, Stored::F16, Stored::F32][usize::from(*stored) % 3];
    if let Some((sizes, _)) = rest.split_first_chunk::<16>() {
        // A shape is foreign too.
        let (sizes, _) = sizes.as_chunks::<8>();
        let [rows, columns] = [0, 1].map(|at| u64::from_le_bytes(sizes[at]));
        let none = decode(scheme, (rows, columns), stored, &BTreeMap::new());
        assert_eq!(none, None, "there are no parts");
    }
    // Most widths divide into groups.
    let step = if wide % 4 == 0 { 1 } else { 32 };
    let (rows, columns) = (u64::from(*rows), u64::from(*columns) * step);
    let Ok(named) = scheme.parts(rows, columns, stored) else {
        return;
    };
    if rest.is_empty() || rows * columns > MOST {
        return;
    }
    let mut bytes = rest.iter().cycle().copied();
    let part =
        |bytes: &mut dyn Iterator<Item = u8>, count: u64| bytes.take(count as usize).collect();
    let mut parts: BTreeMap<PartKind, Vec<u8>> = BTreeMap::new();
    for of in &named {
        parts.insert(of.kind, part(&mut bytes, of.bytes()));
    }
    let read = decode(scheme, (rows, columns), stored, &parts);
    if let Some(values) = &read {
        assert_eq!(values.len() as u64, rows * columns, "each element is there");
        again(scheme, (rows, columns), values);
    }
    if !matches!(scheme, Scheme::TwoFour(SparseAs::Bitmask)) {
        assert!(read.is_some(), "every code is a number");
    }
    // One byte short, it is said to be no such matrix.
    for of in &named {
        let mut short = parts.clone();
        short
            .entry(of.kind)
            .and_modify(|bytes| bytes.truncate(bytes.len() - 1));
        assert_eq!(decode(scheme, (rows, columns), stored, &short), None);
    }
}

/// What was read is made small again: NaN and infinite numbers are told of, everything else has its parts.
fn again(scheme: Scheme, (rows, columns): (u64, u64), values: &[f32]) {
    let finite = values.iter().all(|value| value.is_finite());
    let mut bytes = Vec::new();
    for value in values {
        Stored::F32.put(*value, &mut bytes);
    }
    let mut scan = Scan::of(scheme);
    scan.see(Stored::F32, &bytes, &mut Vec::new());
    let mut run = scheme.encode(Stored::F32, columns, &bytes, &scan);
    assert_eq!(run.odd, !finite, "what is not finite is told of");
    if run.odd {
        return;
    }
    run.parts
        .extend(scheme.once(rows, columns, Stored::F32, &scan));
    for part in scheme
        .parts(rows, columns, Stored::F32)
        .into_iter()
        .flatten()
    {
        let there = run.parts.get(&part.kind).map_or(0, Vec::len);
        assert_eq!(
            there as u64,
            part.bytes(),
            "{:?} is as large as it is said",
            part.kind
        );
    }
}
