//! Whether a service has the right size: its telemetry against a plan that knows it.

use super::{desk::AppDesk, sizing::Planned};
use crate::{
    commands::calibrate::{keep, results},
    questions::{QuestionRow, read_text_table},
};
use gpuwise_account::period::{DAY, HOUR, Interval};
use gpuwise_broker::{Broker, Lease, Summed};
use gpuwise_domain::{
    deployment::{Deployment, Saved},
    placement::{GpuAsk, Job},
    question::{Load, Question},
};
use gpuwise_server::Review;
use gpuwise_units::{Money, Nanoseconds, significant};
use gpuwise_wire::{
    Mirror as _,
    broker::{LeaseAsk, LeaseSize, ProposalState, RightSizeDocument, SavingDocument},
    live::JobDocument,
};
use std::path::PathBuf;

/// What is looked back to.
const BACK: u64 = DAY;
/// For so long a service must have been measured, and so many of its requests.
const MEASURED: u64 = 3 * HOUR;
const REQUESTS: u64 = 500;
/// What the load may grow by before the new size breaks.
const MARGIN: f64 = 1.05;
/// Rows that are further off than this from what was learned before are learned.
const NEWS: f64 = 0.02;
/// The share of its cost that a smaller size must save.
const WORTH: f64 = 0.1;
/// After one was undone or rejected nothing is proposed of a service for so long.
const PAUSE: u64 = 7 * DAY;
/// How long both leases may be held at once: starting, being ready, draining.
const OVERLAP: u64 = HOUR / 4;

/// A service as it was measured.
struct Seen<'a> {
    lease: &'a Lease,
    saved: Saved,
    summed: Summed,
    /// Requests a second in the busiest hour.
    rate: f64,
    /// Mean tokens of prompts and answers.
    input: f64,
    output: f64,
}

impl AppDesk {
    pub(super) fn reviewed(&self, broker: &Broker, lease: &Lease, now: Nanoseconds) -> Review {
        let Some(seen) = seen(broker, lease, now) else {
            return Review::default();
        };
        let learned = learned(broker, &seen);
        // The plan knows what was learned just now.
        let mut knowing = None;
        if let Some((rows, reason)) = &learned {
            let mut with = broker.clone();
            let event = gpuwise_wire::broker::BrokerEvent::Learned {
                lease: lease.origin,
                rows: rows.clone(),
                reason: reason.clone(),
            };
            let at_ns = now.0;
            let applied = with.apply(&gpuwise_wire::broker::LoggedEvent { at_ns, event });
            knowing = applied.is_ok().then_some(with);
        }
        let broker = knowing.as_ref().unwrap_or(broker);
        let proposal = if is_quiet(broker, lease, now) {
            self.proposal(
                broker,
                &seen,
                learned.as_ref().map(|(_, reason)| reason.as_str()),
            )
        } else {
            None
        };
        Review { learned, proposal }
    }

    fn proposal(
        &self,
        broker: &Broker,
        seen: &Seen<'_>,
        learned: Option<&str>,
    ) -> Option<RightSizeDocument> {
        let lease = seen.lease;
        let before_job = broker.job_document(lease)?;
        let before = broker.world().job(lease.job())?.job.to_job();
        let kind = &seen.saved.deployment.gpu;
        let ask = LeaseAsk {
            rate: Some(format!("{}/s", significant(seen.rate * MARGIN, 4))),
            concurrency: None,
            isl: Some(significant(seen.input, 3)),
            osl: Some(significant(seen.output, 3)),
            gpu: Some(kind.clone()),
            workers: None,
            ..lease.ask.clone()
        };
        let planned = self.planned(broker, &ask, true).ok()?;
        let (ask, job, size) = self.as_lease(broker, lease, &planned).ok()?;
        let (held, wanted) = (gpus(&before), gpus(&job));
        let risk = broker.at_risk(lease.number).is_some();
        let worth = wanted <= held * (1.0 - WORTH) || (risk && wanted > held);
        // Where the SLO burns a smaller size would be no help, whatever the plan says.
        if !worth || (risk && wanted < held) {
            return None;
        }
        let slow = self.larger(broker, seen, &planned).unwrap_or(wanted);
        let saving = saving(broker, lease, (&before, &job), (slow, self.proof));
        let reason = reason(seen, &planned, (held, wanted), learned);
        Some(RightSizeDocument {
            number: 0,
            lease: lease.number,
            reason,
            ask,
            job: JobDocument::of(&job),
            size,
            deployment: gpuwise_wire::to_json(&planned.saved),
            before: before_job,
            saving,
            proof_ns: self.proof.0,
        })
    }

    /// GPUs that would be needed if the new size were as slow as the range of what is predicted allows.
    fn larger(&self, broker: &Broker, seen: &Seen<'_>, planned: &Planned) -> Option<f64> {
        let tpot = planned.saved.deployment.figures.tpot;
        let slower = (tpot.high / tpot.value).clamp(1.0, 3.0);
        let ask = LeaseAsk {
            rate: Some(format!("{}/s", significant(seen.rate * MARGIN * slower, 4))),
            concurrency: None,
            gpu: Some(seen.saved.deployment.gpu.clone()),
            ..seen.lease.ask.clone()
        };
        let found = self.planned(broker, &ask, false).ok()?;
        Some(f64::from(found.saved.deployment.devices()))
    }

    /// The lease that takes a lease's place: what is asked, the job, how it was sized.
    fn as_lease(
        &self,
        broker: &Broker,
        lease: &Lease,
        planned: &Planned,
    ) -> Result<(LeaseAsk, Job, LeaseSize), gpuwise_broker::Refusal> {
        let found = &planned.saved.deployment;
        let fields = super::desk::fields_of(&lease.ask, found);
        let job = self.job(broker, fields)?;
        let ask = LeaseAsk {
            gpu: found
                .slice
                .is_none()
                .then(|| format!("{}x{}", found.devices(), found.gpu)),
            ..lease.ask.clone()
        };
        Ok((ask, job, super::desk::size_of(planned)))
    }
}

/// Whether something may be proposed of a service now.
fn is_quiet(broker: &Broker, lease: &Lease, now: Nanoseconds) -> bool {
    let origin = |number: u32| broker.lease(number).map(|lease| lease.origin);
    let own = broker
        .proposals()
        .filter(|one| origin(one.document.lease) == Some(lease.origin));
    let mut own = own.map(|one| (one.state, one.steps.last().map_or(one.made, |step| step.0)));
    own.all(|(state, at)| match state {
        ProposalState::Open | ProposalState::Proven | ProposalState::Withdrawn => true,
        ProposalState::Rejected | ProposalState::Undone | ProposalState::Failed => {
            now.0.saturating_sub(at.0) >= PAUSE
        }
        _ => false,
    })
}

fn seen<'a>(broker: &Broker, lease: &'a Lease, now: Nanoseconds) -> Option<Seen<'a>> {
    let saved = gpuwise_wire::from_json(lease.deployment.as_deref()?).ok()?;
    let start = now
        .0
        .saturating_sub(BACK)
        .max(lease.started?.0 / HOUR * HOUR);
    let summed = broker
        .telemetry(lease.number)?
        .over(Interval::new(Nanoseconds(start), now));
    let all = &summed.all;
    if all.measured_ns < MEASURED || all.requests < REQUESTS {
        return None;
    }
    let each = |tokens: Option<u64>| Some(tokens? as f64 / all.requests as f64);
    Some(Seen {
        lease,
        rate: summed.busiest.or(summed.rate())?,
        input: each(all.prompt_tokens)?,
        output: each(all.completion_tokens)?,
        saved,
        summed,
    })
}

/// Rows of what was measured, and what they say; `None`: nothing new.
fn learned(broker: &Broker, seen: &Seen<'_>) -> Option<(String, String)> {
    let rows = rows(seen);
    let before: Vec<QuestionRow> = broker
        .learned_of(seen.lease.origin)
        .and_then(|text| read_text_table("measured", text).ok())
        .unwrap_or_default();
    let same = |a: &Question, b: &Question| a.metric == b.metric && a.gpus == b.gpus;
    let news = |row: &Question| {
        let known = before.iter().find(|one| same(&one.question, row));
        let value = known.and_then(|one| one.question.value);
        value
            .zip(row.value)
            .is_none_or(|(known, value)| (value / known - 1.0).abs() > NEWS)
    };
    if rows.is_empty() || !rows.iter().any(news) {
        return None;
    }
    let kept = before
        .into_iter()
        .filter(|one| !rows.iter().any(|row| same(&one.question, row)));
    let all: Vec<QuestionRow> = kept
        .chain(rows.iter().cloned().map(|question| QuestionRow {
            source: "measured".into(),
            folder: PathBuf::new(),
            question,
            problem: None,
        }))
        .collect();
    let text = keep::appended("", &all).ok()?;
    let words = rows.iter().filter_map(|row| {
        let value = row.value?;
        Some(format!("{} {} ms", row.metric, significant(value, 3)))
    });
    let reason = format!(
        "measured at {} requests/s on {} GPUs: {}",
        significant(seen.rate, 3),
        seen.saved.deployment.devices(),
        words.collect::<Vec<_>>().join(", ")
    );
    Some((text, reason))
}

fn rows(seen: &Seen<'_>) -> Vec<Question> {
    let deployment: &Deployment = &seen.saved.deployment;
    let setting = results::of_deployment(deployment);
    let mean = seen.summed.rate().unwrap_or(seen.rate);
    let row = |metric: &str, value: Option<Nanoseconds>| {
        Some(Question {
            id: format!("{} {metric}", seen.lease.id()),
            model: setting.model.clone()?,
            gpu: setting.gpu.clone()?,
            gpus: setting.gpus,
            tensor: setting.tensor,
            pipeline: setting.pipeline,
            data: setting.data,
            precision: setting.precision.clone().unwrap_or_default(),
            engine: setting.engine.clone()?,
            input: Some(seen.input.round()),
            output: Some(seen.output.round()),
            load: Load::Rate(vec![(mean * 1000.0).round() / 1000.0]),
            metric: metric.into(),
            unit: "ms".into(),
            extra: setting.extra.clone(),
            value: Some(value?.0 as f64 / 1e6),
        })
    };
    let all = &seen.summed.all;
    [
        row("tpot_mean", all.tpot.mean()),
        row("ttft_mean", all.ttft.mean()),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// GPUs of a job, parts of them as such.
fn gpus(job: &Job) -> f64 {
    let each = match &job.worker.gpu {
        GpuAsk::None => 0.0,
        GpuAsk::Whole { count, .. } => f64::from(*count),
        GpuAsk::Fraction { milli, .. } => f64::from(*milli) / 1000.0,
        GpuAsk::Slice { slice, .. } => f64::from(slice.compute.max(1)) / 7.0,
    };
    each * f64::from(job.gang.most.max(1))
}

/// What is saved over the time of proof: the least where the new size turns out to be too slow and both
/// are held for a while, the most where nothing overlaps.
fn saving(
    broker: &Broker,
    lease: &Lease,
    (before, after): (&Job, &Job),
    (slow, proof): (f64, Nanoseconds),
) -> SavingDocument {
    let spot = lease.ask.preemptible == Some(true);
    let hour = Interval::new(broker.now(), broker.now() + Nanoseconds(HOUR));
    let price = |job: &Job| broker.price_of(spot, job, hour);
    let (held, wanted) = (gpus(before), gpus(after));
    let mut saving = SavingDocument {
        gpus_before: held,
        gpus_after: wanted,
        before_per_hour: None,
        per_hour: None,
        low: None,
        expected: None,
        high: None,
    };
    let Some((now, then)) = price(before).zip(price(after)) else {
        return saving;
    };
    if now.currency != then.currency {
        // What is saved between two currencies cannot be told.
        saving.before_per_hour = Some(gpuwise_broker::exact(now));
        return saving;
    }
    let money = |micros: f64| {
        let micros = micros as i64;
        gpuwise_broker::exact(Money {
            micros,
            currency: now.currency,
        })
    };
    let (now, then) = (now.micros as f64, then.micros as f64);
    let hours = proof.0 as f64 / HOUR as f64;
    let both = OVERLAP as f64 / HOUR as f64 * (now + then);
    let of_slow = then * (slow.max(wanted) / wanted.max(1e-9));
    saving.before_per_hour = Some(money(now));
    saving.per_hour = Some(money(now - then));
    saving.low = Some(money((now - of_slow) * hours - both));
    saving.expected = Some(money((now - then) * hours));
    saving.high = Some(money((now - then) * hours));
    saving
}

fn reason(
    seen: &Seen<'_>,
    planned: &Planned,
    (held, wanted): (f64, f64),
    learned: Option<&str>,
) -> String {
    let all = &seen.summed.all;
    let milli = |at: Option<Nanoseconds>| {
        at.map_or_else(|| "–".into(), |at| significant(at.0 as f64 / 1e6, 3))
    };
    let mut text = format!(
        "{} requests/s in the busiest hour of {} tokens in and {} out, TTFT p95 {} ms and TPOT p95 {} ms on \
         {held} GPUs: {wanted} are needed",
        significant(seen.rate, 3),
        significant(seen.input, 3),
        significant(seen.output, 3),
        milli(all.ttft.at(950)),
        milli(all.tpot.at(950)),
    );
    if (planned.steps - 1.0).abs() > 0.01 {
        let percent = (planned.steps - 1.0) * 100.0;
        text = format!("{text}; steps take {percent:+.0} % longer than our constants say");
    }
    if let Some(tried) = &planned.tried {
        text = format!("{text}; simulated: {}", tried.words);
    }
    if let Some(learned) = learned {
        text = format!("{text}; {learned}");
    }
    text
}
