//! What leases used, as sources tell it: counted once, whenever it comes.

mod bounds;
mod had;

pub(crate) use bounds::RECORDS;
pub use had::Had;

use crate::{
    Broker, Lease, Refusal,
    latencies::Latencies,
    lease::{lease_id, lease_number},
};
use bounds::{BatchBounds, METRICS, ToldRecords, is_own};
use gpuwise_account::{
    money::split,
    period::{HOUR, Interval},
    usage::{Granted, Limits, Outcome, Principal, Reason, Sharing, UsageRecord, Used},
};
use gpuwise_units::Nanoseconds;
use gpuwise_wire::broker::{BrokerEvent, GpuUse, UsageAnswer, UsageAside, UsageDocument};
use std::collections::{BTreeMap, BTreeSet};

/// For so long telemetry is kept by the hour.
const KEPT: u64 = 14 * 24 * HOUR;

/// What a service did in an hour.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct ServiceHour {
    /// For how long of it somebody measured.
    pub measured_ns: u64,
    pub requests: u64,
    pub failed: u64,
    pub prompt_tokens: Option<u64>,
    pub completion_tokens: Option<u64>,
    pub ttft: Latencies,
    pub tpot: Latencies,
    /// GPU time in which multiprocessors worked, and for how long that was measured.
    pub sm_ns: u64,
    pub sm_measured_ns: u64,
    pub energy_mj: Option<u64>,
}

/// What a lease told, by the hour in which it began.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct Telemetry {
    hours: BTreeMap<Nanoseconds, ServiceHour>,
    /// The end of the last interval.
    pub last: Nanoseconds,
    /// The newest value of each metric of quality.
    pub quality: BTreeMap<String, f64>,
    /// Records that clients of its tenant told of it, and those that others told: neither takes the others' room.
    #[serde(default)]
    own: ToldRecords,
    #[serde(default)]
    others: ToldRecords,
}

/// Telemetry summed up over a time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Summed {
    pub all: ServiceHour,
    /// Requests a second of the busiest hour that was measured for at least half of it.
    pub busiest: Option<f64>,
}

impl Summed {
    /// Requests a second over the time that was measured.
    pub fn rate(&self) -> Option<f64> {
        let seconds = Nanoseconds(self.all.measured_ns).seconds().get();
        (seconds > 0.0).then(|| self.all.requests as f64 / seconds)
    }
}

impl Telemetry {
    const fn told(&self, own: bool) -> ToldRecords {
        if own { self.own } else { self.others }
    }

    const fn told_mut(&mut self, own: bool) -> &mut ToldRecords {
        if own { &mut self.own } else { &mut self.others }
    }

    fn add(&mut self, usage: &UsageDocument) {
        let length = usage.end_ns.saturating_sub(usage.start_ns);
        let (service, at) = (&usage.service, usage.start_ns / HOUR * HOUR);
        let hour = self.hours.entry(Nanoseconds(at)).or_default();
        let sum = |own: &mut Option<u64>, more: Option<u64>| {
            if let Some(more) = more {
                *own = Some(own.unwrap_or(0).saturating_add(more));
            }
        };
        if service.requests.is_some() || service.ttft.is_some() {
            hour.measured_ns = hour.measured_ns.saturating_add(length);
        }
        hour.requests = hour.requests.saturating_add(service.requests.unwrap_or(0));
        hour.failed = hour.failed.saturating_add(service.failed.unwrap_or(0));
        sum(&mut hour.prompt_tokens, service.prompt_tokens);
        sum(&mut hour.completion_tokens, service.completion_tokens);
        if let Some(ttft) = &service.ttft {
            hour.ttft.add(ttft);
        }
        if let Some(tpot) = &service.tpot {
            hour.tpot.add(tpot);
        }
        for gpu in &usage.gpus {
            if let Some(worked) = gpu.sm_seconds {
                hour.sm_ns = hour.sm_ns.saturating_add((worked * 1e9) as u64);
                hour.sm_measured_ns = hour.sm_measured_ns.saturating_add(length);
            }
            sum(
                &mut hour.energy_mj,
                gpu.joules.map(|joules| (joules * 1e3) as u64),
            );
        }
        for (name, value) in &service.quality {
            if self.quality.len() < METRICS || self.quality.contains_key(name) {
                self.quality.insert(name.clone(), *value);
            }
        }
        self.last = self.last.max(Nanoseconds(usage.end_ns));
        let oldest = Nanoseconds(self.last.0.saturating_sub(KEPT));
        self.hours = self.hours.split_off(&oldest);
    }

    /// Over the hours that begin within an interval.
    pub fn over(&self, within: Interval) -> Summed {
        let mut summed = Summed::default();
        let all = &mut summed.all;
        for hour in self.hours.range(within.start..within.end) {
            let hour = hour.1;
            all.measured_ns = all.measured_ns.saturating_add(hour.measured_ns);
            all.requests = all.requests.saturating_add(hour.requests);
            all.failed = all.failed.saturating_add(hour.failed);
            for (own, more) in [
                (&mut all.prompt_tokens, hour.prompt_tokens),
                (&mut all.completion_tokens, hour.completion_tokens),
                (&mut all.energy_mj, hour.energy_mj),
            ] {
                *own = match (*own, more) {
                    (Some(own), Some(more)) => Some(own.saturating_add(more)),
                    (own, more) => own.or(more),
                };
            }
            all.ttft.plus(&hour.ttft);
            all.tpot.plus(&hour.tpot);
            all.sm_ns = all.sm_ns.saturating_add(hour.sm_ns);
            all.sm_measured_ns = all.sm_measured_ns.saturating_add(hour.sm_measured_ns);
            if hour.measured_ns >= HOUR / 2 {
                let rate = hour.requests as f64 / Nanoseconds(hour.measured_ns).seconds().get();
                let most = summed.busiest.map_or(rate, |most| most.max(rate));
                summed.busiest = Some(most);
            }
        }
        summed
    }
}

impl Broker {
    /// What a lease told of its use; `None`: nothing yet.
    pub fn telemetry(&self, lease: u32) -> Option<&Telemetry> {
        let told = self.telemetry.get(&lease);
        told.filter(|told| told.last > Nanoseconds(0))
    }

    /// Takes usage: what becomes of each event, and what has happened then. What was told before is not
    /// told to the log again; what cannot be is kept aside there, so that it can be looked at.
    ///
    /// # Errors
    /// When an event is of a lease that is not there, or a client names a source of the broker's own.
    pub fn usage(
        &self,
        now: Nanoseconds,
        told: Vec<UsageDocument>,
    ) -> Result<(UsageAnswer, Vec<BrokerEvent>), Refusal> {
        let mut answer = UsageAnswer::default();
        let mut kept = Vec::new();
        let mut within = BTreeSet::new();
        let mut bounds = BatchBounds::new(self, now);
        for (place, mut usage) in told.into_iter().enumerate() {
            let Some(lease) = self.lease(usage.lease) else {
                return Err(Refusal::NoSuchLease(lease_id(usage.lease)));
            };
            if usage.by.is_some() {
                bounds.event(lease, place, &mut usage)?;
            }
            let key = (usage.lease, usage.source.clone(), usage.id.clone());
            let twice = !within.insert((usage.by.clone(), key));
            let outcome = if twice {
                Outcome::Duplicate
            } else {
                self.becomes(now, &usage)
            };
            match outcome {
                Outcome::Duplicate => {
                    answer.duplicates += 1;
                    continue;
                }
                Outcome::Counted => answer.accepted += 1,
                Outcome::Correction(_) => {
                    answer.accepted += 1;
                    answer.corrections += 1;
                }
                Outcome::Aside(reason) => answer.aside.push(UsageAside {
                    source: usage.source.clone(),
                    id: usage.id.clone(),
                    reason: reason.sentence().into(),
                }),
            }
            if usage.by.is_some() {
                bounds.kept(lease, &usage, matches!(outcome, Outcome::Aside(_)))?;
            }
            kept.push(usage);
        }
        let events = if kept.is_empty() {
            Vec::new()
        } else {
            vec![BrokerEvent::Used { usage: kept }]
        };
        Ok((answer, events))
    }

    fn becomes(&self, now: Nanoseconds, usage: &UsageDocument) -> Outcome {
        let Some(lease) = self.lease(usage.lease) else {
            return Outcome::Aside(Reason::Nameless);
        };
        let limits = Limits::default();
        let end = Nanoseconds(usage.end_ns);
        let looked = self
            .accounts
            .books
            .meter()
            .look(now, &of_service(lease, usage));
        let foreign = |uid: &&str| {
            let own = self.accounts.of_device(&self.world, lease, uid);
            own.is_empty()
        };
        let uids = || -> BTreeSet<&str> { usage.gpus.iter().map(|gpu| gpu.uid.as_str()).collect() };
        match looked {
            Outcome::Counted | Outcome::Correction(_) if uids().iter().any(foreign) => {
                Outcome::Aside(Reason::Impossible)
            }
            Outcome::Counted | Outcome::Correction(_) if end + limits.behind < now => {
                Outcome::Aside(Reason::TooOld)
            }
            Outcome::Counted | Outcome::Correction(_)
                if usage.end_ns.saturating_sub(usage.start_ns) > limits.longest.0 =>
            {
                Outcome::Aside(Reason::TooLong)
            }
            looked => looked,
        }
    }

    pub(crate) fn used(&mut self, at: Nanoseconds, all: &[UsageDocument]) {
        self.fresh = all.iter().map(|usage| usage.lease).collect();
        for usage in all {
            let outcome = self.becomes(at, usage);
            let Some(lease) = self.leases.get(&usage.lease).cloned() else {
                continue;
            };
            let record = of_service(&lease, usage);
            let books = &mut self.accounts.books;
            // What is aside stays there to be looked at; what came before was counted then.
            let taken = match outcome {
                Outcome::Aside(reason) => books.put_aside(at, &record, reason),
                _ => books.record(at, &record),
            };
            if usage.by.is_some() {
                let told = self.telemetry.entry(usage.lease).or_default();
                let told = told.told_mut(is_own(&lease, usage));
                told.add(matches!(taken, Outcome::Aside(_)));
            }
            if !matches!(taken, Outcome::Counted | Outcome::Correction(_)) {
                continue;
            }
            for (place, gpu) in each_once(&usage.gpus) {
                self.gpu_used(at, &lease, usage, (place, &gpu));
            }
            self.telemetry.entry(usage.lease).or_default().add(usage);
            self.judge_usage(&lease, usage);
        }
    }

    /// What was used of a GPU stands beside what was granted of it, divided by compute among the parts that the lease
    /// has of it: in the part of the interval for which it was.
    fn gpu_used(
        &mut self,
        at: Nanoseconds,
        lease: &Lease,
        usage: &UsageDocument,
        (place, gpu): (usize, &GpuUse),
    ) {
        let mut records = self.accounts.of_device(&self.world, lease, &gpu.uid);
        let weights: Vec<u64> = records.iter().map(weight).collect();
        let used = Used {
            sm_ns: gpu.sm_seconds.map(|seconds| (seconds * 1e9) as u64),
            byte_seconds: gpu.memory_byte_seconds,
            energy_mj: gpu.joules.map(|joules| (joules * 1e3) as u64),
            ..Used::default()
        };
        let parts = divided(used, &weights);
        for ((nth, record), used) in records.iter_mut().enumerate().zip(parts) {
            record.principal = of_service(lease, usage).principal;
            record.source.clone_from(&usage.source);
            record.id = match nth {
                0 => format!("{}/gpu{place}", usage.id),
                _ => format!("{}/gpu{place}/{nth}", usage.id),
            };
            record.start = Nanoseconds(usage.start_ns);
            record.end = Nanoseconds(usage.end_ns);
            record.used = used;
            // The event counts: what of it is aside is told among the records that are.
            match self.accounts.books.measure(at, record) {
                Outcome::Counted
                | Outcome::Correction(_)
                | Outcome::Duplicate
                | Outcome::Aside(_) => {}
            }
        }
    }

    /// The lease that a subject of usage names.
    ///
    /// # Errors
    /// When there is none.
    pub fn subject(&self, subject: &str) -> Result<&Lease, Refusal> {
        let number = lease_number(subject).and_then(|number| self.lease(number));
        number.ok_or_else(|| Refusal::NoSuchLease(subject.into()))
    }
}

/// Each GPU once, with the sum of what was used of it, and its first place. A log of an earlier release may name one
/// thousands of times.
fn each_once(gpus: &[GpuUse]) -> Vec<(usize, GpuUse)> {
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    let mut all: Vec<(usize, GpuUse)> = Vec::new();
    for (place, gpu) in gpus.iter().enumerate() {
        let at = *places.entry(&gpu.uid).or_insert(all.len());
        match all.get_mut(at) {
            Some((_, sum)) => {
                sum.sm_seconds = both(sum.sm_seconds, gpu.sm_seconds, |one, other| one + other);
                sum.joules = both(sum.joules, gpu.joules, |one, other| one + other);
                sum.memory_byte_seconds = both(
                    sum.memory_byte_seconds,
                    gpu.memory_byte_seconds,
                    u64::saturating_add,
                );
            }
            None => all.push((place, gpu.clone())),
        }
    }
    all
}

fn both<T>(one: Option<T>, other: Option<T>, sum: impl Fn(T, T) -> T) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(sum(one, other)),
        (one, other) => one.or(other),
    }
}

/// What a service counted, as metering takes it: of no GPU, billed where tokens have a price.
fn of_service(lease: &Lease, usage: &UsageDocument) -> UsageRecord {
    let model = lease.ask.model.clone();
    UsageRecord {
        principal: usage
            .by
            .clone()
            .map_or(Principal::Collector, Principal::Client),
        source: usage.source.clone(),
        id: usage.id.clone(),
        sequence: 0,
        tenant: lease.ask.tenant.clone(),
        lease: lease.id(),
        device: String::new(),
        part: 0,
        kind: model.unwrap_or_else(|| "tokens".into()),
        granted: Granted::Nothing,
        isolation: Sharing::Exclusive,
        class: crate::money::class(lease),
        start: Nanoseconds(usage.start_ns),
        end: Nanoseconds(usage.end_ns),
        used: Used {
            tokens_in: usage.service.prompt_tokens,
            tokens_out: usage.service.completion_tokens,
            ..Used::default()
        },
    }
}

/// The compute of a part in billionths of its device, so that parts of any kind have a common measure.
fn weight(record: &UsageRecord) -> u64 {
    let share = record.granted.compute();
    u64::from(share.part) * 1_000_000_000 / u64::from(share.of.max(1))
}

/// What was used of a device in parts that sum to it.
fn divided(used: Used, weights: &[u64]) -> Vec<Used> {
    let each = |value: Option<u64>| -> Vec<Option<u64>> {
        value.map_or_else(
            || vec![None; weights.len()],
            |value| {
                let parts = split(i128::from(value), weights);
                // No part is above the whole.
                parts.into_iter().map(|part| Some(part as u64)).collect()
            },
        )
    };
    let amounts = each(used.sm_ns)
        .into_iter()
        .zip(each(used.byte_seconds))
        .zip(each(used.energy_mj));
    amounts
        .map(|((sm_ns, byte_seconds), energy_mj)| Used {
            sm_ns,
            byte_seconds,
            energy_mj,
            ..used
        })
        .collect()
}
