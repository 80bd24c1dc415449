//! The numbers of a matrix: seen, and encoded, some rows at a time, on all cores.

use super::{
    checkpoint::{Shard, Source},
    choose::{Fate, Shape},
};
use crate::error::Problem;
use gpuwise_compress::{Encoded, Scan, Scheme};
use gpuwise_read::safetensors::Place;
use std::{mem, thread};

/// Bytes that are read at once.
pub(super) const CHUNK: u64 = 32 << 20;

/// The largest absolute value of a tensor that is to be encoded; 0 of others.
pub(super) fn largest(shard: &Shard, tensor: &Place, fate: &Fate) -> anyhow::Result<f32> {
    let Fate::Encoded { shape, .. } = fate else {
        return Ok(0.0);
    };
    let matrix = Matrix {
        file: &shard.name,
        tensor,
        shape: *shape,
    };
    Ok(matrix
        .scan_all(Scheme::Nvfp4, &mut Source::open(shard)?)?
        .largest)
}

/// A tensor that is to be encoded.
pub(super) struct Matrix<'a> {
    /// The name of its file.
    pub(super) file: &'a str,
    pub(super) tensor: &'a Place,
    pub(super) shape: Shape,
}

impl Matrix<'_> {
    fn row(&self) -> u64 {
        self.shape.columns * self.shape.stored.bytes() as u64
    }

    /// Runs of rows one after the other, each as pieces of whole rows for all cores.
    fn runs(
        &self,
        together: u64,
        source: &mut Source,
        mut each: impl FnMut(&[&[u8]]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let cores = thread::available_parallelism().map_or(1, usize::from) as u64;
        let unit = self.row() * together;
        let size = (CHUNK / (unit * cores)).max(1) * unit * cores;
        let whole = self.row() * self.shape.rows;
        let mut bytes = Vec::new();
        for at in (0..whole).step_by(usize::try_from(size).unwrap_or(usize::MAX)) {
            let count = size.min(whole - at);
            bytes.resize(count as usize, 0);
            source.read(self.tensor.begin + at, &mut bytes)?;
            let pieces: Vec<&[u8]> = bytes.chunks((size / cores) as usize).collect();
            each(&pieces)?;
        }
        Ok(())
    }

    fn scan(&self, scheme: Scheme, pieces: &[&[u8]]) -> Scan {
        let stored = self.shape.stored;
        let see = |piece: &[u8]| {
            let mut scan = Scan::of(scheme);
            scan.see(stored, piece, &mut Vec::new());
            scan
        };
        let scans = over_cores(pieces, see);
        scans.into_iter().fold(Scan::default(), Scan::then)
    }

    fn scan_all(&self, scheme: Scheme, source: &mut Source) -> anyhow::Result<Scan> {
        let mut all = Scan::of(scheme);
        self.runs(1, source, |pieces| {
            all = mem::take(&mut all).then(self.scan(scheme, pieces));
            self.finite(&all)
        })?;
        Ok(all)
    }

    /// `beside`: the largest absolute value of layers that share its scale.
    pub(super) fn encode(
        &self,
        scheme: Scheme,
        source: &mut Source,
        beside: f32,
        mut put: impl FnMut(&Encoded) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut all = if scheme.asks_all() {
            self.scan_all(scheme, source)?
        } else {
            Scan::of(scheme)
        };
        all.largest = all.largest.max(beside);
        // Elements of the runs before.
        let mut before = 0;
        self.runs(scheme.rows_together(), source, |pieces| {
            let encode =
                |piece: &[u8]| scheme.encode(self.shape.stored, self.shape.columns, piece, &all);
            let runs = over_cores(pieces, encode);
            if runs.iter().any(|run| run.odd) {
                let mut seen = self.scan(scheme, pieces);
                seen.first = seen.first.map(|first| first + before);
                self.finite(&seen)?;
            }
            before += pieces.iter().map(|piece| piece.len() as u64).sum::<u64>()
                / self.shape.stored.bytes() as u64;
            runs.iter().try_for_each(&mut put)
        })?;
        let once = Encoded {
            parts: scheme.once(self.shape.rows, self.shape.columns, self.shape.stored, &all),
            ..Encoded::default()
        };
        put(&once)
    }

    fn finite(&self, seen: &Scan) -> anyhow::Result<()> {
        let Some(first) = seen.first else {
            return Ok(());
        };
        let (row, column) = (first / self.shape.columns, first % self.shape.columns);
        Err(Problem::new(format!(
            "{}, tensor `{}`: row {row}, column {column} is NaN or infinite, {} such elements so far",
            self.file, self.tensor.name, seen.not_finite
        ))
        .hint("what is made of it means nothing: check the checkpoint, or leave the layer as it is with --keep")
        .into())
    }
}

/// One piece on each core.
fn over_cores<T: Send>(pieces: &[&[u8]], work: impl Fn(&[u8]) -> T + Sync) -> Vec<T> {
    let work = &work;
    match pieces {
        [one] => vec![work(one)],
        several => thread::scope(|scope| {
            let started: Vec<_> = several
                .iter()
                .map(|piece| scope.spawn(move || work(piece)))
                .collect();
            let ended = started.into_iter().map(thread::ScopedJoinHandle::join);
            ended
                .map(|one| one.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        }),
    }
}
