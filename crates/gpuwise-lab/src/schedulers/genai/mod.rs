//! A day of generative serving on fewer GPUs: sharing, slices, idle reclaim, models kept warm.
//!
//! As it was, each container had a GPU of its own, which computed a tenth of the time while its memory
//! stayed full. Each request waited in a queue, then for its models to be loaded. Here the same
//! requests, at the same times, run on fewer GPUs; what is compared is the **waiting time**: from a
//! request's arrival until its end, less the time that its inference takes on a GPU of its own. So it
//! holds the queue, loading, reloading after a reclaim, and being slowed down by others.
//!
//! What is assumed is said in [`Assumptions`] and in `docs/concepts/sharing.md`.

mod arrivals;
mod engine;
mod holds;
mod static_sharing;

use gpuwise_domain::placement::{MigGeometry, ServingDay};
use gpuwise_sched::world::Refused;
use gpuwise_units::Nanoseconds;

/// Names of the policies, as users give them.
pub const NAMES: [&str; 6] = [
    "dedicated",
    "sharing",
    "slices",
    "reclaim",
    "park",
    "keep-warm",
];

/// What the trace does not say and the replay assumes.
#[derive(Debug, Clone, PartialEq)]
pub struct Assumptions {
    /// Memory of a GPU in MiB: the smallest usual board that holds what the largest container had.
    pub gpu_mib: u32,
    pub host_gpus: u32,
    /// Base models that a host keeps in its memory beside parked containers.
    pub host_models: u32,
    /// The board on which slices are tried, which must have MIG.
    pub board: Option<MigGeometry>,
}

impl Default for Assumptions {
    fn default() -> Self {
        Self {
            gpu_mib: 49_140,
            host_gpus: 8,
            host_models: 14,
            board: None,
        }
    }
}

gpuwise_units::named! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Sharing:
        /// Its name, as users give it.
        name
    {
        /// A GPU for each container.
        Dedicated = "dedicated",
        /// Time slices on GPUs that hold the most that each of their containers ever had.
        Fixed = "sharing",
        /// A MIG instance for each container, the smallest that holds the most it ever had.
        Slices = "slices",
        /// An idle container's GPU memory is taken where another needs it; its base model is loaded anew.
        Reclaim = "reclaim",
        /// The same, while what was taken waits in host memory.
        Park = "park",
        /// The same, and hosts keep the base models that were used last: requests go where theirs is.
        KeepWarm = "keep-warm",
    }
}

impl Sharing {
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "dedicated" => Self::Dedicated,
            "sharing" => Self::Fixed,
            "slices" => Self::Slices,
            "reclaim" => Self::Reclaim,
            "park" => Self::Park,
            "keep-warm" => Self::KeepWarm,
            _ => return None,
        })
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct DayRun {
    /// How GPUs were shared.
    pub sharing: Sharing,
    /// GPUs, or boards that were cut.
    pub gpus: u32,
    /// Requests that were served.
    pub served: u64,
    /// Requests that were not.
    pub pending: u64,
    /// Mean waiting time in seconds.
    pub wait_mean_s: f64,
    /// The waiting time that one request in a hundred exceeds, in seconds.
    pub wait_p99_s: f64,
    /// Mean time from arrival to end in seconds.
    pub response_mean_s: f64,
    /// From the first arrival to the last end in seconds.
    pub span_s: f64,
    /// Inference time in percent of the GPUs' time.
    pub busy_percent: f64,
    /// Times that a container's memory was taken.
    pub reclaims: u64,
    /// Times that a container had to be brought back.
    pub reloads: u64,
    /// Base models that were found in a host's memory and would have been loaded from far.
    pub warm_hits: u64,
    /// Whether neither the mean nor the hundredth's waiting time is above that of a GPU for each.
    pub same_wait: bool,
}

/// A day that cannot be replayed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GenaiError {
    #[error("no container with a GPU was asked anything: nothing can be replayed")]
    Empty,
    /// A container has more memory than a GPU.
    #[error(
        "container {container} had {mib} MiB on its GPU, more than the {gpu_mib} MiB that are assumed of one"
    )]
    TooLarge {
        container: u32,
        mib: u32,
        gpu_mib: u32,
    },
    /// Slices were asked and no board was given that can be cut.
    #[error("no board was given that has MIG")]
    NoBoard,
    /// The kernel refused what was decided.
    #[error("the kernel refused a step of the replay: {0}")]
    Refused(#[from] Refused),
}

/// A day with its arrivals, ready to be run.
#[derive(Debug)]
pub struct Day<'d> {
    trace: &'d ServingDay,
    assumptions: &'d Assumptions,
    arrivals: arrivals::Arrivals,
    /// A GPU for each container.
    base: DayRun,
}

impl<'d> Day<'d> {
    /// Places arrivals within their steps and draws which base models were asked.
    ///
    /// # Errors
    /// When nothing can be replayed.
    pub fn new(
        day: &'d ServingDay,
        assumptions: &'d Assumptions,
        seed: u64,
    ) -> Result<Self, GenaiError> {
        for holder in &day.holders {
            let mib = holder.peak_mib();
            if mib > assumptions.gpu_mib {
                return Err(GenaiError::TooLarge {
                    container: holder.number,
                    mib,
                    gpu_mib: assumptions.gpu_mib,
                });
            }
        }
        let arrivals = arrivals::Arrivals::new(day, seed);
        let base = static_sharing::dedicated(day, &arrivals).ok_or(GenaiError::Empty)?;
        Ok(Self {
            trace: day,
            assumptions,
            arrivals,
            base,
        })
    }

    /// A GPU for each container.
    pub fn dedicated(&self) -> &DayRun {
        &self.base
    }

    /// The day on so many GPUs.
    ///
    /// # Errors
    /// When no board can be cut for slices, or the kernel refuses a step.
    pub fn run(&self, sharing: Sharing, gpus: u32) -> Result<DayRun, GenaiError> {
        let mut run = match sharing {
            Sharing::Dedicated => return Ok(self.base.clone()),
            Sharing::Fixed => {
                let homes = static_sharing::homes(self.trace, self.assumptions.gpu_mib);
                engine::run(self, sharing, homes.gpus, Some(&homes.of))?
            }
            Sharing::Slices => {
                static_sharing::slices(self.trace, &self.arrivals, self.assumptions)?
            }
            Sharing::Reclaim | Sharing::Park | Sharing::KeepWarm => {
                engine::run(self, sharing, gpus.max(1), None)?
            }
        };
        let all = run.pending == 0;
        run.same_wait = all
            && run.wait_mean_s <= self.base.wait_mean_s
            && run.wait_p99_s <= self.base.wait_p99_s;
        Ok(run)
    }

    /// The fewest GPUs on which nobody waits longer, by bisection. Where even as many GPUs as there
    /// were make requests wait longer, the day on `otherwise` GPUs.
    ///
    /// # Errors
    /// As [`Day::run`].
    pub fn fewest(&self, sharing: Sharing, otherwise: u32) -> Result<DayRun, GenaiError> {
        let most = self.base.gpus;
        let mut best = self.run(sharing, most)?;
        if best.gpus != most || matches!(sharing, Sharing::Dedicated) {
            return Ok(best);
        }
        if !best.same_wait {
            return self.run(sharing, otherwise);
        }
        // The least that was seen to do, and the most that was seen not to.
        let mut short = 0;
        while best.gpus - short > 1 {
            let run = self.run(sharing, short.midpoint(best.gpus))?;
            if run.same_wait {
                best = run;
            } else {
                short = run.gpus;
            }
        }
        Ok(best)
    }
}

/// Sums a day up.
struct Tally {
    waits: Vec<u64>,
    response: u128,
    run: u128,
    last: u64,
}

impl Tally {
    const fn new() -> Self {
        Self {
            waits: Vec::new(),
            response: 0,
            run: 0,
            last: 0,
        }
    }

    /// A request that came, ended, and takes so long on a GPU of its own.
    fn add(&mut self, came: u64, ended: u64, run: Nanoseconds) {
        let response = ended.saturating_sub(came);
        self.waits.push(response.saturating_sub(run.0));
        self.response += u128::from(response);
        self.run += u128::from(run.0);
        self.last = self.last.max(ended);
    }

    fn sum_up(mut self, sharing: Sharing, gpus: u32, first: u64) -> Option<DayRun> {
        const SECOND: f64 = 1e9;
        self.waits.sort_unstable();
        let served = self.waits.len();
        let rank = (served * 99).div_ceil(100).saturating_sub(1);
        let p99 = *self.waits.get(rank)?;
        let waited: u128 = self.waits.iter().map(|wait| u128::from(*wait)).sum();
        let span = self.last.saturating_sub(first) as f64 / SECOND;
        Some(DayRun {
            sharing,
            gpus,
            served: served as u64,
            pending: 0,
            wait_mean_s: waited as f64 / SECOND / served as f64,
            wait_p99_s: p99 as f64 / SECOND,
            response_mean_s: self.response as f64 / SECOND / served as f64,
            span_s: span,
            busy_percent: 100.0 * self.run as f64 / SECOND / (span * f64::from(gpus)),
            reclaims: 0,
            reloads: 0,
            warm_hits: 0,
            same_wait: true,
        })
    }
}
