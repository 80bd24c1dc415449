//! A fleet and who holds what of it, arranged for looking at.

use gpuwise_domain::placement::{
    DomainId, Fleet, FleetGpu, GpuId, GpuKind, Health, Holding, Level, Moment, Node, NodeId, Part,
};
use std::collections::BTreeMap;

#[derive(Debug)]
pub struct Scene<'a> {
    pub fleet: &'a Fleet,
    moment: &'a Moment,
    held: BTreeMap<GpuId, Vec<&'a Holding>>,
    idle: BTreeMap<GpuId, Vec<(u8, u8)>>,
    attached: BTreeMap<NodeId, Vec<GpuId>>,
}

gpuwise_units::named! {
    /// What is the matter with a GPU, told by a mark of its own each.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Use: word {
        /// Nobody holds any of it.
        Free = "free",
        /// One worker holds all of it.
        Whole = "held",
        /// Workers share its time.
        Shared = "shared",
        /// It is cut into MIG instances, or MIG is on.
        Cut = "MIG",
        /// What runs there may end; nothing new starts.
        Draining = "draining",
        Maintenance = "maintenance",
        Lost = "lost",
    }
}

impl Use {
    pub const fn mark(self) -> char {
        match self {
            Self::Free => '□',
            Self::Whole => '■',
            Self::Shared => '◧',
            Self::Cut => '▤',
            Self::Draining => '▲',
            Self::Maintenance => '◇',
            Self::Lost => '✗',
        }
    }
}

impl<'a> Scene<'a> {
    pub fn new(fleet: &'a Fleet, moment: &'a Moment) -> Self {
        let mut held: BTreeMap<GpuId, Vec<&Holding>> = BTreeMap::new();
        for holding in &moment.holdings {
            held.entry(holding.gpu).or_default().push(holding);
        }
        let mut idle: BTreeMap<GpuId, Vec<(u8, u8)>> = BTreeMap::new();
        for (gpu, shape, start) in &moment.idle {
            idle.entry(*gpu).or_default().push((*shape, *start));
        }
        let mut attached: BTreeMap<NodeId, Vec<GpuId>> = BTreeMap::new();
        for (gpu, node) in &moment.attached {
            attached.entry(*node).or_default().push(*gpu);
        }
        Self {
            fleet,
            moment,
            held,
            idle,
            attached,
        }
    }

    pub fn moment(&self) -> &'a Moment {
        self.moment
    }

    pub fn gpu(&self, gpu: GpuId) -> Option<&'a FleetGpu> {
        self.fleet.gpus.get(gpu.index())
    }

    pub fn kind(&self, gpu: GpuId) -> Option<&'a GpuKind> {
        let kind = self.gpu(gpu)?.kind;
        self.fleet.kinds.get(kind.index())
    }

    pub fn holdings(&self, gpu: GpuId) -> &[&'a Holding] {
        self.held.get(&gpu).map_or(&[], Vec::as_slice)
    }

    /// MIG instances of a GPU that nobody holds, as profile and start.
    pub fn idle(&self, gpu: GpuId) -> &[(u8, u8)] {
        self.idle.get(&gpu).map_or(&[], Vec::as_slice)
    }

    /// The GPUs of a node now: its own, then attached ones.
    pub fn gpus_of(&self, node: NodeId) -> impl Iterator<Item = GpuId> + '_ {
        let own = self.fleet.nodes.get(node.index());
        let own = own.map_or(&[][..], |node| &node.gpus);
        let attached = self.attached.get(&node).map_or(&[][..], Vec::as_slice);
        own.iter().chain(attached).copied()
    }

    /// Thousandths of a GPU that are held; an instance counts by its share of compute slices.
    pub fn held_milli(&self, gpu: GpuId) -> u32 {
        let slices = self.kind(gpu).and_then(|kind| kind.mig.as_ref());
        let of = |holding: &&Holding| match holding.part {
            Part::Whole => 1000,
            Part::Fraction { milli, .. } => milli,
            Part::Slice { shape, .. } => slices.map_or(0, |board| {
                let compute = board.shape(shape).map_or(0, |row| u32::from(row.compute));
                compute * 1000 / u32::from(board.compute_slices.max(1))
            }),
        };
        self.holdings(gpu).iter().map(of).sum::<u32>().min(1000)
    }

    pub fn use_of(&self, gpu: GpuId, node: Health) -> Use {
        let Some(state) = self.gpu(gpu) else {
            return Use::Free;
        };
        match (node, state.health) {
            (Health::Lost { .. }, _) | (_, Health::Lost { .. }) => return Use::Lost,
            (Health::Maintenance, _) | (_, Health::Maintenance) => return Use::Maintenance,
            (Health::Draining, _) | (_, Health::Draining) => return Use::Draining,
            (Health::Up, Health::Up) => {}
        }
        let holdings = self.holdings(gpu);
        let slice = |one: &&Holding| matches!(one.part, Part::Slice { .. });
        if state.mig_on || !self.idle(gpu).is_empty() || holdings.iter().any(slice) {
            Use::Cut
        } else if holdings.is_empty() {
            Use::Free
        } else if holdings.iter().any(|one| one.part == Part::Whole) {
            Use::Whole
        } else {
            Use::Shared
        }
    }

    /// Marks of a node's GPUs, those of one NVLink island together.
    pub fn marks(&self, id: NodeId, node: &Node) -> String {
        let mut out = String::new();
        let mut before = None;
        for gpu in self.gpus_of(id) {
            let island = self.gpu(gpu).map(|gpu| gpu.island);
            if before.is_some() && before != Some(island) {
                out.push(' ');
            }
            before = Some(island);
            out.push(self.use_of(gpu, node.health).mark());
        }
        out
    }

    pub fn domain(&self, node: &Node, level: Level) -> Option<(DomainId, &'a str)> {
        let mut next = node.domain;
        while let Some(id) = next {
            let domain = self.fleet.domains.get(id.index())?;
            if domain.level == level {
                return Some((id, &domain.name));
            }
            // Parents come before their children, so this ends.
            next = domain.parent.filter(|parent| *parent < id);
        }
        None
    }

    pub fn placed(&self) -> impl Iterator<Item = (NodeId, &'a Node, GpuId)> + '_ {
        let nodes = (0..).map(NodeId).zip(&self.fleet.nodes);
        nodes.flat_map(move |(id, node)| self.gpus_of(id).map(move |gpu| (id, node, gpu)))
    }
}
