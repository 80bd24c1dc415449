//! Fragmentation gradient descent: the node whose free GPUs lose least of their use.
//!
//! Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient
//! Descent", USENIX ATC 2023; constants and the order of sums as in its code,
//! hkust-adsl/kubernetes-scheduler-simulator@8f3d641 (`pkg/utils/frag.go`, `fgd_score.go`).

use super::registry::{Registered, indexed};
use super::scored::{Score, Scored, View};
use crate::world::World;
use gpuwise_domain::placement::{GpuAsk, KindId, Kinds, WorkerAsk};
use rustc_hash::FxHashMap;
use std::{cmp::Reverse, sync::Arc};

pub(super) const POLICY: Registered = Registered {
    name: "fgd",
    about: "whose free GPUs lose least of their use (fragmentation gradient descent)",
    make: |context| {
        let told = UsualAsks::new(&context.demand);
        let score = if context.demand.is_empty() {
            GradientDescent::default()
        } else {
            GradientDescent::new(told)
        };
        indexed(score, context)
    },
};

/// Values that are remembered at most; beyond it they are computed anew.
const REMEMBERED: usize = 1 << 18;
/// Percent of what is asked that usual asks make up.
const COVERED: u64 = 95;
/// GPUs of nodes whose values are remembered.
const FEW: usize = 8;

/// A usual ask, and which share of all it makes up.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Usual {
    cpu_milli: u64,
    gpu_milli: u16,
    gpus: u32,
    kinds: Kinds,
    share: f64,
}

/// What is usually asked for, most frequent first.
#[derive(Debug, Clone, Default)]
pub struct UsualAsks {
    asks: Vec<Usual>,
    /// Amounts of processor time that make a difference, rising.
    steps: Vec<u64>,
}

impl UsualAsks {
    /// The first asks of `demand`, which has the most frequent first, until they make up 95 % of all;
    /// memory makes no difference.
    pub fn new(demand: &[(WorkerAsk, u64)]) -> Self {
        let total: u64 = demand.iter().map(|(_, count)| count).sum();
        let mut covered = 0;
        let kept = demand.iter().take_while(|(_, count)| {
            let more = covered * 100 < COVERED * total;
            covered += if more { count } else { &0 };
            more
        });
        let kept: Vec<_> = kept.collect();
        let all = total.max(1) as f64;
        let part = if kept.len() < demand.len() {
            covered as f64 / all
        } else {
            1.0
        };
        let usual = |(ask, count): &&(WorkerAsk, u64)| {
            let (gpu_milli, gpus, kinds) = match ask.gpu {
                GpuAsk::Fraction { milli, kinds, .. } => (milli.min(1000) as u16, 1, kinds),
                GpuAsk::Whole { count, kinds, .. } => (1000, count, kinds),
                GpuAsk::None | GpuAsk::Slice { .. } => (0, 0, Kinds::ANY),
            };
            Usual {
                cpu_milli: ask.cpu_milli,
                gpu_milli,
                gpus,
                kinds,
                share: *count as f64 / all / part,
            }
        };
        let asks: Vec<Usual> = kept.iter().map(usual).collect();
        let mut steps: Vec<u64> = asks.iter().map(|ask| ask.cpu_milli).collect();
        steps.sort_unstable();
        steps.dedup();
        Self { asks, steps }
    }

    /// Thousandths of GPUs that are stranded on a node, in the mean over what
    /// is usually asked: to a worker that fits the node, GPUs with too little room; to one that does not,
    /// all. Workers without GPUs have no use for any.
    ///
    /// Sums are taken by cause, and then over causes, in the order of the published code: rounding
    /// decides ties.
    pub fn fragmentation(&self, kind: Option<KindId>, cpu_free: u64, free: &[u16]) -> f64 {
        let all: u32 = free.iter().map(|free| u32::from(*free)).sum();
        let all = f64::from(all);
        // Lacks both, lacks GPUs (with remnants), lacks processor time; without GPUs: fits, does not;
        // of the wrong model.
        let mut causes = [0.0_f64; 6];
        let [both, gpus, cpu, fits, full, model] = &mut causes;
        for ask in &self.asks {
            let enough_cpu = cpu_free >= ask.cpu_milli;
            if ask.gpu_milli == 0 {
                *(if enough_cpu { &mut *fits } else { &mut *full }) += ask.share * all;
                continue;
            }
            if ask.kinds != Kinds::ANY && !kind.is_some_and(|kind| ask.kinds.has(kind)) {
                *model += ask.share * all;
                continue;
            }
            let (mut rooms, mut remnants) = (0, 0);
            for free in free {
                if *free >= ask.gpu_milli {
                    rooms += 1;
                } else {
                    remnants += u32::from(*free);
                }
            }
            match (rooms >= ask.gpus.max(1), enough_cpu) {
                (true, true) => *gpus += ask.share * f64::from(remnants),
                (true, false) => *cpu += ask.share * all,
                (false, true) => *gpus += ask.share * all,
                (false, false) => *both += ask.share * all,
            }
        }
        causes.iter().fold(0.0, |sum, cause| sum + cause)
    }

    /// How many steps of processor time are reached: between two, nothing changes.
    fn step(&self, cpu_free: u64) -> usize {
        self.steps.partition_point(|step| *step <= cpu_free)
    }
}

/// The published policy FGD: 100 / (1 + exp(−Δ/1000)), cut to a whole number, where Δ is by how much the
/// fragmentation would fall; a fraction goes to the GPU for which that is best.
#[derive(Debug, Clone, Default)]
pub struct GradientDescent {
    usual: UsualAsks,
    /// Whether it was told what is usual; else it goes by the world's arrivals.
    told: bool,
    /// From which of them `usual` was made.
    forecast: Arc<[(WorkerAsk, u64)]>,
    /// Values by kind, step of processor time and free GPUs in rising order.
    known: FxHashMap<u128, f64>,
}

impl GradientDescent {
    /// One that is told what is usual; by default it goes by the world's
    /// [`Arrivals`](crate::world::Arrivals).
    pub fn new(usual: UsualAsks) -> Self {
        Self {
            usual,
            told: true,
            ..Self::default()
        }
    }

    /// The fragmentation, remembered; `free` in any order.
    fn value(&mut self, kind: Option<KindId>, cpu_free: u64, free: &[u16]) -> f64 {
        let mut sorted = [0_u16; FEW];
        let Some(few) = sorted.get_mut(..free.len()) else {
            return self.usual.fragmentation(kind, cpu_free, free);
        };
        few.copy_from_slice(free);
        // GPUs that are not there count as full ones.
        sorted.sort_unstable();
        let first = kind.map_or(64, |kind| u128::from(kind.0 & 63));
        let step = self.usual.step(cpu_free) as u128;
        let key = sorted.iter().fold((step << 7) | first, |key, free| {
            (key << 10) | u128::from(*free)
        });
        if let Some(value) = self.known.get(&key) {
            return *value;
        }
        let value = self.usual.fragmentation(kind, cpu_free, free);
        if self.known.len() >= REMEMBERED {
            self.known.clear();
        }
        self.known.insert(key, value);
        value
    }
}

impl Score for GradientDescent {
    fn learns(&mut self, world: &World) -> bool {
        let forecast = world.arrivals().forecast();
        if self.told || Arc::ptr_eq(forecast, &self.forecast) || *forecast == self.forecast {
            return false;
        }
        self.forecast = Arc::clone(forecast);
        let mut demand = forecast.to_vec();
        demand.sort_by_key(|(_, count)| Reverse(*count));
        self.usual = UsualAsks::new(&demand);
        self.known.clear();
        true
    }

    fn score(&mut self, view: &View<'_>, ask: &WorkerAsk) -> Scored {
        let before = self.value(view.kind, view.node.cpu_free, view.free);
        let cpu = view.node.cpu_free.saturating_sub(ask.cpu_milli);
        let mut few = [0_u16; FEW];
        let mut many = Vec::new();
        let after: &mut [u16] = if let Some(few) = few.get_mut(..view.free.len()) {
            few.copy_from_slice(view.free);
            few
        } else {
            many.extend_from_slice(view.free);
            &mut many
        };
        match ask.gpu {
            GpuAsk::None | GpuAsk::Slice { .. } => {
                points(before, self.value(view.kind, cpu, after)).into()
            }
            GpuAsk::Whole { count, .. } => {
                let free = after.iter_mut().filter(|free| **free == 1000);
                free.take(count as usize).for_each(|free| *free = 0);
                points(before, self.value(view.kind, cpu, after)).into()
            }
            GpuAsk::Fraction { milli, .. } => {
                let mut best: Option<(i32, usize)> = None;
                for at in 0..view.free.len() {
                    let Some(free) = view.free.get(at).copied() else {
                        continue;
                    };
                    let seen = view.free.get(..at).is_some_and(|seen| seen.contains(&free));
                    if u32::from(free) < milli || seen {
                        continue;
                    }
                    set(after, at, free - milli as u16);
                    let points = points(before, self.value(view.kind, cpu, after));
                    set(after, at, free);
                    if best.is_none_or(|(most, _)| points > most) {
                        best = Some((points, at));
                    }
                }
                Scored {
                    points: best.map_or(0, |(points, _)| points),
                    gpu: best.map(|(_, at)| at),
                }
            }
        }
    }
}

fn set(free: &mut [u16], at: usize, value: u16) {
    if let Some(place) = free.get_mut(at) {
        *place = value;
    }
}

fn points(before: f64, after: f64) -> i32 {
    (100.0 / (1.0 + libm::exp(-((before - after) / 1000.0)))) as i32
}
