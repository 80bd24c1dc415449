//! `gpuwise validate`: a saved deployment at light, expected and heavy load, under what may go wrong,
//! and where it breaks.

mod judge;
mod knee;
mod show;

use self::{
    judge::{holds, rung},
    show::show,
};
use super::{App, Context, Exit};
use crate::{
    catalogue, knowledge,
    made::made,
    progress,
    settings::{self, EffortFlags, Load},
    simulation::{self, Cluster, Neighbour, Run, Sent, Shapes, Simulated},
    write::Pending,
};
use gpuwise_domain::{
    deployment::{Deployment, Saved},
    run::{Knee, Ladder, LoadUnit, RunReport, RunSet, Rung},
    workload::{Slo, Target},
};
use gpuwise_sim::traffic::Change;
use gpuwise_size::constants::Constants;
use gpuwise_units::Nanoseconds;
use gpuwise_view::run as view;

/// Loads of the ladder as multiples of the expected one; beyond them it climbs until it breaks.
const LOADS: [f64; 4] = [0.5, 1.0, 1.5, 2.0];
/// The ladder climbs to this multiple at most, each time by this factor, and down alike.
const HIGHEST: f64 = 256.0;
const CLIMB: f64 = 2.0;
const LOWEST: f64 = 1.0 / 256.0;
/// Gaps of bursts: squared coefficient of variation.
const BURSTS: f64 = 8.0;
/// How much longer prompts get.
const LONGER: f64 = 2.0;

/// What came of trying a saved deployment at light, expected and heavy load.
#[derive(Debug, Clone)]
pub struct Validated {
    /// The runs, and the ladder of loads with the knee.
    pub runs: RunSet,
    /// Whether the SLO holds at the expected load, under every seed.
    pub kept: bool,
    found: TrialResult,
    deployment: Deployment,
}

/// Tries a saved deployment at light, expected and heavy load, and finds where it breaks.
///
/// # Errors
/// When a setting or a file is wrong. That the SLO is missed is an answer.
pub fn validate(
    app: &App,
    saved: &Saved,
    load: &Load,
    effort: &EffortFlags,
) -> anyhow::Result<Validated> {
    let loaded = catalogue::load(&app.overrides)?;
    let knowledge = knowledge::load(&loaded)?;
    let shapes = Shapes::of(&saved.deployment, &loaded, app.offline)?;
    let seed = app.seed;
    let simulated = Simulated::new(&saved.deployment, &shapes, &loaded, &knowledge, seed)?;
    let changes = settings::ChangeFlags::of_requests(effort.requests);
    let sent = Sent::new(&load.traffic, &changes, &load.slo, saved.workload.as_ref())?.exactly();
    let neighbour = (load.cluster.beside.as_deref())
        .map(|path| Neighbour::read(path, &loaded, app.offline))
        .transpose()?;
    let beside = neighbour
        .as_ref()
        .map(|other| other.simulated(&loaded, &knowledge, seed))
        .transpose()?;
    let trial = Trial {
        simulated: &simulated,
        beside: beside.as_ref().map(|(simulated, sent)| (simulated, sent)),
        cluster: Cluster::of(&load.cluster)?,
        slo: sent.workload.slo.clone(),
        sent,
        constants: knowledge.constants(saved.deployment.engine),
        seeds: (0..u64::from(effort.seeds))
            .map(|more| seed.wrapping_add(more))
            .collect(),
    };
    let found = trial.run()?;
    Ok(Validated {
        runs: RunSet {
            reports: found.reports.clone(),
            ladder: Some(found.ladder.clone()),
        },
        kept: found.expected_kept,
        found,
        deployment: saved.deployment.clone(),
    })
}

pub fn run(context: &Context, flags: &settings::Validate) -> anyhow::Result<Exit> {
    let effort = &flags.effort;
    let html = effort.html.as_deref().map(Pending::new).transpose()?;
    let save = effort.save.as_deref().map(Pending::new).transpose()?;
    let saved = simulation::read(&flags.deployment)?;
    let validated = validate(&context.app, &saved, &flags.load, effort)?;
    if let Some(file) = save {
        file.finish(&gpuwise_wire::runs_to_json(&validated.runs))?;
    }
    if let Some(file) = html {
        file.finish(&view::page(&validated.runs, &made()))?;
    }
    show(context, &validated)?;
    Ok(if validated.kept { Exit::Yes } else { Exit::No })
}

struct Trial<'a> {
    simulated: &'a Simulated<'a>,
    /// What stands beside it, under its own load at every load.
    beside: Option<(&'a Simulated<'a>, &'a Sent)>,
    cluster: Cluster,
    slo: Slo,
    sent: Sent,
    constants: &'a Constants,
    seeds: Vec<u64>,
}

#[derive(Debug, Clone)]
struct TrialResult {
    reports: Vec<RunReport>,
    ladder: Ladder,
    /// At the expected load, under every seed.
    expected_kept: bool,
    expected: Option<RunReport>,
}

impl Trial<'_> {
    fn one(&self, load: f64, seed: u64) -> Run<'_> {
        Run {
            simulated: self.simulated,
            beside: self.beside,
            cluster: self.cluster.clone(),
            sent: self.sent.clone(),
            load,
            seed,
            slo: self.slo.clone(),
        }
    }

    fn many(&self, runs: &[Run<'_>], what: &str) -> anyhow::Result<Vec<RunReport>> {
        progress::doing(&format!("simulating {what}"));
        let results = simulation::run_many(runs, self.constants, &|| {});
        progress::doing("");
        results
    }

    fn run(&self) -> anyhow::Result<TrialResult> {
        let mut rungs: Vec<(f64, RunReport)> = Vec::new();
        let list: Vec<_> = LOADS
            .iter()
            .map(|load| self.one(*load, self.seeds[0]))
            .collect();
        for (load, report) in LOADS.iter().zip(self.many(&list, "light to heavy load")?) {
            rungs.push((*load, report));
        }
        let expected = rungs
            .iter()
            .find(|(load, _)| is_expected(*load))
            .map(|(_, report)| report.clone());
        // Each seed's expected load decides whether the SLO holds.
        let others = self.seeds.iter().skip(1);
        let others: Vec<_> = others.map(|seed| self.one(1.0, *seed)).collect();
        let others = self.many(&others, "the expected load")?;
        let expected_kept = expected.iter().chain(&others).all(holds);
        self.climb(&mut rungs)?;
        let (knee, near) = self.knee(&rungs)?;
        let (named, untried) = self.trouble(expected.as_ref())?;
        let expected = expected.map(|mut report| {
            report.notes.extend(untried.iter().cloned());
            report
        });
        for (load, report) in &mut rungs {
            if is_expected(*load) {
                report.notes.extend(untried.iter().cloned());
            }
        }
        rungs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let ladder = Ladder {
            near,
            ..self.ladder(&rungs, &named, knee)
        };
        let mut reports: Vec<RunReport> = rungs.into_iter().map(|(_, report)| report).collect();
        reports.extend(named.into_iter().map(|(_, report)| report));
        Ok(TrialResult {
            reports,
            ladder,
            expected_kept,
            expected,
        })
    }

    /// The rungs by load, then those under what may go wrong.
    fn ladder(
        &self,
        rungs: &[(f64, RunReport)],
        named: &[(String, RunReport)],
        knee: Option<Knee>,
    ) -> Ladder {
        let scale = self.sent.expected();
        let mut list: Vec<Rung> = rungs
            .iter()
            .map(|(load, report)| rung(None, load * scale, report, &self.slo))
            .collect();
        list.extend(
            named
                .iter()
                .map(|(name, report)| rung(Some(name.clone()), scale, report, &self.slo)),
        );
        let at = |target: Option<Target>| target.and_then(|target| target.percentile);
        Ladder {
            unit: if self.sent.is_closed() {
                LoadUnit::Concurrent
            } else {
                LoadUnit::RequestsPerSecond
            },
            ttft_at: at(self.slo.ttft),
            tpot_at: at(self.slo.tpot),
            end_to_end_at: at(self.slo.end_to_end),
            rungs: list,
            near: Vec::new(),
            expected: Some(scale),
            knee,
        }
    }

    /// Climbs until a load does not hold, and descends until one does.
    fn climb(&self, rungs: &mut Vec<(f64, RunReport)>) -> anyhow::Result<()> {
        let mut load = LOADS[LOADS.len() - 1];
        while rungs.iter().all(|(_, report)| holds(report)) && load < HIGHEST {
            load *= CLIMB;
            let observed = self.many(
                &[self.one(load, self.seeds[0])],
                &format!("{load} × the load"),
            )?;
            rungs.extend(observed.into_iter().map(|report| (load, report)));
        }
        let mut load = LOADS[0];
        while !rungs.iter().any(|(_, report)| holds(report)) && load > LOWEST {
            load /= CLIMB;
            let observed = self.many(
                &[self.one(load, self.seeds[0])],
                &format!("{load} × the load"),
            )?;
            rungs.extend(observed.into_iter().map(|report| (load, report)));
        }
        Ok(())
    }

    /// The expected load under what may go wrong.
    fn trouble(&self, expected: Option<&RunReport>) -> anyhow::Result<Troubles> {
        let seed = self.seeds[0];
        let usual = || self.one(1.0, seed);
        let mut tried: Vec<(&str, Run<'_>)> = Vec::new();
        let mut untried = Vec::new();
        match self.sent.burstier(BURSTS) {
            Some(sent) => tried.push(("bursts", Run { sent, ..usual() })),
            None => untried
                .push("bursts are not tried: a concurrency is kept, so that none come".into()),
        }
        let longer = Change::Stretch {
            input: LONGER,
            output: 1.0,
        };
        let sent = self.sent.with(
            longer,
            "prompts twice as long, the context raised to hold them",
        );
        let cluster = self.cluster.with_any_context();
        let run = Run {
            cluster,
            sent,
            ..usual()
        };
        tried.push(("prompts twice as long", run));
        if self.sent.workload.prefix_hit > 0.0 {
            let sent = self.sent.with(Change::Unshared, "prompts share nothing");
            tried.push(("nothing shared: a cold cache", Run { sent, ..usual() }));
        }
        let cluster = self.cluster.without_one(middle(expected));
        tried.push(("one replica lost", Run { cluster, ..usual() }));
        let (names, runs): (Vec<&str>, Vec<Run<'_>>) = tried.into_iter().unzip();
        let observed = self.many(&runs, "what may go wrong")?;
        let names = names.into_iter().map(str::to_owned);
        Ok((names.zip(observed).collect(), untried))
    }
}

/// Runs under what may go wrong by their names, and what was not tried and why.
type Troubles = (Vec<(String, RunReport)>, Vec<String>);

fn is_expected(load: f64) -> bool {
    (load - 1.0).abs() < f64::EPSILON
}

/// The moment in the middle of what a run was sent.
fn middle(report: Option<&RunReport>) -> Nanoseconds {
    report.map_or_else(Nanoseconds::default, |report| {
        Nanoseconds(report.span.first_due.0.midpoint(report.span.last_due.0))
    })
}
