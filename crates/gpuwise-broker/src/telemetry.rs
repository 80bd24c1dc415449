//! What leases used, as sources tell it: counted once, whenever it comes.

use crate::{
    Broker, Lease, Refusal,
    latencies::Latencies,
    lease::{lease_id, lease_number},
};
use gpuwise_account::{
    period::{HOUR, Interval},
    usage::{Granted, Limits, Outcome, Reason, Sharing, UsageRecord, Used},
};
use gpuwise_domain::placement::{GpuShare, Part};
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
}

/// A lease had a share of a GPU over a time.
#[derive(Debug, Clone, PartialEq)]
pub struct Had {
    pub lease: u32,
    pub interval: Interval,
    /// Of its compute, above 0, at most 1.
    pub share: f64,
    /// The profile of the MIG instance that it had, such as `1g.10gb`.
    pub profile: Option<String>,
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
            self.quality.insert(name.clone(), *value);
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
            all.measured_ns += hour.measured_ns;
            all.requests += hour.requests;
            all.failed += hour.failed;
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
        self.telemetry.get(&lease)
    }

    /// Takes usage: what becomes of each event, and what has happened then. What was told before is not
    /// told to the log again; what cannot be is kept aside there, so that it can be looked at.
    ///
    /// # Errors
    /// When an event is of a lease that is not there.
    pub fn usage(
        &self,
        now: Nanoseconds,
        told: Vec<UsageDocument>,
    ) -> Result<(UsageAnswer, Vec<BrokerEvent>), Refusal> {
        let mut answer = UsageAnswer::default();
        let mut kept = Vec::new();
        let mut within = BTreeSet::new();
        for usage in told {
            if self.lease(usage.lease).is_none() {
                return Err(Refusal::NoSuchLease(lease_id(usage.lease)));
            }
            let twice = !within.insert((usage.source.clone(), usage.id.clone()));
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
        let foreign = |gpu: &GpuUse| {
            let own = self.accounts.of_device(&self.world, lease, &gpu.uid);
            own.is_none()
        };
        match looked {
            Outcome::Counted | Outcome::Correction(_) if usage.gpus.iter().any(foreign) => {
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
            if let Outcome::Aside(reason) = outcome {
                self.accounts.books.put_aside(at, &record, reason);
                continue;
            }
            self.accounts.books.record(at, &record);
            if outcome == Outcome::Duplicate {
                continue;
            }
            for (place, gpu) in usage.gpus.iter().enumerate() {
                self.gpu_used(at, &lease, usage, (place, gpu));
            }
            self.telemetry.entry(usage.lease).or_default().add(usage);
            self.judge_usage(&lease, usage);
        }
    }

    /// What was used of a GPU stands beside what was granted of it: in the part of the interval for which
    /// it was.
    fn gpu_used(
        &mut self,
        at: Nanoseconds,
        lease: &Lease,
        usage: &UsageDocument,
        (place, gpu): (usize, &GpuUse),
    ) {
        let id = format!("{}/gpu{place}", usage.id);
        let found = self.accounts.of_device(&self.world, lease, &gpu.uid);
        let Some(mut record) = found else {
            return;
        };
        record.source.clone_from(&usage.source);
        record.id = id;
        record.start = Nanoseconds(usage.start_ns);
        record.end = Nanoseconds(usage.end_ns);
        record.used = Used {
            sm_ns: gpu.sm_seconds.map(|seconds| (seconds * 1e9) as u64),
            byte_seconds: gpu.memory_byte_seconds,
            energy_mj: gpu.joules.map(|joules| (joules * 1e3) as u64),
            ..Used::default()
        };
        self.accounts.books.measure(at, &record);
    }

    /// Who had what of GPUs over a time, as it was granted, by their lasting ids.
    pub fn had<'u>(
        &self,
        now: Nanoseconds,
        within: Interval,
        uids: impl Iterator<Item = &'u str>,
    ) -> BTreeMap<&'u str, Vec<Had>> {
        let share = |granted: &Granted| {
            let share = granted.compute();
            f64::from(share.part) / f64::from(share.of.max(1))
        };
        let profile = |granted: &Granted| match granted {
            Granted::Slice { profile, .. } => Some(profile.clone()),
            _ => None,
        };
        let mut all: BTreeMap<&str, Vec<Had>> = uids.map(|uid| (uid, Vec::new())).collect();
        for (uid, had) in &mut all {
            for (_, series) in self.accounts.books.meter().of_device(uid) {
                let spans = series.spans.touching(within);
                had.extend(spans.filter_map(|span| {
                    Some(Had {
                        lease: lease_number(&series.lease)?,
                        interval: span.within(within),
                        share: share(&series.granted),
                        profile: profile(&series.granted),
                    })
                }));
            }
        }
        for record in self.open().flat_map(|lease| self.holding(now, lease)) {
            let interval = Interval::new(record.start, record.end).within(within);
            if let (Some(had), Some(lease), false) = (
                all.get_mut(record.device.as_str()),
                lease_number(&record.lease),
                interval.is_empty(),
            ) {
                had.push(Had {
                    lease,
                    interval,
                    share: share(&record.granted),
                    profile: profile(&record.granted),
                });
            }
        }
        for had in all.values_mut() {
            had.sort_by_key(|one| (one.lease, one.interval.start));
        }
        all
    }

    /// How much of a GPU's compute each part of a lease is, on average: 1 where they are whole GPUs.
    pub fn share_of(&self, lease: &Lease) -> f64 {
        let of = |share: &GpuShare| match share.part {
            Part::Whole => Some(1.0),
            Part::Fraction { milli, .. } => Some(f64::from(milli) / 1000.0),
            Part::Slice { shape, .. } => {
                let kind = self.world.kind(self.world.gpu(share.gpu)?.gpu.kind)?;
                let mig = kind.mig.as_ref()?;
                let compute = f64::from(mig.shape(shape)?.compute);
                Some(compute / f64::from(mig.compute_slices.max(1)))
            }
        };
        let parts = lease.place.iter().flat_map(|one| &one.gpus);
        let shares: Vec<f64> = parts.filter_map(of).filter(|share| *share > 0.0).collect();
        if shares.is_empty() {
            return 1.0;
        }
        shares.iter().sum::<f64>() / shares.len() as f64
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

/// What a service counted, as metering takes it: of no GPU, billed where tokens have a price.
fn of_service(lease: &Lease, usage: &UsageDocument) -> UsageRecord {
    let model = lease.ask.model.clone();
    UsageRecord {
        source: usage.source.clone(),
        id: usage.id.clone(),
        sequence: 0,
        tenant: lease.ask.tenant.clone(),
        lease: lease.id(),
        device: String::new(),
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
