//! SLOs of tenants and leases: what was good, how fast error budgets burn, what that asks of the kernel.

use crate::{Broker, Lease, Refusal, lease::lease_id, lease::lease_number};
use gpuwise_account::slo::{Alert, CountedEvents, Objective, Rule, Severity, Tally};
use gpuwise_domain::placement::{Event, JobId};
use gpuwise_units::{Fraction, Nanoseconds};
use gpuwise_wire::{
    Mirror as _,
    broker::{
        BrokerEvent, EndedHow, IndicatorDocument, ObjectiveDocument, ServiceUse, SloDocument,
        UsageDocument,
    },
    live::EventDocument,
};

/// What the priority of a lease is raised by while its SLO is at risk.
const RAISED: i32 = 1000;

/// So long nothing burns before a raised priority is lowered again.
const CALM: Nanoseconds = Nanoseconds(3_600_000_000_000);

/// An SLO with its counts.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Slo {
    #[serde(with = "crate::image::document")]
    pub document: SloDocument,
    /// In the order of its objectives.
    pub(crate) tallies: Vec<Tally>,
}

/// A lease whose SLO is at risk.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct AtRisk {
    pub since: Nanoseconds,
    /// When an alert stood last.
    pub last: Nanoseconds,
    pub reason: String,
    /// Its priority before.
    pub before: i32,
}

impl Slo {
    fn new(document: SloDocument) -> Option<Self> {
        let each = document.objectives.iter();
        let tallies = each.map(|one| Some(Tally::new(Objective::new(one.good_ppm)?)));
        Some(Self {
            tallies: tallies.collect::<Option<_>>()?,
            document,
        })
    }

    pub fn id(&self) -> String {
        format!("S-{}", self.document.number)
    }

    fn is_of(&self, lease: &Lease) -> bool {
        match self.document.lease {
            // What takes a lease's place is held to what that was held to.
            Some(number) => number == lease.origin,
            None => self.document.tenant == lease.ask.tenant,
        }
    }

    /// Objectives with what was told of them: without leases that wait too long already.
    fn objectives(&self) -> impl Iterator<Item = (&ObjectiveDocument, &Tally)> {
        self.document.objectives.iter().zip(&self.tallies)
    }

    /// The gravest alert of each objective that burns too fast.
    fn alerts(&self, now: Nanoseconds) -> Vec<(&ObjectiveDocument, Alert)> {
        let burning = self.objectives().filter_map(|(objective, tally)| {
            let alert = tally.alerts(now).into_iter().next()?;
            Some((objective, alert))
        });
        burning.collect()
    }
}

/// Good events and all events that a service's use says of an indicator; `None`: it says nothing.
fn judged(indicator: &IndicatorDocument, service: &ServiceUse) -> Option<(u64, u64)> {
    let failed = service.failed.unwrap_or(0);
    let within = |seen: &Option<gpuwise_wire::broker::LatencyHistogram>, nanoseconds: u64| {
        let seen = seen.as_ref()?;
        let good = seen.within(Nanoseconds(nanoseconds).seconds().get());
        Some((good, seen.count().saturating_add(failed)))
    };
    match indicator {
        IndicatorDocument::Ttft { within_ns } => within(&service.ttft, *within_ns),
        IndicatorDocument::Tpot { within_ns } => within(&service.tpot, *within_ns),
        IndicatorDocument::Goodput => {
            let all = service.requests?.saturating_add(failed);
            Some((service.good?, all))
        }
        IndicatorDocument::Quality {
            metric,
            at_least,
            at_most,
        } => {
            let value = *service.quality.get(metric)?;
            let good = at_least.is_none_or(|bound| value >= bound)
                && at_most.is_none_or(|bound| value <= bound);
            Some((u64::from(good), 1))
        }
        IndicatorDocument::TimeToLease { .. } | IndicatorDocument::Survival => None,
    }
}

impl Broker {
    pub fn slos(&self) -> impl Iterator<Item = &Slo> {
        self.slos.values()
    }

    pub fn slo(&self, number: u32) -> Option<&Slo> {
        self.slos.get(&number)
    }

    /// SLOs that a lease is held to.
    pub fn slos_of(&self, lease: &Lease) -> impl Iterator<Item = &Slo> {
        self.slos.values().filter(move |slo| slo.is_of(lease))
    }

    /// Objectives of an SLO with their counts. Leases that wait longer than a time to lease allows are bad events from
    /// that moment on, each once: while it waits it counts as one of now, and from when it starts or ends by what that
    /// said.
    pub fn counted<'s>(
        &'s self,
        slo: &'s Slo,
        now: Nanoseconds,
    ) -> impl Iterator<Item = (&'s ObjectiveDocument, CountedEvents<'s>)> {
        slo.objectives().map(move |(objective, tally)| {
            let late = self.late(slo, &objective.indicator, now);
            (objective, tally.with_late(late))
        })
    }

    /// Leases that wait, and longer than is promised.
    fn late(&self, slo: &Slo, indicator: &IndicatorDocument, now: Nanoseconds) -> u64 {
        let IndicatorDocument::TimeToLease { within_ns } = indicator else {
            return 0;
        };
        let waits = self.open_of(&slo.document.tenant).filter(|lease| {
            let waited = now.0.saturating_sub(lease.requested.0);
            lease.started.is_none() && waited > *within_ns && slo.is_of(lease)
        });
        waits.count() as u64
    }

    /// Why a lease's SLO is at risk; `None`: it is not.
    pub fn at_risk(&self, lease: u32) -> Option<&AtRisk> {
        self.at_risk.get(&lease)
    }

    /// Sets the SLO of a tenant or lease; its number, and what has happened then. Counts of objectives
    /// that stay as they were go on.
    ///
    /// # Errors
    /// When there is no such tenant or lease, or nothing is promised.
    pub fn set_slo(
        &self,
        target: &str,
        objectives: Vec<ObjectiveDocument>,
    ) -> Result<(u32, Vec<BrokerEvent>), Refusal> {
        let (tenant, lease) = self.target(target)?;
        if objectives.is_empty() {
            let problem = "say what is promised, such as a time to first token";
            return Err(Refusal::invalid("slo", problem));
        }
        if let Some(one) = objectives.iter().find(|one| one.good_ppm >= 1_000_000) {
            let problem = "100 % leaves nothing that may fail, which no service keeps";
            return Err(Refusal::invalid(one.indicator.word(), problem));
        }
        let same = |slo: &&Slo| slo.document.tenant == tenant && slo.document.lease == lease;
        let known = self.slos.values().find(same);
        let last = self.slos.last_key_value().map_or(0, |(number, _)| *number);
        let number = known.map_or(last.max(self.last_slo) + 1, |slo| slo.document.number);
        let slo = SloDocument {
            number,
            tenant,
            lease,
            objectives,
        };
        if known.is_some_and(|known| known.document == slo) {
            return Ok((number, Vec::new()));
        }
        Ok((number, vec![BrokerEvent::SloSet { slo }]))
    }

    /// Whose SLO is meant: a lease by its id, or a tenant.
    ///
    /// # Errors
    /// When there is neither.
    pub fn target(&self, target: &str) -> Result<(String, Option<u32>), Refusal> {
        if target.starts_with("L-")
            && let Some(lease) = lease_number(target).and_then(|number| self.lease(number))
        {
            return Ok((lease.ask.tenant.clone(), Some(lease.origin)));
        }
        match self.tenant(target) {
            Some(tenant) => Ok((tenant.name.clone(), None)),
            None if target.starts_with("L-") => Err(Refusal::NoSuchLease(target.into())),
            None => Err(Refusal::NoSuchTenant(target.into())),
        }
    }

    /// Takes an SLO back.
    ///
    /// # Errors
    /// When there is none.
    pub fn remove_slo(&self, number: u32) -> Result<Vec<BrokerEvent>, Refusal> {
        match self.slos.get(&number) {
            None => Err(Refusal::NoSuchSlo(format!("S-{number}"))),
            Some(_) => Ok(vec![BrokerEvent::SloRemoved { slo: number }]),
        }
    }

    pub(crate) fn slo_set(&mut self, document: &SloDocument) {
        let Some(mut slo) = Slo::new(document.clone()) else {
            return;
        };
        if let Some(before) = self.slos.get(&document.number) {
            for (objective, tally) in document.objectives.iter().zip(&mut slo.tallies) {
                let same = before.objectives().find(|(one, _)| *one == objective);
                if let Some((_, counted)) = same {
                    tally.clone_from(counted);
                }
            }
        }
        self.last_slo = self.last_slo.max(document.number);
        self.slos.insert(document.number, slo);
    }

    /// Counts what a lease's use says of its SLOs, at the time at which it was.
    pub(crate) fn judge_usage(&mut self, lease: &Lease, usage: &UsageDocument) {
        let at = Nanoseconds(usage.end_ns);
        self.judge(lease, at, |indicator| judged(indicator, &usage.service));
    }

    /// Counts that a lease has become active.
    pub(crate) fn judge_start(&mut self, lease: &Lease, at: Nanoseconds) {
        let waited = at.0.saturating_sub(lease.requested.0);
        self.judge(lease, at, |indicator| match indicator {
            IndicatorDocument::TimeToLease { within_ns } => {
                Some((u64::from(waited <= *within_ns), 1))
            }
            _ => None,
        });
    }

    /// Counts how a lease ended.
    pub(crate) fn judge_end(&mut self, lease: &Lease, at: Nanoseconds, how: EndedHow) {
        let waited = at.0.saturating_sub(lease.requested.0);
        let (started, kept) = (lease.started.is_some(), how == EndedHow::Ended);
        self.judge(lease, at, |indicator| match indicator {
            IndicatorDocument::Survival if started => Some((u64::from(kept), 1)),
            IndicatorDocument::TimeToLease { within_ns } if !started && waited > *within_ns => {
                Some((0, 1))
            }
            _ => None,
        });
    }

    /// Counts that a lease lost its place for others, which its class does not allow.
    pub(crate) fn judge_stop(&mut self, lease: &Lease, at: Nanoseconds) {
        if lease.ask.preemptible == Some(true) {
            return;
        }
        self.judge(lease, at, |indicator| {
            matches!(indicator, IndicatorDocument::Survival).then_some((0, 1))
        });
    }

    fn judge(
        &mut self,
        lease: &Lease,
        at: Nanoseconds,
        of: impl Fn(&IndicatorDocument) -> Option<(u64, u64)>,
    ) {
        for slo in self.slos.values_mut().filter(|slo| slo.is_of(lease)) {
            for (objective, tally) in slo.document.objectives.iter().zip(&mut slo.tallies) {
                if let Some((good, all)) = of(&objective.indicator) {
                    tally.add(at, good, all);
                }
            }
        }
    }

    /// What error budgets that burn ask of the kernel: the priority of a lease is raised while somebody
    /// would be called for it, and lowered again after an hour without.
    pub(crate) fn demands(&self, now: Nanoseconds) -> Vec<BrokerEvent> {
        let mut events = Vec::new();
        if self.slos.is_empty() {
            return events;
        }
        let looked = self.fresh.iter().chain(self.at_risk.keys());
        let looked: std::collections::BTreeSet<&u32> = looked.collect();
        for lease in looked.into_iter().filter_map(|number| self.lease(*number)) {
            if lease.over.is_some() {
                continue;
            }
            let page = self.slos_of(lease).find_map(|slo| {
                let alerts = slo.alerts(now);
                let page = alerts
                    .into_iter()
                    .find(|(_, alert)| alert.rule.severity() == Severity::Page)?;
                Some((slo.id(), page.0.indicator.word(), page.1))
            });
            let Some(job) = self.world.job(lease.job()) else {
                continue;
            };
            match (page, self.at_risk.get(&lease.number)) {
                (Some((slo, word, alert)), None) => events.push(BrokerEvent::DemandSet {
                    lease: lease.number,
                    priority: job.job.priority.saturating_add(RAISED),
                    at_risk: true,
                    reason: format!(
                        "{slo} is at risk: the error budget of {word} burns {} times as fast as it \
                         may over {} and {} over {}",
                        times(alert.long),
                        alert.rule.name(),
                        times(alert.short),
                        short_words(alert.rule),
                    ),
                }),
                (None, Some(risk)) if now.0.saturating_sub(risk.last.0) >= CALM.0 => {
                    events.push(BrokerEvent::DemandSet {
                        lease: lease.number,
                        priority: risk.before,
                        at_risk: false,
                        reason: "nothing of its SLOs has burned too fast for an hour".into(),
                    });
                }
                _ => {}
            }
        }
        events
    }

    pub(crate) fn demand_set(
        &mut self,
        at: Nanoseconds,
        (lease, priority, at_risk): (u32, i32, bool),
        reason: &str,
    ) -> Result<(), crate::Broken> {
        let state = self.world.job(JobId(lease));
        let Some(mut job) = state.map(|state| state.job.to_job()) else {
            return Ok(());
        };
        let before = job.priority;
        job.priority = priority;
        if at_risk {
            let risk = self.at_risk.entry(lease).or_insert(AtRisk {
                since: at,
                last: at,
                reason: String::new(),
                before,
            });
            risk.last = at;
            reason.clone_into(&mut risk.reason);
        } else {
            self.at_risk.remove(&lease);
        }
        // As a document and back, so that what is applied is what any log would say.
        let event: Event = EventDocument::of(&Event::JobSet(job)).noun();
        self.happen(at, event)
    }

    /// Keeps the alert of a lease at risk fresh as usage comes in.
    pub(crate) fn still_at_risk(&mut self, now: Nanoseconds) {
        let mut burning = Vec::new();
        for lease in self.at_risk.keys() {
            let Some(lease) = self.leases.get(lease) else {
                continue;
            };
            let burns = self.slos_of(lease).any(|slo| !slo.alerts(now).is_empty());
            if burns {
                burning.push(lease.number);
            }
        }
        for lease in burning {
            if let Some(risk) = self.at_risk.get_mut(&lease) {
                risk.last = now;
            }
        }
    }

    /// Whether the SLOs of a lease were kept since a moment, by its own events alone; how many there were.
    pub fn kept_since(&self, lease: u32, since: Nanoseconds, now: Nanoseconds) -> Option<Kept> {
        let lease = self.lease(lease)?;
        let within = gpuwise_account::period::Interval::new(since, now);
        let mut kept = Kept {
            events: 0,
            worst: None,
        };
        for slo in self
            .slos_of(lease)
            .filter(|slo| slo.document.lease.is_some())
        {
            for (objective, counted) in self.counted(slo, now) {
                let (bad, all) = counted.events(within);
                if all == 0 {
                    continue;
                }
                kept.events = kept.events.max(all);
                let burn = Fraction::new(
                    i128::from(bad) * 1_000_000,
                    i128::from(all) * i128::from(1_000_000 - objective.good_ppm),
                );
                let burn = burn.unwrap_or(Fraction::ZERO);
                if kept.worst.is_none_or(|(_, worst)| burn > worst) {
                    kept.worst = Some((objective.indicator.word(), burn));
                }
            }
        }
        Some(kept)
    }
}

/// How SLOs were kept over a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// Events of the indicator that had most.
    pub events: u64,
    /// The indicator that fails most, and how many times as often as it may: at most 1 is kept.
    pub worst: Option<(&'static str, Fraction)>,
}

impl Kept {
    pub fn is_kept(&self) -> bool {
        self.worst.is_none_or(|(_, burn)| burn <= Fraction::ONE)
    }
}

pub(crate) fn times(burn: Fraction) -> String {
    burn.plain(1)
}

fn short_words(rule: Rule) -> String {
    let minutes = rule.short().0 / 60_000_000_000;
    if minutes < 60 {
        format!("{minutes} min")
    } else {
        format!("{} h", minutes / 60)
    }
}

/// The lease of an SLO in words.
pub fn slo_target(slo: &Slo) -> String {
    slo.document
        .lease
        .map_or_else(|| slo.document.tenant.clone(), lease_id)
}
