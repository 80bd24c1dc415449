//! One matrix from a file of its bytes to its parts and back: how long that takes and how much memory, for comparisons
//! with other programs (`benches/optimize/`).
//!
//!     convert SCHEME DTYPE ROWS COLUMNS FROM [PARTS [AGAIN]]
//!
//! FROM has the elements, row by row; PARTS gets the parts, one after the other; AGAIN gets the elements that are read of
//! them, in 32 bits. Prints JSON.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    reason = "a program, which has files, threads and a clock"
)]

use gpuwise_compress::{Encoded, PartKind, Scan, Scheme, SparseAs, Stored, Strategy, decode};
use std::{
    collections::BTreeMap,
    error::Error,
    fs::{self, File},
    io::{Read as _, Seek as _, SeekFrom, Write as _},
    thread,
    time::Instant,
};

/// Bytes that are read at once.
const CHUNK: usize = 16 << 20;
const CORES: usize = 2;

fn scheme(name: &str) -> Option<Scheme> {
    let packed = |group: &str, symmetric| {
        Some(Scheme::Packed {
            bits: 4,
            strategy: Strategy::Group(group.parse().ok()?),
            symmetric,
        })
    };
    match name {
        "fp8-tensor" => Some(Scheme::Fp8(Strategy::Tensor)),
        "fp8-channel" => Some(Scheme::Fp8(Strategy::Channel)),
        "fp8-block" => Some(Scheme::Fp8(Strategy::Block(128, 128))),
        "int8-channel" => Some(Scheme::Int8(Strategy::Channel)),
        "nvfp4" => Some(Scheme::Nvfp4),
        "mxfp4" => Some(Scheme::Mxfp4),
        "2:4-dense" => Some(Scheme::TwoFour(SparseAs::Dense)),
        "2:4-bitmask" => Some(Scheme::TwoFour(SparseAs::Bitmask)),
        other => match other.split_once("-asym-g") {
            Some(("int4", group)) => packed(group, false),
            _ => packed(other.strip_prefix("int4-sym-g")?, true),
        },
    }
}

/// Work on pieces of whole rows, one on each core.
fn over_cores<T: Send>(bytes: &[u8], unit: usize, work: impl Fn(&[u8]) -> T + Sync) -> Vec<T> {
    let size = bytes.len().div_ceil(unit).div_ceil(CORES).max(1) * unit;
    let work = &work;
    thread::scope(|scope| {
        let started: Vec<_> = bytes
            .chunks(size)
            .map(|piece| scope.spawn(move || work(piece)))
            .collect();
        let ended = started.into_iter().map(|one| one.join().ok());
        ended.flatten().collect()
    })
}

fn runs(
    file: &mut File,
    unit: usize,
    mut each: impl FnMut(&[u8]) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let size = (CHUNK / unit).max(1) * unit;
    let whole = usize::try_from(file.seek(SeekFrom::End(0))?)?;
    file.seek(SeekFrom::Start(0))?;
    let mut bytes = Vec::new();
    for at in (0..whole).step_by(size) {
        bytes.resize(size.min(whole - at), 0);
        file.read_exact(&mut bytes)?;
        each(&bytes)?;
    }
    Ok(())
}

/// The most memory that this process had, bytes.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    kib.and_then(|kib| kib.parse().ok())
        .map_or(0, |kib: u64| kib * 1024)
}

fn main() -> Result<(), Box<dyn Error>> {
    let said: Vec<String> = std::env::args().skip(1).collect();
    let [name, dtype, rows, columns, from, to @ ..] = said.as_slice() else {
        return Err("convert SCHEME DTYPE ROWS COLUMNS FROM [PARTS [AGAIN]]".into());
    };
    let scheme = scheme(name).ok_or("no such scheme")?;
    let stored = Stored::named(dtype).ok_or("no such dtype")?;
    let (rows, columns): (u64, u64) = (rows.parse()?, columns.parse()?);
    let mut file = File::open(from)?;
    let row = usize::try_from(columns)? * stored.bytes();
    let began = Instant::now();
    let mut seen = Scan::of(scheme);
    if scheme.asks_all() {
        runs(&mut file, row, |bytes| {
            let some = over_cores(bytes, row, |piece| {
                let mut scan = Scan::of(scheme);
                scan.see(stored, piece, &mut Vec::new());
                scan
            });
            seen = some.into_iter().fold(std::mem::take(&mut seen), Scan::then);
            Ok(())
        })?;
    }
    // Each part has its place.
    let mut places = BTreeMap::new();
    let mut end = 0;
    for part in scheme.parts(rows, columns, stored)? {
        places.insert(part.kind, end);
        end += part.bytes();
    }
    let mut sink = to.first().map(File::create).transpose()?;
    let mut kept: BTreeMap<PartKind, Vec<u8>> = BTreeMap::new();
    let mut whole = Encoded::default();
    let mut put = |run: Encoded| -> Result<(), Box<dyn Error>> {
        (whole.lost, whole.power) = (whole.lost + run.lost, whole.power + run.power);
        for (kind, bytes) in run.parts {
            if let (Some(sink), Some(at)) = (&mut sink, places.get_mut(&kind)) {
                sink.seek(SeekFrom::Start(*at))?;
                sink.write_all(&bytes)?;
                *at += bytes.len() as u64;
            }
            if to.len() > 1 {
                kept.entry(kind).or_default().extend(bytes);
            }
        }
        Ok(())
    };
    let unit = row * usize::try_from(scheme.rows_together())?;
    runs(&mut file, unit, |bytes| {
        let encode = |piece: &[u8]| scheme.encode(stored, columns, piece, &seen);
        over_cores(bytes, unit, encode)
            .into_iter()
            .try_for_each(&mut put)
    })?;
    put(Encoded {
        parts: scheme.once(rows, columns, stored, &seen),
        ..Encoded::default()
    })?;
    let seconds = began.elapsed().as_secs_f64();
    let peak = peak();
    if let Some(again) = to.get(1) {
        let values = decode(scheme, (rows, columns), stored, &kept).ok_or("parts are missing")?;
        let bytes: Vec<u8> = values.iter().flat_map(|one| one.to_le_bytes()).collect();
        fs::write(again, bytes)?;
    }
    println!(
        r#"{{"seconds": {seconds}, "peak_bytes": {peak}, "error": {}}}"#,
        whole.error()
    );
    Ok(())
}
