//! A node as a line of stations, run item by item: storage, cores, PCIe, GPUs, links, network. Its
//! physics are its own: service times that vary, buffers that fill, rounds of a ring, buckets of
//! gradients. Nothing of what is judged is used here.

use gpuwise_domain::balance::{HostSystem, HostWork, Part};
use gpuwise_units::{BytesPerSecond, RandomStream};

/// Items that the samples of a step are cut into.
const ITEMS: usize = 64;
/// Steps whose samples may be loaded ahead.
const AHEAD: usize = 3;
/// Buckets that gradients are sent in.
const BUCKETS: usize = 24;
/// Rounds of messages that the exchange of a step is cut into.
const MESSAGES: f64 = 64.0;
/// Seconds of a message on a link.
const MESSAGE_LATENCY: f64 = 9e-6;
/// Encoded bytes of images that a core of 3 GHz decodes and augments in a second.
const IMAGE_BYTES: f64 = 3.6e7;
/// Seconds that an item of images costs beside its bytes.
const ITEM_BASE: f64 = 2.5e-4;
/// Seconds of a core to make a token of text.
const TOKENIZE: f64 = 1.1e-6;
/// Seconds of a core to stream a token.
const STREAM: f64 = 2.3e-5;
/// Share of a step that a driving process needs its core for.
const DRIVING: f64 = 0.6;

/// Runs a job on a node and gives the mean seconds of a step; `unlimited` is a part that is taken as
/// much too large, to see what it holds up.
pub(crate) fn seconds_of_step(
    work: &HostWork,
    host: &HostSystem,
    unlimited: Option<Part>,
    seed: u64,
) -> f64 {
    let mut node = Node::new(work, host, unlimited, seed);
    let steps = match work.checkpoint_every {
        Some(every) => ((5.0 * every / work.seconds) as usize).clamp(60, 2000),
        None => 60,
    };
    let first = steps / 6;
    let mut begun = 0.0;
    for step in 0..steps {
        if step == first {
            begun = node.now;
        }
        node.step();
    }
    (node.now - begun) / (steps - first) as f64
}

struct Node<'a> {
    work: &'a HostWork,
    host: &'a HostSystem,
    unlimited: Option<Part>,
    random: RandomStream,
    /// When GPUs finish their step.
    now: f64,
    /// When the storage is free.
    storage: f64,
    /// When each core that is not driving is free.
    cores: Vec<f64>,
    /// Speed of one of them.
    speed: f64,
    /// When PCIe is free.
    bus: f64,
    /// When the last steps began, which frees their buffers.
    begun: Vec<f64>,
    since_checkpoint: f64,
}

impl<'a> Node<'a> {
    fn new(work: &'a HostWork, host: &'a HostSystem, unlimited: Option<Part>, seed: u64) -> Self {
        let all = host.cores.unwrap_or(1.0);
        let clock = host.clock_ghz.unwrap_or(3.0) / 3.0;
        let free = all - f64::from(work.processes) * DRIVING;
        let count = free.floor().max(1.0) as usize;
        let pace = if free < 1.0 {
            clock * free.max(0.1)
        } else {
            clock
        };
        Self {
            work,
            host,
            unlimited,
            random: RandomStream::new(seed, "stations", 0),
            now: 0.0,
            storage: 0.0,
            cores: vec![0.0; count],
            speed: pace,
            bus: 0.0,
            begun: Vec::new(),
            since_checkpoint: 0.0,
        }
    }

    fn free(&self, part: Part) -> bool {
        self.unlimited == Some(part)
    }

    /// A factor around 1 with this spread.
    fn varied(&mut self, spread: f64) -> f64 {
        let sum: f64 = (0..12).map(|_| self.random.uniform()).sum::<f64>() - 6.0;
        (spread * sum - spread * spread / 2.0).exp()
    }

    /// Work of one core from a time on: the core that is free first takes it.
    fn on_a_core(&mut self, from: f64, seconds: f64) -> f64 {
        let seconds = seconds / self.speed * self.varied(0.35);
        if self.free(Part::Cpu) {
            return from + seconds;
        }
        let Some(core) = self.cores.iter_mut().min_by(|a, b| a.total_cmp(b)) else {
            return from;
        };
        *core = core.max(from) + seconds;
        *core
    }

    /// When the samples and texts of a step are ready in host memory.
    fn loaded(&mut self, from: f64) -> f64 {
        let read = self
            .host
            .storage_read
            .map_or(f64::INFINITY, BytesPerSecond::get);
        let stored = self.work.stored.as_f64() / ITEMS as f64;
        let core = self.work.cores;
        let images = core.images.as_f64() / ITEMS as f64;
        let text = (core.tokenized * TOKENIZE + core.streamed * STREAM) / ITEMS as f64;
        let mut ready = from;
        for _ in 0..ITEMS {
            let size = self.varied(0.3);
            let mut here = from;
            if stored > 0.0 {
                let seconds = if self.free(Part::StorageRead) {
                    0.0
                } else {
                    stored * size / (read * 0.95)
                };
                self.storage = self.storage.max(from) + seconds;
                here = self.storage + 3e-4;
            }
            if images > 0.0 {
                here = self.on_a_core(here, ITEM_BASE + images * size / IMAGE_BYTES);
            }
            let more = text + core.stated / ITEMS as f64;
            if more > 0.0 {
                here = self.on_a_core(here, more);
            }
            ready = ready.max(here);
        }
        ready
    }

    /// Bytes a second of all links between the host and GPUs.
    fn pcie(&self) -> f64 {
        if self.free(Part::Pcie) {
            return f64::INFINITY;
        }
        let links =
            f64::from(self.work.gpus) / f64::from(self.host.pcie_sharers.unwrap_or(1).max(1));
        self.host.pcie.map_or(f64::INFINITY, BytesPerSecond::get) * 0.87 * links.max(1.0)
    }

    /// Rounds of a ring over the GPUs of a group: each round waits for its slowest hop.
    fn exchange(&mut self) -> f64 {
        let ranks = self.work.group;
        if ranks < 2 || self.work.exchanged.count() == 0 {
            return 0.0;
        }
        let bus = self.host.pcie.map_or(f64::INFINITY, BytesPerSecond::get);
        let near = match self.host.fast_link {
            _ if self.free(Part::Link) => 1e15,
            Some(true) => 3.0e11,
            _ => 0.64 * bus,
        };
        let nodes = self.host.numa_nodes.unwrap_or(1).max(1);
        let of_node = self.host.gpus.unwrap_or(ranks).div_ceil(nodes).max(1);
        let crosses =
            ranks > of_node && self.host.fast_link != Some(true) && !self.free(Part::Numa);
        let far = match (crosses, self.host.peer_to_peer) {
            (false, _) => near,
            (true, Some(true)) => near * 0.62,
            (true, _) => bus * 0.07,
        };
        let rounds = 2 * (ranks - 1);
        let chunk = self.work.exchanged.as_f64() / (f64::from(rounds) * MESSAGES);
        let mut seconds = 0.0;
        for _ in 0..rounds {
            let hops = (0..ranks).map(|hop| {
                let rate = if (hop + 1) % of_node == 0 { far } else { near };
                chunk / rate
            });
            seconds += hops.fold(0.0, f64::max) + MESSAGE_LATENCY / MESSAGES;
        }
        seconds * MESSAGES
    }

    fn step(&mut self) {
        let held_back = self.begun.len().checked_sub(AHEAD);
        let from = held_back
            .and_then(|at| self.begun.get(at))
            .copied()
            .unwrap_or(0.0);
        let ready = self.loaded(from);
        let copied = self.work.copied.as_f64() / self.pcie();
        self.bus = self.bus.max(ready) + copied;
        let mut start = self.now.max(self.bus);
        self.begun.push(start);
        start += self.paging();
        let offloaded = self.work.offloaded.as_f64() / self.pcie();
        let driving = if self.free(Part::Cpu) {
            0.0
        } else {
            let clock = self.host.clock_ghz.unwrap_or(3.0) / 3.0;
            let cores = self.host.cores.unwrap_or(1.0) * clock;
            f64::from(self.work.processes) * DRIVING * self.work.seconds / cores
        };
        let compute = (self.work.seconds * self.varied(0.02)).max(driving);
        let computed = start + compute + self.exchange() + offloaded;
        let end = self.sends(start, computed);
        self.since_checkpoint += end - self.now;
        self.now = end;
        let every = self.work.checkpoint_every.unwrap_or(f64::INFINITY);
        if self.since_checkpoint >= every && !self.free(Part::StorageWrite) {
            let rate = self
                .host
                .storage_write
                .map_or(f64::INFINITY, BytesPerSecond::get);
            self.now += self.work.checkpoint.as_f64() / (rate * 0.93);
            self.since_checkpoint = 0.0;
        }
    }

    /// Gradients go out in buckets as the backward pass makes them.
    fn sends(&mut self, start: f64, computed: f64) -> f64 {
        let bytes = self.work.sent.as_f64() / BUCKETS as f64;
        if bytes == 0.0 || self.free(Part::Network) {
            return computed;
        }
        let rate = self.host.network.map_or(f64::INFINITY, BytesPerSecond::get) * 0.88;
        let window = (computed - start) * self.work.hidden;
        let mut done = 0.0f64;
        for bucket in 0..BUCKETS {
            let made = computed - window + window * (bucket + 1) as f64 / BUCKETS as f64;
            done = done.max(made) + bytes / rate + 3e-5;
        }
        done.max(computed)
    }

    /// What does not fit host memory is read and written again in every step.
    fn paging(&self) -> f64 {
        let (Some(memory), false) = (self.host.memory, self.free(Part::HostMemory)) else {
            return 0.0;
        };
        let over = (self.work.held.as_f64() - memory.as_f64() * 0.97).max(0.0);
        let disk = self.host.storage_write.map_or(1e9, BytesPerSecond::get);
        2.0 * over / disk
    }
}
