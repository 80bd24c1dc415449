//! What the engines of a pool hold of a prompt: what was sent there, put right by what they say.

use super::{
    events::Event,
    held::{Change, Held},
    texts::{Known, Piece, Texts},
    tokens::{Adapter, Beginning},
};
use rustc_hash::FxBuildHasher;
use std::{
    collections::{BTreeMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Beginnings that an engine dropped and that are remembered. One that has dropped more is one that nothing is known of.
const GONE: usize = 1 << 18;

#[derive(Debug, Default)]
pub(in crate::picker) struct Index(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    engines: BTreeMap<String, Engine>,
    texts: Texts,
}

#[derive(Debug, Default)]
struct Engine {
    held: Held,
    /// What it said it holds no more, and was not sent since.
    gone: HashSet<Beginning, FxBuildHasher>,
    shown: Shown,
}

/// An engine that is followed, as figures show it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::picker) struct Shown {
    /// Whether its events come.
    pub(in crate::picker) follows: bool,
    pub(in crate::picker) blocks: usize,
    /// Times that events were missing and could not be had again.
    pub(in crate::picker) lost: u64,
    pub(in crate::picker) malformed: u64,
}

/// Whether what was believed of an engine still stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum Belief {
    Stands,
    /// It holds nothing of what was sent to it, as far as anybody knows.
    Falls,
}

impl Index {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Events of an engine, in order.
    pub(super) fn take(&self, address: &str, events: Vec<Event>) -> Belief {
        let mut guard = self.state();
        let state = &mut *guard;
        let engine = state.engines.entry(address.to_owned()).or_default();
        let mut belief = Belief::Stands;
        for event in events {
            let (held, gone) = (&mut engine.held, &mut engine.gone);
            held.take(event, |change| match change {
                Change::Held(end) => drop(gone.remove(&end)),
                Change::Gone(end) => drop(gone.insert(end)),
                Change::Cleared => {
                    gone.clear();
                    belief = Belief::Falls;
                }
            });
        }
        if engine.gone.len() > GONE {
            engine.gone.clear();
            belief = Belief::Falls;
        }
        if let Some(size) = engine.held.size {
            state.texts.blocks_of(size);
        }
        belief
    }

    /// Nothing is known of an engine any more.
    pub(in crate::picker) fn lost(&self, address: &str) {
        if let Some(engine) = self.state().engines.get_mut(address) {
            engine.held = Held::default();
            engine.gone.clear();
        }
    }

    pub(super) fn note(&self, address: &str, note: impl FnOnce(&mut Shown)) {
        let mut state = self.state();
        note(&mut state.engines.entry(address.to_owned()).or_default().shown);
    }

    /// It is in the pool no more.
    pub(super) fn left(&self, address: &str) {
        self.state().engines.remove(address);
    }

    pub(in crate::picker) fn shown(&self) -> Vec<(String, Shown)> {
        let state = self.state();
        let shown = |(address, engine): (&String, &Engine)| {
            let blocks = engine.held.len();
            (
                address.clone(),
                Shown {
                    blocks,
                    ..engine.shown
                },
            )
        };
        state.engines.iter().map(shown).collect()
    }

    /// Pieces of texts whose tokens are known.
    pub(in crate::picker) fn texts(&self) -> usize {
        self.state().texts.len()
    }

    /// The tokens of a text.
    pub(in crate::picker) fn bind(
        &self,
        pieces: &[Piece],
        bytes: usize,
        tokens: &[u32],
        model: &str,
    ) {
        self.state().texts.bind(pieces, bytes, tokens, model);
    }

    /// How many tokens of a prompt an engine holds, of which `sent` were sent to it.
    pub(in crate::picker) fn has(
        &self,
        address: &str,
        prompt: &[Piece],
        model: &str,
        sent: u64,
    ) -> u64 {
        let state = self.state();
        let engine = state.engines.get(address);
        let engine = engine.filter(|one| one.held.size.is_some_and(|size| state.texts.fits(size)));
        let Some(engine) = engine else { return sent };
        let adapted = engine.held.knows(Adapter::named(model));
        let mut has = 0;
        for piece in prompt {
            let was_sent = piece.tokens <= sent;
            let counts = match state.texts.of(piece.key, adapted) {
                Known::Nothing => was_sent,
                Known::Short => continue,
                Known::End(end) => {
                    engine.held.ends_with(end) || was_sent && !engine.gone.contains(&end)
                }
            };
            if !counts {
                return has;
            }
            has = piece.tokens;
        }
        has.max(sent)
    }

    /// A prompt goes to an engine, which holds it from now on. Says whether somebody should say its tokens.
    pub(in crate::picker) fn sent(&self, address: &str, prompt: &[Piece], model: &str) -> bool {
        let mut guard = self.state();
        let state = &mut *guard;
        let mut engine = state.engines.get_mut(address);
        let adapted = engine
            .as_ref()
            .is_some_and(|one| one.held.knows(Adapter::named(model)));
        let mut unknown = false;
        for piece in prompt {
            match state.texts.of(piece.key, adapted) {
                Known::Nothing => unknown = true,
                Known::Short => {}
                Known::End(end) => {
                    if let Some(engine) = &mut engine {
                        engine.gone.remove(&end);
                    }
                }
            }
        }
        unknown
    }
}
