//! Tensors that are made as they are read: of one or several below one another, each with an adapter's product added,
//! in another basis, and its numbers as the tensor has them. They lie, so to say, behind the bytes of their file.

use super::{
    checkpoint::Shard,
    turn::{Before, Held, Turn},
};
use crate::error::Problem;
use gpuwise_compress::{Added, LowRank, Scan, Stored};
use gpuwise_read::safetensors::Place;
use serde::{Deserialize, Serialize};
use std::{
    fs::File,
    io::{Read as _, Seek as _, SeekFrom},
    path::PathBuf,
    sync::Arc,
    thread,
};

/// A tensor that is made.
#[derive(Debug, Clone)]
pub(super) struct Made {
    pub(super) name: String,
    pub(super) stored: Stored,
    pub(super) columns: u64,
    /// Where it lies, as its file's bytes are counted.
    pub(super) begin: u64,
    /// One below the other.
    pub(super) pieces: Vec<Piece>,
}

/// Numbers of a file.
#[derive(Debug, Clone)]
pub(super) struct Numbers {
    pub(super) file: PathBuf,
    /// In bytes of the file.
    pub(super) at: u64,
    pub(super) stored: Stored,
    pub(super) elements: u64,
}

/// Rows of a tensor that is made.
#[derive(Debug, Clone)]
pub(super) struct Piece {
    pub(super) numbers: Numbers,
    pub(super) update: Option<Arc<Update>>,
    /// After that.
    pub(super) turn: Option<Arc<Turn>>,
}

/// What an adapter adds: `scale · left · right`.
#[derive(Debug)]
pub(super) struct Update {
    pub(super) left: Factor,
    pub(super) right: Factor,
    pub(super) rank: u64,
    pub(super) scale: f32,
}

/// A matrix of an adapter, of so many columns as it is stored.
#[derive(Debug)]
pub(super) struct Factor {
    pub(super) numbers: Numbers,
    pub(super) columns: u64,
    pub(super) transposed: bool,
}

/// What was made of a tensor, as sums of squares.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Merged {
    /// Of its weights before.
    pub(super) power: f64,
    /// Of what an adapter added.
    pub(super) added: f64,
    /// Of what rounding took.
    pub(super) lost: f64,
}

impl Piece {
    fn elements(&self) -> u64 {
        match self.turn.as_deref() {
            Some(Turn::Picked(picked)) => picked.rows_left() * picked.columns_left(),
            _ => self.numbers.elements,
        }
    }
}

impl Made {
    fn elements(&self) -> u64 {
        self.pieces.iter().map(Piece::elements).sum()
    }

    pub(super) fn end(&self) -> u64 {
        self.begin + self.elements() * self.stored.bytes() as u64
    }

    /// Why it cannot be made: of an element of one of its pieces.
    pub(super) fn odd(&self, piece: &Piece, at: u64, when: &str) -> anyhow::Error {
        let before = self
            .pieces
            .iter()
            .take_while(|one| !std::ptr::eq(*one, piece));
        let at = at + before.map(Piece::elements).sum::<u64>();
        let columns = self.columns.max(1);
        Problem::new(format!(
            "tensor `{}`: row {}, column {} is NaN or infinite {when}",
            self.name,
            at / columns,
            at % columns
        ))
        .hint("the model has such a weight, or the sum is too large for its numbers: check both")
        .into()
    }
}

/// The numbers of a tensor, where they are such as can be computed with.
pub(super) fn numbers(shard: &Shard, tensor: &Place) -> anyhow::Result<Numbers> {
    let stored = Stored::named(&tensor.dtype).ok_or_else(|| {
        Problem::new(format!(
            "{}, tensor `{}`: stored as {}, expected BF16, F16 or F32",
            shard.path.display(),
            tensor.name,
            tensor.dtype
        ))
        .hint("take the model before it was quantized")
    })?;
    Ok(Numbers {
        file: shard.path.clone(),
        at: shard.data + tensor.begin,
        stored,
        elements: tensor.shape.iter().product(),
    })
}

impl Numbers {
    fn read(&self, from: u64, to: &mut [u8]) -> anyhow::Result<()> {
        let at = self.at + from * self.stored.bytes() as u64;
        let read = File::open(&self.file).and_then(|mut file| {
            file.seek(SeekFrom::Start(at))?;
            file.read_exact(to)
        });
        read.map_err(|error| {
            Problem::new(format!("cannot read {}", self.file.display()))
                .because(error)
                .into()
        })
    }

    /// All of them.
    pub(super) fn values(&self) -> anyhow::Result<Vec<f32>> {
        let mut bytes = vec![0; usize::try_from(self.elements)? * self.stored.bytes()];
        self.read(0, &mut bytes)?;
        let mut values = Vec::new();
        self.stored.widen(&bytes, &mut values);
        Ok(values)
    }

    /// Some of them, stored otherwise.
    fn read_as(&self, stored: Stored, from: u64, to: &mut [u8]) -> anyhow::Result<()> {
        if self.stored == stored {
            return self.read(from, to);
        }
        let count = to.len() / stored.bytes();
        let mut bytes = vec![0; count * self.stored.bytes()];
        self.read(from, &mut bytes)?;
        let mut values = Vec::new();
        self.stored.widen(&bytes, &mut values);
        stored.narrow(&values, to);
        Ok(())
    }
}

impl Factor {
    fn values(&self) -> anyhow::Result<Vec<f32>> {
        let values = self.numbers.values()?;
        if !self.transposed {
            return Ok(values);
        }
        let columns = usize::try_from(self.columns)?;
        let rows = values.len() / columns.max(1);
        let turned = (0..columns)
            .flat_map(|column| (0..rows).map(move |row| (row, column)))
            .map(|(row, column)| values[row * columns + column]);
        Ok(turned.collect())
    }
}

/// What reads made tensors of one file: keeps what it needs of the adapter for the tensor that it is at.
#[derive(Debug)]
pub(super) struct Maker {
    made: Arc<Vec<Made>>,
    adds: Adds,
    held: Held,
}

/// What adds an adapter.
#[derive(Debug, Default)]
struct Adds {
    held: Option<(Arc<Update>, LowRank)>,
    done: Merged,
}

impl Maker {
    pub(super) fn of(made: &Arc<Vec<Made>>) -> Self {
        Self {
            made: made.clone(),
            adds: Adds::default(),
            held: Held::default(),
        }
    }

    /// What was made of a tensor that was read last; `None` of one that is as it was.
    pub(super) fn merged(&self, tensor: &str) -> Option<Merged> {
        let mut made = self.made.iter();
        made.any(|made| made.name == tensor)
            .then_some(self.adds.done)
    }

    /// Fills `to` with the bytes from `at` on.
    pub(super) fn read(&mut self, at: u64, to: &mut [u8]) -> anyhow::Result<()> {
        let all = self.made.clone();
        let found = all
            .iter()
            .find(|made| (made.begin..made.end()).contains(&at));
        let Some(made) = found else { return Ok(()) };
        if at == made.begin {
            self.adds.done = Merged::default();
        }
        let width = made.stored.bytes();
        let mut from = (at - made.begin) / width as u64;
        let mut before = 0;
        let mut rest = to;
        for piece in &made.pieces {
            let within = from.saturating_sub(before);
            let count = piece.elements().saturating_sub(within);
            let count = usize::try_from(count)?.min(rest.len() / width);
            if count > 0 {
                let (some, after) = rest.split_at_mut(count * width);
                match &piece.turn {
                    None => self.adds.before(made, piece, within, some)?,
                    Some(turn) => {
                        let what = (made, piece, turn);
                        self.held.read(what, within, some, &mut self.adds)?;
                    }
                }
                from += count as u64;
                rest = after;
            }
            before += piece.elements();
        }
        Ok(())
    }
}

impl Before for Adds {
    fn before(
        &mut self,
        made: &Made,
        piece: &Piece,
        from: u64,
        to: &mut [u8],
    ) -> anyhow::Result<()> {
        piece.numbers.read_as(made.stored, from, to)?;
        match self.finish(piece, made.stored, from, to)? {
            Some(odd) => Err(made.odd(piece, from + odd, "once the adapter is in it")),
            None => Ok(()),
        }
    }
}

impl Adds {
    /// Adds what is to be added; the first element that is not finite.
    fn finish(
        &mut self,
        piece: &Piece,
        stored: Stored,
        within: u64,
        bytes: &mut [u8],
    ) -> anyhow::Result<Option<u64>> {
        let Some(update) = &piece.update else {
            let mut scan = Scan::default();
            if piece.numbers.stored != stored {
                scan.see(stored, bytes, &mut Vec::new());
            }
            return Ok(scan.first);
        };
        let held = match self.held.take() {
            Some(held) if Arc::ptr_eq(&held.0, update) => held,
            _ => (update.clone(), update.product()?),
        };
        let added = over_cores(&held.1, stored, within, bytes);
        self.held = Some(held);
        self.done.power += added.power;
        self.done.added += added.added;
        self.done.lost += added.lost;
        Ok(added.odd)
    }
}

impl Update {
    fn product(&self) -> anyhow::Result<LowRank> {
        let (left, right) = (self.left.values()?, self.right.values()?);
        let rank = usize::try_from(self.rank)?;
        let product = LowRank::new(left, right, rank, self.scale);
        let what = || Problem::new("an adapter's matrices do not fit one another");
        Ok(product.ok_or_else(what)?)
    }
}

/// A part on each core.
fn over_cores(product: &LowRank, stored: Stored, first: u64, bytes: &mut [u8]) -> Added {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let elements = bytes.len() / stored.bytes();
    let each = elements.div_ceil(cores).max(1);
    let add = |at: usize, some: &mut [u8]| product.add(stored, first + (at * each) as u64, some);
    thread::scope(|scope| {
        let parts = bytes.chunks_mut(each * stored.bytes()).enumerate();
        let started: Vec<_> = parts
            .map(|(at, some)| scope.spawn(move || (some.len() / stored.bytes(), add(at, some))))
            .collect();
        let mut all = (0, Added::default());
        for one in started {
            let (count, added) = one
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            all = (all.0 + count as u64, all.1.then(all.0, added));
        }
        all.1
    })
}
