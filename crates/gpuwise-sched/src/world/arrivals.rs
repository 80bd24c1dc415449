//! What has been asked for, counted as jobs are submitted: what policies forecast from.

use gpuwise_domain::placement::{Job, WorkerAsk};
use std::{collections::BTreeMap, sync::Arc};

/// Different requests that are counted; further ones only add to the total.
const COUNTED: usize = 4096;
/// Workers after which there is a forecast for the first time; it is made anew each time they have
/// doubled, as policies value a whole fleet by it.
const FIRST: u64 = 32;

/// How often each request was made, in workers.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Arrivals {
    counts: Arc<BTreeMap<WorkerAsk, u64>>,
    total: u64,
    /// The total at which the forecast is made anew.
    next: u64,
    forecast: Arc<[(WorkerAsk, u64)]>,
}

impl Default for Arrivals {
    fn default() -> Self {
        Self {
            counts: Arc::default(),
            total: 0,
            next: FIRST,
            forecast: Arc::default(),
        }
    }
}

impl Arrivals {
    /// Workers that were asked for.
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// What is expected to be asked for: requests and how often each was made when the forecast was last
    /// made. Empty: too little was asked for yet.
    pub const fn forecast(&self) -> &Arc<[(WorkerAsk, u64)]> {
        &self.forecast
    }

    pub(super) fn count(&mut self, job: &Job) {
        let workers = u64::from(job.gang.preferred.max(job.gang.least).max(1));
        self.total += workers;
        if self.counts.len() < COUNTED || self.counts.contains_key(&job.worker) {
            *Arc::make_mut(&mut self.counts)
                .entry(job.worker)
                .or_default() += workers;
        }
        if self.total >= self.next {
            while self.next <= self.total {
                self.next = self.next.saturating_mul(2);
            }
            let counts = self.counts.iter();
            self.forecast = counts.map(|(ask, count)| (*ask, *count)).collect();
        }
    }
}
