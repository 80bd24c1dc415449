//! Our own policy: take the seat after which the fleet can still hold the most of what is to come.
//!
//! A node's free room is worth the GPU time that imagined future arrivals, drawn from what is usually
//! asked for, would take of it ([`value`]). That counts processor time and memory that run out before
//! the GPUs do, remnants of fractions that nothing fits, and complements that fill a GPU, all in one
//! number. A seat costs the worth that it takes away, and more where nodes of its build, or room for
//! several GPUs at once, will be missed ([`prices`]). The cheapest seat is taken; seats within a fortieth of a
//! GPU of each other are equal, and of equals the node of lowest rank is taken, which keeps idle nodes
//! together.
//!
//! It always places what fits somewhere. What was tried, and what each part gains, is in decision
//! record 20.

mod builds;
mod classes;
mod mix;
mod prices;
mod room;
mod value;
mod ways;

use super::{Choice, Choose, FirstFit, Search, scored::follow::Follower};
use crate::{
    fit::{self, Candidate, Scope},
    world::World,
};
use classes::{Classes, Head};
use gpuwise_domain::placement::{GpuAsk, Kinds, Need, NodeId, Seat, WorkerAsk};
use mix::{LENGTH, Mix, ROWS, WIDTHS};
use prices::{ONE, Prices};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use value::Values;
use ways::{Losses, Way, Ways};

/// Costs within this many millionths of a GPU are equal.
const GRAIN: i64 = 25_000;
/// Shapes of asks that are remembered.
const SHAPES: usize = 256;
/// Different asks that are counted where nothing was said of what is usual.
const COUNTED: usize = 4096;
/// Asks after which the mix is taken from them for the first time; then each time they have doubled.
const FIRST: u64 = 32;

/// Our own policy.
#[derive(Debug)]
pub struct Own {
    /// What is usual, if it was said.
    told: Vec<(WorkerAsk, u64)>,
    /// Else what was asked for.
    seen: BTreeMap<WorkerAsk, u64>,
    asked: u64,
    /// The mix is taken anew when so many have asked.
    next: u64,
    mix: Option<Mix>,
    values: Values,
    classes: Classes,
    follower: Follower,
    changed: Vec<NodeId>,
    shapes: FxHashMap<WorkerAsk, Shape>,
}

/// What is known of an ask.
#[derive(Debug)]
struct Shape {
    kinds: Kinds,
    /// By class.
    losses: Vec<Losses>,
    ways: Vec<Ways>,
    /// When it was last asked for.
    used: u64,
}

/// The cheapest seat so far.
#[derive(Debug, Clone, Copy)]
struct Best {
    grains: i64,
    rank: u32,
    node: NodeId,
    way: Way,
    cost: i64,
}

impl Own {
    /// A policy that knows what is usually asked for and how often. Where nothing is said it learns from
    /// what is asked. Of equal nodes the one of lowest rank is taken; nodes beyond the ranks have their
    /// number.
    pub fn new(demand: Vec<(WorkerAsk, u64)>, ranks: Vec<u32>) -> Self {
        Self {
            told: demand,
            seen: BTreeMap::new(),
            asked: 0,
            next: FIRST,
            mix: None,
            values: Values::default(),
            classes: Classes::new(ranks),
            follower: Follower::default(),
            changed: Vec::new(),
            shapes: FxHashMap::default(),
        }
    }

    /// Takes note of an ask; now and then the mix is to be taken anew.
    fn learn(&mut self, ask: &WorkerAsk) {
        self.asked += 1;
        if self.told.is_empty() {
            if self.seen.len() < COUNTED || self.seen.contains_key(ask) {
                *self.seen.entry(*ask).or_default() += 1;
            }
            if self.asked >= self.next {
                self.next = self.next.saturating_mul(2);
                self.mix = None;
            }
        }
    }

    /// What is usual, as far as it is known.
    fn usual(&self, world: &World) -> Mix {
        let builds = &self.classes.builds;
        if !self.told.is_empty() {
            return Mix::new(world, builds, &self.told);
        }
        if self.asked < FIRST {
            return Mix::default();
        }
        let seen: Vec<_> = self
            .seen
            .iter()
            .map(|(ask, count)| (*ask, *count))
            .collect();
        Mix::new(world, builds, &seen)
    }

    /// Brings classes up to the world, and the mix where asks or builds of nodes are new.
    fn follow(&mut self, world: &World) {
        let mut changed = core::mem::take(&mut self.changed);
        if !self.follower.catch_up(world, &mut changed) {
            changed.clear();
            changed.extend((0..world.nodes().len() as u32).map(NodeId));
        }
        let builds = self.classes.builds.len();
        let empty = Mix::default();
        let mix = self.mix.as_ref().unwrap_or(&empty);
        for id in &changed {
            self.classes.place(world, *id, mix, &mut self.values);
        }
        self.changed = changed;
        if self.mix.is_none() || self.classes.builds.len() != builds {
            let mix = self.usual(world);
            self.values.clear();
            self.classes.value(&mix, &mut self.values);
            self.mix = Some(mix);
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
                used: 0,
            };
            self.shapes.insert(*ask, shape);
        }
        if let Some(shape) = self.shapes.get_mut(ask) {
            shape.used = self.asked;
        }
    }

    /// The cheapest seat that may be taken, and how many nodes have room.
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
        shape.losses.resize(classes.list.len(), Losses::default());
        shape.ways.resize(classes.list.len(), Ways::default());
        let mut look = Look {
            world,
            ask,
            mix,
            prices: prices::prices(mix, &classes.totals),
            classes,
            values: &mut self.values,
            kinds: shape.kinds,
            losses: &mut shape.losses,
            ways: &mut shape.ways,
            steps: search.steps,
            best: None,
        };
        let mut candidates = 0;
        let some = match search.scope {
            Scope::Fleet if search.without.is_empty() => {
                for (at, head) in classes.heads.iter().enumerate() {
                    if head.members > 0 && look.offer(at, head, head.rank, head.node) {
                        candidates += head.members;
                    }
                }
                return (look.best, candidates);
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
            let seat = || fit::seat(world, id, ask, search.scope);
            if search.allows(world, id)
                && seat().is_some()
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

/// A look over seats for one ask.
struct Look<'a> {
    world: &'a World,
    ask: &'a WorkerAsk,
    mix: &'a Mix,
    prices: Box<Prices>,
    classes: &'a Classes,
    values: &'a mut Values,
    kinds: Kinds,
    losses: &'a mut [Losses],
    ways: &'a mut [Ways],
    /// Steps that are left.
    steps: u64,
    best: Option<Best>,
}

impl Look<'_> {
    /// Weighs the seats on a node of a class. `false`: the worker does not fit, or it is not known and no
    /// steps are left to find out while there is another seat.
    fn offer(&mut self, at: usize, head: &Head, rank: u32, node: NodeId) -> bool {
        let Some(known) = self.losses.get_mut(at) else {
            return false;
        };
        if known.generation != head.generation {
            if self.steps == 0 && self.best.is_some() {
                return false;
            }
            let (Some(class), Some(ways)) = (self.classes.list.get(at), self.ways.get_mut(at))
            else {
                return false;
            };
            let before = self.values.computed;
            *ways = ways::ways(
                self.world,
                self.ask,
                self.kinds,
                class,
                self.mix,
                self.values,
            );
            *known = Losses::new(head.generation, ways);
            let filled = (self.values.computed - before) * (ROWS * LENGTH) as u64;
            self.steps = self.steps.saturating_sub(1 + filled);
        }
        let losses = known.losses;
        let Some(prices) = self.prices.get(head.build as usize) else {
            return false;
        };
        let grains = |cost: i64| {
            let over = cost - self.ask.gpu.milli().cast_signed() * 1000;
            (over + GRAIN / 2).div_euclid(GRAIN)
        };
        let beats = |grains: i64, best: Option<&Best>| {
            best.is_none_or(|best| (grains, rank) < (best.grains, best.rank))
        };
        for (loss, number) in losses.into_iter().zip(0..) {
            // What will be missed only adds to the loss.
            if loss == Losses::NONE || !beats(grains(dearer(prices, loss)), self.best.as_ref()) {
                continue;
            }
            let way = self.ways.get(at).and_then(|ways| *ways.get(number)?);
            let Some(way) = way else { continue };
            let cost = cost(self.mix, prices, &way);
            let grains = grains(cost);
            if beats(grains, self.best.as_ref()) {
                self.best = Some(Best {
                    grains,
                    rank,
                    node,
                    way,
                    cost,
                });
            }
        }
        losses != [Losses::NONE; 2]
    }
}

/// What a way costs, in millionths of a GPU: the worth that is lost, dearer where GPU time of such
/// nodes is scarce, and the places for several GPUs that will be missed.
fn cost(mix: &Mix, prices: &[i64; WIDTHS + 1], way: &Way) -> i64 {
    let [_, places @ ..] = prices;
    let missed: i64 = places
        .iter()
        .zip(way.places)
        .zip(&mix.widths)
        .map(|((price, lost), width)| price * i64::from(lost) * 1000 * i64::from(width.gpus))
        .sum();
    dearer(prices, way.loss) + missed / ONE
}

/// The worth that is lost, dearer where GPU time is scarce.
fn dearer(prices: &[i64; WIDTHS + 1], loss: i32) -> i64 {
    i64::from(loss) * (ONE + prices[0]) / ONE
}

/// The seat on a node, with a fraction on a GPU that has so much free.
fn seated(
    world: &World,
    node: NodeId,
    ask: &WorkerAsk,
    kinds: Kinds,
    free: u16,
    scope: Scope,
) -> Option<Candidate> {
    let usual = || fit::seat(world, node, ask, scope);
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
        seat: Seat {
            node,
            gpus: vec![share],
        },
        prepare: Vec::new(),
    })
}

impl Choose for Own {
    fn name(&self) -> &'static str {
        "gpuwise"
    }

    fn choose(&mut self, world: &World, ask: &WorkerAsk, search: Search<'_>) -> Option<Choice> {
        self.learn(ask);
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
            return FirstFit.choose(world, ask, search);
        };
        Some(Choice {
            candidate,
            candidates,
            weighed: vec![
                ("placement score", best.way.loss.into()),
                ("placement score with forecast arrivals", best.cost),
            ],
        })
    }
}
