//! What clients may tell of a lease: what something can have done, in the time of the lease, so often and no more.

use crate::{Broker, Lease, Refusal, money::is_reserved};
use gpuwise_account::period::HOUR;
use gpuwise_units::Nanoseconds;
use gpuwise_wire::broker::{LatencyHistogram, UsageDocument};
use std::collections::{BTreeMap, BTreeSet};

const SECOND: u64 = 1_000_000_000;
/// Hours of GPUs that one request tells of at most: each is found and added to, and others wait meanwhile.
const GPU_HOURS: u64 = 250_000;

/// Records that clients tell of a lease at most: some, and one a second of its life. What is told is kept, so that it
/// counts once.
pub(crate) const RECORDS: u64 = 2_000;
/// Records of a lease that are kept aside at most.
const ASIDE: u64 = 500;
/// Metrics of quality of a lease at most.
pub(super) const METRICS: usize = 256;
/// Requests or tokens of one event at most: a thousand times what a fleet of a million GPUs answers in a day.
const MOST: u64 = 1_000_000_000_000_000;
/// Watts of a GPU at most: none of the catalogue draws a fifth of it.
const WATTS: f64 = 10_000.0;
/// Bytes of its memory at most: none of the catalogue has a tenth of it.
const MEMORY: f64 = 1e13;

/// Records that clients told of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct ToldRecords {
    all: u64,
    /// How many of them are kept aside.
    aside: u64,
}

impl ToldRecords {
    pub(super) fn add(&mut self, aside: bool) {
        self.all = self.all.saturating_add(1);
        self.aside = self.aside.saturating_add(u64::from(aside));
    }
}

/// Whether usage was told by a client of the tenant of its lease.
pub(super) fn is_own(lease: &Lease, usage: &UsageDocument) -> bool {
    usage.tenant.as_ref() == Some(&lease.ask.tenant)
}

/// What the events of one request tell, together with what was told before.
pub(super) struct BatchBounds<'b> {
    broker: &'b Broker,
    now: Nanoseconds,
    /// Hours of GPUs so far.
    hours: u64,
    /// Records of each lease so far, of its tenant's clients and of others.
    told: BTreeMap<(u32, bool), ToldRecords>,
    /// Metrics of quality of each lease that it has not told before.
    metrics: BTreeMap<u32, BTreeSet<String>>,
}

impl<'b> BatchBounds<'b> {
    pub(super) fn new(broker: &'b Broker, now: Nanoseconds) -> Self {
        Self {
            broker,
            now,
            hours: 0,
            told: BTreeMap::new(),
            metrics: BTreeMap::new(),
        }
    }

    /// Takes in an event of a client, cut to the time of its lease.
    ///
    /// # Errors
    /// When nothing can have done so much, or the request tells too much at once.
    pub(super) fn event(
        &mut self,
        lease: &Lease,
        place: usize,
        usage: &mut UsageDocument,
    ) -> Result<(), Refusal> {
        let wrong = |(field, problem): (&str, String)| {
            Refusal::invalid(&format!("[{place}].{field}"), problem)
        };
        of_client(lease, usage).map_err(wrong)?;
        self.hours = self.hours.saturating_add(gpu_hours(lease, usage));
        if self.hours > GPU_HOURS {
            let problem = format!(
                "the events up to this one tell of more than {GPU_HOURS} hours of GPUs: send fewer of them in one \
                 request, or shorter ones"
            );
            return Err(wrong(("data", problem)));
        }
        let known = self.broker.telemetry.get(&usage.lease);
        let known = known.map(|told| &told.quality);
        let names = usage.service.quality.keys();
        let names = names.filter(|name| known.is_none_or(|known| !known.contains_key(*name)));
        let new = self.metrics.entry(usage.lease).or_default();
        new.extend(names.cloned());
        let metrics = known.map_or(0, BTreeMap::len) + new.len();
        if metrics > METRICS {
            let problem = format!("{metrics} metrics of {}: at most {METRICS}", lease.id());
            return Err(wrong(("data.quality", problem)));
        }
        Ok(())
    }

    /// Takes in that an event of a client is kept, counted or aside.
    ///
    /// # Errors
    /// When its lease has as many already.
    pub(super) fn kept(
        &mut self,
        lease: &Lease,
        usage: &UsageDocument,
        aside: bool,
    ) -> Result<(), Refusal> {
        let own = is_own(lease, usage);
        let more = self.told.entry((lease.number, own)).or_default();
        more.add(aside);
        let before = self.broker.telemetry.get(&lease.number);
        let before = before.map(|told| told.told(own)).unwrap_or_default();
        if before.aside.saturating_add(more.aside) > ASIDE {
            return Err(Refusal::TooManyAside {
                lease: lease.id(),
                most: ASIDE,
            });
        }
        let life = Nanoseconds(self.now.0.saturating_sub(lease.requested.0));
        let most = RECORDS.saturating_add(life.0 / SECOND);
        if before.all.saturating_add(more.all) > most {
            return Err(Refusal::TooManyRecords {
                lease: lease.id(),
                most,
            });
        }
        Ok(())
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
