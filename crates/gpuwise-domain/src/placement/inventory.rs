//! What there is: nodes, GPUs, how they are joined, and what is reserved for whom.

use super::{
    DomainId, GpuId, IslandId, KindId, MigGeometry, NodeId, PoolId, Queue, QueueId, Scheduling,
    Sharing, Uid,
};
use alloc::{borrow::Cow, collections::BTreeSet, format, string::String, vec::Vec};
use gpuwise_units::{HourlyPrice, Nanoseconds};

/// A fleet as its files describe it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Fleet {
    pub name: String,
    /// Kinds of GPU, by [`KindId`].
    pub kinds: Vec<GpuKind>,
    /// Nodes, by [`NodeId`].
    pub nodes: Vec<Node>,
    /// GPUs, by [`GpuId`]: those of nodes first, node by node in the driver's order, then those of pools.
    pub gpus: Vec<FleetGpu>,
    /// Racks, blocks, zones, by [`DomainId`].
    pub domains: Vec<Domain>,
    /// Islands of NVLink or its like: their names, by [`IslandId`].
    pub islands: Vec<String>,
    /// Fabric pools, by [`PoolId`].
    pub pools: Vec<FabricPool>,
    /// Queues, by [`QueueId`]; parents before their children.
    pub queues: Vec<Queue>,
    /// GPUs reserved for queues and when.
    pub reservations: Vec<Reservation>,
    pub sharing: Sharing,
    /// In which order those who wait are taken, and who may go ahead.
    pub scheduling: Scheduling,
}

impl Fleet {
    /// What of it cannot be, if anything: numbers of things that are not there, names and ids that stand twice, GPUs
    /// that are nobody's or two nodes', MIG on what cannot be cut. Files are told so by their lines; documents come from
    /// anywhere.
    pub fn problem(&self) -> Option<String> {
        let mut named = self.clone();
        named.name_uids();
        named
            .wrong_node()
            .or_else(|| named.wrong_gpu())
            .or_else(|| {
                let domains = (0..).zip(&self.domains);
                let mut parents =
                    domains.filter_map(|(at, one)| Some((at, one.name.as_str(), one.parent?)));
                let late = parents.find(|(at, _, parent)| parent.index() >= *at);
                late.map(|(_, name, _)| {
                    format!("domain {name}: its parent does not come before it")
                })
            })
    }

    fn wrong_node(&self) -> Option<String> {
        let (mut names, mut uids) = (BTreeSet::new(), BTreeSet::new());
        let mut owned = BTreeSet::new();
        for node in &self.nodes {
            let name = &node.name;
            if name.is_empty() {
                return Some("a node has no name".into());
            }
            if !names.insert(name) || !uids.insert(node.uid.as_str()) {
                return Some(format!("node {name} is there twice"));
            }
            if node
                .domain
                .is_some_and(|one| one.index() >= self.domains.len())
            {
                return Some(format!("node {name} is in a domain that is not there"));
            }
            if node.pools.iter().any(|one| one.index() >= self.pools.len()) {
                return Some(format!("node {name} is of a pool that is not there"));
            }
            let mut indices = BTreeSet::new();
            for id in &node.gpus {
                let Some(gpu) = self.gpus.get(id.index()) else {
                    return Some(format!("node {name} has a GPU that is not there"));
                };
                let home = NodeId(uids.len() as u32 - 1);
                if !owned.insert(*id) || gpu.home != Home::Node(home) {
                    return Some(format!("a GPU of node {name} is elsewhere, too"));
                }
                if !indices.insert(gpu.index) {
                    return Some(format!("node {name} has two GPUs {}", gpu.index));
                }
            }
        }
        let at_node = |gpu: &FleetGpu| matches!(gpu.home, Home::Node(_));
        let all = self.gpus.iter().filter(|gpu| at_node(gpu)).count();
        (all != owned.len()).then(|| "a GPU is at a node that does not name it".into())
    }

    fn wrong_gpu(&self) -> Option<String> {
        let mut uids = BTreeSet::new();
        for gpu in &self.gpus {
            let uid = &gpu.uid;
            let Some(kind) = self.kinds.get(gpu.kind.index()) else {
                return Some(format!("GPU {uid} is of a kind that is not there"));
            };
            if !uids.insert(uid.as_str()) {
                return Some(format!("GPU {uid} is there twice"));
            }
            if gpu.mig_on && kind.mig.is_none() {
                return Some(format!(
                    "MIG is on for GPU {uid}, and {} cannot be cut",
                    kind.name
                ));
            }
            if gpu
                .island
                .is_some_and(|one| one.index() >= self.islands.len())
            {
                return Some(format!("GPU {uid} is in an island that is not there"));
            }
            if matches!(gpu.home, Home::Pool(one) if one.index() >= self.pools.len()) {
                return Some(format!("GPU {uid} is in a pool that is not there"));
            }
        }
        None
    }

    /// Gives lasting ids, made from names, to nodes and GPUs that have none.
    pub fn name_uids(&mut self) {
        for node in &mut self.nodes {
            node.name_uid();
        }
        for gpu in &mut self.gpus {
            let home = match gpu.home {
                Home::Node(node) => self.nodes.get(node.index()).map(|node| node.uid.as_str()),
                Home::Pool(pool) => self.pools.get(pool.index()).map(|pool| pool.name.as_str()),
            };
            gpu.name_uid(home.unwrap_or("?"));
        }
    }
}

#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct GpuKind {
    /// Its name: the catalogue's where it is known there. Several kinds have one name where their nodes' features
    /// differ.
    pub name: String,
    /// Features of the nodes that it is in, such as Slurm's, sorted.
    pub features: Vec<String>,
    /// Memory in MiB; `None`: unknown (a trace does not say).
    pub memory_mib: Option<u32>,
    /// Streaming multiprocessors or compute units.
    pub units: Option<u32>,
    /// Peak memory bandwidth in GB/s (10⁹ bytes).
    pub bandwidth_gbs: Option<u32>,
    /// Dense peak at 16 bits in TFLOP/s.
    pub tflops: Option<u32>,
    /// What one costs an hour.
    pub price: Option<HourlyPrice>,
    /// How it can be cut; `None`: it cannot.
    pub mig: Option<MigGeometry>,
}

impl GpuKind {
    /// A kind of which nothing but its name is known.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            features: Vec::new(),
            memory_mib: None,
            units: None,
            bandwidth_gbs: None,
            tflops: None,
            price: None,
            mig: None,
        }
    }

    /// Names of kinds, each once and in their order: those that differ in their nodes' features have one.
    pub fn names<'a>(kinds: impl IntoIterator<Item = &'a Self>) -> Vec<&'a str> {
        let mut names: Vec<&str> = Vec::new();
        for kind in kinds {
            if !names.contains(&kind.name.as_str()) {
                names.push(&kind.name);
            }
        }
        names
    }

    /// Whether its nodes have all of these features.
    pub fn has_features(&self, features: &[String]) -> bool {
        features.iter().all(|one| self.features.contains(one))
    }

    /// Its name, and the features of its nodes: `H200 (ib, nvme)`.
    pub fn label(&self) -> Cow<'_, str> {
        if self.features.is_empty() {
            return Cow::Borrowed(&self.name);
        }
        Cow::Owned(format!("{} ({})", self.name, self.features.join(", ")))
    }
}

#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct Node {
    pub name: String,
    /// What it is called for as long as it exists; where nobody gave it one, its name.
    pub uid: Uid,
    /// Processor time in thousandths of a core; [`Node::CPU_UNKNOWN`]: it is not known.
    pub cpu_milli: u64,
    /// Memory in MiB; [`Node::MEMORY_UNKNOWN`]: it is not known.
    pub memory_mib: u64,
    /// Its own GPUs, in the driver's order; pooled ones are not among them.
    pub gpus: Vec<GpuId>,
    /// The innermost domain that it is in (its rack).
    pub domain: Option<DomainId>,
    /// The fabric pools whose GPUs can be attached to it.
    pub pools: Vec<PoolId>,
    /// Pooled GPUs that can be attached to it at once.
    pub slots: u32,
    pub health: Health,
}

impl Node {
    /// Gives it its name as its lasting id, where it has none.
    pub fn name_uid(&mut self) {
        if self.uid.is_empty() {
            self.uid = self.name.as_str().into();
        }
    }

    /// Stands for processor time that is not known: more than any node has, so that it limits nobody.
    pub const CPU_UNKNOWN: u64 = 1 << 30;
    /// Stands for memory that is not known: more than any node has, so that it limits nobody.
    pub const MEMORY_UNKNOWN: u64 = 1 << 40;

    /// Processor time in thousandths of a core, where it is known.
    pub const fn cpu(&self) -> Option<u64> {
        if self.cpu_milli < Self::CPU_UNKNOWN {
            Some(self.cpu_milli)
        } else {
            None
        }
    }

    /// Memory in MiB, where it is known.
    pub const fn memory(&self) -> Option<u64> {
        if self.memory_mib < Self::MEMORY_UNKNOWN {
            Some(self.memory_mib)
        } else {
            None
        }
    }
}

#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct FleetGpu {
    pub kind: KindId,
    /// The driver's UUID of it; where that is not known, `NODE/INDEX` or `POOL/INDEX`.
    pub uid: Uid,
    pub home: Home,
    /// Its number in its node or pool, as the driver counts.
    pub index: u32,
    /// NUMA node of its host.
    pub numa: Option<u32>,
    /// PCIe switch of its host; GPUs and NICs on one switch reach each other without the host bridge.
    pub switch: Option<u32>,
    /// The island of NVLink or its like that it is in.
    pub island: Option<IslandId>,
    pub rail: Option<u32>,
    pub health: Health,
    pub mig_on: bool,
}

impl FleetGpu {
    /// Gives it a lasting id made from its home's, where it has none.
    pub fn name_uid(&mut self, home: &str) {
        if self.uid.is_empty() {
            self.uid = format!("{home}/{}", self.index).into();
        }
    }

    /// One that is up, with MIG off, of whose surroundings nothing is known.
    pub fn new(kind: KindId, home: Home, index: u32) -> Self {
        Self {
            kind,
            uid: Uid::default(),
            home,
            index,
            numa: None,
            switch: None,
            island: None,
            rail: None,
            health: Health::Up,
            mig_on: false,
        }
    }
}

/// Where a GPU belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Home {
    /// In a node for good.
    Node(NodeId),
    Pool(PoolId),
}

/// Whether something can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub enum Health {
    #[default]
    Up,
    /// What runs there may end; nothing new starts (cordon, drain).
    Draining,
    Maintenance,
    /// Lost: the node does not answer, or the GPU reported this XID (0: none was given).
    Lost {
        /// The XID of the driver's message.
        xid: u32,
    },
}

impl Health {
    /// Whether something new may start.
    pub const fn takes_work(self) -> bool {
        matches!(self, Self::Up)
    }

    /// Whether what runs there goes on.
    pub const fn keeps_work(self) -> bool {
        matches!(self, Self::Up | Self::Draining)
    }
}

/// A place in the topology above nodes.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Domain {
    pub name: String,
    pub level: Level,
    /// The domain that it is in; always an earlier one.
    pub parent: Option<DomainId>,
}

gpuwise_units::named! {
    /// How near workers can be, nearest first.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
    pub enum Level:
        name
    {
        /// On GPUs of one PCIe switch.
        Switch = "switch",
        /// On GPUs of one NUMA node.
        Numa = "numa",
        /// On GPUs of one island of NVLink or its like.
        Island = "nvlink",
        Node = "node",
        Rack = "rack",
        /// In one block of racks (a leaf or spine group).
        Block = "block",
        Zone = "zone",
    }
}

/// GPUs that can be attached to any node of the pool.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FabricPool {
    pub name: String,
    /// From asking for a GPU until the node can use it.
    pub attach: Nanoseconds,
    /// From giving a GPU back until another node can ask for it.
    pub detach: Nanoseconds,
    /// Whether GPUs come and go while jobs run on the node. Where not, the node is taken apart and composed anew:
    /// nothing runs on it meanwhile.
    pub hot_plug: bool,
}

/// GPUs reserved for a queue over a span of time.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Reservation {
    pub name: String,
    pub queue: QueueId,
    pub node: NodeId,
    /// How many whole GPUs of it.
    pub gpus: u32,
    pub from: Nanoseconds,
    /// Until when, that moment not included.
    pub until: Nanoseconds,
}
