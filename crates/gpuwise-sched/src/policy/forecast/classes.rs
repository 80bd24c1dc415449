//! Nodes that are alike now, taken together.

use super::{
    builds::{BUILDS, Builds},
    mix::{Mix, WIDTHS},
    room::Room,
    value::{RoomValue, Values},
};
use crate::world::{NodeState, Tenancy, World};
use gpuwise_domain::placement::NodeId;
use gpuwise_units::math::mixed;
use rustc_hash::{FxHashMap, FxHasher};
use std::{
    collections::BTreeSet,
    hash::{Hash as _, Hasher as _},
};

/// Nodes on which the same asks fit in the same way.
#[derive(Debug, Clone)]
pub(super) struct Class {
    /// Changes when the place of this class is given to another.
    pub(super) generation: u32,
    pub(super) room: Room,
    pub(super) worth: RoomValue,
    pub(super) members: BTreeSet<(u32, NodeId)>,
    key: Key,
    /// Under which it is found.
    hash: u64,
}

/// What a look over all classes needs of each, side by side in memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    pub(super) generation: u32,
    pub(super) build: u32,
    pub(super) members: u32,
    /// The node of lowest rank.
    pub(super) rank: u32,
    pub(super) node: NodeId,
}

/// All that decides what fits a node, and what its room is worth.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    /// Nodes of one build share its price, so that a class has one.
    build: u64,
    cpu: u64,
    memory: u64,
    /// Kind, way of sharing, time and memory that are free of each GPU; in order of size, as it does not
    /// matter which is which.
    gpus: Vec<(u32, u32, u32, u32)>,
    /// The node and its revision where this does not say all.
    alone: Option<(NodeId, u64)>,
}

/// What is free in the fleet, by build of nodes: GPU time in millionths, then places in thousandths.
pub(super) type Totals = [[i64; WIDTHS + 1]; BUILDS];

/// All nodes of a fleet that take work, by class.
#[derive(Debug, Clone)]
pub(super) struct Classes {
    pub(super) list: Vec<Class>,
    pub(super) heads: Vec<Head>,
    pub(super) totals: Box<Totals>,
    pub(super) builds: Builds,
    free: Vec<u32>,
    /// By a hash of the key, and where another has that, by a hash of it: a table of keys would look at each of
    /// them when it is laid out anew, which is felt where there are a hundred thousand.
    by_hash: FxHashMap<u64, u32>,
    /// Of each node: its revision and its class.
    nodes: Vec<Option<(u64, u32)>>,
    ranks: Vec<u32>,
    generations: u32,
    /// Nodes that came to classes or left them, in order, and how many that was before those.
    log: Vec<Change>,
    forgotten: u64,
}

/// A node came to a class or left it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change {
    pub(super) class: u32,
    pub(super) generation: u32,
    pub(super) came: bool,
}

impl Classes {
    pub(super) fn new(ranks: Vec<u32>) -> Self {
        Self {
            list: Vec::new(),
            heads: Vec::new(),
            totals: Box::new([[0; WIDTHS + 1]; BUILDS]),
            builds: Builds::default(),
            free: Vec::new(),
            by_hash: FxHashMap::default(),
            nodes: Vec::new(),
            ranks,
            generations: 0,
            log: Vec::new(),
            forgotten: 0,
        }
    }

    /// How many changes of classes there were.
    pub(super) const fn changes(&self) -> u64 {
        self.forgotten + self.log.len() as u64
    }

    /// Those after so many; `None`: not all of them are known any more.
    pub(super) fn changes_since(&self, count: u64) -> Option<&[Change]> {
        let at = count.checked_sub(self.forgotten)?;
        self.log.get(at as usize..)
    }

    /// Nobody can follow from what was before to what is now.
    fn break_off(&mut self) {
        self.forgotten = self.changes() + 1;
        self.log.clear();
    }

    fn note(&mut self, class: usize, came: bool) {
        let Some(generation) = self.list.get(class).map(|class| class.generation) else {
            return;
        };
        // Who is further behind than this looks at all classes at once.
        if self.log.len() > self.list.len() + 4096 {
            let gone = self.log.len() / 2;
            self.log.drain(..gone);
            self.forgotten += gone as u64;
        }
        self.log.push(Change {
            class: class as u32,
            generation,
            came,
        });
    }

    /// Forgets all nodes: they are of another fleet. Generations go on, so that nothing that was computed
    /// of a class is taken for another's. Gives how they were built.
    pub(super) fn clear(&mut self) -> Builds {
        let ranks = core::mem::take(&mut self.ranks);
        self.break_off();
        let anew = Self {
            generations: self.generations,
            forgotten: self.forgotten,
            ..Self::new(ranks)
        };
        core::mem::replace(self, anew).builds
    }

    /// Values every class anew: the mix has changed.
    pub(super) fn value(&mut self, mix: &Mix, values: &mut Values) {
        *self.totals = [[0; WIDTHS + 1]; BUILDS];
        self.break_off();
        for at in 0..self.list.len() {
            self.generations += 1;
            let Some(class) = self.list.get_mut(at) else {
                continue;
            };
            class.generation = self.generations;
            class.worth = values.worth(mix, class.room);
            let members = class.members.len() as u32;
            self.count(at, i64::from(members));
            self.tell(at);
        }
    }

    /// Puts a node where it belongs now.
    pub(super) fn place(&mut self, world: &World, id: NodeId, mix: &Mix, values: &mut Values) {
        let Some(node) = world.node(id) else {
            return;
        };
        if self.nodes.len() < world.nodes().len() {
            self.nodes.resize(world.nodes().len(), None);
            // There are no more classes than nodes. A table that is never half full never grows.
            let most = 2 * self.nodes.len();
            self.by_hash
                .reserve(most.saturating_sub(self.by_hash.len()));
        }
        let rank = self.ranks.get(id.index()).copied().unwrap_or(id.0);
        if let Some((revision, class)) = self.nodes.get(id.index()).copied().flatten() {
            if revision == node.revision {
                return;
            }
            self.leave(class as usize, rank, id);
        }
        let class = node
            .takes_work()
            .then(|| self.join(world, node, id, rank, mix, values));
        if let Some(known) = self.nodes.get_mut(id.index()) {
            *known = class.map(|class| (node.revision, class));
        }
    }

    /// The class of a node, and the node's rank; `None`: it takes no work.
    pub(super) fn of(&self, id: NodeId) -> Option<(usize, u32)> {
        let (_, class) = self.nodes.get(id.index()).copied().flatten()?;
        let rank = self.ranks.get(id.index()).copied().unwrap_or(id.0);
        Some((class as usize, rank))
    }

    fn join(
        &mut self,
        world: &World,
        node: &NodeState,
        id: NodeId,
        rank: u32,
        mix: &Mix,
        values: &mut Values,
    ) -> u32 {
        let build = self.builds.of(id);
        let key = Key::of(world, node, id, build);
        let at = match self.find(&key) {
            Ok(at) => at,
            Err(hash) => {
                let room = Room::of(world, node, build);
                let worth = values.worth(mix, room);
                self.open((key, hash), room, worth)
            }
        };
        if let Some(class) = self.list.get_mut(at as usize) {
            class.members.insert((rank, id));
        }
        self.count(at as usize, 1);
        self.tell(at as usize);
        self.note(at as usize, true);
        at
    }

    /// The class of a key, or the hash under which it is to be found. Of two keys with one hash the second may be
    /// looked for in vain when the first is gone: then it has two classes, in which its nodes are alike.
    fn find(&self, key: &Key) -> Result<u32, u64> {
        let mut hasher = FxHasher::default();
        key.hash(&mut hasher);
        let mut hash = mixed(hasher.finish());
        while let Some(at) = self.by_hash.get(&hash) {
            let class = self.list.get(*at as usize);
            if class.is_some_and(|class| class.key == *key) {
                return Ok(*at);
            }
            hash = mixed(hash.wrapping_add(1));
        }
        Err(hash)
    }

    fn open(&mut self, (key, hash): (Key, u64), room: Room, worth: RoomValue) -> u32 {
        self.generations += 1;
        let class = Class {
            generation: self.generations,
            room,
            worth,
            members: BTreeSet::new(),
            key,
            hash,
        };
        let at = self.free.pop().unwrap_or(self.list.len() as u32);
        match self.list.get_mut(at as usize) {
            Some(place) => *place = class,
            None => self.list.push(class),
        }
        self.by_hash.insert(hash, at);
        at
    }

    fn leave(&mut self, at: usize, rank: u32, id: NodeId) {
        self.count(at, -1);
        let Some(class) = self.list.get_mut(at) else {
            return;
        };
        class.members.remove(&(rank, id));
        if class.members.is_empty() {
            self.by_hash.remove(&class.hash);
            self.free.push(at as u32);
        }
        self.tell(at);
        self.note(at, false);
    }

    /// Brings the head of a class up to it.
    fn tell(&mut self, at: usize) {
        let Some(class) = self.list.get(at) else {
            return;
        };
        let (rank, node) = class.members.first().copied().unwrap_or_default();
        let head = Head {
            generation: class.generation,
            build: class.room.build_number() as u32,
            members: class.members.len() as u32,
            rank,
            node,
        };
        match self.heads.get_mut(at) {
            Some(place) => *place = head,
            None => self.heads.push(head),
        }
    }

    /// Counts so many nodes of a class in.
    fn count(&mut self, at: usize, nodes: i64) {
        let Some(class) = self.list.get(at) else {
            return;
        };
        let Some(totals) = self.totals.get_mut(class.room.build_number()) else {
            return;
        };
        let places = class.worth.places.iter().map(|places| i64::from(*places));
        let parts = core::iter::once(class.worth.micro).chain(places);
        for (total, part) in totals.iter_mut().zip(parts) {
            *total += nodes * part;
        }
    }
}

impl Key {
    fn of(world: &World, node: &NodeState, id: NodeId, build: u64) -> Self {
        let mut alone = node.gpus.len() != node.node.gpus.len() || !node.node.pools.is_empty();
        let mut gpus = Vec::with_capacity(node.gpus.len());
        for gpu in node.gpus.iter().filter_map(|id| world.gpu(*id)) {
            let kind = gpu.gpu.kind.0;
            // 0: nothing more; 1: all; above: a part, shared in a way.
            let (way, milli, memory) = match &gpu.held {
                _ if !gpu.takes_work() => (0, 0, 0),
                Tenancy::Whole(_) => (0, 0, 0),
                Tenancy::Free => (1, 1000, 0),
                Tenancy::Shared {
                    isolation,
                    milli_free,
                    memory_free,
                    ..
                } => (
                    isolation.code().saturating_add(2),
                    *milli_free,
                    memory_free.unwrap_or(u32::MAX),
                ),
                Tenancy::Sliced(_) => {
                    alone = true;
                    (0, 0, 0)
                }
            };
            gpus.push((kind, way, milli, memory));
        }
        // Of several kinds the first that has enough is taken, so their order matters.
        if gpus
            .iter()
            .all(|gpu| Some(gpu.0) == gpus.first().map(|first| first.0))
        {
            gpus.sort_unstable();
        } else {
            alone = true;
        }
        Self {
            build,
            cpu: node.cpu_free,
            memory: node.memory_free,
            gpus,
            alone: alone.then_some((id, node.revision)),
        }
    }
}
