//! `gpuwise check`: whether what runs is the right size, and what of its host holds it up.

mod current;
mod job;

use super::{
    App, Context, Exit,
    plan::{Grounds, choices},
};
use crate::schemas::AnswerName;
use crate::{
    catalogue::{self, Loaded},
    error::Problem,
    fabric::Joined,
    host, settings, simulation, workload,
};
use current::Runs;
use gpuwise_domain::{
    balance::Balance,
    deployment::Saved,
    verdict::{Standing, Verdict},
};
use gpuwise_size::{
    balance::{BalanceConstants, balance},
    verdict,
};
use gpuwise_view::{balance as around, explain, record, verdict as view};

#[derive(Debug)]
#[must_use]
pub enum Checked {
    /// A model and its traffic: whether it is the right size.
    Served(Box<Verdict>),
    /// A job by its figures: what its host holds up.
    Job(Box<Balance>),
}

impl Checked {
    /// Whether nothing is to be changed.
    pub fn right(&self) -> bool {
        match self {
            Self::Served(verdict) => verdict.standing == Standing::RightSized,
            Self::Job(balance) => balance.cause().is_none(),
        }
    }
}

/// Says whether what runs is over-provisioned, right-sized or starved.
///
/// # Errors
/// When a setting is wrong, or the model cannot be found.
pub fn check(app: &App, flags: &settings::Check) -> anyhow::Result<Checked> {
    let mut loaded = catalogue::load(&app.overrides.with_prices(&flags.limits.market.prices))?;
    let constants = host::constants(&loaded, &flags.result.constants)?;
    if flags.job.samples.is_some() {
        let found = of_job(flags, &loaded, &constants)?;
        return Ok(Checked::Job(Box::new(found)));
    }
    let saved = flags
        .current
        .deployment
        .as_deref()
        .map(simulation::read)
        .transpose()?;
    let joined = match &flags.limits.market.fabric {
        Some(path) => Joined::read(path, &loaded)?.join(&mut loaded.catalogue),
        None => Vec::new(),
    };
    let ground = Ground {
        loaded: &loaded,
        constants: &constants,
        joined: &joined,
    };
    let verdict = judged(app, flags, &ground, saved.as_ref())?;
    Ok(Checked::Served(Box::new(verdict)))
}

pub(crate) fn schema(answer: &str) -> String {
    record::document_schema::<Verdict>(answer, "Whether what runs is the right size")
}

/// The schema of what a job asks of its host.
pub(crate) fn host_schema(answer: &str) -> String {
    record::document_schema::<Balance>(answer, "What a job asks of the host around its GPUs")
}

pub fn run(context: &Context, flags: &settings::Check) -> anyhow::Result<Exit> {
    let checked = check(&context.app, flags)?;
    match &checked {
        Checked::Served(verdict) => show(context, flags, verdict)?,
        Checked::Job(found) => {
            show_balance(&context.answering(AnswerName::CheckHost), flags, found)?;
        }
    }
    Ok(if checked.right() { Exit::Yes } else { Exit::No })
}

/// A job by its figures on its host.
fn of_job(
    flags: &settings::Check,
    loaded: &Loaded,
    constants: &BalanceConstants,
) -> anyhow::Result<Balance> {
    let runs = Runs::read(&flags.current, None, loaded, &flags.limits, constants)?;
    let Some(host) = runs.host.clone() else {
        return Err(Problem::new("--samples: no host to hold the job against")
            .hint("name one: --host FILE.toml, or a shape of the catalogue such as p5.48xlarge")
            .into());
    };
    let work = job::work(&flags.job, &runs, constants)?;
    Ok(balance(work, host, constants))
}

struct Ground<'a> {
    loaded: &'a Loaded,
    constants: &'a BalanceConstants,
    /// GPUs of a fabric, with how many there are.
    joined: &'a [(String, u32)],
}

/// A model and its traffic on what runs.
fn judged(
    app: &App,
    flags: &settings::Check,
    ground: &Ground<'_>,
    saved: Option<&Saved>,
) -> anyhow::Result<Verdict> {
    let Ground {
        loaded,
        constants,
        joined,
    } = *ground;
    let before = saved.and_then(|saved| saved.workload.as_ref());
    let mut asked = workload::read_within(
        &flags.traffic,
        &flags.slo,
        &flags.limits,
        before,
        &loaded.catalogue,
    )?;
    if !joined.is_empty() {
        Joined::allow(&mut asked.workload.limits, joined, &loaded.catalogue);
    }
    let running = flags
        .traffic
        .from
        .as_deref()
        .map(|command| choices::Running::read(command, ground.loaded))
        .transpose()?;
    let named = running
        .as_ref()
        .and_then(|running| running.launch.model.clone())
        .or_else(|| saved.map(|saved| saved.deployment.model.clone()))
        .or_else(|| asked.model.clone());
    let plan = settings::Plan::of(flags);
    let running = (running.as_ref(), named.as_deref());
    let deployment = saved.map(|saved| &saved.deployment);
    let mut grounds = Grounds::new(&plan, &mut asked, running, deployment, loaded, app)?;
    let mut runs = Runs::read(&flags.current, saved, loaded, &flags.limits, constants)?;
    let choices = &mut grounds.choices;
    if let Some(fixed) = &mut choices.fixed {
        // Its settings hold for what runs and for what takes its place; its layout only for the former.
        runs.current.layout = runs.current.layout.or(fixed.layout);
        fixed.layout = None;
    }
    let request = grounds.request(&asked.workload, &loaded.catalogue);
    let mut verdict = verdict::check(&request, &runs.current, runs.host.as_ref(), constants);
    verdict.notes.splice(
        0..0,
        asked
            .notes
            .iter()
            .map(ToString::to_string)
            .chain(grounds.notes.iter().map(ToString::to_string))
            .chain(runs.notes),
    );
    verdict.notes.dedup();
    Ok(verdict)
}

fn show(context: &Context, flags: &settings::Check, verdict: &Verdict) -> anyhow::Result<()> {
    let mut derivations = Vec::new();
    if flags.result.explain {
        derivations.extend(
            verdict
                .running
                .iter()
                .flat_map(|one| one.derivations.clone()),
        );
        derivations.extend(verdict.balance.iter().flat_map(around::derivations));
    }
    match context.form.format {
        settings::Format::Table => {
            let mut text = view::text(verdict, context.form.style);
            if flags.result.explain {
                text.push('\n');
                text += &explain::text(&derivations, context.form.style);
            }
            context.data(&text)
        }
        settings::Format::Md => {
            let mut text = view::markdown(verdict);
            if flags.result.explain {
                text += "\n## How it came about\n\n";
                text += &explain::markdown(&derivations);
            }
            context.data(&text)
        }
        settings::Format::Csv => context.table(&record::table(&[verdict])),
        settings::Format::Json => context.json(&record::json(verdict)),
    }
}

fn show_balance(context: &Context, flags: &settings::Check, found: &Balance) -> anyhow::Result<()> {
    match context.form.format {
        settings::Format::Table => {
            let style = context.form.style;
            let mut text = around::text(found, style);
            if flags.result.explain {
                text.push('\n');
                text += &explain::text(&around::derivations(found), style);
            }
            context.data(&text)
        }
        settings::Format::Json => context.json(&record::json(found)),
        settings::Format::Md | settings::Format::Csv => context.table(&around::table(found)),
    }
}
