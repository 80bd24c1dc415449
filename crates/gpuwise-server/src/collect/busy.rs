//! How busy services are, as the scheduler is told where it may lend what idles.

use super::Collector;
use crate::message::Incoming;
use gpuwise_units::Nanoseconds;
use gpuwise_wire::broker::UsageDocument;
use std::collections::BTreeMap;

impl Collector {
    /// How busy services are, where the scheduler may lend what idles: by what was measured of their GPUs, else by
    /// whether anything was asked of them. What the broker holds near enough is not told again.
    pub(super) fn tell_busy(&self, told: &[UsageDocument]) {
        if told.is_empty() {
            return;
        }
        let policy = {
            let broker = self.shared.broker().slice();
            self.shared.desk.policy(&broker)
        };
        let Some(idle) = policy.disruptions.reclaim else {
            return;
        };
        let share = |lease: u32| {
            let broker = self.shared.broker();
            broker
                .lease(lease)
                .map_or(1.0, |lease| broker.share_of(lease))
        };
        let answers = |lease: u32| {
            let tally = self.shared.traffic.of(lease);
            tally.is_some_and(|tally| tally.open > 0)
        };
        for (lease, milli) in busy_of(told, share, answers) {
            let news = {
                let broker = self.shared.broker();
                let one = broker.lease(lease);
                // How many replicas of a service that follows demand there are is decided by what comes.
                if one.is_some_and(|one| broker.scaling_of(one).is_some()) {
                    continue;
                }
                broker.busy_news(lease, milli, idle.busy_milli)
            };
            for seen in news {
                // Where the writer is gone already the daemon ends: there is no state left that this could make wrong.
                if self.shared.inbox.send(Incoming::Observed(seen)).is_err() {
                    return;
                }
            }
        }
    }
}

/// How busy each lease was, in thousandths of the time of what it has of GPUs: by what was measured of them, else by
/// whether it was asked, or still answers.
fn busy_of(
    told: &[UsageDocument],
    share: impl Fn(u32) -> f64,
    answers: impl Fn(u32) -> bool,
) -> BTreeMap<u32, u32> {
    #[derive(Default)]
    struct Seen {
        worked: f64,
        time: f64,
        requests: Option<u64>,
    }
    let mut all: BTreeMap<u32, Seen> = BTreeMap::new();
    for usage in told {
        let length = Nanoseconds(usage.end_ns.saturating_sub(usage.start_ns));
        let seen = all.entry(usage.lease).or_default();
        for worked in usage.gpus.iter().filter_map(|gpu| gpu.sm_seconds) {
            seen.worked += worked;
            seen.time += length.seconds().get();
        }
        let (good, bad) = (usage.service.requests, usage.service.failed);
        if good.is_some() || bad.is_some() {
            let requests = good.unwrap_or(0).saturating_add(bad.unwrap_or(0));
            seen.requests = Some(seen.requests.unwrap_or(0).saturating_add(requests));
        }
    }
    let busy = |lease: u32, seen: &Seen| match seen.requests {
        _ if seen.time > 0.0 => {
            let of_it = seen.worked / seen.time / share(lease);
            Some((of_it * 1000.0).clamp(0.0, 1000.0) as u32)
        }
        Some(0) if !answers(lease) => Some(0),
        Some(_) => Some(1000),
        None => None,
    };
    let each = all.iter();
    each.filter_map(|(lease, seen)| Some((*lease, busy(*lease, seen)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwise_wire::broker::{GpuUse, ServiceUse};

    fn usage(lease: u32, worked: Option<f64>, requests: Option<u64>) -> UsageDocument {
        UsageDocument {
            by: None,
            tenant: None,
            source: "s".into(),
            id: "1".into(),
            lease,
            start_ns: 0,
            end_ns: 10_000_000_000,
            gpus: worked
                .map(|worked| GpuUse {
                    uid: "G".into(),
                    sm_seconds: Some(worked),
                    memory_byte_seconds: None,
                    joules: None,
                })
                .into_iter()
                .collect(),
            service: ServiceUse {
                requests,
                ..ServiceUse::default()
            },
        }
    }

    #[test]
    fn what_still_answers_is_busy_though_nothing_ended() {
        let told = [
            usage(1, None, Some(0)),
            usage(2, None, Some(0)),
            usage(3, Some(2.5), Some(0)),
            usage(4, None, None),
        ];
        let busy = busy_of(&told, |_| 0.5, |lease| lease == 1);
        assert_eq!(busy, [(1, 1000), (2, 0), (3, 500)].into());
    }
}
