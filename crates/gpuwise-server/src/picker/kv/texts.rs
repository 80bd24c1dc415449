//! Which beginnings of texts are which beginnings of token sequences, as far as somebody who has the tokenizer said.

use super::tokens::{Adapter, Beginning};
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

/// Pieces of texts that are remembered, at least; twice as many at most.
const PIECES: usize = 65_536;

/// Tokens of a block that is usual (vLLM).
const USUAL: u32 = 16;
/// Tokens of a block that are believed.
const LARGEST: u32 = 1024;

/// A piece of a prompt, told apart by all that comes before it too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::picker) struct Piece {
    pub(in crate::picker) key: u64,
    /// Where it ends, in tokens as routing counts them.
    pub(in crate::picker) tokens: u64,
    /// Where it ends in the text, in bytes.
    pub(in crate::picker) end: usize,
}

/// The tokens that a piece ends with, in the model's own cache and in that of an adapter of the model's name.
#[derive(Debug, Clone, Copy)]
struct Bound {
    own: Beginning,
    adapted: Beginning,
}

#[derive(Debug)]
pub(super) struct Texts {
    /// `None`: it is shorter than a block.
    bound: IndexMap<u64, Option<Bound>, FxBuildHasher>,
    /// Beginnings are of multiples of so many tokens, which are whole blocks of every engine.
    grain: u32,
}

impl Default for Texts {
    fn default() -> Self {
        Self {
            bound: IndexMap::default(),
            grain: USUAL,
        }
    }
}

/// What is known of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// Nobody said its tokens.
    Nothing,
    Short,
    End(Beginning),
}

impl Texts {
    /// An engine has blocks of so many tokens.
    pub(super) fn blocks_of(&mut self, size: u32) {
        let (mut one, mut other) = (self.grain, size);
        while other > 0 {
            (one, other) = (other, one % other);
        }
        let grain = self.grain / one.max(1) * size;
        if grain != self.grain && grain <= LARGEST {
            self.grain = grain;
            self.bound.clear();
        }
    }

    /// Whether blocks of so many tokens end where beginnings end.
    pub(super) fn fits(&self, size: u32) -> bool {
        size > 0 && self.grain.is_multiple_of(size)
    }

    pub(super) fn of(&self, key: u64, adapted: bool) -> Known {
        match self.bound.get(&key) {
            None => Known::Nothing,
            Some(None) => Known::Short,
            Some(Some(bound)) if adapted => Known::End(bound.adapted),
            Some(Some(bound)) => Known::End(bound.own),
        }
    }

    /// A text of `bytes` that begins with these pieces is `tokens`.
    ///
    /// Where in the tokens a piece ends is not said: it is taken to be as far as in the text, less a block.
    pub(super) fn bind(&mut self, pieces: &[Piece], bytes: usize, tokens: &[u32], model: &str) {
        let mut own = Beginning::empty(Adapter::NONE);
        let mut adapted = Beginning::empty(Adapter::named(model));
        let grain = self.grain as usize;
        let mut at = 0;
        for piece in pieces {
            let share = tokens.len() as u128 * piece.end as u128 / bytes.max(1) as u128;
            let whole = usize::try_from(share).unwrap_or(usize::MAX) / grain;
            let upto = (whole.saturating_sub(1) * grain).min(tokens.len());
            if let Some(next) = tokens.get(at..upto) {
                (own, adapted, at) = (own.then(next), adapted.then(next), upto);
            }
            let bound = (at > 0).then_some(Bound { own, adapted });
            self.bound.insert(piece.key, bound);
        }
        if self.bound.len() > 2 * PIECES {
            self.bound.drain(..self.bound.len() - PIECES);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.bound.len()
    }
}
