//! The numbers of a matrix: seen, and encoded, some rows at a time, on all cores.

use super::{
    checkpoint::{Shard, Source},
    choose::{Fate, Shape},
    pieces::{self, PIECE},
};
use crate::error::Problem;
use gpuwise_compress::{Encoded, Scan, Scheme};
use gpuwise_read::safetensors::Place;
use std::mem;

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

    /// Runs of rows, read one after the other, worked on by all cores, handed on in order: by multiples of so many.
    fn runs<T: Send>(
        &self,
        together: u64,
        source: &mut Source,
        work: impl Fn(&[u8]) -> T + Sync,
        put: impl FnMut(T, &[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let unit = self.row() * together;
        let size = (PIECE / unit.max(1)).max(1) * unit;
        let whole = self.row() * self.shape.rows;
        let mut at = 0;
        let read = |piece: &mut Vec<u8>| {
            let count = size.min(whole - at);
            piece.resize(usize::try_from(count)?, 0);
            source.read(self.tensor.begin + at, piece)?;
            at += count;
            Ok(count > 0)
        };
        pieces::in_order(read, work, put)
    }

    fn scan(&self, scheme: Scheme, piece: &[u8]) -> Scan {
        let mut scan = Scan::of(scheme);
        scan.see(self.shape.stored, piece, &mut Vec::new());
        scan
    }

    fn scan_all(&self, scheme: Scheme, source: &mut Source) -> anyhow::Result<Scan> {
        let mut all = Scan::of(scheme);
        let scan = |piece: &[u8]| self.scan(scheme, piece);
        self.runs(1, source, scan, |seen, _| {
            all = mem::take(&mut all).then(seen);
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
        let encode =
            |piece: &[u8]| scheme.encode(self.shape.stored, self.shape.columns, piece, &all);
        // Elements of the runs before.
        let mut before = 0;
        self.runs(scheme.rows_together(), source, encode, |run, piece| {
            if run.odd {
                let mut seen = self.scan(scheme, piece);
                seen.first = seen.first.map(|first| first + before);
                self.finite(&seen)?;
            }
            before += (piece.len() / self.shape.stored.bytes()) as u64;
            put(&run)
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
