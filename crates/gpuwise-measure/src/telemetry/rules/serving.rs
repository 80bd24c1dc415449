//! Findings of serving engines.

use super::{evidence, percent};
use crate::telemetry::{
    serving::ReplicaTrack,
    state::{ReplicaKey, State},
};
use gpuwise_domain::{
    profile::{
        figure::Scope,
        finding::{Finding, Gain},
    },
    telemetry::Thresholds,
};
use std::collections::BTreeMap;

pub(super) fn findings(state: &State, limits: &Thresholds) -> Vec<Finding> {
    let mut out = Vec::new();
    for (key, replica) in state.replicas() {
        let look = Replica {
            key,
            track: replica,
            limits,
        };
        out.extend(
            [
                look.queueing(),
                look.preemption(),
                look.thrash(),
                look.padding(),
            ]
            .into_iter()
            .flatten(),
        );
    }
    out.extend(uneven(state, limits));
    out
}

struct Replica<'a> {
    key: &'a ReplicaKey,
    track: &'a ReplicaTrack,
    limits: &'a Thresholds,
}

fn part((engine, model, replica): &ReplicaKey) -> String {
    [Some(engine), model.as_ref(), Some(replica)]
        .into_iter()
        .flatten()
        .filter(|text| !text.is_empty())
        .cloned()
        .collect::<Vec<_>>()
        .join(" ")
}

fn finding(part: String, class: &str, statement: String, gain: Gain, advice: &[&str]) -> Finding {
    Finding {
        class: class.into(),
        scope: Scope {
            part: Some(part),
            ..Scope::default()
        },
        statement,
        evidence: Vec::new(),
        places: Vec::new(),
        gain,
        advice: advice.iter().map(|text| (*text).to_owned()).collect(),
    }
}

impl Replica<'_> {
    fn limit(&self, name: &str) -> Option<f64> {
        self.limits.value(name)
    }

    fn enough(&self, samples: usize) -> bool {
        self.limit("fewest_samples")
            .is_some_and(|fewest| samples as f64 >= fewest)
    }

    fn queueing(&self) -> Option<Finding> {
        let replica = self.track;
        let (share_limit, waiting_limit, seconds_limit) = (
            self.limit("queue_share")?,
            self.limit("queue_waiting")?,
            self.limit("queue_seconds")?,
        );
        let (mut found, mut statement) = (Vec::new(), None);
        let waiting = &replica.waiting;
        if self.enough(waiting.len()) {
            let with = waiting.iter().filter(|(_, count)| *count > 0.0).count();
            let share = with as f64 / waiting.len() as f64;
            let mean = waiting.mean()?;
            if share >= share_limit && mean >= waiting_limit {
                found.push(evidence("waiting_share", share, "ratio", Some(share_limit)));
                found.push(evidence("waiting_mean", mean, "count", Some(waiting_limit)));
                statement = Some(format!(
                    "{} requests wait on average, in {} of samples.",
                    gpuwise_units::significant(mean, 2),
                    percent(share)
                ));
            }
        }
        if let (Some(seconds), Some(count)) = (
            replica.queue_seconds.increase(),
            replica.queue_count.increase(),
        ) && count > 0.0
            && seconds / count >= seconds_limit
        {
            let mean = seconds / count;
            found.push(evidence(
                "queue_seconds_mean",
                mean,
                "s",
                Some(seconds_limit),
            ));
            statement.get_or_insert_with(|| {
                let mean = gpuwise_units::significant(mean, 2);
                format!("Requests wait {mean} s in the queue on average.")
            });
        }
        let statement = statement?;
        let cache = replica.cache_use.mean();
        let full = cache.is_some_and(|share| share >= 0.9);
        let advice: &[&str] = if full {
            &[
                "the cache is full: more memory for it, a smaller cache type, shorter contexts, or another replica",
            ]
        } else {
            &[
                "the cache has room: raise the largest number of sequences or of tokens a step; else another replica",
            ]
        };
        let mut finding = finding(part(self.key), "queueing", statement, Gain::Unknown, advice);
        finding.evidence = found;
        if let Some(cache) = cache {
            finding
                .evidence
                .push(evidence("cache_use_mean", cache, "ratio", None));
        }
        Some(finding)
    }

    fn preemption(&self) -> Option<Finding> {
        let limit = self.limit("preempted_share")?;
        let lost = self.track.preempted.increase().filter(|lost| *lost > 0.0)?;
        let ended = self.track.finished.increase()?;
        let share = lost / ended.max(1.0);
        if share < limit {
            return None;
        }
        let mut finding = finding(
            part(self.key),
            "preemption",
            format!(
                "{lost:.0} requests were preempted while {ended:.0} ended; their prompts are recomputed."
            ),
            Gain::Time {
                low: 0.0,
                high: (lost / (lost + ended)).min(1.0),
            },
            &[
                "give the cache more memory, lower the largest number of sequences, or add a replica",
            ],
        );
        finding
            .evidence
            .push(evidence("preempted_share", share, "ratio", Some(limit)));
        if let Some(cache) = self.track.cache_use.mean() {
            finding
                .evidence
                .push(evidence("cache_use_mean", cache, "ratio", None));
        }
        Some(finding)
    }

    /// The prefix cache finds less than it did, while it gives blocks up.
    fn thrash(&self) -> Option<Finding> {
        let (fallen, full_from) = (self.limit("thrash_fall")?, self.limit("thrash_cache_full")?);
        let replica = self.track;
        let track = if replica.prefix_hits.is_empty() {
            &replica.prefix_hit_rate
        } else {
            &replica.prefix_hits
        };
        if !self.enough(track.len() / 2) {
            return None;
        }
        let (from, _) = track.iter().next()?;
        let (to, _) = track.iter().next_back()?;
        let middle = f64::midpoint(from, to);
        let (before, after) = (
            replica.hit_rate(from, middle)?,
            replica.hit_rate(middle, to)?,
        );
        if before - after < fallen {
            return None;
        }
        let evicted = replica.evicted.increase().filter(|count| *count > 0.0);
        let full = replica.cache_use.last().filter(|share| *share >= full_from);
        let gives_up = match (evicted, full) {
            (Some(count), _) => evidence("evicted_increase", count, "count", Some(0.0)),
            (None, Some(share)) => evidence("cache_use", share, "ratio", Some(full_from)),
            (None, None) => return None,
        };
        let mut finding = finding(
            part(self.key),
            "cache_thrash",
            format!(
                "The prefix cache found {} of prompt tokens, and now finds {}, while it gives blocks up.",
                percent(before),
                percent(after)
            ),
            Gain::Time {
                low: 0.0,
                high: before - after,
            },
            &[
                "send requests of one conversation to one replica (prefix-aware routing)",
                "more memory for the cache, or a second level of it in host memory",
            ],
        );
        finding.evidence.push(evidence(
            "prefix_hit_rate_fall",
            before - after,
            "ratio",
            Some(fallen),
        ));
        finding.evidence.push(gives_up);
        Some(finding)
    }

    fn padding(&self) -> Option<Finding> {
        let limit = self.limit("padding_share")?;
        let (empty, all) = &self.track.padding;
        if !self.enough(all.len()) {
            return None;
        }
        let share = empty.mean()? / all.mean().filter(|all| *all > 0.0)?;
        if share < limit {
            return None;
        }
        let mut finding = finding(
            part(self.key),
            "padding",
            format!(
                "{} of the batch's slots are computed for nothing.",
                percent(share)
            ),
            Gain::Time {
                low: 0.0,
                high: share.min(1.0),
            },
            &["in-flight batching in place of static batches; else sort requests by length"],
        );
        finding
            .evidence
            .push(evidence("padding_share", share, "ratio", Some(limit)));
        Some(finding)
    }
}

/// Names of replicas with the requests they have.
type Loads<'a> = Vec<(&'a str, f64)>;

/// One replica of several has much more to do than the others.
fn uneven(state: &State, limits: &Thresholds) -> Vec<Finding> {
    let (Some(spread), Some(least), Some(fewest)) = (
        limits.value("uneven_spread"),
        limits.value("uneven_least"),
        limits.value("fewest_samples"),
    ) else {
        return Vec::new();
    };
    let mut groups: BTreeMap<(&str, Option<&str>), Loads<'_>> = BTreeMap::new();
    for ((engine, model, replica), track) in state.replicas() {
        if (track.running.len() as f64) < fewest {
            continue;
        }
        let Some(running) = track.running.mean() else {
            continue;
        };
        let load = running + track.waiting.mean().unwrap_or(0.0);
        groups
            .entry((engine, model.as_deref()))
            .or_default()
            .push((replica, load));
    }
    let mut out = Vec::new();
    for ((engine, model), loads) in groups {
        let mean = loads.iter().map(|(_, load)| load).sum::<f64>() / loads.len() as f64;
        let fullest = loads.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        let Some((name, most)) = fullest else {
            continue;
        };
        let over = most / mean - 1.0;
        if loads.len() < 2 || mean < least || over < spread {
            continue;
        }
        let mut found = finding(
            [Some(engine), model]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join(" "),
            "uneven_replicas",
            format!(
                "Replica {name} has {} requests, the mean of {} replicas is {}.",
                gpuwise_units::significant(*most, 2),
                loads.len(),
                gpuwise_units::significant(mean, 2)
            ),
            Gain::Time {
                low: 0.0,
                high: (1.0 - mean / most).clamp(0.0, 1.0),
            },
            &[
                "route by queue length in place of round robin; check sticky sessions and long connections",
            ],
        );
        found
            .evidence
            .push(evidence("fullest_over_mean", over, "ratio", Some(spread)));
        out.push(found);
    }
    out
}
