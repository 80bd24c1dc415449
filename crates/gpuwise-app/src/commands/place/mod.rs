//! `gpuwise place`: a plan for a fleet and what is asked of it, and its report.

mod changes;
mod deadlines;
mod rows;
mod show;

use super::{App, Context, Exit};
use crate::{
    catalogue::{self, Loaded},
    error::Problem,
    fleet,
    made::made,
    policy::{Rules, Turns},
    progress, settings,
    write::Pending,
};
use gpuwise_domain::placement::{
    Action, Event, Fleet, JobId, Outcome, Plan, Report, TimestampedEvent,
};
use gpuwise_sched::{
    decide::{Effort, Policy, Tells, decide_pending},
    disruption::tidy,
    lint,
    report::{FleetFigures, deepen, fleet_figures, typical},
    world::World,
};
use gpuwise_view::fleet::Scene;
use gpuwise_wire::{StateDocument, plan_to_json};
use std::{fs, path::Path};

/// Texts of a state that are kept in a saved plan at most.
const LARGEST_STATE: usize = 16 << 20;

/// A fleet, its jobs and the world that they are.
#[derive(Debug)]
pub struct FleetState {
    pub fleet: Fleet,
    /// What runs and what waits on it.
    pub world: World,
    /// By what is decided.
    pub(super) rules: Rules,
    pub(super) loaded: Loaded,
}

impl FleetState {
    pub(super) fn policy(&self, seed: u64) -> anyhow::Result<Policy> {
        self.rules
            .policy(&self.fleet.scheduling, Some(&self.world), seed)
    }

    /// Who goes first and who may go ahead.
    pub(super) fn turns(&self) -> Turns {
        self.rules.turns(&self.fleet.scheduling)
    }
}

/// A plan, what is said of it, and the world that it gives.
#[derive(Debug)]
pub struct Decided {
    /// What to do, in order.
    pub plan: Plan,
    /// Of every job what was decided, and why.
    pub report: Report,
    /// The fleet once the plan is carried out.
    pub after: World,
    pub figures: FleetFigures,
}

/// Who runs where on a fleet.
#[derive(Debug)]
pub struct Placed {
    pub estate: FleetState,
    /// The plan and what it comes to.
    pub decided: Decided,
    /// Jobs that were asked about.
    why: Vec<JobId>,
}

impl Placed {
    /// Whether all that was asked about have a place, and none is expected to end too late.
    pub fn all_placed(&self) -> bool {
        let waits = |id: &JobId| {
            let state = self.decided.after.job(*id);
            state.is_some_and(|state| state.phase.waits())
        };
        let some_wait = if self.why.is_empty() {
            self.decided.figures.basic.pending > 0
        } else {
            self.why.iter().any(waits)
        };
        !some_wait && deadlines::late(&self.decided).is_empty()
    }
}

/// Decides who runs where on a fleet, and of those who wait why and what would help.
///
/// # Errors
/// When a setting or a file is wrong. That some wait is an answer.
pub fn place(app: &App, flags: &settings::Place) -> anyhow::Result<Placed> {
    let rules = Rules::of_flags(&flags.how)?;
    let mut estate = estate(app, &flags.fleet, &flags.jobs, &flags.what_if, rules)?;
    let changes = changes::read(&flags.what_if, &estate)?;
    changes::make(&changes, &mut estate)?;
    let why: Vec<JobId> = flags
        .why
        .iter()
        .map(|name| job_named(&estate.world, name))
        .collect::<Result<_, _>>()?;
    let mut policy = estate.policy(app.seed)?;
    if policy.rounds.is_some() {
        progress::say(
            "rounds end as time passes, which replay and serve see: here nobody's turn is over",
        );
    }
    progress::doing("deciding");
    let mut decided = decided(&estate.world, &mut policy)?;
    progress::doing("looking for fixes");
    let most = if why.is_empty() { flags.fixes } else { 0 };
    deepen(
        &decided.after,
        &mut decided.report,
        &mut policy,
        Effort::ORDINARY,
        most,
    );
    for id in &why {
        explain_one(&mut decided, *id, &mut policy);
    }
    progress::doing("");
    Ok(Placed {
        estate,
        decided,
        why,
    })
}

pub fn run(context: &Context, flags: &settings::Place) -> anyhow::Result<Exit> {
    let save = flags.save.as_deref().map(Pending::new).transpose()?;
    let svg = flags.svg.as_deref().map(Pending::new).transpose()?;
    let html = flags.html.as_deref().map(Pending::new).transpose()?;
    let placed = place(&context.app, flags)?;
    let (estate, decided) = (&placed.estate, &placed.decided);
    if let Some(file) = save {
        file.finish(&saved(estate, &decided.plan, flags)?)?;
    }
    let moment = fleet::moment(&decided.after);
    let scene = Scene::new(&estate.fleet, &moment);
    if let Some(file) = svg {
        file.finish(&gpuwise_view::svg::fleet(&scene, "fleet").to_svg())?;
    }
    if let Some(file) = html {
        let made = made();
        let picture = gpuwise_view::svg::fleet(&scene, "fleet");
        file.finish(&show::page(flags, estate, decided, picture).finish(&made))?;
    }
    if placed.why.is_empty() {
        show::all(context, flags, estate, decided)?;
    } else {
        show::some(context, estate, decided, &placed.why)?;
    }
    Ok(if placed.all_placed() {
        Exit::Yes
    } else {
        Exit::No
    })
}

/// Reads a fleet and its jobs; kinds of GPU that changes name become kinds of the fleet.
pub(super) fn estate(
    app: &App,
    fleet: &Path,
    jobs: &Path,
    what_if: &[String],
    rules: Rules,
) -> anyhow::Result<FleetState> {
    let loaded = catalogue::load(&app.overrides)?;
    let mut file = fleet::read(fleet, &loaded.catalogue)?;
    rules.shape(&mut file.fleet)?;
    let jobs = fleet::read_jobs(jobs, &mut file.fleet, &loaded.catalogue)?;
    changes::kinds(what_if, &mut file.fleet, &loaded.catalogue);
    let world = fleet::world(&file, Some(&jobs))?;
    Ok(FleetState {
        fleet: file.fleet,
        world,
        rules,
        loaded,
    })
}

/// How far a decision is searched for.
const EFFORT: Effort = Effort::BARE;

/// Decides of all who wait, tidies up where that is asked for, and checks the plan.
pub(super) fn decided(world: &World, policy: &mut Policy) -> anyhow::Result<Decided> {
    let (now, effort, tells) = (world.now(), EFFORT, Tells::Everybody);
    let (mut plan, report) = decide_pending(now, world, &|_| false, policy, effort, tells);
    let mut after = world.clone();
    carry_out(&mut after, &plan.actions)?;
    if let Some(what) = policy.upkeep {
        let (more, _) = tidy(world.now(), &after, &what, Effort::BARE);
        carry_out(&mut after, &more.actions)?;
        plan.actions.extend(more.actions);
    }
    let notes = lint::lint(world, &plan, lint::Limits::NONE);
    if let Some(note) = lint::errors(&notes).next() {
        return Err(
            Problem::new(format!("the plan does not hold together: {}", note.what))
                .hint("this is an error of gpuwise; another --policy may do")
                .into(),
        );
    }
    let figures = fleet_figures(&after, &typical(&after, 950));
    Ok(Decided {
        plan,
        report,
        after,
        figures,
    })
}

fn carry_out(world: &mut World, actions: &[Action]) -> anyhow::Result<()> {
    for action in actions {
        let event = TimestampedEvent {
            at: world.now(),
            event: Event::done(action.clone()),
        };
        world
            .apply(&event)
            .map_err(|refused| Problem::new("the plan cannot be carried out").because(refused))?;
    }
    Ok(())
}

/// Says of one job everything that would help.
fn explain_one(decided: &mut Decided, id: JobId, policy: &mut Policy) {
    let mut report = Report::default();
    let of = |report: &Report| {
        let found = report.decisions.iter().find(|decision| decision.job == id);
        found.cloned()
    };
    let Some(decision) = of(&decided.report) else {
        return;
    };
    report.decisions.push(decision);
    deepen(&decided.after, &mut report, policy, Effort::ORDINARY, 1);
    let old = decided
        .report
        .decisions
        .iter_mut()
        .find(|one| one.job == id);
    if let (Some(old), Some(new)) = (old, report.decisions.pop()) {
        *old = new;
    }
}

fn job_named(world: &World, name: &str) -> anyhow::Result<JobId> {
    let mut named = world.jobs().filter(|(_, state)| *state.job.name == *name);
    if let Some((id, _)) = named.next() {
        return Ok(id);
    }
    let like: Vec<String> = world
        .jobs()
        .filter(|(_, state)| state.job.name.contains(name) || name.contains(&*state.job.name))
        .map(|(_, state)| state.job.name.to_string())
        .take(3)
        .collect();
    Err(Problem::new(format!("--why {name}: there is no such job"))
        .did_you_mean(&like)
        .into())
}

/// The plan as a document, with the files that it was made for.
fn saved(estate: &FleetState, plan: &Plan, flags: &settings::Place) -> anyhow::Result<String> {
    let text = |path: &Path| {
        fs::read_to_string(path)
            .map_err(|error| Problem::new(format!("cannot read {}", path.display())).because(error))
    };
    let (fleet, jobs) = (text(&flags.fleet)?, text(&flags.jobs)?);
    let fabric = gpuwise_read::fleet::fabric_of(&fleet)
        .map(|name| text(&flags.fleet.with_file_name(name)))
        .transpose()?;
    let small = fleet.len() + jobs.len() <= LARGEST_STATE;
    let state = small.then_some(StateDocument {
        fleet,
        jobs,
        fabric,
    });
    let name = |id: JobId| {
        let state = estate.world.job(id);
        state.map_or_else(|| format!("#{id}"), |state| state.job.name.to_string())
    };
    Ok(plan_to_json(plan, &estate.fleet, &name, state))
}

/// Jobs that wait after a plan.
pub(super) fn pending(report: &Report) -> usize {
    let waits = |outcome: &Outcome| matches!(outcome, Outcome::Waits { .. });
    report
        .decisions
        .iter()
        .filter(|one| waits(&one.outcome))
        .count()
}

pub(super) fn places(plan: &Plan) -> usize {
    let places = |action: &&Action| matches!(action, Action::Place { .. });
    plan.actions.iter().filter(places).count()
}
