//! A look at what could be taken: what it costs, and the cheapest so far.

use super::{
    builds::BUILDS,
    classes::Classes,
    fit_options::{self, FitOption},
    groups::Group,
    mix::{Mix, WIDTHS},
    prices::{ONE, Prices},
    value::Values,
};
use crate::world::World;
use gpuwise_domain::placement::{Kinds, NodeId, WorkerAsk};

/// Costs within this many millionths of a GPU are equal.
const GRAIN: i64 = 25_000;
/// No loss is above it.
const ANY: i32 = i32::MAX;

/// The cheapest node so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Best {
    grains: i64,
    rank: u32,
    node: NodeId,
}

/// The cheapest assignment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cheapest {
    pub(super) node: NodeId,
    pub(super) way: FitOption,
    pub(super) cost: i64,
}

/// A look over assignments for one ask.
pub(super) struct Look<'a> {
    pub(super) world: &'a World,
    pub(super) ask: &'a WorkerAsk,
    pub(super) mix: &'a Mix,
    pub(super) classes: &'a Classes,
    pub(super) values: &'a mut Values,
    pub(super) kinds: Kinds,
    weights: Box<Weights>,
    best: Option<Best>,
    /// The least cost that comes to more grains than the best.
    above: i64,
    /// By build the greatest loss that can still be best.
    limits: [i32; BUILDS],
}

/// By build, what capacity that is lost costs and what a place of each width does, in parts of [`ONE`].
pub(super) type Weights = [[i64; WIDTHS + 1]; BUILDS];

impl<'a> Look<'a> {
    pub(super) fn new(
        (world, ask, kinds): (&'a World, &'a WorkerAsk, Kinds),
        mix: &'a Mix,
        classes: &'a Classes,
        values: &'a mut Values,
        mut prices: Box<Prices>,
    ) -> Self {
        for [capacity, places @ ..] in prices.iter_mut() {
            // Scarce capacity is dearer; places that will be missed come on top.
            *capacity += ONE;
            for (at, price) in places.iter_mut().enumerate() {
                let gpus = mix.widths.get(at).map_or(0, |width| width.gpus);
                *price *= 1000 * i64::from(gpus);
            }
        }
        Self {
            world,
            ask,
            mix,
            classes,
            values,
            kinds,
            weights: prices,
            best: None,
            above: i64::MAX,
            limits: [ANY; BUILDS],
        }
    }

    /// How many grains a group costs, if one of its nodes, of so low a rank, can be the best.
    #[inline]
    pub(super) fn could_beat(&self, group: &Group, rank: u32) -> Option<i64> {
        let limit = self.limits.get(group.build as usize)?;
        if group.least > *limit {
            return None;
        }
        let least = self.cost_of(group);
        // As many grains are not enough for one of a higher rank.
        let higher = self.best.is_some_and(|best| rank > best.rank);
        (least < self.above - i64::from(higher) * GRAIN).then(|| grains(least, self.asked()))
    }

    /// How many grains a group costs.
    pub(super) fn grains_of(&self, group: &Group) -> i64 {
        grains(self.cost_of(group), self.asked())
    }

    #[inline]
    fn cost_of(&self, group: &Group) -> i64 {
        let Some(weights) = self.weights.get(group.build as usize) else {
            return i64::MAX;
        };
        let of = |way: &Option<(i32, [i16; WIDTHS])>| {
            way.as_ref()
                .map_or(i64::MAX, |(loss, places)| cost(weights, *loss, *places))
        };
        let [first, second] = &group.losses;
        of(first).min(of(second))
    }

    /// Whether a node that costs so many grains, of such a rank, can be as good as the best.
    pub(super) fn is_beaten_by(&self, grains: i64, rank: u32) -> bool {
        let beats = |best: Best| (grains, rank) <= (best.grains, best.rank);
        self.best.is_none_or(beats)
    }

    pub(super) fn weights(&self) -> &Weights {
        &self.weights
    }

    /// Takes a node that costs so many grains if it is the best so far; whether it is.
    pub(super) fn offer(&mut self, grains: i64, rank: u32, node: NodeId) -> bool {
        let offered = Best { grains, rank, node };
        if self.best.is_some_and(|best| best <= offered) {
            return false;
        }
        let cheaper = self.best.is_none_or(|best| grains < best.grains);
        self.best = Some(offered);
        if cheaper {
            self.above = (grains + 1) * GRAIN - GRAIN / 2 + self.asked();
            // Never too low.
            for (limit, [capacity, ..]) in self.limits.iter_mut().zip(self.weights.iter()) {
                let most = (self.above + 1) * ONE / capacity + 1;
                *limit = most.clamp(i32::MIN.into(), ANY.into()) as i32;
            }
        }
        true
    }

    /// The best node that was offered, and of the ways to put the worker there the first that costs the fewest
    /// grains.
    pub(super) fn cheapest(self) -> Option<Cheapest> {
        let node = self.best?.node;
        let (at, _) = self.classes.of(node)?;
        let class = self.classes.list.get(at)?;
        let weights = self.weights.get(class.room.build_number())?;
        let asked = self.asked();
        let (world, ask, mix) = (self.world, self.ask, self.mix);
        let ways = fit_options::ways(world, ask, self.kinds, (class, node), mix, self.values);
        let all = ways.into_iter().flatten().map(|way| {
            let cost = cost(weights, way.loss, way.places);
            Cheapest { node, way, cost }
        });
        all.min_by_key(|one| grains(one.cost, asked))
    }

    /// What the ask itself takes, in millionths of a GPU.
    fn asked(&self) -> i64 {
        self.ask.gpu.milli().cast_signed() * 1000
    }
}

/// What a way costs beyond what is asked, in grains.
fn grains(cost: i64, asked: i64) -> i64 {
    (cost - asked + GRAIN / 2).div_euclid(GRAIN)
}

/// The placement score of a way, in millionths of a GPU: the capacity that is lost, dearer where GPU time of such
/// nodes is scarce, and the places for several GPUs that will be missed, which only add to it.
#[inline]
fn cost(weights: &[i64; WIDTHS + 1], loss: i32, places: [i16; WIDTHS]) -> i64 {
    let [capacity, each @ ..] = weights;
    let mut missed = 0;
    for at in 0..WIDTHS {
        missed += each[at] * i64::from(places[at]);
    }
    i64::from(loss) * capacity / ONE + missed / ONE
}
