//! What leases used, as sources tell it: counted once, whenever it comes.

use crate::{
    Broker, Lease, Refusal,
    latencies::Latencies,
    lease::{lease_id, lease_number},
    money::is_reserved,
};
use gpuwise_account::{
    money::split,
    period::{HOUR, Interval},
    usage::{Granted, Limits, Outcome, Principal, Reason, Sharing, UsageRecord, Used},
};
use gpuwise_domain::placement::{GpuId, GpuShare, Part};
use gpuwise_units::Nanoseconds;
use gpuwise_wire::broker::{
    BrokerEvent, GpuUse, LatencyHistogram, UsageAnswer, UsageAside, UsageDocument,
};
use std::collections::{BTreeMap, BTreeSet};

/// For so long telemetry is kept by the hour.
const KEPT: u64 = 14 * 24 * HOUR;

/// Hours of GPUs that one request tells of at most: each is found and added to, and others wait meanwhile.
const GPU_HOURS: u64 = 250_000;

/// Records that clients tell of a lease at most: some, and one a second of its life. What is told is kept, so that it
/// counts once.
pub(crate) const RECORDS: u64 = 2_000;
/// Records of a lease that are kept aside at most.
const ASIDE: u64 = 500;
/// Metrics of quality of a lease at most.
const METRICS: usize = 256;
/// Requests or tokens of one event at most: a thousand times what a fleet of a million GPUs answers in a day.
const MOST: u64 = 1_000_000_000_000_000;
/// Watts of a GPU at most: none of the catalogue draws a fifth of it.
const WATTS: f64 = 10_000.0;
/// Bytes of its memory at most: none of the catalogue has a tenth of it.
const MEMORY: f64 = 1e13;

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

/// Records that clients told of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
struct ToldRecords {
    all: u64,
    /// How many of them are kept aside.
    aside: u64,
}

impl ToldRecords {
    fn add(&mut self, aside: bool) {
        self.all = self.all.saturating_add(1);
        self.aside = self.aside.saturating_add(u64::from(aside));
    }
}

/// A lease had a share of a GPU over a time.
#[derive(Debug, Clone, PartialEq)]
pub struct Had {
    pub lease: u32,
    pub interval: Interval,
    /// Of its compute, above 0, at most 1.
    pub share: f64,
    /// The profile of the MIG instances that it had, such as `1g.10gb`.
    pub profile: Option<String>,
    /// How many equal parts of the GPU that were.
    pub parts: u32,
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

/// Whether a client is of the tenant of a lease: names of its tokens begin with the tenant's.
fn is_own(lease: &Lease, client: &str) -> bool {
    let rest = client.strip_prefix(lease.ask.tenant.as_str());
    rest.is_some_and(|rest| rest.starts_with('/'))
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

    /// Takes in the metrics of quality of an event that the lease has not told before; says how many it then has.
    fn metrics(&self, usage: &UsageDocument, new: &mut BTreeSet<String>) -> usize {
        let known = self.telemetry.get(&usage.lease).map(|told| &told.quality);
        let names = usage.service.quality.keys();
        let names = names.filter(|name| known.is_none_or(|known| !known.contains_key(*name)));
        new.extend(names.cloned());
        known.map_or(0, BTreeMap::len) + new.len()
    }

    /// Whether clients of its tenant, or others, may tell of a lease once more.
    fn is_bounded(
        &self,
        now: Nanoseconds,
        lease: &Lease,
        own: bool,
        more: ToldRecords,
    ) -> Result<(), Refusal> {
        let told = self.telemetry.get(&lease.number);
        let before = told.map_or_else(ToldRecords::default, |told| told.told(own));
        let life = Nanoseconds(now.0.saturating_sub(lease.requested.0));
        let most = RECORDS.saturating_add(life.0 / 1_000_000_000);
        if before.aside.saturating_add(more.aside) > ASIDE {
            return Err(Refusal::TooManyAside {
                lease: lease.id(),
                most: ASIDE,
            });
        }
        if before.all.saturating_add(more.all) > most {
            return Err(Refusal::TooManyRecords {
                lease: lease.id(),
                most,
            });
        }
        Ok(())
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
        let mut hours = 0_u64;
        let mut more: BTreeMap<(u32, bool), ToldRecords> = BTreeMap::new();
        let mut metrics: BTreeMap<u32, BTreeSet<String>> = BTreeMap::new();
        for (place, mut usage) in told.into_iter().enumerate() {
            let Some(lease) = self.lease(usage.lease) else {
                return Err(Refusal::NoSuchLease(lease_id(usage.lease)));
            };
            if usage.by.is_some() {
                of_client(lease, &mut usage).map_err(|(field, problem)| {
                    Refusal::invalid(&format!("[{place}].{field}"), problem)
                })?;
                hours = hours.saturating_add(gpu_hours(lease, &usage));
                let many = self.metrics(&usage, metrics.entry(usage.lease).or_default());
                if many > METRICS {
                    let field = format!("[{place}].data.quality");
                    let problem = format!("{many} metrics of {}: at most {METRICS}", lease.id());
                    return Err(Refusal::invalid(&field, problem));
                }
            }
            if hours > GPU_HOURS {
                let problem = format!(
                    "the events up to this one tell of more than {GPU_HOURS} hours of GPUs: send fewer of them in one \
                     request, or shorter ones"
                );
                return Err(Refusal::invalid(&format!("[{place}].data"), problem));
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
            if let Some(client) = &usage.by {
                let own = is_own(lease, client);
                let more = more.entry((usage.lease, own)).or_default();
                more.add(matches!(outcome, Outcome::Aside(_)));
                self.is_bounded(now, lease, own, *more)?;
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
            if let Some(client) = &usage.by {
                let told = self.telemetry.entry(usage.lease).or_default();
                let told = told.told_mut(is_own(&lease, client));
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
        let one = |lease: &str, interval: Interval, granted: &Granted| {
            let interval = interval.within(within);
            let lease = lease_number(lease).filter(|_| !interval.is_empty())?;
            Some(Had {
                lease,
                interval,
                share: share(granted),
                profile: profile(granted),
                parts: 1,
            })
        };
        let mut all: BTreeMap<&str, Vec<Had>> = uids.map(|uid| (uid, Vec::new())).collect();
        for (uid, had) in &mut all {
            for (_, series) in self.accounts.books.meter().of_device(uid) {
                let spans = series.spans.touching(within);
                had.extend(spans.filter_map(|span| one(&series.lease, span, &series.granted)));
            }
        }
        for record in self.open().flat_map(|lease| self.holding(now, lease)) {
            if let Some(had) = all.get_mut(record.device.as_str()) {
                let interval = Interval::new(record.start, record.end);
                had.extend(one(&record.lease, interval, &record.granted));
            }
        }
        for had in all.values_mut() {
            *had = together(std::mem::take(had));
        }
        all
    }

    /// How much of the compute of each GPU that a lease is on it has, on average: 1 where they are whole GPUs.
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
        let mut gpus: BTreeMap<GpuId, f64> = BTreeMap::new();
        for share in lease.place.iter().flat_map(|one| &one.gpus) {
            if let Some(part) = of(share).filter(|part| *part > 0.0) {
                *gpus.entry(share.gpu).or_default() += part;
            }
        }
        if gpus.is_empty() {
            return 1.0;
        }
        gpus.values().sum::<f64>() / gpus.len() as f64
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

/// Usage as a client may tell it: each GPU once, in the time of its lease. What reaches beyond that time is cut.
fn of_client(lease: &Lease, usage: &mut UsageDocument) -> Result<(), (&'static str, String)> {
    if is_reserved(&usage.source) {
        let problem = format!(
            "{:?} is a source of the broker's own: name what measures, such as dcgm/node-7",
            usage.source
        );
        return Err(("source", problem));
    }
    let mut once = BTreeSet::new();
    if let Some(twice) = usage.gpus.iter().find(|gpu| !once.insert(gpu.uid.as_str())) {
        let problem = format!(
            "{} is named twice: name each GPU once, with the sum of what was used of it",
            twice.uid
        );
        return Err(("data.gpus", problem));
    }
    possible(usage)?;
    if usage.start_ns > usage.end_ns {
        // The meter keeps it aside, and says why.
        return Ok(());
    }
    let begun = lease.requested.0;
    if usage.end_ns < begun {
        let problem = format!(
            "it ends before {} was asked for: usage is of the time of its lease",
            lease.id()
        );
        return Err(("data.end", problem));
    }
    let over = lease.over.as_ref().map_or(u64::MAX, |over| over.at.0);
    if usage.start_ns > over {
        let problem = format!(
            "it starts after {} was over: usage is of the time of its lease",
            lease.id()
        );
        return Err(("data.start", problem));
    }
    usage.start_ns = usage.start_ns.max(begun);
    usage.end_ns = usage.end_ns.min(over);
    Ok(())
}

/// Whether something can have done so much in such a time.
fn possible(usage: &UsageDocument) -> Result<(), (&'static str, String)> {
    let service = &usage.service;
    let counted =
        |histogram: &Option<LatencyHistogram>| histogram.as_ref().map(LatencyHistogram::count);
    for (field, count) in [
        ("data.requests", service.requests),
        ("data.failed", service.failed),
        ("data.prompt_tokens", service.prompt_tokens),
        ("data.completion_tokens", service.completion_tokens),
        ("data.ttft", counted(&service.ttft)),
        ("data.tpot", counted(&service.tpot)),
    ] {
        if let Some(count) = count.filter(|count| *count > MOST) {
            return Err((field, format!("{count} in one event: at most {MOST}")));
        }
    }
    let seconds = Nanoseconds(usage.end_ns.saturating_sub(usage.start_ns))
        .seconds()
        .get();
    if service
        .quality
        .keys()
        .any(|name| !(1..=255).contains(&name.chars().count()))
    {
        let problem = "a name of a metric: expected from 1 to 255 characters".to_owned();
        return Err(("data.quality", problem));
    }
    if usage.start_ns > usage.end_ns {
        // The meter keeps it aside, and says why.
        return Ok(());
    }
    // What was read within a second may be told of less.
    let long = seconds.max(1.0);
    for gpu in &usage.gpus {
        let bytes = gpu.memory_byte_seconds.map(|bytes| bytes as f64);
        for (value, unit, most, why) in [
            (
                gpu.joules,
                "J",
                WATTS * long,
                "no GPU draws more than 10 kW",
            ),
            (
                gpu.sm_seconds,
                "s of its SMs",
                long,
                "no GPU works longer than it is looked at",
            ),
            (
                bytes,
                "byte-seconds",
                MEMORY * long,
                "no GPU has more than 10 TB of memory",
            ),
        ] {
            // A clock of one that measures may differ a little.
            if let Some(value) = value.filter(|value| *value > most * 1.01) {
                let problem = format!("{value} {unit} of {} in {seconds} s: {why}", gpu.uid);
                return Err(("data.gpus", problem));
            }
        }
    }
    Ok(())
}

/// Hours of GPUs, or of parts of them, that usage adds to at most.
fn gpu_hours(lease: &Lease, usage: &UsageDocument) -> u64 {
    let hours = usage.end_ns.saturating_sub(usage.start_ns) / HOUR + 1;
    let shares: usize = lease.place.iter().map(|one| one.gpus.len()).sum();
    let records = match usage.gpus.len() {
        0 => 0,
        many => many.max(shares),
    };
    // The service itself is a record, too.
    hours.saturating_mul(records as u64 + 1)
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

/// What leases had of one GPU, the parts of one lease and profile at a time as one.
fn together(mut had: Vec<Had>) -> Vec<Had> {
    had.sort_by(|one, other| {
        let key = |had: &Had| (had.lease, had.profile.clone());
        key(one).cmp(&key(other))
    });
    let mut all = Vec::new();
    for own in had.chunk_by(|one, other| one.lease == other.lease && one.profile == other.profile) {
        let bounds = own
            .iter()
            .flat_map(|one| [one.interval.start, one.interval.end]);
        let moments: BTreeSet<Nanoseconds> = bounds.collect();
        let moments: Vec<Nanoseconds> = moments.into_iter().collect();
        for pair in moments.windows(2) {
            let within = Interval::new(pair[0], pair[1]);
            let held = own.iter().filter(|one| one.interval.overlaps(within));
            let (parts, share) = held.fold((0, 0.0), |(parts, share), one| {
                (parts + one.parts, share + one.share)
            });
            let last: Option<&mut Had> = all.last_mut();
            match last {
                _ if parts == 0 => {}
                // Spans of one part that follow each other are one.
                Some(last)
                    if last.interval.end == within.start
                        && last.lease == own[0].lease
                        && last.profile == own[0].profile
                        && last.parts == parts
                        && last.share.total_cmp(&share).is_eq() =>
                {
                    last.interval.end = within.end;
                }
                _ => all.push(Had {
                    interval: within,
                    share,
                    parts,
                    ..own[0].clone()
                }),
            }
        }
    }
    all.sort_by_key(|one| (one.lease, one.interval.start));
    all
}
