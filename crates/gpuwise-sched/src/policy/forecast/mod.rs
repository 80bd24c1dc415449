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
mod mix;
mod prices;
mod room;
mod rows;
mod value;

use super::registry::Registered;
use super::{Choice, FirstFit, NodeSelector, Search, scored::follow::Follower};
use crate::{
    fit::{self, Candidate, Scope},
    world::World,
};
use builds::BUILDS;
use classes::{Classes, Head};
use fit_options::{FitOption, FitOptions, Least};
use gpuwise_domain::placement::{Assignment, GpuAsk, Job, Kinds, Need, NodeId, WorkerAsk};
use mix::{Mix, WIDTHS};
use prices::{ONE, Prices};
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

/// Costs within this many millionths of a GPU are equal.
const GRAIN: i64 = 25_000;
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
    kinds: Kinds,
    losses: Vec<Least>,
    ways: Vec<FitOptions>,
    /// The class that was chosen last: looked at first, it mostly leaves little that is better.
    last: usize,
    /// When it was last asked for.
    used: u64,
}

/// The cheapest assignment so far.
#[derive(Debug, Clone, Copy)]
struct Best {
    grains: i64,
    rank: u32,
    node: NodeId,
    /// The place of its class.
    class: usize,
    way: FitOption,
    cost: i64,
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
        if !self.shapes.contains_key(ask) {
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
                losses: Vec::new(),
                ways: Vec::new(),
                last: 0,
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
    ) -> (Option<Best>, u32) {
        let (Some(mix), Some(shape)) = (&self.mix, self.shapes.get_mut(ask)) else {
            return (None, 0);
        };
        let classes = &self.classes;
        shape.losses.resize(classes.list.len(), Least::default());
        shape.ways.resize(classes.list.len(), FitOptions::default());
        let mut look = SearchState {
            world,
            ask,
            mix,
            prices: prices::prices(mix, &classes.totals),
            classes,
            values: &mut self.values,
            kinds: shape.kinds,
            losses: &mut shape.losses,
            ways: &mut shape.ways,
            best: None,
            limits: [Least::NONE - 1; BUILDS],
        };
        let mut candidates = 0;
        let some = match search.scope {
            Scope::Fleet if search.without.is_empty() => {
                if let Some(head) = classes.heads.get(shape.last)
                    && head.members > 0
                {
                    look.offer(shape.last, head, head.rank, head.node);
                }
                for (at, head) in classes.heads.iter().enumerate() {
                    if head.members > 0 && look.offer(at, head, head.rank, head.node) {
                        candidates += head.members;
                    }
                }
                let best = look.best;
                shape.last = best.map_or(0, |best| best.class);
                return (best, candidates);
            }
            Scope::Fleet => {
                let allowed = |(_, id): &&(u32, NodeId)| search.allows(world, *id);
                for (at, (class, head)) in classes.list.iter().zip(&classes.heads).enumerate() {
                    let mut members = class.members.iter().filter(allowed);
                    if let Some((rank, id)) = members.next()
                        && look.offer(at, head, *rank, *id)
                    {
                        candidates += 1 + members.count() as u32;
                    }
                }
                return (look.best, candidates);
            }
            Scope::Node(ref node) | Scope::Part(ref node, ..) => core::slice::from_ref(node),
            Scope::Island(island) => world.island_nodes(island),
            Scope::Domain(_, domain) => world.domain_nodes(domain),
        };
        for id in some.iter().copied() {
            let assignment = || fit::assignment(world, id, ask, search.scope);
            if search.allows(world, id)
                && assignment().is_some()
                && let Some((at, rank)) = classes.of(id)
                && let Some(head) = classes.heads.get(at)
                && look.offer(at, head, rank, id)
            {
                candidates += 1;
            }
        }
        (look.best, candidates)
    }
}

/// A look over assignments for one ask.
struct SearchState<'a> {
    world: &'a World,
    ask: &'a WorkerAsk,
    mix: &'a Mix,
    prices: Box<Prices>,
    classes: &'a Classes,
    values: &'a mut Values,
    kinds: Kinds,
    losses: &'a mut [Least],
    ways: &'a mut [FitOptions],
    best: Option<Best>,
    /// By build the greatest loss that can still be best, of a node of lower rank than the best one.
    limits: [i32; BUILDS],
}

impl SearchState<'_> {
    /// Weighs the assignments on a node of a class. `false`: the worker does not fit.
    #[inline]
    fn offer(&mut self, at: usize, head: &Head, rank: u32, node: NodeId) -> bool {
        let Some(known) = self.losses.get(at) else {
            return false;
        };
        let least = if known.generation == head.generation {
            *known
        } else {
            self.look_up(at, head)
        };
        if least.loss == Least::NONE {
            return false;
        }
        let limit = self.limits.get(head.build as usize);
        if limit.is_some_and(|limit| least.loss <= *limit) && self.could_beat(&least, head, rank) {
            self.weigh(at, head, rank, node);
        }
        true
    }

    /// Whether a way can be better than the best, by what the ways of a class lose at least.
    fn could_beat(&self, least: &Least, head: &Head, rank: u32) -> bool {
        let Some(prices) = self.prices.get(head.build as usize) else {
            return false;
        };
        let cost = cost(self.mix, prices, (least.loss, &least.places));
        let grains = grains(cost, self.asked());
        self.best
            .is_none_or(|best| (grains, rank) < (best.grains, best.rank))
    }

    /// The ways in which the worker fits a class that is new to its shape; the least loss.
    #[inline(never)]
    fn look_up(&mut self, at: usize, head: &Head) -> Least {
        let (Some(class), Some(ways), Some(known)) = (
            self.classes.list.get(at),
            self.ways.get_mut(at),
            self.losses.get_mut(at),
        ) else {
            return Least::new(head.generation, &[None; 2]);
        };
        *ways = fit_options::ways(
            self.world,
            self.ask,
            self.kinds,
            (class, head.node),
            self.mix,
            self.values,
        );
        *known = Least::new(head.generation, ways);
        *known
    }

    /// Takes a way on a node if it is the best so far.
    #[inline(never)]
    fn weigh(&mut self, at: usize, head: &Head, rank: u32, node: NodeId) {
        let (Some(ways), Some(prices)) = (self.ways.get(at), self.prices.get(head.build as usize))
        else {
            return;
        };
        let asked = self.asked();
        let beats = |grains: i64, best: Option<&Best>| {
            best.is_none_or(|best| (grains, rank) < (best.grains, best.rank))
        };
        let before = self.best.map(|best| best.grains);
        for way in ways.iter().flatten() {
            let cost = cost(self.mix, prices, (way.loss, &way.places));
            let grains = grains(cost, asked);
            if beats(grains, self.best.as_ref()) {
                self.best = Some(Best {
                    grains,
                    rank,
                    node,
                    class: at,
                    way: *way,
                    cost,
                });
            }
        }
        if let Some(best) = self.best.filter(|best| Some(best.grains) != before) {
            self.limit(best.grains, asked);
        }
    }

    /// What the ask itself takes, in millionths of a GPU.
    fn asked(&self) -> i64 {
        self.ask.gpu.milli().cast_signed() * 1000
    }

    /// Sets the limits to losses that can come to so many grains or fewer; never too low.
    fn limit(&mut self, grains: i64, asked: i64) {
        let above = (grains + 1) * GRAIN - GRAIN / 2 + asked;
        for (limit, [price, ..]) in self.limits.iter_mut().zip(self.prices.iter()) {
            let most = (above + 1) * ONE / (ONE + price) + 1;
            *limit = most.clamp(i32::MIN.into(), i64::from(Least::NONE) - 1) as i32;
        }
    }
}

/// What a way costs beyond what is asked, in grains.
fn grains(cost: i64, asked: i64) -> i64 {
    (cost - asked + GRAIN / 2).div_euclid(GRAIN)
}

/// The placement score of a way, in millionths of a GPU: the capacity that is lost, dearer where GPU time of such
/// nodes is scarce, and the places for several GPUs that will be missed, which only add to it.
fn cost(mix: &Mix, prices: &[i64; WIDTHS + 1], (loss, gone): (i32, &[i16; WIDTHS])) -> i64 {
    let [scarce, places @ ..] = prices;
    let missed: i64 = places
        .iter()
        .zip(gone)
        .zip(&mix.widths)
        .map(|((price, gone), width)| price * i64::from(*gone) * 1000 * i64::from(width.gpus))
        .sum();
    i64::from(loss) * (ONE + scarce) / ONE + missed / ONE
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
    fn select(&mut self, world: &World, job: &Job, search: Search<'_>) -> Option<Choice> {
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
