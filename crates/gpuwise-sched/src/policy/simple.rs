//! The first node that fits, and the fullest that does.

use super::{Choice, Choose, Score, Scored, Search, View};
use crate::{fit, world::World};
use gpuwise_domain::placement::{NodeId, WorkerAsk};

/// The node of lowest number.
#[derive(Debug, Clone, Copy, Default)]
pub struct FirstFit;

/// The node with the least GPU time, then the least processor time left.
#[derive(Debug, Clone, Copy, Default)]
pub struct BestFit;

impl Choose for FirstFit {
    fn name(&self) -> &'static str {
        "firstfit"
    }

    fn choose(&mut self, world: &World, ask: &WorkerAsk, search: Search<'_>) -> Option<Choice> {
        let nodes = (0..world.nodes().len() as u32).map(NodeId);
        let mut allowed = nodes.filter(|id| search.allows(world, *id));
        let candidate = allowed.find_map(|id| fit::seat(world, id, ask, search.scope))?;
        // It looks no further, so that it does not know how many others have room.
        Some(Choice {
            candidate,
            candidates: 1,
            weighed: Vec::new(),
        })
    }
}

impl Choose for BestFit {
    fn name(&self) -> &'static str {
        "fullest"
    }

    fn choose(&mut self, world: &World, ask: &WorkerAsk, search: Search<'_>) -> Option<Choice> {
        least(world, ask, search, |id| {
            let state = world.node(id);
            state.map_or(0, |state| {
                (i64::from(state.milli_free) << 32)
                    + i64::try_from(state.cpu_free / 1000).unwrap_or(i64::MAX >> 33)
            })
        })
    }
}

/// The node of least weight among those that fit; of equals the lowest number.
fn least(
    world: &World,
    ask: &WorkerAsk,
    search: Search<'_>,
    weigh: impl Fn(NodeId) -> i64,
) -> Option<Choice> {
    let mut best: Option<(i64, fit::Candidate)> = None;
    let mut candidates = 0;
    for id in (0..world.nodes().len() as u32).map(NodeId) {
        if !search.allows(world, id) {
            continue;
        }
        let Some(candidate) = fit::seat(world, id, ask, search.scope) else {
            continue;
        };
        candidates += 1;
        let weight = weigh(id);
        if best.as_ref().is_none_or(|(least, _)| weight < *least) {
            best = Some((weight, candidate));
        }
    }
    best.map(|(weight, candidate)| Choice {
        candidate,
        candidates,
        weighed: vec![("weight", weight)],
    })
}

/// [`BestFit`] as a score: it remembers what of nodes has not changed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Fullest;

impl Score for Fullest {
    fn name(&self) -> &'static str {
        "fullest"
    }

    fn score(&mut self, view: &View<'_>, _: &WorkerAsk) -> Scored {
        let cores = (view.node.cpu_free / 1000).min(0xffff) as i32;
        (-(view.node.milli_free.min(0x7fff).cast_signed() * 0x1_0000 + cores)).into()
    }
}
