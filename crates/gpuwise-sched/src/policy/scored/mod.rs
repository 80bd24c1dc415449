//! Policies that score nodes: the best score wins, of equal ones the lowest rank.
//!
//! For each shape of ask that was seen there is a tournament over all nodes. When it is asked again, only
//! nodes that changed since are scored again. Shapes are bounded in number; the one that was not used
//! for longest is forgotten.

pub(super) mod follow;
mod tree;
mod view;

pub(crate) use follow::Follower;
pub use view::View;

use super::{Choice, NodeSelector, Search};
use crate::{
    fit::{self, Candidate, Scope},
    world::{StoredJob, World},
};
use gpuwise_domain::placement::{GpuAsk, Kinds, NodeId, WorkerAsk};
use rustc_hash::FxHashMap;
use tree::{OUT, Tree};
use view::{Digest, FEW, free_of};

/// Shapes of asks that are remembered, unless said otherwise.
const SHAPES: usize = 256;
/// Nodes of a domain up to which it is looked at node by node.
const SMALL: usize = 128;

/// A score of a node for a worker that fits it.
pub trait Score {
    /// How good the node is, and on which of its GPUs a fraction would go.
    ///
    /// It depends on nothing but the node, its GPUs, who holds them and the ask: not on the worker's
    /// memory, on other nodes, or on when it is asked.
    fn score(&mut self, view: &View<'_>, ask: &WorkerAsk) -> Scored;

    /// Takes in what the world has seen that scores go by, beside nodes; whether scores are others now.
    fn learns(&mut self, _world: &World) -> bool {
        false
    }
}

/// What a node is worth to a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scored {
    /// Higher is better; above `i32::MIN`.
    pub points: i32,
    /// On which of its GPUs a fraction goes, counted in their order; `None`: by the usual rule.
    pub gpu: Option<usize>,
}

impl From<i32> for Scored {
    fn from(points: i32) -> Self {
        Self { points, gpu: None }
    }
}

/// A policy that takes the node of the best score.
#[derive(Debug)]
pub struct Indexed<S> {
    score: S,
    ranks: Vec<u32>,
    /// Nodes by rank, and the place of each in that order.
    order: Vec<NodeId>,
    places: Vec<u32>,
    follower: Follower,
    digests: Vec<Digest>,
    /// Nodes that changed, in order; shapes know how far they have followed.
    log: Vec<NodeId>,
    /// Entries of the log that were forgotten.
    forgotten: u64,
    shapes: FxHashMap<WorkerAsk, Shape>,
    uses: u64,
    most_shapes: usize,
    buffer: Vec<NodeId>,
}

/// A tournament for asks of one shape.
#[derive(Debug)]
struct Shape {
    tree: Tree,
    /// How far it has followed the log.
    until: u64,
    /// When it was last asked for.
    used: u64,
    kinds: Kinds,
}

impl<S: Score + Default> Default for Indexed<S> {
    fn default() -> Self {
        Self::new(S::default(), Vec::new())
    }
}

impl<S: Score> Indexed<S> {
    /// A policy by a score; of equal nodes the one of lowest rank is taken. Nodes beyond the ranks have
    /// their number.
    pub fn new(score: S, ranks: Vec<u32>) -> Self {
        Self {
            score,
            ranks,
            order: Vec::new(),
            places: Vec::new(),
            follower: Follower::default(),
            digests: Vec::new(),
            log: Vec::new(),
            forgotten: 0,
            shapes: FxHashMap::default(),
            uses: 0,
            most_shapes: SHAPES,
            buffer: Vec::new(),
        }
    }

    /// With tournaments for so many shapes of asks: each takes 8 bytes a node or more.
    #[must_use]
    pub fn remembering(mut self, shapes: usize) -> Self {
        self.most_shapes = shapes.max(1);
        self
    }

    /// The node of the best score among those that a worker fits, and its points.
    pub fn best(&mut self, world: &World, ask: &WorkerAsk) -> Option<(NodeId, i32)> {
        self.follow(world);
        let (leaf, points) = self.shape(world, ask).tree.top()?;
        Some((*self.order.get(leaf)?, points))
    }

    /// What [`NodeSelector::select`] says, found by looking at every node: slow, and remembers nothing of nodes.
    pub fn select_by_scan(
        &mut self,
        world: &World,
        ask: &WorkerAsk,
        search: Search<'_>,
    ) -> Option<Choice> {
        if self.score.learns(world) {
            // Tournaments begin anew.
            self.digests.clear();
        }
        let mut best: Option<(i32, u32, Candidate)> = None;
        let mut candidates = 0;
        let (all, some) = search.scope.among(world);
        for id in (0..all).map(NodeId).chain(some.iter().copied()) {
            if !search.allows(world, id) {
                continue;
            }
            let Some(candidate) = fit::assignment(world, id, ask, search.scope) else {
                continue;
            };
            candidates += 1;
            let (points, candidate) = self.scored(world, id, ask, search.scope, candidate)?;
            let rank = rank_of(&self.ranks, id);
            let better = |(best, first, _): &(i32, u32, _)| (points, *first) > (*best, rank);
            if best.as_ref().is_none_or(better) {
                best = Some((points, rank, candidate));
            }
        }
        best.map(|(points, _, candidate)| choice(points, candidate, candidates))
    }

    /// The score of a node on which a worker fits, and where it would sit.
    fn scored(
        &mut self,
        world: &World,
        id: NodeId,
        ask: &WorkerAsk,
        scope: Scope,
        usual: Candidate,
    ) -> Option<(i32, Candidate)> {
        let node = world.node(id)?;
        let mut free = Vec::with_capacity(FEW);
        let kind = free_of(world, node, &mut free);
        let view = View {
            world,
            id,
            node,
            free: &free,
            kind,
        };
        let found = self.score.score(&view, ask);
        let own = found.gpu.and_then(|at| node.gpus.get(at)).copied();
        let (
            Some(gpu),
            GpuAsk::Fraction {
                milli,
                memory_mib,
                isolation,
                kinds,
            },
        ) = (own, ask.gpu)
        else {
            return Some((found.points, usual));
        };
        // Its own choice, if the GPU has room in other respects too; else the usual one.
        let rooms = fit::fraction_rooms(world, node, milli, memory_mib, isolation, kinds, scope);
        let mut candidate = usual;
        if rooms.map(|(_, id)| id).any(|id| id == gpu) {
            candidate.assignment.gpus =
                vec![fit::fraction_share(gpu, milli, memory_mib, isolation)];
        }
        Some((found.points, candidate))
    }

    /// Brings what is remembered up to this world.
    fn follow(&mut self, world: &World) {
        let count = world.nodes().len();
        let mut nodes = std::mem::take(&mut self.buffer);
        let known = self.follower.catch_up(world, &mut nodes);
        let learned = self.score.learns(world);
        if learned || !known || count != self.digests.len() {
            self.start_anew(world);
        } else {
            for id in nodes.iter().copied() {
                if let (Some(node), Some(digest)) =
                    (world.node(id), self.digests.get_mut(id.index()))
                {
                    *digest = Digest::of(world, node);
                    self.log.push(id);
                }
            }
        }
        self.buffer = nodes;
        // What no shape has to read any more is forgotten; who is further behind starts anew.
        if self.log.len() > 4 * count + 1024 {
            let gone = self.log.len() - count;
            self.log.drain(..gone);
            self.forgotten += gone as u64;
        }
    }

    fn start_anew(&mut self, world: &World) {
        self.shapes.clear();
        self.log.clear();
        self.digests = world
            .nodes()
            .iter()
            .map(|node| Digest::of(world, node))
            .collect();
        let mut order: Vec<NodeId> = (0..world.nodes().len() as u32).map(NodeId).collect();
        order.sort_by_key(|id| (rank_of(&self.ranks, *id), *id));
        self.places = vec![0; order.len()];
        for (id, place) in order.iter().zip(0..) {
            if let Some(at) = self.places.get_mut(id.index()) {
                *at = place;
            }
        }
        self.order = order;
    }

    /// The tournament of a shape, up to date.
    fn shape(&mut self, world: &World, ask: &WorkerAsk) -> &Shape {
        self.uses += 1;
        let now = self.forgotten + self.log.len() as u64;
        let Self {
            score,
            order,
            places,
            digests,
            log,
            shapes,
            most_shapes,
            ..
        } = self;
        let known = shapes.get(ask).is_some_and(|shape| {
            shape.until >= self.forgotten && now - shape.until <= order.len() as u64
        });
        if !known {
            if shapes.len() >= *most_shapes && !shapes.contains_key(ask) {
                // The one that was not used for longest; no two were used at once.
                let oldest = shapes.iter().min_by_key(|(_, shape)| shape.used);
                if let Some(oldest) = oldest.map(|(ask, _)| *ask) {
                    shapes.remove(&oldest);
                }
            }
            let kinds = kinds_of(world, ask);
            let scores = order
                .iter()
                .map(|id| points(score, digests, world, *id, ask, kinds));
            let shape = Shape {
                tree: Tree::new(scores),
                until: now,
                used: 0,
                kinds,
            };
            shapes.insert(*ask, shape);
        }
        let uses = self.uses;
        let shape = shapes.entry(*ask).or_insert_with(|| Shape {
            tree: Tree::new(std::iter::empty()),
            until: 0,
            used: 0,
            kinds: Kinds::NONE,
        });
        shape.used = uses;
        let behind = (shape.until - self.forgotten) as usize;
        let changed = log.get(behind..).unwrap_or_default();
        for id in changed {
            let place = places.get(id.index()).copied().unwrap_or(0);
            let points = points(score, digests, world, *id, ask, shape.kinds);
            shape.tree.set(place as usize, points);
        }
        shape.until = now;
        shape
    }
}

impl<S: Score + Send> NodeSelector for Indexed<S> {
    fn select(&mut self, world: &World, job: &StoredJob, search: Search<'_>) -> Option<Choice> {
        let ask = &job.worker;
        let small = match search.scope {
            Scope::Node(_) | Scope::Part(..) | Scope::Island(_) => true,
            Scope::Domain(_, domain) => world.domain_nodes(domain).len() <= SMALL,
            Scope::Fleet => false,
        };
        if small {
            return self.select_by_scan(world, ask, search);
        }
        self.follow(world);
        let free = search.scope == Scope::Fleet && search.without.is_empty();
        let shape = self.shape(world, ask);
        let candidates = shape.tree.inside();
        let id = if free {
            let (leaf, _) = shape.tree.top()?;
            *self.order.get(leaf)?
        } else {
            self.shape_first(ask, |id| search.allows(world, id))?
        };
        let usual = fit::assignment(world, id, ask, search.scope)?;
        let (points, candidate) = self.scored(world, id, ask, search.scope, usual)?;
        Some(choice(points, candidate, candidates))
    }
}

impl<S> Indexed<S> {
    fn shape_first(&self, ask: &WorkerAsk, allows: impl Fn(NodeId) -> bool) -> Option<NodeId> {
        let tree = &self.shapes.get(ask)?.tree;
        let node = |leaf: usize| self.order.get(leaf).copied();
        tree.find(|leaf| node(leaf).is_some_and(&allows))
            .and_then(node)
    }
}

fn rank_of(ranks: &[u32], id: NodeId) -> u32 {
    ranks.get(id.index()).copied().unwrap_or(id.0)
}

fn choice(points: i32, candidate: Candidate, candidates: u32) -> Choice {
    Choice {
        candidate,
        candidates,
        weighed: vec![("score".into(), i64::from(points))],
    }
}

fn kinds_of(world: &World, ask: &WorkerAsk) -> Kinds {
    match ask.gpu {
        GpuAsk::Whole { kinds, need, .. } => fit::kinds_with(world, kinds, need),
        other => other.kinds(),
    }
}

/// What a node is worth; [`OUT`] where the worker does not fit.
fn points<S: Score>(
    score: &mut S,
    digests: &[Digest],
    world: &World,
    id: NodeId,
    ask: &WorkerAsk,
    kinds: Kinds,
) -> i32 {
    let (Some(digest), Some(node)) = (digests.get(id.index()), world.node(id)) else {
        return OUT;
    };
    if !digest.fits(world, id, ask, kinds) {
        return OUT;
    }
    let mut many = Vec::new();
    let few = digest
        .free
        .get(..usize::from(digest.gpus).min(FEW))
        .unwrap_or_default();
    let free = if node.gpus.len() <= FEW {
        few
    } else {
        free_of(world, node, &mut many);
        &many
    };
    let view = View {
        world,
        id,
        node,
        free,
        kind: digest.kind,
    };
    score.score(&view, ask).points.max(OUT + 1)
}
