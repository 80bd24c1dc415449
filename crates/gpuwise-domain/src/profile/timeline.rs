//! What one profiled process did on its GPUs and on the host, in integer nanoseconds.
//!
//! Readers of every trace format end here. Times are nanoseconds on the file's own clock, as the
//! file states them: clocks of different hosts do not compare. A span is `[start, end)`.

use alloc::{boxed::Box, string::String, vec::Vec};

/// A trace of one process (one rank), whichever profiler wrote it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Timeline {
    pub format: Format,
    /// Nanoseconds since 1970 at time zero of this clock, where the file says so.
    pub epoch_ns: Option<i64>,
    /// Names and versions of the software that the file states (`nsys 2026.2.1`, `CUDA 12.4`).
    pub software: Vec<(String, String)>,
    /// The place of the process among others, where the file says so.
    pub rank: Option<Rank>,
    /// Devices, in ascending order of their number in the file.
    pub devices: Vec<Device>,
    /// Streams of devices, in order of first use.
    pub streams: Vec<Stream>,
    /// Host threads, in order of first use.
    pub threads: Vec<Thread>,
    /// Every name that a span has, once.
    pub names: Names,
    /// Work on GPUs: kernels, copies, fills. In the order of the file.
    pub work: Vec<Work>,
    /// What is known of single pieces of work beyond their time; equal ones are stored once.
    pub details: Vec<Detail>,
    /// Calls of the GPU's runtime and driver on the host.
    pub calls: Vec<HostSpan>,
    /// Operators of the framework on the host (`aten::mm`).
    pub operators: Vec<HostSpan>,
    /// What operators were given, for those whose work can be counted; equal ones are stored once.
    pub operands: Vec<Operands>,
    /// Ranges that the framework or the user named: steps, data loaders, NVTX.
    pub annotations: Vec<HostSpan>,
    /// Calls of the model's modules (`nn.Module: Linear_0`), where the file has Python's.
    pub modules: Vec<HostSpan>,
    /// Where a compiler says that each piece of [`Timeline::work`] comes from, in the same order; empty
    /// in files of which none says so.
    pub origins: Vec<Origin>,
    /// Operators by which autograd computed gradients, in the order of their place.
    pub backward: Vec<Backward>,
    /// The profiler's own overhead on the host; a gap under it is nobody's fault.
    pub overhead: Vec<HostSpan>,
    /// The allocator's events, where the file has them.
    pub memory: Vec<MemoryEvent>,
    /// Sampled counters (utilisation, throughput), where the file has them.
    pub samples: Vec<CounterSample>,
    /// Events of the file in all, read or not.
    pub event_count: u64,
    /// Complete spans of the file by category as it spells them, read or not, in order of first use.
    pub categories: Vec<(String, u64)>,
    /// Bytes of the file, uncompressed.
    pub bytes: u64,
    /// Devices that the file describes, whether or not work ran on them.
    pub described_devices: Vec<Device>,
    /// What the file had and this trace has not, each with its count.
    pub losses: Vec<Loss>,
    /// What figures need and the file has not at all.
    pub lacks: Vec<Lack>,
}

/// The kind of file a trace was read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// JSON of the PyTorch profiler (Kineto), or of a tool that writes the same.
    #[default]
    Kineto,
    /// SQLite export of Nsight Systems.
    NsightSystems,
    /// `xplane.pb` of TensorFlow or JAX.
    XPlane,
    /// `trace.json` of TensorFlow or JAX: a capped sample of the former.
    TraceViewer,
}

/// The place of a process among those that ran together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rank {
    pub number: u32,
    /// How many there are, where stated.
    pub world_size: Option<u32>,
    /// The communication library, where stated (`nccl`).
    pub backend: Option<String>,
    /// Process groups that it is in and that say what for, with how many ranks each has.
    pub groups: Vec<(String, u32)>,
}

/// A device on which work ran.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Device {
    pub number: i64,
    /// Its product name, where stated and not empty.
    pub name: Option<String>,
    /// Memory in bytes.
    pub total_memory: Option<u64>,
    /// Streaming multiprocessors (compute units).
    pub multiprocessors: Option<u32>,
    /// CUDA compute capability, major and minor.
    pub compute_capability: Option<(u32, u32)>,
    /// Not a GPU whose work these figures can describe (`MTIA`, `HPU`, `TPU`): its kind.
    pub other_kind: Option<String>,
}

/// A queue of work on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream {
    /// Index into [`Timeline::devices`].
    pub device: u16,
    pub number: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Thread {
    /// Process, as the file writes it.
    pub process: i64,
    /// Thread, as the file writes it.
    pub thread: i64,
    /// Its name, where stated.
    pub name: Option<String>,
}

/// Index into a [`Names`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameId(pub u32);

/// Names of spans, each stored once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Names {
    texts: Vec<Box<str>>,
}

impl Names {
    /// Adds a name. The caller sees to it that equal names are added once.
    pub fn add(&mut self, name: &str) -> NameId {
        let id = NameId(u32::try_from(self.texts.len()).unwrap_or(u32::MAX));
        self.texts.push(name.into());
        id
    }

    /// The text of a name; empty for one that is not of this trace.
    pub fn text(&self, id: NameId) -> &str {
        self.texts.get(id.0 as usize).map_or("", |text| text)
    }

    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// All names with their ids, in order of first use.
    pub fn iter(&self) -> impl Iterator<Item = (NameId, &str)> {
        self.texts
            .iter()
            .enumerate()
            .map(|(index, text)| (NameId(index as u32), &**text))
    }
}

/// One piece of work on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Work {
    pub start_ns: i64,
    /// When it ended; never before the start.
    pub end_ns: i64,
    /// Kernel or copy, by name.
    pub name: NameId,
    /// Index into [`Timeline::streams`].
    pub stream: u32,
    /// Index into [`Timeline::calls`] of the call that launched it, where it can be told.
    pub call: Index,
    /// Index into [`Timeline::operators`] of the operator it belongs to, where it can be told.
    pub operator: Index,
    /// Index into [`Timeline::details`].
    pub detail: Index,
    pub class: WorkClass,
}

/// The kind of a piece of GPU work, as the profiler classes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WorkClass {
    /// A kernel, communication included.
    Kernel,
    Copy,
    /// A fill of memory.
    Set,
}

/// An index that may be absent, in four bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Index(u32);

impl Index {
    pub const NONE: Self = Self(u32::MAX);

    /// The index of an element; none beyond 2³² − 2 elements.
    pub fn of(index: usize) -> Self {
        u32::try_from(index).map_or(Self::NONE, Self)
    }

    pub fn get(self) -> Option<usize> {
        (self != Self::NONE).then_some(self.0 as usize)
    }
}

/// What is known of a piece of GPU work beyond its time.
#[derive(Debug, Clone, PartialEq)]
pub enum Detail {
    Launch(LaunchShape),
    Copy(CopyShape),
    /// What a fill wrote, in bytes.
    Set(u64),
    /// What a collective moved, and with whom.
    Collective(Collective),
}

/// How a kernel was launched; what the file does not state is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LaunchShape {
    /// Blocks in each dimension.
    pub grid: Option<[u32; 3]>,
    /// Threads of a block in each dimension.
    pub block: Option<[u32; 3]>,
    pub registers_per_thread: Option<u32>,
    /// Shared memory a block, in bytes.
    pub shared_memory: Option<u64>,
    /// Blocks over multiprocessors.
    pub blocks_per_multiprocessor: Option<f64>,
    /// Estimated achieved occupancy, in percent.
    pub occupancy_percent: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CopyShape {
    /// Bytes, where stated.
    pub bytes: Option<u64>,
    /// From where to where, where it can be told.
    pub direction: Option<Direction>,
    pub source: MemoryKind,
    pub target: MemoryKind,
}

/// From where to where a copy went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    HostToDevice,
    DeviceToHost,
    DeviceToDevice,
    /// From one device to another.
    PeerToPeer,
    HostToHost,
    /// Pages of unified memory that moved.
    Unified,
}

/// A kind of memory at one end of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum MemoryKind {
    /// Host memory that the system may page out: the driver copies it twice.
    Pageable,
    Pinned,
    Device,
    Managed,
    #[default]
    Unknown,
}

/// What a collective moved, and with whom.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Collective {
    /// Its name (`allreduce`, `_allgather_base`, `all_to_all`).
    pub name: Option<String>,
    /// Elements given by this rank.
    pub elements_in: Option<u64>,
    /// Elements received by this rank.
    pub elements_out: Option<u64>,
    /// Type of the elements, as the file spells it.
    pub element_type: Option<String>,
    /// Ranks that take part.
    pub group_size: Option<u32>,
    /// The process group, as the file names it.
    pub group: Option<String>,
    /// Its number within the group.
    pub sequence: Option<u64>,
    pub launch: LaunchShape,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostSpan {
    pub start_ns: i64,
    /// When it ended; never before the start.
    pub end_ns: i64,
    pub name: NameId,
    /// Index into [`Timeline::threads`].
    pub thread: u32,
    /// Index into [`Timeline::operands`], of operators alone.
    pub operands: Index,
}

/// What a compiler (XLA) says that a piece of work was made of; what it does not say is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Origin {
    /// The program's own name of the operation with the scopes that hold it, among
    /// [`Timeline::names`]: `jit(train_step)/layer_0/attn/dot_general`.
    pub path: Index,
    /// The compiled program (`jit_train_step`), among [`Timeline::names`].
    pub program: Index,
    /// The operation in it (`loop_add_fusion.3`), among [`Timeline::names`].
    pub operation: Index,
}

impl Origin {
    pub const NONE: Self = Self {
        path: Index::NONE,
        program: Index::NONE,
        operation: Index::NONE,
    };
}

/// An operator of a backward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backward {
    /// Index into [`Timeline::operators`] of the operator that ran in the backward pass.
    pub operator: Index,
    /// Index into [`Timeline::operators`] of the operator whose gradient it computed, where the file
    /// tells.
    pub forward: Index,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Operands {
    /// Shape of each argument; empty where it is no tensor.
    pub shapes: Vec<Vec<u64>>,
    /// Type of each argument, as the file spells it (`float`, `c10::BFloat16`).
    pub types: Vec<String>,
    /// Arguments that are no tensors, as the file writes them.
    pub values: Vec<String>,
}

/// One event of the framework's allocator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryEvent {
    pub at_ns: i64,
    /// The device's number in the file; `None` is host memory.
    pub device: Option<i64>,
    /// Bytes taken, negative where given back.
    pub bytes: i64,
    /// Bytes in tensors after it, where stated.
    pub allocated: Option<u64>,
    /// Bytes taken from the driver after it, where stated.
    pub reserved: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CounterSample {
    pub at_ns: i64,
    /// The device's number in the file.
    pub device: i64,
    pub name: NameId,
    /// Its value, in the unit that the name states.
    pub value: f64,
}

/// A kind of events that figures need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needed {
    Kernels,
    Copies,
    /// Calls of the GPU's runtime and driver on the host.
    Calls,
    /// Texts of names.
    Names,
    /// Every event: the file is a sample, and what stands between two events is unknown.
    Events,
}

/// A kind of events that a file has not, and where they would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack {
    pub needed: Needed,
    /// The table, or the category of events (`the table StringIds`).
    pub place: String,
}

/// Something that a file had, or should have had, and that is missing here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// What was wrong, in words that a person can act on (`events after the cut`).
    pub what: String,
    pub count: u64,
    /// The first such place (`event 17,301 (line 4)`), where there is one.
    pub first: Option<String>,
}

impl Timeline {
    pub fn device_of(&self, work: &Work) -> Option<&Device> {
        let stream = self.streams.get(work.stream as usize)?;
        self.devices.get(usize::from(stream.device))
    }

    /// What is known of a piece of work beyond its time.
    pub fn detail_of(&self, work: &Work) -> Option<&Detail> {
        self.details.get(work.detail.get()?)
    }

    /// The call that launched a piece of work.
    pub fn call_of(&self, work: &Work) -> Option<&HostSpan> {
        self.calls.get(work.call.get()?)
    }

    /// The operator that a piece of work belongs to.
    pub fn operator_of(&self, work: &Work) -> Option<&HostSpan> {
        self.operators.get(work.operator.get()?)
    }
}
