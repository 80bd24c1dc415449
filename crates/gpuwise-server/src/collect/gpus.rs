//! What a monitoring system saw of GPUs and engines becomes usage of the leases that had them.
//!
//! Time is read in periods of one length, counted from 1970, each once it is over. So what is read again
//! after a restart has the ids that it had, and counts once; where the system did not answer, it is asked
//! for what it holds later. What it did not see is no usage: leases are billed by grant all the same.

use super::Collector;
use crate::desk::{EngineSeen, GpuSeen};
use gpuwise_account::period::{DAY, HOUR, Interval};
use gpuwise_broker::{Had, Lease};
use gpuwise_units::Nanoseconds;
use gpuwise_wire::broker::{GpuUse, ServiceUse, UsageDocument};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::Ordering,
};

const SECOND: u64 = 1_000_000_000;

/// What comes later than so is not waited for: scrapes are that far apart, and take their time. Who is read
/// oftener is scraped oftener.
const LAG: u64 = 20 * SECOND;

/// From sample to sample.
const STEP: u64 = 15 * SECOND;

/// At the start so much is read again, so that a restart leaves no gap.
const AGAIN: u64 = HOUR;

/// Read at once at most.
const CHUNK: u64 = HOUR;

impl Collector {
    /// What leases used by the monitoring system since it was read last, and until when it was read now.
    pub(super) fn watch(&self, now: Nanoseconds) -> (Vec<UsageDocument>, Option<Nanoseconds>) {
        let shared = std::sync::Arc::clone(&self.shared);
        let Some(source) = shared.desk.monitor() else {
            return (Vec::new(), None);
        };
        let step = STEP.min(self.settings.every.0.max(SECOND));
        let every = self.settings.every.0.max(step) / step * step;
        let end = now.0.saturating_sub(LAG.min(every)) / every * every;
        let begun = shared.broker().begun();
        let first = begun.0.max(shared.began.0.saturating_sub(AGAIN)) / every * every;
        let start = self.watched.map_or(first, |at| at.0);
        // What is longer ago than a day is a gap for good.
        let start = start.max(now.0.saturating_sub(DAY) / every * every);
        let end = end.min(start.saturating_add(CHUNK.max(every) / every * every));
        if start >= end {
            return (Vec::new(), None);
        }
        let within = Interval::new(Nanoseconds(start), Nanoseconds(end));
        let Ok(seen) = shared.desk.watched(within, Nanoseconds(step)) else {
            shared.monitored.failures.fetch_add(1, Ordering::Relaxed);
            return (Vec::new(), None);
        };
        let source = format!("gpuwise/prometheus/{source}");
        let broker = shared.broker();
        let mut told = Vec::new();
        let places = places(&broker);
        let mut by_gpu: BTreeMap<String, Vec<GpuSeen>> = BTreeMap::new();
        for one in seen.gpus {
            if let Some(uid) = uid_of(&one, &places) {
                by_gpu.entry(uid).or_default().push(one);
            }
        }
        let had = broker.had(now, within, by_gpu.keys().map(String::as_str));
        for (uid, seen) in &by_gpu {
            let mut seen = seen.clone();
            seen.sort_by_key(|one| one.at);
            let had = had.get(uid.as_str()).map_or(&[][..], Vec::as_slice);
            told.extend(used(&source, uid, &seen, had, (step, every)));
        }
        let leases: Vec<&Lease> = broker.open().collect();
        told.extend(counted(&source, &leases, within, &seen.engines));
        (told, Some(within.end))
    }

    /// The monitoring system was read until then, and what it said is durable.
    pub(super) fn watched_until(&mut self, until: Option<Nanoseconds>) {
        let Some(until) = until else {
            return;
        };
        self.watched = Some(until);
        let seconds = until.0 / SECOND;
        self.shared
            .monitored
            .until
            .store(seconds, Ordering::Relaxed);
    }
}

/// Lasting ids of GPUs: as they are, and by node and number.
struct Places {
    uids: BTreeSet<String>,
    at: BTreeMap<(String, u32), String>,
}

fn places(broker: &gpuwise_broker::Broker) -> Places {
    let world = broker.world();
    let (mut uids, mut at) = (BTreeSet::new(), BTreeMap::new());
    for state in world.gpus() {
        let uid = state.gpu.uid.to_string();
        if let Some(node) = state.node.and_then(|node| world.node(node)) {
            at.insert((node.node.name.clone(), state.gpu.index), uid.clone());
        }
        uids.insert(uid);
    }
    Places { uids, at }
}

fn uid_of(seen: &GpuSeen, places: &Places) -> Option<String> {
    if let Some(uuid) = seen
        .uuid
        .as_ref()
        .filter(|uuid| places.uids.contains(*uuid))
    {
        return Some(uuid.clone());
    }
    let place = (seen.host.clone()?, seen.index?);
    places.at.get(&place).cloned()
}

/// What was seen of a GPU at a moment.
#[derive(Debug, Default)]
struct Look {
    whole: Option<GpuSeen>,
    instances: Vec<GpuSeen>,
}

/// What leases used of one GPU. Where several share it at a time, what it did is divided by what each was
/// granted: the system cannot tell them apart. MIG instances it can.
fn used(
    source: &str,
    uid: &str,
    seen: &[GpuSeen],
    had: &[Had],
    (step, every): (u64, u64),
) -> Vec<UsageDocument> {
    let mut looks: BTreeMap<Nanoseconds, Look> = BTreeMap::new();
    for one in seen {
        let look = looks.entry(one.at).or_default();
        match &one.instance {
            None => look.whole = Some(one.clone()),
            Some(_) => look.instances.push(one.clone()),
        }
    }
    let mut told = Vec::new();
    for (place, one) in had.iter().enumerate() {
        let mut run: Option<Run> = None;
        for (at, look) in &looks {
            let covers = Interval::new(Nanoseconds(at.0.saturating_sub(step)), *at);
            let time = covers.within(one.interval);
            if time.is_empty() {
                continue;
            }
            let others = had.iter().enumerate().filter(|(other, _)| *other != place);
            let others = others.filter(|(_, other)| other.interval.overlaps(time));
            let beside: Vec<&Had> = others.map(|(_, other)| other).collect();
            let Some(sample) = part(one, &beside, look) else {
                continue;
            };
            // Ids begin with periods, so that they are the same however much is read at once.
            let goes_on = run.as_ref().is_some_and(|run| {
                run.end == time.start
                    && run.start.0 / every == time.start.0 / every
                    && run.knows == knows(&sample)
            });
            if !goes_on {
                told.extend(run.take().map(|run| run.told(source, uid, one.lease)));
            }
            run.get_or_insert_with(|| Run::new(time.start, knows(&sample)))
                .add(&sample, time);
        }
        told.extend(run.map(|run| run.told(source, uid, one.lease)));
    }
    told
}

/// What of a look is one lease's, beside others; `None`: nothing was seen of it.
fn part(one: &Had, beside: &[&Had], look: &Look) -> Option<GpuSeen> {
    let shares: f64 = beside.iter().map(|other| other.share).sum();
    let share = if shares > 0.0 {
        one.share / (one.share + shares)
    } else {
        1.0
    };
    let of = |value: Option<f64>, factor: f64| value.map(|value| value * factor);
    let bounded = |busy: Option<f64>| busy.map(|busy| busy.clamp(0.0, 1.0));
    let own: Vec<&GpuSeen> = match &one.profile {
        None => Vec::new(),
        Some(profile) => {
            let same = |seen: &&GpuSeen| {
                let profiles = seen
                    .instance
                    .as_ref()
                    .and_then(|(_, profile)| profile.as_ref());
                profiles == Some(profile)
            };
            look.instances.iter().filter(same).collect()
        }
    };
    if own.is_empty() {
        let whole = look.whole.as_ref()?;
        return Some(GpuSeen {
            busy: of(bounded(whole.busy), share),
            memory: of(whole.memory, share),
            watts: of(whole.watts, share),
            ..GpuSeen::default()
        });
    }
    // Of several instances of a profile it is not said whose each is: those who have one are given as much each.
    // Instances that nobody has do nothing; where some are not seen, those that are stand for them.
    let others = beside.iter().filter(|other| other.profile == one.profile);
    let held: u32 = others.map(|other| other.parts).sum();
    let holders = one.parts.max(1) + held;
    let among = f64::from(holders).min(own.len() as f64);
    let sum = |value: fn(&GpuSeen) -> Option<f64>| {
        let values: Option<Vec<f64>> = own.iter().map(|seen| value(seen)).collect();
        values.map(|values| values.iter().sum::<f64>() / among)
    };
    // Power is measured of the board alone; exporters that say it of each instance repeat it.
    let board = look.whole.as_ref().and_then(|whole| whole.watts);
    let repeated = look.instances.iter().filter_map(|seen| seen.watts);
    let board = board.or_else(|| repeated.reduce(f64::max));
    Some(GpuSeen {
        // Its share of the time of its own multiprocessors; amounts are of the whole GPU.
        busy: of(bounded(sum(|seen| seen.busy)), one.share),
        memory: of(sum(|seen| seen.memory), f64::from(one.parts.max(1))),
        watts: of(board, share),
        ..GpuSeen::default()
    })
}

const fn knows(seen: &GpuSeen) -> [bool; 3] {
    [
        seen.busy.is_some(),
        seen.memory.is_some(),
        seen.watts.is_some(),
    ]
}

/// Time without a gap.
struct Run {
    start: Nanoseconds,
    end: Nanoseconds,
    knows: [bool; 3],
    busy: f64,
    memory: f64,
    joules: f64,
}

impl Run {
    const fn new(start: Nanoseconds, knows: [bool; 3]) -> Self {
        Self {
            start,
            end: start,
            knows,
            busy: 0.0,
            memory: 0.0,
            joules: 0.0,
        }
    }

    fn add(&mut self, seen: &GpuSeen, time: Interval) {
        let seconds = Nanoseconds(time.length()).seconds().get();
        self.busy += seen.busy.unwrap_or(0.0) * seconds;
        self.memory += seen.memory.unwrap_or(0.0).max(0.0) * seconds;
        self.joules += seen.watts.unwrap_or(0.0).max(0.0) * seconds;
        self.end = time.end;
    }

    fn told(self, source: &str, uid: &str, lease: u32) -> UsageDocument {
        let [busy, memory, watts] = self.knows;
        UsageDocument {
            by: None,
            tenant: None,
            source: source.to_owned(),
            id: format!("L-{lease}/{uid}/{}", self.start.0),
            lease,
            start_ns: self.start.0,
            end_ns: self.end.0,
            gpus: vec![GpuUse {
                uid: uid.to_owned(),
                sm_seconds: busy.then_some(self.busy),
                memory_byte_seconds: memory.then_some(self.memory as u64),
                joules: watts.then_some(self.joules),
            }],
            service: ServiceUse::default(),
        }
    }
}

/// Tokens of engines that nobody else counts: neither the gateway, nor a page that the lease names.
fn counted(
    source: &str,
    leases: &[&Lease],
    within: Interval,
    seen: &[EngineSeen],
) -> Vec<UsageDocument> {
    let mut sums: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for one in seen {
        let named = |lease: &&&Lease| match (&one.lease, &one.model) {
            (Some(id), _) => lease.id() == *id,
            (None, Some(model)) => lease.ask.model.as_ref() == Some(model),
            (None, None) => false,
        };
        let mut meant = leases.iter().filter(named);
        // A model that several serve says of none what it did.
        let (Some(lease), None) = (meant.next(), meant.next()) else {
            continue;
        };
        if lease.ask.service.is_some() || lease.ask.metrics.is_some() {
            continue;
        }
        let sum = sums.entry(lease.number).or_default();
        sum.0 = sum.0.saturating_add(one.prompt_tokens);
        sum.1 = sum.1.saturating_add(one.completion_tokens);
    }
    let told = sums
        .into_iter()
        .map(|(lease, (prompt, completion))| UsageDocument {
            by: None,
            tenant: None,
            source: source.to_owned(),
            id: format!("L-{lease}/tokens/{}", within.start.0),
            lease,
            start_ns: within.start.0,
            end_ns: within.end.0,
            gpus: Vec::new(),
            service: ServiceUse {
                prompt_tokens: Some(prompt),
                completion_tokens: Some(completion),
                ..ServiceUse::default()
            },
        });
    told.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: u64 = 1_793_491_200 * SECOND;

    fn at(seconds: u64) -> Nanoseconds {
        Nanoseconds(AT + seconds * SECOND)
    }

    fn sample(seconds: u64, busy: f64) -> GpuSeen {
        GpuSeen {
            at: at(seconds),
            busy: Some(busy),
            watts: Some(400.0),
            ..GpuSeen::default()
        }
    }

    fn had(lease: u32, from: u64, to: u64, share: f64) -> Had {
        Had {
            lease,
            interval: Interval::new(at(from), at(to)),
            share,
            profile: None,
            parts: 1,
        }
    }

    fn cut(lease: u32, profile: &str, share: f64) -> Had {
        Had {
            profile: Some(profile.into()),
            ..had(lease, 0, 99, share)
        }
    }

    fn instance(number: u32, profile: &str, busy: f64) -> GpuSeen {
        GpuSeen {
            instance: Some((Some(number), Some(profile.into()))),
            memory: Some(1e9),
            ..sample(15, busy)
        }
    }

    fn told(seen: &[GpuSeen], had: &[Had]) -> Vec<(u32, u64, u64, f64)> {
        let all = used("s", "G", seen, had, (STEP, 60 * SECOND));
        let each = all.iter().map(|one| {
            let second = |at: u64| (at - AT) / SECOND;
            let worked = one.gpus[0].sm_seconds.expect("seen");
            (one.lease, second(one.start_ns), second(one.end_ns), worked)
        });
        each.collect()
    }

    #[test]
    fn a_step_is_divided_where_one_ends_and_another_begins() {
        let seen = [sample(15, 1.0), sample(30, 0.5), sample(45, 0.0)];
        let said = told(&seen, &[had(1, 0, 20, 1.0), had(2, 20, 100, 1.0)]);
        assert_eq!(said, [(1, 0, 20, 17.5), (2, 20, 45, 5.0)]);
    }

    #[test]
    fn a_gap_is_no_usage_and_periods_are_told_apart() {
        let seen = [
            sample(15, 1.0),
            sample(45, 1.0),
            sample(60, 1.0),
            sample(75, 1.0),
        ];
        let said = told(&seen, &[had(1, 0, 1000, 1.0)]);
        assert_eq!(
            said,
            [(1, 0, 15, 15.0), (1, 30, 60, 30.0), (1, 60, 75, 15.0)]
        );
    }

    #[test]
    fn who_share_a_gpu_have_what_it_did_by_what_each_was_granted() {
        let said = told(
            &[sample(15, 0.8)],
            &[had(1, 0, 99, 0.25), had(2, 0, 99, 0.5)],
        );
        let (one, two) = (said[0].3, said[1].3);
        assert!(
            (one - 4.0).abs() < 1e-9 && (two - 8.0).abs() < 1e-9,
            "{one} {two}"
        );
    }

    #[test]
    fn mig_instances_are_told_apart_by_profile() {
        let seen = [
            instance(7, "1g.10gb", 0.9),
            instance(8, "1g.10gb", 0.5),
            instance(9, "1g.10gb", 0.0),
            instance(1, "3g.40gb", 0.2),
        ];
        let (seventh, three) = (1.0 / 7.0, 3.0 / 7.0);
        let had = [
            cut(1, "1g.10gb", seventh),
            cut(2, "1g.10gb", seventh),
            cut(3, "3g.40gb", three),
        ];
        let all = used("s", "G", &seen, &had, (STEP, 60 * SECOND));
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-6, "{a} {b}");
        // Both have half of what the three instances of their profile did; nobody has the third.
        for one in &all[..2] {
            close(one.gpus[0].sm_seconds.expect("seen"), 15.0 * 0.7 / 7.0);
        }
        close(all[2].gpus[0].sm_seconds.expect("seen"), 15.0 * 0.2 * three);
        assert_eq!(all[2].gpus[0].memory_byte_seconds, Some(15_000_000_000));
        // The board's power, by what each was granted.
        let joules = |place: usize| all[place].gpus[0].joules.expect("seen");
        close(joules(0), 400.0 * 15.0 / 5.0);
        close(joules(2), 400.0 * 15.0 * 3.0 / 5.0);
        // One of whose profile nothing is seen has no usage: that is not 0.
        assert_eq!(
            used(
                "s",
                "G",
                &seen,
                &[cut(4, "2g.20gb", 0.3)],
                (STEP, 60 * SECOND)
            ),
            []
        );
    }
}
