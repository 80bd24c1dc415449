//! A day of serving: holders of GPUs, what they were asked, and what each request waited for.

use alloc::vec::Vec;
use gpuwise_units::Nanoseconds;

/// A day of holders that load models on demand.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServingDay {
    /// Holders of a GPU, by number.
    pub holders: Vec<ServingHolder>,
    /// How often each base model was asked in a log of requests, most often first. The holders' own
    /// records do not name models.
    pub popularity: Vec<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServingHolder {
    pub number: u32,
    /// What it was asked, in the order in which it was served.
    pub requests: Vec<ServingRequest>,
    /// GPU memory resident: from when (seconds), and the most in MiB until the next entry.
    pub memory: Vec<(u32, u32)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServingRequest {
    /// The step in which it was recorded, in seconds.
    pub step_s: u32,
    /// What it waited in the queue; 0 where nothing was recorded.
    pub queue: Nanoseconds,
    /// What it waited until its pipeline was loaded: base model, LoRA, ControlNet.
    pub load: Nanoseconds,
    /// What of it went to another base model; `None`: the one that was there was kept.
    pub base: Option<Nanoseconds>,
    /// Time on the GPU.
    pub run: Nanoseconds,
}

impl ServingHolder {
    /// GPU memory resident at a time in MiB: the last sample before it, else the first one.
    pub fn resident_mib(&self, at_s: u32) -> u32 {
        let before = self.memory.partition_point(|(from, _)| *from <= at_s);
        let sample = self.memory.get(before.saturating_sub(1));
        sample.map_or(0, |(_, mib)| *mib)
    }

    /// The most GPU memory that was resident, in MiB.
    pub fn peak_mib(&self) -> u32 {
        self.memory.iter().map(|(_, mib)| *mib).max().unwrap_or(0)
    }
}
