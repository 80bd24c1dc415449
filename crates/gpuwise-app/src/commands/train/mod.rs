//! `gpuwise train`: from a model and a training job to machines, layouts and what they cost.

mod alignment;
mod amount;
mod choices;
mod machines;
mod show;

use super::{App, Context, Exit};
use crate::{
    catalogue::{self, Loaded, OwnRows},
    error::Problem,
    fabric::Joined,
    host, knowledge,
    made::made,
    progress, settings,
    write::Pending,
};
use anyhow::Context as _;
use gpuwise_domain::{
    alignment::Alignment,
    balance::Balance,
    estimate::Estimate,
    note::Note,
    training_plan::{Reliability, TrainingPlan, TrainingSizing},
};
use gpuwise_read::reliability::read_reliability;
use gpuwise_size::{
    balance,
    training::search::{self, Formulas, Machines, TrainRequest},
};
use gpuwise_units::Bytes;
use gpuwise_view::{
    record::{self},
    training::{self as view, emit},
};
use serde_json::Value;
use std::{fs, path::Path};

/// Plans of a training job.
#[derive(Debug, Clone)]
#[must_use]
pub struct Trained {
    /// The plans, ranked, and what was dropped.
    pub sizing: TrainingSizing,
    /// What the picked plan asks of the host that was named.
    pub host: Option<Balance>,
}

impl Trained {
    /// Whether it can be done.
    pub fn feasible(&self) -> bool {
        !self.sizing.ranked.is_empty()
    }

    /// The plan that was picked, counted from 1.
    ///
    /// # Errors
    /// When there are fewer.
    pub fn picked(&self, pick: u16) -> anyhow::Result<&TrainingPlan> {
        picked(&self.sizing, pick)
    }

    /// The recipe of a plan in the form of a framework.
    ///
    /// # Errors
    /// When the form cannot say what the plan does.
    pub fn recipe(&self, form: emit::RecipeForm, pick: u16) -> anyhow::Result<String> {
        let plan = self.picked(pick)?;
        emit::recipe(form, plan, &self.sizing.question.model)
            .map_err(|error| Problem::new(format!("--emit {}: {error}", form.name())).into())
    }

    pub fn json(&self) -> Value {
        record::json(self)
    }
}

gpuwise_view::record!(Trained, "TrainAnswer", |of| {
    of.inline(|t| &t.sizing);
    of.maybe("host", |t| t.host.as_ref());
});

/// Plans a training job: machines, layout, memory, time and cost.
///
/// # Errors
/// When a setting is wrong, or the model cannot be found. That it cannot be done is an answer.
pub fn train(app: &App, flags: &settings::Train) -> anyhow::Result<Trained> {
    let mut loaded = catalogue::load(&app.overrides.with_prices(&flags.machines.market.prices))?;
    let composed = match &flags.machines.market.fabric {
        Some(path) => Joined::read(path, &loaded)?.join(&mut loaded.catalogue),
        None => Vec::new(),
    };
    let form = form(flags);
    let model = super::model(&flags.model, None, &loaded, app)?;
    let choices = choices::choices(flags, form, &model.architecture)?;
    let job = amount::job(flags, amount::sample_tokens(&choices), &loaded.catalogue)?;
    let machines = machines::machines(&flags.machines, &loaded.catalogue, &composed)?;
    let reliability = reliability(&flags.reliability, &machines, &loaded)?;
    let knowledge = match choices.alignment {
        Some(Alignment::Grpo(_)) => Some(knowledge::load(&loaded)?),
        _ => None,
    };
    let physics = Formulas {
        architecture: &model.architecture,
        facts: &loaded.catalogue.training,
        knowledge: knowledge.as_ref(),
    };
    let request = TrainRequest {
        name: model.name.clone(),
        origin: model.origin.clone(),
        architecture: &model.architecture,
        job,
        catalogue: &loaded.catalogue,
        reliability,
        choices,
        machines,
        terms: flags.machines.market.terms.into(),
        rank: flags.result.objective.map(Into::into),
        top: usize::from(flags.result.top.max(flags.result.pick)),
    };
    let mut sizing = search::train(&request, &physics);
    let beyond = choices::beyond(&model.architecture, request.choices.sequence);
    sizing.notes.extend(beyond.map(Note::from));
    let host = match form {
        Some(_) => None,
        None => surroundings(flags, &sizing, &loaded)?,
    };
    Ok(Trained { sizing, host })
}

pub(crate) fn schema(answer: &str) -> String {
    record::document_schema::<Trained>(answer, "Machines and layouts that a training job needs")
}

fn form(flags: &settings::Train) -> Option<emit::RecipeForm> {
    let name = flags.result.emit.as_deref();
    name.and_then(emit::RecipeForm::by_name)
}

pub fn run(context: &Context, flags: &settings::Train) -> anyhow::Result<Exit> {
    let page = flags.result.html.as_deref().map(Pending::new).transpose()?;
    let trained = train(&context.app, flags)?;
    if let Some(file) = page {
        // What starts it is shown where accelerate can say what the plan does.
        let start = trained.recipe(emit::RecipeForm::Accelerate, 1).ok();
        file.finish(&view::page(&trained.sizing, start, &made()))?;
    }
    match form(flags) {
        Some(form) if trained.feasible() => {
            context.data(&trained.recipe(form, flags.result.pick)?)?;
        }
        Some(_) => {
            progress::say(view::text(&trained.sizing, false, context.form.style).trim_end());
        }
        None => show::show(context, flags, &trained)?,
    }
    Ok(if trained.feasible() {
        Exit::Yes
    } else {
        Exit::No
    })
}

/// What the picked plan asks of the host that was named, beside what that has.
fn surroundings(
    flags: &settings::Train,
    sizing: &TrainingSizing,
    loaded: &Loaded,
) -> anyhow::Result<Option<Balance>> {
    let (Some(name), false) = (&flags.machines.host, sizing.ranked.is_empty()) else {
        return Ok(None);
    };
    let plan = picked(sizing, flags.result.pick)?;
    let constants = host::constants(loaded, &[])?;
    let surrounding = host::named(name, &loaded.catalogue, &constants)?;
    let mut work = balance::training(plan, &constants);
    let price = plan.rental.as_ref().and_then(|rental| rental.price);
    work.node_price = price;
    Ok(Some(balance::balance(work, surrounding, &constants)))
}

/// The plan that was picked, counted from 1.
fn picked(sizing: &TrainingSizing, pick: u16) -> anyhow::Result<&TrainingPlan> {
    let index = usize::from(pick).saturating_sub(1);
    sizing.ranked.get(index).ok_or_else(|| {
        Problem::new(format!(
            "--pick {pick}: there are {} plans",
            sizing.ranked.len()
        ))
        .hint("a larger --top shows more")
        .into()
    })
}

/// The catalogue's figures, with those of a file and of flags over them.
fn reliability(
    flags: &settings::ReliabilityFlags,
    machines: &Machines<'_>,
    loaded: &Loaded,
) -> anyhow::Result<Reliability> {
    let mut known = None;
    for (file, text) in catalogue::files(loaded, OwnRows::Reliability) {
        known = Some(read_reliability(file, text, known.as_ref())?);
    }
    let mut known =
        known.ok_or_else(|| Problem::new("the catalogue has no figures of failures"))?;
    if let Some(file) = &flags.reliability {
        known = own(file, &known)?;
    }
    if let Some(text) = &flags.mtbf {
        let hours: f64 = text.trim().parse().unwrap_or(f64::NAN);
        if !(hours > 0.0 && hours.is_finite()) {
            return Err(Problem::new(format!(
                "--mtbf {text}: expected a number of GPU-hours above 0"
            ))
            .into());
        }
        known.gpu_hours_per_stop = Estimate::exact(hours);
        known.sources[0] = "as given".into();
    }
    if let Some(text) = &flags.storage {
        let gpus = match machines {
            Machines::Given(cluster) => cluster.gpus,
            Machines::Offered(_) => {
                return Err(Problem::new(format!(
                    "--storage {text}: of which job is not known before its GPUs are"
                ))
                .hint(
                    "name them with --gpus 64xH100, or give storage_per_gpu in --reliability FILE",
                )
                .into());
            }
        };
        let rate: Bytes = text
            .trim()
            .trim_end_matches("/s")
            .parse()
            .context("--storage")?;
        if rate == Bytes::ZERO {
            return Err(Problem::new("--storage 0: expected a rate above 0").into());
        }
        known.storage_per_gpu = Estimate::exact(rate.count() as f64 / gpus as f64);
        known.sources[2] = "as given".into();
    }
    Ok(known)
}

fn own(file: &Path, base: &Reliability) -> anyhow::Result<Reliability> {
    let shown = file.display().to_string();
    let text = fs::read_to_string(file)
        .map_err(|error| Problem::new(format!("cannot read {shown}")).because(error))?;
    Ok(read_reliability(&shown, &text, Some(base))?)
}
