//! What surrounds GPUs, what work asks of it, and where the two do not match. Data only.

use crate::estimate::{Derivation, Estimate};
use alloc::{string::String, vec::Vec};
use gpuwise_units::{Bytes, BytesPerSecond, HourlyPrice};

/// A node: its processors, memory, buses, network and storage. What is not known is `None`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HostSystem {
    /// Its name: a file's, or a shape of the catalogue.
    pub name: String,
    pub source: String,
    /// Catalogue name of its GPU.
    pub gpu: Option<String>,
    pub gpus: Option<u32>,
    pub sockets: Option<u32>,
    /// Physical cores of all sockets.
    pub cores: Option<f64>,
    /// Clock of a core under load, in 10⁹ a second.
    pub clock_ghz: Option<f64>,
    pub memory: Option<Bytes>,
    pub numa_nodes: Option<u32>,
    /// One direction of a GPU's own link to the host.
    pub pcie: Option<BytesPerSecond>,
    /// GPUs that share one such link upwards through a switch; 1 where each has its own.
    pub pcie_sharers: Option<u32>,
    /// Whether GPUs are joined by more than PCIe (NVLink, xGMI).
    pub fast_link: Option<bool>,
    /// Whether GPUs reach each other's memory across sockets (PCIe peer to peer).
    pub peer_to_peer: Option<bool>,
    /// Network of the node, all adapters, one direction.
    pub network: Option<BytesPerSecond>,
    /// Storage that data and weights are read from, as one node reads it.
    pub storage_read: Option<BytesPerSecond>,
    pub storage_write: Option<BytesPerSecond>,
    /// What that storage is, in words.
    pub storage_kind: Option<String>,
}

/// What a job does on one node in one step, if nothing but its GPUs held it up.
///
/// A step is an optimizer step, a batch, or, in serving, a second of the asked load: then `seconds`
/// is 1 and amounts are those of a second.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HostWork {
    /// In words, such as `training of meta-llama/Llama-3.1-8B`.
    pub name: String,
    pub seconds: f64,
    /// GPUs in use on one node.
    pub gpus: u32,
    pub nodes: u32,
    /// Processes that each keep a core busy: one a GPU, one an engine.
    pub processes: u32,
    pub cores: CoreWork,
    /// Bytes of storage that the samples of a step are read as.
    pub stored: Bytes,
    /// Bytes that a step moves from host to GPUs and back beside its computation: samples, cache
    /// that was put out, all GPUs of the node.
    pub copied: Bytes,
    /// The same where GPUs wait for it: states that were offloaded.
    pub offloaded: Bytes,
    /// GPUs of a group that exchange activations within the node.
    pub group: u32,
    /// Bytes that each GPU of a group sends in a step.
    pub exchanged: Bytes,
    /// Bytes that the node sends over the network in a step.
    pub sent: Bytes,
    /// Share of a step under which sends can hide.
    pub hidden: f64,
    pub held: Bytes,
    /// Bytes of weights that the node reads before it starts.
    pub weights: Bytes,
    /// Bytes of a checkpoint that the node writes while GPUs wait; 0: none.
    pub checkpoint: Bytes,
    /// Seconds between two of them.
    pub checkpoint_every: Option<f64>,
    /// GPUs' price of one node; unknown is not 0.
    pub node_price: Option<HourlyPrice>,
}

/// What cores do in a step on one node.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CoreWork {
    /// Encoded bytes of images that are decoded and augmented.
    pub images: Bytes,
    /// Tokens that are made of text.
    pub tokenized: f64,
    /// Tokens that are turned to text and streamed.
    pub streamed: f64,
    /// Core-seconds that the user states, of a core as it is.
    pub stated: f64,
}

gpuwise_units::named! {
    /// A part of a node, or the GPUs themselves.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Part:
        name
    {
        /// Cores: decoding, tokenizing, driving GPUs.
        Cpu = "CPU cores",
        HostMemory = "host memory",
        /// PCIe between host and GPU.
        Pcie = "PCIe",
        /// Traffic that crosses sockets.
        Numa = "NUMA",
        /// Links between GPUs of a node.
        Link = "link between GPUs",
        StorageRead = "storage reads",
        StorageWrite = "storage writes",
        Network = "network",
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PartUnit {
    /// Cores of the reference clock.
    Cores,
    Bytes,
    BytesPerSecond,
}

/// What one part must have, what it has, and what a shortage does.
#[derive(Debug, Clone, PartialEq)]
pub struct PartBalance {
    pub part: Part,
    pub unit: PartUnit,
    /// What keeps GPUs busy.
    pub needed: Estimate,
    /// What the host has; `None`: the host does not say.
    pub has: Option<f64>,
    /// By how much the job is slower than with as much of this part as it wants: 1.3 is 30 % longer.
    /// Infinite: it does not run at all.
    pub slower: f64,
    /// Whether that is more than the share below which nobody would act.
    pub short: bool,
    /// What the shortage wastes on a node, where the price is known.
    pub wasted_per_hour: Option<HourlyPrice>,
    /// What needs it, in a clause.
    pub why: String,
    pub derivation: Derivation,
}

/// What a job asks of the host around its GPUs, part by part.
#[derive(Debug, Clone, PartialEq)]
pub struct Balance {
    pub work: HostWork,
    /// The host; its name is empty where none was given.
    pub host: HostSystem,
    /// Parts that the job uses, those that hold it up most first.
    pub parts: Vec<PartBalance>,
    /// Seconds of a step over seconds with every part sufficient.
    pub slower: f64,
    /// Seconds from storage to GPUs before the job starts, and the slowest way on it.
    pub start: Option<(f64, Part)>,
    /// What had to be assumed, in sentences.
    pub notes: Vec<String>,
}

impl Balance {
    /// What holds the job up most, where anything does.
    pub fn cause(&self) -> Option<&PartBalance> {
        self.parts.first().filter(|part| part.short)
    }

    /// Parts of which the host does not say what it has.
    pub fn unknown(&self) -> impl Iterator<Item = Part> {
        self.parts
            .iter()
            .filter(|part| part.has.is_none())
            .map(|part| part.part)
    }
}

/// A constant of the balance, with what it means and where it comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct BalanceConstant {
    pub name: String,
    pub value: f64,
    /// Lower end of what was seen.
    pub low: f64,
    /// Upper end of what was seen.
    pub high: f64,
    pub unit: String,
    pub meaning: String,
    pub source: String,
}
