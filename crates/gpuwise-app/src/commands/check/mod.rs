//! `gpuwise check`: whether what runs is the right size, and what of its host holds it up.

mod current;
mod job;

use super::{Context, Exit, plan::choices};
use crate::{
    catalogue::{self, Loaded},
    error::Problem,
    fabric::Joined,
    host, knowledge, settings, simulation, workload,
};
use current::Runs;
use gpuwise_domain::{
    balance::Balance,
    deployment::Saved,
    verdict::{Standing, Verdict},
};
use gpuwise_size::{
    balance::{BalanceConstants, balance},
    search::{DraftModel, Request},
    verdict::check,
};
use gpuwise_view::{balance as around, explain, verdict as view};

pub fn run(context: &Context, flags: &settings::Check) -> anyhow::Result<Exit> {
    let mut loaded = catalogue::load(
        &context
            .app
            .overrides
            .with_prices(&flags.limits.market.prices),
    )?;
    let constants = host::constants(&flags.result.constants)?;
    if flags.job.samples.is_some() {
        let found = of_job(flags, &loaded, &constants)?;
        show_balance(context, flags, &found)?;
        return Ok(if found.cause().is_none() {
            Exit::Yes
        } else {
            Exit::No
        });
    }
    let saved = flags
        .current
        .deployment
        .as_deref()
        .map(simulation::read)
        .transpose()?;
    let joined = match &flags.limits.market.fabric {
        Some(path) => Joined::read(path, &loaded.catalogue)?.join(&mut loaded.catalogue),
        None => Vec::new(),
    };
    let ground = Ground {
        loaded: &loaded,
        constants: &constants,
        joined: &joined,
    };
    let verdict = judged(context, flags, &ground, saved.as_ref())?;
    show(context, flags, &verdict)?;
    Ok(match verdict.standing {
        Standing::RightSized => Exit::Yes,
        Standing::OverProvisioned | Standing::UnderProvisioned => Exit::No,
    })
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

/// What a verdict rests on.
struct Ground<'a> {
    loaded: &'a Loaded,
    constants: &'a BalanceConstants,
    /// GPUs of a fabric, with how many there are.
    joined: &'a [(String, u32)],
}

/// A model and its traffic on what runs.
fn judged(
    context: &Context,
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
        &flags.promise,
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
        .map(choices::Running::read)
        .transpose()?;
    let named = running
        .as_ref()
        .and_then(|running| running.launch.model.clone())
        .or_else(|| saved.map(|saved| saved.deployment.model.clone()))
        .or_else(|| asked.model.clone());
    let model = super::model(&flags.model, named.as_deref(), loaded, &context.app)?;
    asked.within(model.architecture.max_context);
    let plan = settings::Plan::of(flags);
    let (mut choices, mut notes) =
        choices::choices(&plan, &asked, running.as_ref(), &model, &loaded.catalogue)?;
    let draft = choices::draft_model(
        &flags.engine,
        running.as_ref(),
        &choices,
        loaded,
        &context.app,
        &mut notes,
    )?;
    let mut runs = Runs::read(&flags.current, saved, loaded, &flags.limits, constants)?;
    if let Some(fixed) = &mut choices.fixed {
        // Its settings hold for what runs and for what takes its place; its layout only for the former.
        runs.current.layout = runs.current.layout.or(fixed.layout);
        fixed.layout = None;
    }
    if let Some(saved) = saved.filter(|_| choices.weights.is_empty()) {
        choices.weights.push(choices::weights_of(&saved.deployment));
    }
    let knowledge = knowledge::load(loaded)?;
    let facts = catalogue::engine_facts(choices.engine.kind)?;
    choices.engine.release.get_or_insert(facts.resolve(None));
    let request = Request {
        name: model.name.clone(),
        origin: model.origin.clone(),
        architecture: &model.architecture,
        workload: &asked.workload,
        catalogue: &loaded.catalogue,
        knowledge: &knowledge,
        facts: Some(&facts),
        draft: draft.as_ref().map(|model| DraftModel {
            name: model.name.clone(),
            architecture: &model.architecture,
        }),
        choices,
    };
    let mut verdict = check(&request, &runs.current, runs.host.as_ref(), constants);
    verdict.notes.splice(
        0..0,
        asked
            .notes
            .into_iter()
            .map(Into::into)
            .chain(notes)
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
        settings::Format::Csv => context.table(&view::row(verdict)),
        settings::Format::Json => context.json(&view::json(verdict)),
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
        settings::Format::Json => context.json(&around::json(found)),
        settings::Format::Md | settings::Format::Csv => context.table(&around::table(found)),
    }
}
