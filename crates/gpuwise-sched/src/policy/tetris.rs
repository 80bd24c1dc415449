//! Where what a worker asks for is free in the same mixture.

use super::{
    dot_product::product,
    registry::{Registered, indexed},
    scored::{Score, Scored, View},
};
use gpuwise_domain::placement::WorkerAsk;

pub(super) const POLICY: Registered = Registered {
    name: "tetris",
    about: "where what is asked for is free in the same mixture",
    make: |context| indexed(Alignment, context),
};

/// Like Tetris (Grandl et al., SIGCOMM 2014): the largest product of what is free and what is asked, so
/// that a worker goes where its mixture is free.
#[derive(Debug, Clone, Copy, Default)]
pub struct Alignment;

impl Score for Alignment {
    fn score(&mut self, view: &View<'_>, ask: &WorkerAsk) -> Scored {
        ((1e6 * product(view, ask)).min(1e9) as i32).into()
    }
}
