//! Our own policy: take the assignment after which the fleet can still hold the most of what is to come.
//!
//! A node's free room is worth the GPU time that imagined future arrivals, drawn from what is usually
//! asked for, would take of it ([`value`]). That counts processor time and memory that run out before
//! the GPUs do, remnants of fractions that nothing fits, and complements that fill a GPU, all in one
//! number. An assignment costs the worth that it takes away, and more where nodes of its build, or room for
//! several GPUs at once, will be missed ([`prices`]). The cheapest assignment is taken; assignments within a fortieth of a
//! GPU of each other are equal, and of equals the node of lowest rank is taken, which keeps idle nodes
//! together.
//!
//! It always places what fits somewhere. What was tried, and what each part gains, is in decision
//! record 20.

mod builds;
mod classes;
mod fit_options;
mod groups;
mod look;
mod mix;
mod prices;
mod ranking;
mod room;
mod rows;
mod standing;
mod value;

use super::registry::Registered;
use super::{Choice, FirstFit, NodeSelector, Search, scored::follow::Follower};
use crate::{
    fit::{self, Candidate, Scope},
    world::{StoredJob, World},
};
use classes::Classes;
use gpuwise_domain::placement::{Assignment, GpuAsk, Kinds, Need, NodeId, WorkerAsk};
use look::{Cheapest, Look};
use mix::Mix;
use ranking::Ranking;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use value::Values;

pub(super) const POLICY: Registered = Registered {
    name: "gpuwise",
    about: "after which the fleet can hold most of what is forecast to arrive",
    make: |context| {
        Box::new(ForecastPacking::new(
            context.demand.clone(),
            context.ranks.clone(),
        ))
    },
};

/// Shapes of asks that are remembered.
const SHAPES: usize = 256;

#[derive(Debug)]
pub struct ForecastPacking {
    /// What is usual, if it was said; else the world's arrivals tell.
    told: Arc<[(WorkerAsk, u64)]>,
    forecast: Arc<[(WorkerAsk, u64)]>,
    mix: Option<Mix>,
    values: Values,
    classes: Classes,
    follower: Follower,
    changed: Vec<NodeId>,
    shapes: FxHashMap<WorkerAsk, Shape>,
    uses: u64,
}

#[derive(Debug)]
struct Shape {
    /// Kinds of GPU that it accepts, of so many that there are.
    kinds: Kinds,
    of: usize,
    ranking: Ranking,
    /// When it was last asked for.
    used: u64,
}

impl ForecastPacking {
    /// A policy that knows what is usually asked for and how often. Where nothing is said it goes by the
    /// world's [`Arrivals`](crate::world::Arrivals). Of equal nodes the one of lowest rank is taken; nodes beyond the ranks have their
    /// number.
    pub fn new(demand: Vec<(WorkerAsk, u64)>, ranks: Vec<u32>) -> Self {
        Self {
            told: demand.into(),
            forecast: Arc::default(),
            mix: None,
            values: Values::default(),
            classes: Classes::new(ranks),
            follower: Follower::default(),
            changed: Vec::new(),
            shapes: FxHashMap::default(),
            uses: 0,
        }
    }

    /// What is usual, as far as it is known.
    fn usual(&self, world: &World) -> Arc<[(WorkerAsk, u64)]> {
        let known = if self.told.is_empty() {
            world.arrivals().forecast()
        } else {
            &self.told
        };
        Arc::clone(known)
    }

    /// Brings classes up to the world, and the mix where the forecast or builds of nodes are new.
    fn follow(&mut self, world: &World) {
        let mut changed = core::mem::take(&mut self.changed);
        let known = self.follower.catch_up(world, &mut changed);
        let builds = self.classes.builds.len();
        let mut alike = true;
        if !known || !self.classes.builds.follow(world, &changed) {
            let before = self.classes.clear();
            self.classes.builds.follow(world, &[]);
            alike = before.alike(&self.classes.builds);
            changed.clear();
            changed.extend((0..world.nodes().len() as u32).map(NodeId));
        }
        alike &= builds == self.classes.builds.len();
        let usual = self.usual(world);
        let same = Arc::ptr_eq(&usual, &self.forecast) || usual == self.forecast;
        if !same || !alike {
            self.mix = None;
        }
        let empty = Mix::default();
        let mix = self.mix.as_ref().unwrap_or(&empty);
        for id in &changed {
            self.classes.place(world, *id, mix, &mut self.values);
        }
        self.changed = changed;
        if self.mix.is_none() {
            let mix = Mix::new(world, &self.classes.builds, &usual);
            self.values.clear();
            self.classes.value(&mix, &mut self.values);
            (self.mix, self.forecast) = (Some(mix), usual);
        }
    }

    /// Makes sure that the shape is known, forgetting the one that was not used for longest.
    fn remember(&mut self, world: &World, ask: &WorkerAsk) {
        let all = world.kinds().len();
        if self.shapes.get(ask).is_none_or(|shape| shape.of != all) {
            if self.shapes.len() >= SHAPES {
                // The times of use differ, so the order of the table does not matter.
                let oldest = self.shapes.iter().min_by_key(|(_, shape)| shape.used);
                if let Some(oldest) = oldest.map(|(ask, _)| *ask) {
                    self.shapes.remove(&oldest);
                }
            }
            let kinds = match ask.gpu {
                GpuAsk::Whole { kinds, need, .. } => fit::kinds_with(world, kinds, need),
                gpu => fit::kinds_with(world, gpu.kinds(), Need::default()),
            };
            let shape = Shape {
                kinds,
                of: all,
                ranking: Ranking::default(),
                used: 0,
            };
            self.shapes.insert(*ask, shape);
        }
        if let Some(shape) = self.shapes.get_mut(ask) {
            shape.used = self.uses;
        }
    }

    /// The cheapest assignment that may be taken, and how many nodes have room.
    fn cheapest(
        &mut self,
        world: &World,
        ask: &WorkerAsk,
        search: Search<'_>,
    ) -> (Option<Cheapest>, u32) {
        let (Some(mix), Some(shape)) = (&self.mix, self.shapes.get_mut(ask)) else {
            return (None, 0);
        };
        let classes = &self.classes;
        let prices = prices::prices(mix, &classes.totals);
        let asked = (world, ask, shape.kinds);
        let mut look = Look::new(asked, mix, classes, &mut self.values, prices);
        let ranking = &mut shape.ranking;
        ranking.follow(&mut look);
        let some = match search.scope {
            Scope::Fleet => {
                let candidates = ranking.anywhere(&mut look, search.without);
                return (look.cheapest(), candidates);
            }
            Scope::Node(ref node) | Scope::Part(ref node, ..) => core::slice::from_ref(node),
            Scope::Island(island) => world.island_nodes(island),
            Scope::Domain(_, domain) => world.domain_nodes(domain),
        };
        let mut candidates = 0;
        for id in some.iter().copied() {
            let fits = || fit::assignment(world, id, ask, search.scope).is_some();
            if search.allows(world, id) && fits() && ranking.on_node(&mut look, id) {
                candidates += 1;
            }
        }
        (look.cheapest(), candidates)
    }
}

/// The assignment on a node, with a fraction on a GPU that has so much free.
fn seated(
    world: &World,
    node: NodeId,
    ask: &WorkerAsk,
    kinds: Kinds,
    free: u16,
    scope: Scope,
) -> Option<Candidate> {
    let usual = || fit::assignment(world, node, ask, scope);
    let GpuAsk::Fraction {
        milli,
        memory_mib,
        isolation,
        ..
    } = ask.gpu
    else {
        return usual();
    };
    let state = world.node(node)?;
    let mut rooms = fit::fraction_rooms(world, state, milli, memory_mib, isolation, kinds, scope);
    let Some((_, gpu)) = rooms.find(|(room, _)| *room == u32::from(free)) else {
        return usual();
    };
    let share = fit::fraction_share(gpu, milli, memory_mib, isolation);
    Some(Candidate {
        assignment: Assignment {
            node,
            gpus: vec![share],
        },
        prepare: Vec::new(),
    })
}

impl NodeSelector for ForecastPacking {
    fn select(&mut self, world: &World, job: &StoredJob, search: Search<'_>) -> Option<Choice> {
        let ask = &job.worker;
        self.uses += 1;
        self.follow(world);
        self.remember(world, ask);
        let (best, candidates) = self.cheapest(world, ask, search);
        let kinds = self.shapes.get(ask)?.kinds;
        let found = best.and_then(|best| {
            let candidate = seated(world, best.node, ask, kinds, best.way.free, search.scope)?;
            Some((best, candidate))
        });
        let Some((best, candidate)) = found else {
            // On an island a node may have room that its class does not show.
            return FirstFit.select(world, job, search);
        };
        Some(Choice {
            candidate,
            candidates,
            weighed: vec![
                ("placement score".into(), best.way.loss.into()),
                ("placement score with forecast arrivals".into(), best.cost),
            ],
        })
    }
}
