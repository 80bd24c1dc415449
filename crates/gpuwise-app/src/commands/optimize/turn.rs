//! Tensors in another basis, or without some of their rows and columns, as they are read.

use super::made::{Made, Piece};
use anyhow::Context as _;
use gpuwise_compress::{Rotation, Stored};
use std::{sync::Arc, thread};

/// What becomes of a tensor's numbers.
#[derive(Debug)]
pub(super) enum Turn {
    /// 1 each: a norm whose gains are in the matrices that read it.
    Ones,
    Turned(Turned),
    Picked(Picked),
}

/// A matrix W becomes Qᵀ · W · diag(gains) · P; a vector is a matrix of one column.
#[derive(Debug)]
pub(super) struct Turned {
    pub(super) columns: u64,
    pub(super) gains: Option<Arc<Vec<f32>>>,
    /// P, of what it reads.
    pub(super) reads: Option<Arc<Rotation>>,
    /// Q, of what it writes.
    pub(super) writes: Option<Arc<Rotation>>,
}

/// Some rows and some columns of a matrix, in their order; all where none are named.
#[derive(Debug)]
pub(super) struct Picked {
    pub(super) rows: u64,
    pub(super) columns: u64,
    pub(super) kept_rows: Option<Arc<Vec<u32>>>,
    pub(super) kept_columns: Option<Arc<Vec<u32>>>,
}

impl Picked {
    pub(super) fn rows_left(&self) -> u64 {
        let kept = self.kept_rows.as_ref();
        kept.map_or(self.rows, |kept| kept.len() as u64)
    }

    pub(super) fn columns_left(&self) -> u64 {
        let kept = self.kept_columns.as_ref();
        kept.map_or(self.columns, |kept| kept.len() as u64)
    }

    /// The row that row `at` of what is left was.
    fn row(&self, at: u64) -> u64 {
        let kept = self.kept_rows.as_ref();
        kept.map_or(at, |kept| u64::from(kept[at as usize]))
    }

    /// Appends what is left of a row.
    fn left(&self, row: &[u8], width: usize, to: &mut Vec<u8>) {
        match &self.kept_columns {
            None => to.extend_from_slice(row),
            Some(kept) => {
                for column in kept.iter() {
                    let at = *column as usize * width;
                    to.extend_from_slice(&row[at..at + width]);
                }
            }
        }
    }

    fn read(
        &self,
        (made, piece): (&Made, &Piece),
        within: u64,
        to: &mut [u8],
        source: &mut impl Before,
    ) -> anyhow::Result<()> {
        let width = made.stored.bytes();
        let wide = self.columns_left().max(1);
        let (first, skipped) = (within / wide, usize::try_from(within % wide)? * width);
        let last = (within + (to.len() / width) as u64).div_ceil(wide);
        let at_once = (SOME as u64 / self.columns.max(1)).max(1);
        let (mut left, mut bytes) = (Vec::with_capacity(skipped + to.len()), Vec::new());
        let mut at = first;
        while at < last {
            // All that lies between is read with them.
            let begin = self.row(at);
            let near = (at..last).take_while(|at| self.row(*at) - begin < at_once);
            let rows: Vec<u64> = near.map(|at| self.row(at) - begin).collect();
            let span = rows.last().map_or(0, |last| last + 1) * self.columns;
            bytes.resize(usize::try_from(span)? * width, 0);
            source.before(made, piece, begin * self.columns, &mut bytes)?;
            let row = usize::try_from(self.columns)? * width;
            for from in &rows {
                let from = usize::try_from(*from)? * row;
                self.left(&bytes[from..from + row], width, &mut left);
            }
            at += rows.len() as u64;
        }
        to.copy_from_slice(&left[skipped..skipped + to.len()]);
        Ok(())
    }
}

impl Turned {
    fn columns(&self) -> anyhow::Result<usize> {
        Ok(usize::try_from(self.columns)?.max(1))
    }

    /// Whole rows, as they read.
    fn rows(&self, values: &mut [f32], columns: usize) {
        if self.gains.is_none() && self.reads.is_none() {
            return;
        }
        let each = (values.len() / columns).div_ceil(cores()).max(1) * columns;
        thread::scope(|scope| {
            for some in values.chunks_mut(each) {
                scope.spawn(move || {
                    if let Some(gains) = &self.gains {
                        for row in some.chunks_mut(columns) {
                            for (value, gain) in row.iter_mut().zip(gains.iter()) {
                                *value *= gain;
                            }
                        }
                    }
                    if let Some(reads) = &self.reads {
                        reads.turn(some);
                    }
                });
            }
        });
    }
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Reads a tensor before it is turned: elements from a place on, as they are stored.
pub(super) trait Before {
    fn before(
        &mut self,
        made: &Made,
        piece: &Piece,
        from: u64,
        to: &mut [u8],
    ) -> anyhow::Result<()>;
}

/// The tensor that was turned last, where it had to be turned as a whole.
#[derive(Debug, Default)]
pub(super) struct Held(Option<(Arc<Turn>, Vec<u8>)>);

/// Elements that are turned at once, unless a row has more.
const SOME: usize = 16 << 20;

impl Held {
    /// Fills `to` with the elements from `within` the piece on.
    pub(super) fn read(
        &mut self,
        (made, piece, turn): (&Made, &Piece, &Arc<Turn>),
        within: u64,
        to: &mut [u8],
        source: &mut impl Before,
    ) -> anyhow::Result<()> {
        let stored = made.stored;
        let width = stored.bytes();
        let turned = match &**turn {
            Turn::Ones => {
                stored.narrow(&vec![1.0; to.len() / width], to);
                return Ok(());
            }
            Turn::Picked(picked) => return picked.read((made, piece), within, to, source),
            Turn::Turned(turned) => turned,
        };
        let columns = turned.columns()?;
        let from = usize::try_from(within)?;
        if turned.writes.is_none() {
            let first = from / columns;
            let last = (from + to.len() / width).div_ceil(columns);
            let values = rows((made, piece, turned), first..last, source)?;
            let skipped = from - first * columns;
            stored.narrow(&values[skipped..skipped + to.len() / width], to);
            return fits(made, piece, within, to);
        }
        let held = match self.0.take() {
            Some((of, bytes)) if Arc::ptr_eq(&of, turn) => bytes,
            _ => whole((made, piece, turned), source)?,
        };
        to.copy_from_slice(&held[from * width..][..to.len()]);
        self.0 = Some((turn.clone(), held));
        Ok(())
    }
}

/// Rows as they read, not yet as they write.
fn rows(
    (made, piece, turned): (&Made, &Piece, &Turned),
    range: std::ops::Range<usize>,
    source: &mut impl Before,
) -> anyhow::Result<Vec<f32>> {
    let columns = turned.columns()?;
    let elements = usize::try_from(piece.numbers.elements)?;
    let end = (range.end * columns).min(elements);
    let at_once = (SOME / columns).max(1) * columns;
    let mut all = Vec::with_capacity(end - range.start * columns);
    let (mut bytes, mut some) = (Vec::new(), Vec::new());
    for from in (range.start * columns..end).step_by(at_once) {
        let count = at_once.min(end - from);
        bytes.resize(count * made.stored.bytes(), 0);
        source.before(made, piece, from as u64, &mut bytes)?;
        made.stored.widen(&bytes, &mut some);
        if let Some(odd) = some.iter().position(|one| !one.is_finite()) {
            return Err(made.odd(piece, (from + odd) as u64, "before it is rotated"));
        }
        turned.rows(&mut some, columns);
        all.extend_from_slice(&some);
    }
    Ok(all)
}

/// All of a tensor whose rows are mixed with one another.
fn whole(
    (made, piece, turned): (&Made, &Piece, &Turned),
    source: &mut impl Before,
) -> anyhow::Result<Vec<u8>> {
    let columns = turned.columns()?;
    let elements = usize::try_from(piece.numbers.elements)?;
    let all = elements / columns;
    let values = rows((made, piece, turned), 0..all, source)?;
    let writes = turned.writes.as_ref().context("nothing that it writes")?;
    let width = made.stored.bytes();
    let each = columns.div_ceil(cores());
    let (values, stored) = (&values, made.stored);
    let parts = thread::scope(|scope| {
        let started: Vec<_> = (0..columns)
            .step_by(each)
            .map(|first| first..(first + each).min(columns))
            .map(|range| {
                scope.spawn(move || {
                    let wide = range.len() * width;
                    let mut part = vec![0; all * wide];
                    writes.turn_columns(values, columns, range.clone(), |first, some| {
                        let count = some.len() / all.max(1);
                        let at = (first - range.start) * width;
                        for (row, numbers) in some.chunks_exact(count.max(1)).enumerate() {
                            stored.narrow(numbers, &mut part[row * wide + at..][..count * width]);
                        }
                    });
                    (range, part)
                })
            })
            .collect();
        let ended = started.into_iter().map(thread::ScopedJoinHandle::join);
        ended
            .map(|part| part.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect::<Vec<_>>()
    });
    let mut bytes = vec![0; elements * width];
    for (range, part) in parts {
        let rows = bytes.chunks_exact_mut(columns * width);
        for (row, some) in rows.zip(part.chunks_exact(range.len() * width)) {
            row[range.start * width..range.end * width].copy_from_slice(some);
        }
    }
    fits(made, piece, 0, &bytes)?;
    Ok(bytes)
}

/// Of these numbers a half has no room for the largest.
fn fits(made: &Made, piece: &Piece, from: u64, bytes: &[u8]) -> anyhow::Result<()> {
    if made.stored != Stored::F16 {
        return Ok(());
    }
    let infinite = |pair: &[u8; 2]| u16::from_le_bytes(*pair) & 0x7c00 == 0x7c00;
    match bytes.as_chunks::<2>().0.iter().position(infinite) {
        Some(odd) => Err(made.odd(piece, from + odd as u64, "once it is rotated")),
        None => Ok(()),
    }
}
