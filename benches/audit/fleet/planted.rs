//! Workloads with something planted in them: what is true of each is decided here, before any series
//! is made, and shares nothing with the rules that are to find it.
//!
//! Needs are planted well inside what cures them (memory at most 0.78 of a slice and at least 1.15 of
//! the next smaller, compute at most 0.6 of its share), so that any sensible headroom gives the same
//! cure. A slice counts as the larger of its shares of compute and memory slices.

/// Numbers by chance that depend on their place alone.
pub(crate) fn chance(seed: u64, what: u64, at: u64) -> f64 {
    // SplitMix64: Steele, Lea, Flood, OOPSLA 2014.
    let mut state = seed
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        .wrapping_add(what.wrapping_mul(0xD1B5_4A32_D192_ED03))
        .wrapping_add(at.wrapping_mul(0x8CB9_2BA7_2F3D_8DD7));
    for (shift, factor) in [(30, 0xBF58_476D_1CE4_E5B9_u64), (27, 0x94D0_49BB_1331_11EB)] {
        state = (state ^ state >> shift).wrapping_mul(factor);
    }
    ((state ^ state >> 31) >> 11) as f64 / (1_u64 << 53) as f64
}

/// A board as the planted fleet has it.
pub(crate) struct Board {
    /// As exporters name it.
    pub(crate) model: &'static str,
    /// As the catalogue names it.
    pub(crate) name: &'static str,
    pub(crate) mib: f64,
    pub(crate) usd: f64,
    /// Slices: name, MiB, share that it costs, share of its streaming multiprocessors.
    pub(crate) slices: &'static [(&'static str, f64, f64, f64)],
}

/// NVIDIA MIG User Guide, profiles of A100-SXM4-80GB and H100 80GB; prices are made up, so that a
/// slice is always cheaper than another whole board.
pub(crate) const BOARDS: [Board; 4] = [
    Board {
        model: "NVIDIA A100-SXM4-80GB",
        name: "A100 SXM4 80GB",
        mib: 81920.0,
        usd: 2.0,
        slices: &[
            ("1g.10gb", 9728.0, 1.0 / 7.0, 14.0 / 108.0),
            ("2g.20gb", 19968.0, 2.0 / 7.0, 28.0 / 108.0),
            ("3g.40gb", 40192.0, 0.5, 42.0 / 108.0),
        ],
    },
    Board {
        model: "NVIDIA H100 80GB HBM3",
        name: "H100 SXM5 80GB",
        mib: 81559.0,
        usd: 3.0,
        slices: &[
            ("1g.10gb", 9856.0, 1.0 / 7.0, 16.0 / 132.0),
            ("2g.20gb", 20096.0, 2.0 / 7.0, 32.0 / 132.0),
        ],
    },
    Board {
        model: "NVIDIA L40S",
        name: "L40S",
        mib: 46068.0,
        usd: 1.2,
        slices: &[],
    },
    Board {
        model: "Tesla T4",
        name: "T4",
        mib: 15360.0,
        usd: 0.6,
        slices: &[],
    },
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    Idle,
    PartTime,
    OverMemory,
    Slice,
    SmallerGpu,
    Replicas,
    Starved,
    Right,
    Dips,
    Spike,
    SliceRight,
    Young,
    Under,
    Queueing,
}

/// How many of 200 are of each class.
const MIX: [(Class, usize); 14] = [
    (Class::Idle, 22),
    (Class::PartTime, 24),
    (Class::OverMemory, 24),
    (Class::Slice, 18),
    (Class::SmallerGpu, 8),
    (Class::Replicas, 10),
    (Class::Starved, 20),
    (Class::Right, 28),
    (Class::Dips, 8),
    (Class::Spike, 8),
    (Class::SliceRight, 8),
    (Class::Young, 4),
    (Class::Under, 12),
    (Class::Queueing, 6),
];

impl Class {
    /// What an audit should say of it.
    pub(crate) fn verdict(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::PartTime => "part_time",
            Self::OverMemory | Self::Slice | Self::SmallerGpu | Self::Replicas => {
                "over_provisioned"
            }
            Self::Starved => "starved",
            Self::Right | Self::Dips | Self::Spike | Self::SliceRight => "right_sized",
            Self::Young => "too_early",
            Self::Under | Self::Queueing => "under_provisioned",
        }
    }
}

/// When a workload is busy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Pattern {
    Always,
    Never,
    /// Load follows the day; never below this share of its height.
    Daily(f64),
    /// On weekdays from one hour (UTC) to another.
    Office(u64, u64),
    /// Every day from one hour, for so many.
    Nightly(u64, u64),
    /// Stops for two samples every so many, to save its state.
    Dips(u64),
}

/// A workload with what is true of it.
pub(crate) struct Workload {
    pub(crate) number: u64,
    pub(crate) class: Class,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    pub(crate) pods: u64,
    pub(crate) gpus: u64,
    pub(crate) board: &'static Board,
    /// The slice that it holds, where it holds one: name and MiB.
    pub(crate) slice: Option<(&'static str, f64)>,
    pub(crate) pattern: Pattern,
    /// Memory in use, MiB: at its height, and in quiet hours.
    pub(crate) memory: (f64, f64),
    /// Of its streaming multiprocessors, when busy.
    pub(crate) sm: f64,
    pub(crate) tensor: f64,
    pub(crate) dram: f64,
    pub(crate) cpus: f64,
    /// Share of its CPUs in use, and of its periods in which it was throttled.
    pub(crate) cpu_share: f64,
    pub(crate) throttled: f64,
    /// Requests that wait, and the share of the cache in use, of a serving engine.
    pub(crate) engine: Option<(f64, f64)>,
    /// Its first sample.
    pub(crate) from: u64,
    /// What the cure is called, and the share of one of its boards' cost that it frees, over time.
    pub(crate) cure: String,
    pub(crate) freed: f64,
}

impl Workload {
    /// Dollars an hour that the cure saves.
    pub(crate) fn saving(&self) -> f64 {
        self.freed * self.board.usd
    }
}

const TEAMS: [&str; 6] = ["search", "speech", "vision", "ads", "research", "platform"];

/// So many workloads with the mix of classes, in an order by chance.
pub(crate) fn fleet(seed: u64, count: usize, steps: u64) -> Vec<Workload> {
    let mut classes: Vec<Class> = Vec::with_capacity(count);
    let whole: usize = MIX.iter().map(|(_, share)| share).sum();
    for (class, share) in MIX {
        let wanted = (share * count).div_ceil(whole);
        classes.extend(std::iter::repeat_n(class, wanted));
    }
    for index in (1..classes.len()).rev() {
        let other = (chance(seed, 1, index as u64) * (index + 1) as f64) as usize;
        classes.swap(index, other);
    }
    classes.truncate(count);
    let made = (0..).zip(classes);
    made.map(|(number, class)| workload(seed, number, class, steps))
        .collect()
}

/// The draws of one workload.
struct Dice {
    seed: u64,
    number: u64,
    drawn: u64,
}

impl Dice {
    fn between(&mut self, low: f64, high: f64) -> f64 {
        self.drawn += 1;
        low + (high - low) * chance(self.seed, 1000 + self.number, self.drawn)
    }

    fn pick(&mut self, count: u64) -> u64 {
        (self.between(0.0, count as f64) as u64).min(count - 1)
    }
}

fn workload(seed: u64, number: u64, class: Class, steps: u64) -> Workload {
    let mut dice = Dice {
        seed,
        number,
        drawn: 0,
    };
    let board = &BOARDS[dice.pick(4) as usize];
    let share = dice.between(0.60, 0.88);
    let sm = dice.between(0.72, 0.95);
    let mut new = Workload {
        number,
        class,
        namespace: TEAMS[dice.pick(6) as usize].into(),
        name: format!("{class:?}-{number}").to_lowercase(),
        kind: "Deployment",
        pods: 1,
        gpus: 1,
        board,
        slice: None,
        pattern: Pattern::Daily(dice.between(0.5, 0.9)),
        memory: (board.mib * share, board.mib * share * 0.97),
        sm,
        tensor: sm * dice.between(0.3, 0.6),
        dram: sm * dice.between(0.3, 0.6),
        cpus: 8.0,
        cpu_share: dice.between(0.2, 0.6),
        throttled: dice.between(0.0, 0.02),
        engine: None,
        from: 0,
        cure: String::new(),
        freed: 0.0,
    };
    // Names must not tell: what was planted is known by number alone.
    new.name = format!("w{number:05}");
    plant(&mut new, &mut dice, steps);
    new
}

fn plant(new: &mut Workload, dice: &mut Dice, steps: u64) {
    match new.class {
        Class::Idle => idle(new, dice),
        Class::PartTime => part_time(new, dice),
        Class::OverMemory | Class::Slice => slice(new, dice),
        Class::SmallerGpu => {
            (new.board, new.kind) = (&BOARDS[2], "Deployment");
            // A seventh of an A100 costs less than the T4 that would do as well: half-precision rates of
            // 362 and 312 · 14/108 TFLOP/s (data sheets).
            new.sm = dice.between(0.03, 0.06);
            (new.tensor, new.dram) = (new.sm * 0.4, dice.between(0.05, 0.15));
            new.memory = (dice.between(4000.0, 7500.0), 3900.0);
            new.cure = "1g.10gb of an A100".into();
            new.freed = 1.0 - BOARDS[0].usd * BOARDS[0].slices[0].2 / BOARDS[2].usd;
        }
        Class::Replicas => {
            new.board = &BOARDS[dice.pick(2) as usize];
            new.pods = 4 + dice.pick(2);
            new.sm = if new.pods == 5 {
                dice.between(0.205, 0.225)
            } else {
                dice.between(0.26, 0.28)
            };
            (new.tensor, new.dram) = (new.sm * 0.4, new.sm * 0.9);
            // Engines take their share of memory at the start, whatever they need.
            new.memory = (new.board.mib * 0.92, new.board.mib * 0.92);
            new.engine = Some((0.0, dice.between(0.1, 0.2)));
            new.pattern = Pattern::Daily(0.6);
            new.cure = "replicas 2".into();
            new.freed = new.pods as f64 - 2.0;
        }
        Class::Starved => {
            (new.kind, new.pattern) = ("Job", Pattern::Always);
            new.sm = dice.between(0.18, 0.38);
            (new.tensor, new.dram) = (new.sm * 0.5, new.sm * 0.5);
            new.cpus = [2.0, 4.0, 8.0][dice.pick(3) as usize];
            new.cpu_share = dice.between(0.965, 0.995);
            new.throttled = dice.between(0.35, 0.8);
        }
        Class::Right => {
            new.kind = ["Deployment", "StatefulSet", "Job"][dice.pick(3) as usize];
            new.gpus = [1, 1, 2, 8][dice.pick(4) as usize];
        }
        Class::Dips => (new.kind, new.pattern) = ("Job", Pattern::Dips(18 + dice.pick(12))),
        Class::Spike => {
            new.board = &BOARDS[dice.pick(2) as usize];
            new.memory = (new.board.mib * dice.between(0.68, 0.85), 6000.0);
            new.sm = dice.between(0.62, 0.9);
            (new.tensor, new.dram) = (new.sm * 0.4, new.sm * 0.5);
        }
        Class::SliceRight => {
            new.board = &BOARDS[dice.pick(2) as usize];
            let (name, mib, ..) = new.board.slices[dice.pick(2) as usize];
            let used = mib * dice.between(0.66, 0.86);
            (new.slice, new.memory) = (Some((name, mib)), (used, used * 0.97));
        }
        Class::Young => {
            new.from = steps - 12 - dice.pick(100);
            (new.sm, new.tensor, new.dram) = (0.1, 0.0, 0.05);
            new.memory = (3000.0, 2900.0);
        }
        Class::Under => {
            (new.kind, new.pattern) = ("Job", Pattern::Always);
            let full = new.board.mib * dice.between(0.985, 0.997);
            (new.memory, new.sm) = ((full, full), dice.between(0.88, 0.97));
            (new.tensor, new.dram) = (new.sm * 0.5, new.sm * 0.6);
        }
        Class::Queueing => {
            new.board = &BOARDS[dice.pick(3) as usize];
            new.memory = (new.board.mib * 0.92, new.board.mib * 0.92);
            (new.sm, new.pattern) = (dice.between(0.92, 0.98), Pattern::Always);
            (new.tensor, new.dram) = (new.sm * 0.4, new.sm * 0.8);
            new.engine = Some((dice.between(15.0, 80.0), dice.between(0.96, 1.0)));
        }
    }
}

fn idle(new: &mut Workload, dice: &mut Dice) {
    new.kind = ["Deployment", "StatefulSet", "Pod"][dice.pick(3) as usize];
    new.gpus = [1, 1, 1, 2, 4, 8][dice.pick(6) as usize];
    new.pattern = Pattern::Never;
    (new.sm, new.tensor, new.dram) = (0.0, 0.0, 0.0);
    let held = new.board.mib * dice.between(0.005, 0.6);
    (new.memory, new.cpu_share) = ((held, held), 0.001);
    new.cure = "scale to 0".into();
    new.freed = new.gpus as f64;
    if !new.board.slices.is_empty() && dice.between(0.0, 1.0) < 0.3 {
        let (name, mib, cost, _) = new.board.slices[0];
        let held = mib * dice.between(0.05, 0.6);
        (new.slice, new.gpus, new.memory) = (Some((name, mib)), 1, (held, held));
        new.freed = cost;
    }
}

fn part_time(new: &mut Workload, dice: &mut Dice) {
    (new.kind, new.memory.1) = ("Pod", new.memory.0 * 0.3);
    new.sm = dice.between(0.75, 0.95);
    (new.tensor, new.dram) = (new.sm * 0.4, new.sm * 0.5);
    new.cure = "schedule".into();
    if dice.between(0.0, 1.0) < 0.7 {
        let (from, hours) = (7 + dice.pick(4), 8 + dice.pick(3));
        new.pattern = Pattern::Office(from, from + hours);
        new.freed = 1.0 - 5.0 * hours as f64 / 168.0;
    } else {
        let hours = 4 + dice.pick(5);
        new.pattern = Pattern::Nightly(dice.pick(24 - hours), hours);
        new.freed = 1.0 - hours as f64 / 24.0;
    }
}

fn slice(new: &mut Workload, dice: &mut Dice) {
    new.board = &BOARDS[dice.pick(2) as usize];
    let count = new.board.slices.len() as u64;
    let chosen = if new.class == Class::OverMemory {
        0
    } else {
        dice.pick(count)
    } as usize;
    let (name, mib, cost, multiprocessors) = new.board.slices[chosen];
    let below = chosen
        .checked_sub(1)
        .map_or(2600.0, |at| new.board.slices[at].1 * 1.15);
    let peak = dice.between(below, mib * 0.78);
    new.memory = (peak, peak * 0.95);
    new.sm = multiprocessors * dice.between(0.3, 0.6);
    new.tensor = new.sm * dice.between(0.2, 0.6);
    new.dram = (mib / new.board.mib) * dice.between(0.2, 0.5);
    new.cure = name.into();
    new.freed = 1.0 - cost;
}
