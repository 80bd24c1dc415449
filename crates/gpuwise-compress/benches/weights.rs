//! Weights in fewer bits and back, on one core: bytes of BF16 a second, by scheme.

use divan::{Bencher, bench, counter::BytesCount};
use gpuwise_compress::{LowRank, Rotation, Scan, Scheme, SparseAs, Stored, Strategy, decode};

fn main() {
    divan::main();
}

const ROWS: u64 = 256;
const COLUMNS: u64 = 4096;

const SCHEMES: [(&str, Scheme); 9] = [
    ("fp8", Scheme::Fp8(Strategy::Channel)),
    ("fp8-block", Scheme::Fp8(Strategy::Block(128, 128))),
    ("int8", Scheme::Int8(Strategy::Channel)),
    ("int4-g128", packed(Strategy::Group(128), true)),
    ("int4-g32", packed(Strategy::Group(32), true)),
    ("int4-g128-asymmetric", packed(Strategy::Group(128), false)),
    ("nvfp4", Scheme::Nvfp4),
    ("mxfp4", Scheme::Mxfp4),
    ("2of4-bitmask", Scheme::TwoFour(SparseAs::Bitmask)),
];

const fn packed(strategy: Strategy, symmetric: bool) -> Scheme {
    Scheme::Packed {
        bits: 4,
        strategy,
        symmetric,
    }
}

fn scheme(name: &str) -> Scheme {
    let found = SCHEMES.iter().find(|(one, _)| *one == name);
    found.map_or(Scheme::Mxfp4, |(_, scheme)| *scheme)
}

/// Sums of four even numbers, which are nearly normal.
fn values(count: u64) -> Vec<f32> {
    let mut state = 20_u64;
    let mut even = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 40) as f32 / (1 << 24) as f32 - 0.5
    };
    (0..count)
        .map(|_| (even() + even() + even() + even()) * 0.03)
        .collect()
}

fn weights() -> Vec<u8> {
    let mut bytes = Vec::new();
    for value in values(ROWS * COLUMNS) {
        Stored::Bf16.put(Stored::Bf16.round(value), &mut bytes);
    }
    bytes
}

fn seen(scheme: Scheme, bytes: &[u8]) -> Scan {
    let mut scan = Scan::of(scheme);
    scan.see(Stored::Bf16, bytes, &mut Vec::new());
    scan
}

#[bench(args = SCHEMES.map(|(name, _)| name))]
fn encodes(bencher: Bencher<'_, '_>, name: &str) {
    let (scheme, bytes) = (scheme(name), weights());
    let scan = seen(scheme, &bytes);
    bencher
        .counter(BytesCount::new(bytes.len()))
        .bench(|| scheme.encode(Stored::Bf16, COLUMNS, &bytes, &scan));
}

#[bench(args = SCHEMES.map(|(name, _)| name))]
fn decodes(bencher: Bencher<'_, '_>, name: &str) {
    let (scheme, bytes) = (scheme(name), weights());
    let scan = seen(scheme, &bytes);
    let mut parts = scheme.encode(Stored::Bf16, COLUMNS, &bytes, &scan).parts;
    parts.extend(scheme.once(ROWS, COLUMNS, Stored::Bf16, &scan));
    bencher
        .counter(BytesCount::new(bytes.len()))
        .bench(|| decode(scheme, (ROWS, COLUMNS), Stored::Bf16, &parts));
}

#[bench]
fn adds_rank_16(bencher: Bencher<'_, '_>) {
    let (left, right) = (values(ROWS * 16), values(COLUMNS * 16));
    let Some(low) = LowRank::new(left, right, 16, 2.0) else {
        unreachable!("they are matrices of rank 16");
    };
    let bytes = weights();
    bencher
        .counter(BytesCount::new(bytes.len()))
        .with_inputs(|| bytes.clone())
        .bench_local_refs(|bytes| low.add(Stored::Bf16, 0, bytes));
}

#[bench]
fn turns_rows(bencher: Bencher<'_, '_>) {
    let Some(rotation) = Rotation::of(COLUMNS as usize) else {
        unreachable!("there are dimensions");
    };
    let numbers = values(ROWS * COLUMNS);
    bencher
        .counter(BytesCount::new(numbers.len() * 2))
        .with_inputs(|| numbers.clone())
        .bench_local_refs(|numbers| rotation.turn(numbers));
}
