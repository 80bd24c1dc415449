//! `gpuwise simulate`: a saved deployment under traffic, request by request.

use super::{App, Context, Exit};
use crate::{
    catalogue,
    error::Problem,
    knowledge,
    made::made,
    progress,
    settings::{self, ChangeFlags, ClusterFlags, Load},
    simulation::{self, Cluster, Neighbour, Run, Sent, Shapes, Simulated},
    write::Pending,
};
use gpuwise_domain::{
    deployment::Saved,
    request::RequestRecord,
    run::{Moment, RunSet, TimelineEvent},
};
use gpuwise_sim::{cluster::Observer, engine::StepRun};
use gpuwise_units::Nanoseconds;
use gpuwise_view::run as view;
use std::fmt::Write as _;

/// Runs a saved deployment under traffic, request by request.
///
/// # Errors
/// When a setting is wrong, or the model cannot be found. That the SLO is missed is an answer.
pub fn simulate(
    app: &App,
    saved: &Saved,
    load: &Load,
    changes: &ChangeFlags,
) -> anyhow::Result<RunSet> {
    observed(app, saved, load, changes, &mut Listener::default())
}

fn observed(
    app: &App,
    saved: &Saved,
    load: &Load,
    changes: &ChangeFlags,
    listener: &mut Listener,
) -> anyhow::Result<RunSet> {
    unused(&load.cluster)?;
    let loaded = catalogue::load(&app.overrides)?;
    let knowledge = knowledge::load(&loaded)?;
    let shapes = Shapes::of(&saved.deployment, &loaded, app.offline)?;
    let simulated = Simulated::new(&saved.deployment, &shapes, &loaded, &knowledge, app.seed)?;
    let sent = Sent::new(&load.traffic, changes, &load.slo, saved.workload.as_ref())?;
    let beside = load.cluster.beside.as_deref();
    let neighbour = beside
        .map(|path| Neighbour::read(path, &loaded, app.offline))
        .transpose()?;
    let beside = neighbour
        .as_ref()
        .map(|other| other.simulated(&loaded, &knowledge, app.seed))
        .transpose()?;
    let one = Run {
        simulated: &simulated,
        beside: beside.as_ref().map(|(simulated, sent)| (simulated, sent)),
        cluster: Cluster::of(&load.cluster)?,
        slo: sent.workload.slo.clone(),
        sent,
        load: 1.0,
        seed: app.seed,
    };
    progress::doing("simulating");
    let report = simulation::run(&one, knowledge.constants(saved.deployment.engine), listener);
    progress::doing("");
    Ok(RunSet {
        reports: vec![report?],
        ladder: None,
    })
}

pub fn run(context: &Context, flags: &settings::Simulate) -> anyhow::Result<Exit> {
    let result = &flags.result;
    if result.request.is_some() && context.form.format != settings::Format::Table {
        return Err(
            Problem::new("--request shows the life of a request as text alone")
                .hint("leave --format out; --records FILE writes all requests as CSV")
                .into(),
        );
    }
    let files = Files::new(result)?;
    let mut listener = Listener::new(result);
    let saved = simulation::read(&flags.deployment)?;
    let (load, changes) = (&flags.load, &flags.changes);
    let runs = observed(&context.app, &saved, load, changes, &mut listener)?;
    files.finish(&runs, &listener)?;
    if let Some(number) = result.request {
        return timeline(number, &listener, context);
    }
    let report = &runs.reports[0];
    match context.form.format {
        settings::Format::Table => context.data(&view::text(report, context.form.style))?,
        settings::Format::Md => context.data(&view::markdown(report))?,
        settings::Format::Csv => context.data(&view::csv(report))?,
        settings::Format::Json => context.data(&gpuwise_wire::runs_to_json(&runs))?,
    }
    Ok(if report.attainment.kept == Some(false) {
        Exit::No
    } else {
        Exit::Yes
    })
}

/// Flags that would change nothing here.
fn unused(cluster: &ClusterFlags) -> anyhow::Result<()> {
    let nobody_fails = cluster.fail.is_empty() && cluster.mtbf.is_none();
    if cluster.start_up.is_some() && nobody_fails {
        return Err(
            Problem::new("--start-up: no replica is lost, so that none starts again")
                .hint("add --fail 0@300s or --mtbf 200h, or leave it out")
                .into(),
        );
    }
    Ok(())
}

struct Files {
    save: Option<Pending>,
    html: Option<Pending>,
    chrome: Option<Pending>,
    records: Option<Pending>,
}

impl Files {
    fn new(flags: &settings::RunResultFlags) -> anyhow::Result<Self> {
        let pending =
            |path: &Option<std::path::PathBuf>| path.as_deref().map(Pending::new).transpose();
        Ok(Self {
            save: pending(&flags.save)?,
            html: pending(&flags.html)?,
            chrome: pending(&flags.chrome_trace)?,
            records: pending(&flags.records)?,
        })
    }

    fn finish(self, set: &RunSet, listener: &Listener) -> anyhow::Result<()> {
        if let Some(file) = self.save {
            file.finish(&gpuwise_wire::runs_to_json(set))?;
        }
        if let Some(file) = self.html {
            file.finish(&view::page(set, &made()))?;
        }
        if let Some(file) = self.chrome {
            file.finish(&listener.chrome()?)?;
        }
        if let Some(file) = self.records {
            file.finish(&records_csv(&listener.records))?;
        }
        Ok(())
    }
}

/// Keeps what single requests and steps did, where somebody wants it.
#[derive(Default)]
struct Listener {
    keep_records: bool,
    keep_steps: bool,
    request: Option<u64>,
    records: Vec<RequestRecord>,
    steps: Vec<(u16, StepRun)>,
    preempted: Vec<Nanoseconds>,
    one: Option<RequestRecord>,
}

impl Listener {
    fn new(flags: &settings::RunResultFlags) -> Self {
        let chrome = flags.chrome_trace.is_some();
        Self {
            keep_records: chrome || flags.records.is_some(),
            keep_steps: chrome,
            request: flags.request,
            records: Vec::new(),
            steps: Vec::new(),
            preempted: Vec::new(),
            one: None,
        }
    }

    fn chrome(&self) -> anyhow::Result<String> {
        let mut trace = view::Trace::new(String::new())?;
        for (replica, run) in &self.steps {
            trace.steps(&view::Steps {
                replica: *replica,
                start: run.start,
                duration: run.duration(),
                steps: run.steps,
                decodes: run.decodes,
                prefill: run.prefill,
                context: run.context,
                running: run.running,
                waiting: run.waiting,
                kv_used: run.kv_used,
            })?;
        }
        for record in &self.records {
            trace.request(record)?;
        }
        Ok(trace.finish()?)
    }
}

impl Observer for Listener {
    fn record(&mut self, record: &RequestRecord) {
        if self.keep_records {
            self.records.push(*record);
        }
        if self.request == Some(record.number) {
            self.one = Some(*record);
        }
    }

    fn steps(&mut self, replica: u16, run: &StepRun) {
        if self.keep_steps {
            self.steps.push((replica, *run));
        }
    }

    fn preempted(&mut self, _replica: u16, time: u64, number: u64) {
        if self.request == Some(number) {
            self.preempted.push(Nanoseconds(time / 1000));
        }
    }
}

/// The life of one request.
fn timeline(number: u64, listener: &Listener, context: &Context) -> anyhow::Result<Exit> {
    let record = listener.one.ok_or_else(|| {
        Problem::new(format!("--request {number}: no request has this number"))
            .hint("requests are counted from 0 in the order in which they are due")
    })?;
    let mut events = vec![(record.due, Moment::Due), (record.sent, Moment::Sent)];
    events.extend(record.scheduled.map(|at| (at, Moment::Scheduled)));
    events.extend(record.first_token.map(|at| (at, Moment::FirstToken)));
    events.extend(listener.preempted.iter().map(|at| (*at, Moment::Preempted)));
    events.push((record.end, Moment::End));
    events.sort_by_key(|(at, _)| *at);
    let events: Vec<TimelineEvent> = events
        .into_iter()
        .map(|(at, moment)| TimelineEvent { at, moment })
        .collect();
    context.data(&view::timeline(&record, &events, context.form.style))?;
    Ok(Exit::Yes)
}

/// What became of every request, a line each.
fn records_csv(records: &[RequestRecord]) -> String {
    let mut out = String::from(
        "number,due_s,sent_s,scheduled_s,first_token_s,end_s,input,output,cached,preemptions,retries,tenant,stage,session,replica,outcome\n",
    );
    let seconds = |at: Nanoseconds| format!("{}.{:09}", at.0 / 1_000_000_000, at.0 % 1_000_000_000);
    let mut sorted: Vec<&RequestRecord> = records.iter().collect();
    sorted.sort_by_key(|record| record.number);
    for record in sorted {
        let or_empty = |at: Option<Nanoseconds>| at.map(seconds).unwrap_or_default();
        let _ = writeln!(
            out,
            "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
            record.number,
            seconds(record.due),
            seconds(record.sent),
            or_empty(record.scheduled),
            or_empty(record.first_token),
            seconds(record.end),
            record.input,
            record.output,
            record.cached.map(|n| n.to_string()).unwrap_or_default(),
            record.preemptions,
            record.retries,
            record.tenant,
            record.stage,
            record.session.map(|n| n.to_string()).unwrap_or_default(),
            record.replica.map(|n| n.to_string()).unwrap_or_default(),
            record.outcome.name(),
        );
    }
    out
}
