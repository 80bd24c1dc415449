//! The past of a broker, from its log: what other rules would have made of the same leases.

use super::past::{asked, hundredths, row, waited};
use crate::{error::Problem, policy::Rules, progress, settings};
use gpuwise_broker::{Broker, Lease};
use gpuwise_domain::placement::{
    Assignment, DurationEstimate, Event, Fleet, Job, ReplayRow, TimestampedEvent,
};
use gpuwise_lab::schedulers::past::replay_past;
use gpuwise_sched::{queues::milli_of, world::World};
use gpuwise_units::Nanoseconds;
use gpuwise_wire::{
    Mirror as _,
    broker::{BrokerEvent, LoggedEvent},
};
use serde::Deserialize;
use std::{collections::BTreeMap, path::Path};

/// An event as `gpuwise store export` prints it.
#[derive(Deserialize)]
struct Line {
    at: String,
    event: BrokerEvent,
}

/// What a log says: its fleet and what is on it when it begins, jobs as they were asked for, and the state
/// in which it ends.
struct Told {
    fleet: Fleet,
    present: Vec<Event>,
    began: Nanoseconds,
    asked: BTreeMap<u32, Job>,
    end: Broker,
}

/// Whether a text is an export of a broker's log.
pub(super) fn is_log(text: &str) -> bool {
    text.trim_start().starts_with("{\"seq\":")
}

/// Whether a text is a backup of one, which is of another form.
pub(super) fn is_backup(text: &str) -> bool {
    text.trim_start().starts_with("{\"schema\":\"gpuwise.log/")
}

fn read(shown: &str, text: &str) -> anyhow::Result<Told> {
    let wrong = |number: usize, problem: String| {
        Problem::new(format!("{shown}: line {number}: {problem}"))
            .hint("`gpuwise store export` writes such a file, from the first event on")
    };
    let mut told: Option<Told> = None;
    for (number, text) in (1..).zip(text.lines()).filter(|(_, text)| !text.is_empty()) {
        let line: Line =
            serde_json::from_str(text).map_err(|error| wrong(number, error.to_string()))?;
        let at = line.at.parse::<jiff::Timestamp>();
        let at = at.map_err(|error| wrong(number, format!("at: {error}")))?;
        let at_ns = u64::try_from(at.as_nanosecond()).unwrap_or(0);
        let logged = LoggedEvent {
            at_ns,
            event: line.event,
        };
        let Some(told) = &mut told else {
            told = Some(begin(&logged).map_err(|problem| wrong(number, problem))?);
            continue;
        };
        if let BrokerEvent::LeaseRequested { lease, job, .. } = &logged.event {
            told.asked.insert(*lease, job.clone().noun());
        }
        let applied = told.end.apply(&logged);
        applied.map_err(|broken| wrong(number, broken.to_string()))?;
    }
    Ok(told.ok_or_else(|| wrong(1, "there is no event".into()))?)
}

fn begin(logged: &LoggedEvent) -> Result<Told, String> {
    let end = Broker::begin(logged).map_err(|broken| broken.to_string())?;
    let BrokerEvent::Began { fleet, present, .. } = &logged.event else {
        return Err("the log does not begin here".into());
    };
    Ok(Told {
        fleet: fleet.clone().noun(),
        present: present.iter().map(|event| event.clone().noun()).collect(),
        began: Nanoseconds(logged.at_ns),
        asked: BTreeMap::new(),
        end,
    })
}

impl Told {
    /// Leases that ran and are over, each as a job that takes as long as it took.
    fn jobs(&self) -> Vec<(&Lease, Nanoseconds, Job)> {
        let since = |at: Nanoseconds| Nanoseconds(at.0.saturating_sub(self.began.0));
        let ran = self.end.leases().filter_map(|lease| {
            let (started, over) = (lease.started?, lease.over.as_ref()?.at);
            let took = Nanoseconds(over.0.saturating_sub(started.0));
            let job = self.asked.get(&lease.number).filter(|_| took.0 > 0)?;
            let duration = DurationEstimate {
                expected: took,
                spread: 0.0,
            };
            let job = Job {
                submitted: since(lease.requested),
                duration: Some(duration),
                ..job.clone()
            };
            Some((lease, took, job))
        });
        let mut jobs: Vec<_> = ran.collect();
        jobs.sort_by_key(|(_, _, job)| (job.submitted, job.id));
        jobs
    }

    /// The fleet with all tenants' queues, and nothing that runs.
    fn world(&self, fleet: &Fleet) -> anyhow::Result<World> {
        let mut world = World::new(fleet);
        let queues = self
            .end
            .world()
            .queues()
            .iter()
            .cloned()
            .map(Event::QueueSet);
        for event in self.present.iter().cloned().chain(queues) {
            let at = Nanoseconds(0);
            world
                .apply(&TimestampedEvent { at, event })
                .map_err(|refused| {
                    Problem::new("the fleet of the log cannot be").because(refused)
                })?;
        }
        Ok(world)
    }
}

/// A row for what happened, one for the log's own rules, and one for each policy that is named.
pub(super) fn rows(
    context: &super::Context,
    flags: &settings::Replay,
    path: &Path,
    text: &str,
) -> anyhow::Result<Vec<ReplayRow>> {
    let shown = path.display().to_string();
    let told = read(&shown, text)?;
    let ran = told.jobs();
    if ran.is_empty() {
        return Err(Problem::new(format!("{shown}: no lease in it ran and is over")).into());
    }
    let left = told.asked.len() - ran.len();
    if left > 0 {
        progress::say(&format!(
            "{left} leases are left out: they never ran, or are not over"
        ));
    }
    let trace = path
        .file_name()
        .map_or(shown.clone(), |name| name.to_string_lossy().into());
    let own = Rules::of_document(told.end.policy())?;
    let own_scheduling = told.end.policy().scheduling.clone().noun();
    let mut all = vec![("the log's own".to_owned(), own, own_scheduling)];
    for name in &flags.policy {
        let rules = Rules::of_flags(&settings::HowFlags::of_policy(name))?;
        let name = rules.name().to_owned();
        all.push((name, rules, told.fleet.scheduling));
    }
    let jobs: Vec<Job> = ran.iter().map(|(_, _, job)| job.clone()).collect();
    let price = paid(&told, &ran);
    let mut found = vec![recorded(&told, &ran, &trace, price)];
    let gpus = told.fleet.gpus.len() as u64;
    for (name, rules, scheduling) in all {
        let mut fleet = told.fleet.clone();
        rules.shape(&mut fleet)?;
        let world = told.world(&fleet)?;
        let asked = asked(&world, &jobs);
        let mut policy = rules.policy(&scheduling, Some(&asked), context.app.seed)?;
        progress::doing(&format!("{trace}, {name}"));
        let run = replay_past(world, &jobs, &mut policy, &mut |_| {})
            .map_err(|refused| Problem::new("the replay went wrong").because(refused))?;
        let mut one = row(&trace, &name, &run, &fleet, gpus);
        one.more.extend(cost(price, run.held));
        found.push(one);
    }
    progress::doing("");
    Ok(found)
}

/// What GPU time costs that was held, at what an hour of it cost as recorded.
fn cost(price: Option<f64>, held: u128) -> Option<(&'static str, Option<f64>)> {
    let hours = held as f64 / 1000.0 / 3.6e12;
    Some(("cost_held", Some(hundredths(hours * price?))))
}

/// What a GPU-hour cost on average, by the kinds of GPUs that leases had; `None`: one of them has no price, or
/// they have several currencies.
fn paid(told: &Told, ran: &[(&Lease, Nanoseconds, Job)]) -> Option<f64> {
    let world = told.end.world();
    let (mut held, mut sum, mut currency) = (0.0, 0.0, None);
    for (lease, took, _) in ran {
        for assignment in &lease.place {
            for share in &assignment.gpus {
                let one = Assignment {
                    node: assignment.node,
                    gpus: vec![*share],
                };
                let milli = milli_of(world, &[one]) as f64 * took.0 as f64;
                let kind = world.kind(world.gpu(share.gpu)?.gpu.kind)?;
                let price = kind.price?.0;
                if currency.is_some_and(|known| known != price.currency) {
                    return None;
                }
                currency = Some(price.currency);
                held += milli;
                sum += milli * price.micros as f64 / 1e6;
            }
        }
    }
    (held > 0.0).then(|| sum / held)
}

fn recorded(
    told: &Told,
    ran: &[(&Lease, Nanoseconds, Job)],
    trace: &str,
    price: Option<f64>,
) -> ReplayRow {
    let (mut waits, mut completion, mut held, mut last) = (Vec::new(), 0_u128, 0_u128, 0);
    for (lease, took, job) in ran {
        let wait = lease
            .started
            .map_or(0, |at| at.0.saturating_sub(lease.requested.0));
        waits.push(Nanoseconds(wait));
        completion += u128::from(wait + took.0);
        held += u128::from(milli_of(told.end.world(), &lease.place)) * u128::from(took.0);
        last = last.max(job.submitted.0 + wait + took.0);
    }
    waits.sort_unstable();
    let count = ran.len() as f64;
    let whole = told.fleet.gpus.len() as f64 * last as f64;
    let mut more = waited(&waits);
    more.push((
        "gpu_hours_held",
        Some(hundredths(held as f64 / 1000.0 / 3.6e12)),
    ));
    more.extend(cost(price, held));
    ReplayRow {
        trace: trace.into(),
        policy: "as recorded".into(),
        gpu_allocated_percent: (whole > 0.0).then(|| hundredths(held as f64 / 10.0 / whole)),
        placed: ran.len() as u64,
        jct_mean_s: Some(hundredths(completion as f64 / 1e9 / count)),
        makespan_s: Some(hundredths(last as f64 / 1e9)),
        more,
        ..ReplayRow::default()
    }
}
