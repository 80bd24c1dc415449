//! One replica of a serving engine over the last minutes.

use super::track::Track;
use gpuwise_domain::telemetry::ServingSample;

/// Tracks of what a replica says; those it does not say are empty.
#[derive(Debug, Clone, Default)]
pub struct ReplicaTrack {
    pub running: Track,
    /// Requests in the queue.
    pub waiting: Track,
    /// Share of the cache in use.
    pub cache_use: Track,
    /// Prompt tokens looked up in the prefix cache.
    pub prefix_queries: Track,
    /// Prompt tokens found there.
    pub prefix_hits: Track,
    /// Share found, where only that is told.
    pub prefix_hit_rate: Track,
    /// Requests that were preempted.
    pub preempted: Track,
    /// What the cache gave up.
    pub evicted: Track,
    pub prompt_tokens: Track,
    pub output_tokens: Track,
    pub finished: Track,
    /// Seconds in the queue, summed.
    pub queue_seconds: Track,
    /// Requests those seconds are of.
    pub queue_count: Track,
    /// Slots computed for nothing, and all.
    pub padding: (Track, Track),
    /// When a source last spoke of it, by our clock.
    pub heard: f64,
}

impl ReplicaTrack {
    /// Takes what a replica said; returns how many counters began again.
    pub fn take(&mut self, sample: &ServingSample, at: f64) -> u64 {
        let mut resets = 0;
        let mut gauge = |track: &mut Track, value: Option<f64>, counter: bool| {
            if let Some(value) = value.filter(|value| value.is_finite()) {
                let arrival = track.take(at, value, counter);
                resets += u64::from(arrival == super::track::Arrival::Reset);
            }
        };
        gauge(&mut self.running, sample.running, false);
        gauge(&mut self.waiting, sample.waiting, false);
        gauge(&mut self.cache_use, sample.cache_use, false);
        gauge(&mut self.prefix_hit_rate, sample.prefix_hit_rate, false);
        gauge(&mut self.prefix_queries, sample.prefix_queries, true);
        gauge(&mut self.prefix_hits, sample.prefix_hits, true);
        gauge(&mut self.preempted, sample.preempted, true);
        gauge(&mut self.evicted, sample.evicted, true);
        gauge(&mut self.prompt_tokens, sample.prompt_tokens, true);
        gauge(&mut self.output_tokens, sample.output_tokens, true);
        gauge(&mut self.finished, sample.finished, true);
        gauge(
            &mut self.queue_seconds,
            sample.queued.map(|(sum, _)| sum),
            true,
        );
        gauge(
            &mut self.queue_count,
            sample.queued.map(|(_, count)| count),
            true,
        );
        gauge(
            &mut self.padding.0,
            sample.padding.map(|(empty, _)| empty),
            false,
        );
        gauge(
            &mut self.padding.1,
            sample.padding.map(|(_, all)| all),
            false,
        );
        resets
    }

    /// The time of its newest sample.
    pub fn newest(&self) -> Option<f64> {
        [
            &self.running,
            &self.waiting,
            &self.cache_use,
            &self.finished,
            &self.output_tokens,
        ]
        .into_iter()
        .filter_map(Track::last_at)
        .reduce(f64::max)
    }

    /// Forgets what is older than a time.
    pub fn forget(&mut self, before: f64) {
        for track in [
            &mut self.running,
            &mut self.waiting,
            &mut self.cache_use,
            &mut self.prefix_queries,
            &mut self.prefix_hits,
            &mut self.prefix_hit_rate,
            &mut self.preempted,
            &mut self.evicted,
            &mut self.prompt_tokens,
            &mut self.output_tokens,
            &mut self.finished,
            &mut self.queue_seconds,
            &mut self.queue_count,
            &mut self.padding.0,
            &mut self.padding.1,
        ] {
            track.forget(before);
        }
    }

    /// Share of prompt tokens found in the prefix cache from one time to another.
    pub fn hit_rate(&self, from: f64, to: f64) -> Option<f64> {
        let gained = |track: &Track| {
            let mut within = track.iter().filter(|(at, _)| (from..=to).contains(at));
            let (_, first) = within.next()?;
            let (_, last) = within.next_back()?;
            (last >= first).then_some(last - first)
        };
        if let (Some(hits), Some(queries)) =
            (gained(&self.prefix_hits), gained(&self.prefix_queries))
            && queries > 0.0
        {
            return Some(hits / queries);
        }
        let rates: Vec<f64> = self
            .prefix_hit_rate
            .iter()
            .filter(|(at, _)| (from..=to).contains(at))
            .map(|(_, rate)| rate)
            .collect();
        (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
    }
}
