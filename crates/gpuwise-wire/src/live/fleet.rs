//! Fleets with everything resolved: what there is, by numbers and lasting ids.

use super::numbers::{
    DomainNumber, GpuNumber, IslandNumber, KindNumber, KindSet, NodeNumber, PoolNumber,
    QueueNumber, Time, UidText,
};
use crate::{
    mirror::{document, variants, words},
    quantities::{HourlyPriceText, MoneyText},
};
use gpuwise_domain::placement::{
    Backfill, Domain, FabricPool, Fleet, FleetGpu, GpuKind, Health, Home, Level, MigGeometry,
    MigShape, Node, Order, Preference, Queue, Quota, Reservation, Scheduling, Sharing, Weigh,
};

document! {
    /// A fleet: what there is, how it is joined, and what is reserved for whom.
    pub FleetDocument = Fleet {
        /// Its name.
        name(name): String,
        /// Kinds of GPU, by number.
        kinds(kinds): Vec<KindDocument>,
        /// Nodes, by number.
        nodes(nodes): Vec<NodeDocument>,
        /// GPUs, by number: those of nodes first, then those of pools.
        gpus(gpus): Vec<GpuDocument>,
        /// Racks, blocks and zones, by number.
        domains(domains): Vec<DomainDocument>,
        /// Names of islands of NVLink or its like, by number.
        islands(islands): Vec<String>,
        /// Fabric pools, by number.
        pools(pools): Vec<PoolDocument>,
        /// Queues, by number; parents before their children.
        queues(queues): Vec<QueueDocument>,
        /// GPUs reserved for queues.
        reservations(reservations): Vec<ReservationDocument>,
        /// How what queues take is made comparable.
        sharing(sharing): SharingDocument,
        /// In which order those who wait are taken.
        scheduling(scheduling): SchedulingDocument,
    }
}

document! {
    /// A kind of GPU; null: not known.
    pub KindDocument = GpuKind {
        /// Its name.
        name(name): String,
        /// Features of the nodes that it is in; left out: none.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        features(features): Vec<String>,
        /// Memory.
        memory_mib(memory_mib): Option<u32>,
        /// Streaming multiprocessors or compute units.
        units(units): Option<u32>,
        /// Peak memory bandwidth.
        bandwidth_gb_per_s(bandwidth_gbs): Option<u32>,
        /// Dense peak at 16 bits, in TFLOP/s.
        tflops(tflops): Option<u32>,
        /// What one costs an hour.
        price_per_hour(price): Option<HourlyPriceText>,
        /// How it can be cut; null: it cannot.
        mig(mig): Option<GeometryDocument>,
    }
}

document! {
    /// How a board is cut into MIG instances.
    pub GeometryDocument = MigGeometry {
        /// Compute slices of the board.
        compute_slices(compute_slices): u8,
        /// Memory slices of the board.
        memory_slices(memory_slices): u8,
        /// Its profiles, by number.
        shapes(shapes): Vec<ShapeDocument>,
    }
}

document! {
    /// A MIG profile.
    pub ShapeDocument = MigShape {
        /// Its name.
        profile(profile): String,
        /// Memory as a driver printed it; null: not seen.
        memory_mib(memory_mib): Option<u32>,
        /// Streaming multiprocessors; null: not known.
        units(units): Option<u32>,
        /// Compute slices that it takes.
        compute(compute): u8,
        /// Memory slices that it takes.
        size(size): u8,
        /// Memory slices where it may start, as bits.
        starts(starts): u16,
        /// How many a board has at most.
        most(most): u8,
        /// Whether it has the media engines.
        media(media): bool,
    }
}

document! {
    /// A node.
    pub NodeDocument = Node {
        /// Its name.
        name(name): String,
        /// What it is called for as long as it exists.
        uid(uid): UidText,
        /// Processor time in thousandths of a core; 2³⁰: not known.
        cpu_milli(cpu_milli): u64,
        /// Memory; 2⁴⁰: not known.
        memory_mib(memory_mib): u64,
        /// Its own GPUs, in the driver's order.
        gpus(gpus): Vec<GpuNumber>,
        /// The innermost domain that it is in.
        domain(domain): Option<DomainNumber>,
        /// Pools whose GPUs can be attached to it.
        pools(pools): Vec<PoolNumber>,
        /// Pooled GPUs that it can have at once.
        slots(slots): u32,
        /// Whether it can be used.
        health(health): HealthDocument,
    }
}

document! {
    /// A GPU.
    pub GpuDocument = FleetGpu {
        /// Its kind.
        kind(kind): KindNumber,
        /// What it is called for as long as it exists: the driver's UUID where that is known.
        uid(uid): UidText,
        /// Where it belongs.
        home(home): HomeDocument,
        /// Its number there, as the driver counts.
        index(index): u32,
        /// NUMA node of its host.
        numa(numa): Option<u32>,
        /// PCIe switch of its host.
        switch(switch): Option<u32>,
        /// The island that it is in.
        island(island): Option<IslandNumber>,
        /// Its rail.
        rail(rail): Option<u32>,
        /// Whether it can be used.
        health(health): HealthDocument,
        /// Whether MIG is on.
        mig_on(mig_on): bool,
    }
}

variants! {
    /// Where a GPU belongs.
    pub HomeDocument = Home {
        /// In a node for good.
        Node {
            /// Which.
            node(0): NodeNumber,
        }
        /// In a fabric pool.
        Pool {
            /// Which.
            pool(0): PoolNumber,
        }
    }
}

variants! {
    /// Whether something can be used.
    pub HealthDocument = Health {
        /// It can.
        Up {}
        /// What runs there may end; nothing new starts.
        Draining {}
        /// It is being worked on.
        Maintenance {}
        /// It is lost.
        Lost {
            /// The XID of the driver's message; 0: none was given.
            xid(xid): u32,
        }
    }
}

document! {
    /// A rack, a block or a zone.
    pub DomainDocument = Domain {
        /// Its name.
        name(name): String,
        /// What it is.
        level(level): LevelWord,
        /// The domain that it is in.
        parent(parent): Option<DomainNumber>,
    }
}

words! {
    /// How near workers can be.
    pub LevelWord = Level {
        /// One PCIe switch.
        Switch = "switch",
        /// One NUMA node.
        Numa = "numa",
        /// One island of NVLink or its like.
        Island = "nvlink",
        /// One node.
        Node = "node",
        /// One rack.
        Rack = "rack",
        /// One block of racks.
        Block = "block",
        /// One zone.
        Zone = "zone",
    }
}

document! {
    /// GPUs that can be attached to any node of the pool.
    pub PoolDocument = FabricPool {
        /// Its name.
        name(name): String,
        /// From asking for a GPU until the node can use it.
        attach_ns(attach): Time,
        /// From giving a GPU back until another node can ask for it.
        detach_ns(detach): Time,
        /// Whether GPUs come and go while jobs run on the node; left out: they do.
        #[serde(default = "hot_plug", skip_serializing_if = "is_hot_plug")]
        hot_plug(hot_plug): bool,
    }
}

const fn hot_plug() -> bool {
    true
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields so")]
const fn is_hot_plug(hot_plug: &bool) -> bool {
    *hot_plug
}

document! {
    /// A queue.
    pub QueueDocument = Queue {
        /// Its name.
        name(name): String,
        /// The queue that it is part of.
        parent(parent): Option<QueueNumber>,
        /// What it may take; empty: no limit of its own.
        quotas(quotas): Vec<QuotaDocument>,
        /// Its weight, in thousandths.
        weight_milli(weight_milli): u32,
        /// Higher goes first when what is left over is shared.
        priority(priority): i32,
        /// Whether it reclaims what it lent by preemption.
        reclaims(reclaims): bool,
        /// What it may spend in a period; null: no limit.
        budget(budget): Option<MoneyText>,
        /// What it used before: thousandths of GPU-hours, weighted.
        used_milli(used_milli): u64,
    }
}

document! {
    /// What a queue may take of some kinds, in thousandths of GPUs; null: no limit.
    pub QuotaDocument = Quota {
        /// Of which kinds.
        kinds(kinds): KindSet,
        /// What is its own.
        nominal_milli(nominal_milli): u64,
        /// What it may take beyond that.
        borrowing_milli(borrowing_milli): Option<u64>,
        /// What others may take of what it does not use.
        lending_milli(lending_milli): Option<u64>,
        /// The most that it may hold.
        cap_milli(cap_milli): Option<u64>,
    }
}

document! {
    /// GPUs reserved for a queue over a span of time.
    pub ReservationDocument = Reservation {
        /// Its name.
        name(name): String,
        /// For whom.
        queue(queue): QueueNumber,
        /// On which node.
        node(node): NodeNumber,
        /// How many whole GPUs of it.
        gpus(gpus): u32,
        /// From when.
        from_ns(from): Time,
        /// Until when, that moment not included.
        until_ns(until): Time,
    }
}

document! {
    /// How what queues take is made comparable, and what of the past counts.
    pub SharingDocument = Sharing {
        /// What a GPU of one kind counts beside one of another.
        weigh(weigh): WeighWord,
        /// After which time past use counts half; null: only what is held now counts.
        half_life_ns(half_life): Option<Time>,
        /// How much past use moves a queue's weight, in thousandths.
        past_milli(past_milli): u32,
        /// How long a period of the budgets is; null: budgets are for all time.
        budget_period_ns(budget_period): Option<Time>,
    }
}

words! {
    /// What a GPU of one kind counts beside one of another.
    pub WeighWord = Weigh {
        /// All count alike.
        Alike = "alike",
        /// By price.
        Price = "price",
        /// By dense peak at 16 bits.
        Speed = "speed",
        /// What a queue has most of.
        Dominant = "dominant",
    }
}

document! {
    /// In which order those who wait are taken; null: that is for who asks.
    pub SchedulingDocument = Scheduling {
        /// Who goes first.
        order(order): Option<OrderWord>,
        /// Who may go ahead of one who finds no place.
        backfill(backfill): Option<BackfillWord>,
        /// Who has waited so long goes first.
        starvation_ns(starvation): Option<Time>,
        /// Whether weights or priorities of queues are said.
        weighs(weighs): bool,
    }
}

words! {
    /// In which order those who wait are looked at.
    pub OrderWord = Order {
        /// As they came.
        Arrival = "fifo",
        /// By priority.
        Priority = "priority",
        /// Expected to take least.
        Shortest = "shortest",
        /// Has held least GPU time.
        LeastServed = "least-served",
        /// By deadline.
        Deadline = "deadline",
        /// The queue with the least share.
        Share = "fair-share",
        /// Level by level the queue that has used least (Slurm's fair tree).
        FairTree = "fair-tree",
    }
}

words! {
    /// Which kind of GPU is taken first.
    pub PreferenceWord = Preference {
        /// Whose price over the job's speed is lowest.
        Cheapest = "cheapest",
        /// On which the job is fastest.
        Fastest = "fastest",
    }
}

words! {
    /// Who may go ahead of one who finds no place.
    pub BackfillWord = Backfill {
        /// Nobody.
        None = "none",
        /// Whoever finds a place.
        Any = "any",
        /// Whoever does not delay the first who waits.
        Easy = "easy",
        /// Whoever delays nobody before it.
        Conservative = "conservative",
    }
}
