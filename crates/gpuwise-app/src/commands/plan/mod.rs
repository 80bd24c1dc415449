//! `gpuwise plan`: from a model and an SLO to deployments.

pub(super) mod choices;
mod emit;
mod media;
mod rule;
mod show;
mod simulated;

use super::{App, Context, Exit};
use crate::{
    catalogue::{self, Loaded},
    fabric::Joined,
    host, knowledge, progress, settings, workload,
    write::Pending,
};
use choices::Running;
use gpuwise_domain::{
    balance::Balance,
    deployment::{Deployment, Saved, Sizing},
};
use gpuwise_size::search::{self, DraftModel, Request};
use gpuwise_view::plan as view;
use serde_json::Value;

/// A plan, and what was asked beside it.
#[derive(Debug)]
pub struct Planned {
    /// The deployments, ranked, and what was dropped.
    pub sizing: Sizing,
    /// What could run instead of what runs, where a launch command was named.
    pub instead: Option<Sizing>,
    /// What the picked deployment asks of its host.
    pub host: Option<Balance>,
    /// What came of trying deployments under the traffic, where that was asked for.
    pub tried: Option<String>,
    loaded: Loaded,
}

impl Planned {
    /// Whether a deployment keeps the SLO; of a launch command, whether it bears the load.
    pub fn feasible(&self) -> bool {
        !self.sizing.deployments.is_empty()
            && (self.instead.is_none() || choices::bears(&self.sizing))
    }

    /// The deployment that was picked, counted from 1.
    ///
    /// # Errors
    /// When there are fewer.
    pub fn picked(&self, pick: u16) -> anyhow::Result<&Deployment> {
        picked(&self.sizing, pick)
    }

    /// A deployment with its workload, as later steps take it.
    ///
    /// # Errors
    /// As [`Planned::picked`].
    pub fn saved(&self, pick: u16) -> anyhow::Result<Saved> {
        Ok(Saved {
            deployment: self.picked(pick)?.clone(),
            workload: Some(self.sizing.workload.clone()),
        })
    }

    /// The report as one self-contained HTML page.
    pub fn page(&self) -> String {
        gpuwise_view::html::report(&self.sizing, concat!("gpuwise ", env!("CARGO_PKG_VERSION")))
    }

    /// The launch command or manifest of a deployment.
    ///
    /// # Errors
    /// When the form is of another engine, or the release lacks a flag that is needed.
    pub fn launch(&self, form: &str, pick: u16) -> anyhow::Result<String> {
        emit::text(form, self.picked(pick)?, &self.loaded.catalogue)
    }

    /// All of it as JSON.
    pub fn json(&self) -> Value {
        show::json(self)
    }
}

/// Plans the serving of a language model: which GPUs, how many, rented where, in which layout and
/// precision, how fast they answer and what they cost.
///
/// # Errors
/// When a setting is wrong, or the model cannot be found. That nothing keeps the SLO is an answer.
pub fn plan(app: &App, settings: &settings::Plan) -> anyhow::Result<Planned> {
    let result = &settings.result;
    let mut loaded = catalogue::load(&app.overrides.with_prices(&settings.limits.market.prices))?;
    let mut asked = workload::read(settings, &loaded.catalogue)?;
    if let Some(path) = &settings.limits.market.fabric {
        let joined = Joined::read(path, &loaded.catalogue)?.join(&mut loaded.catalogue);
        Joined::allow(&mut asked.workload.limits, &joined, &loaded.catalogue);
    }
    let running = settings
        .traffic
        .from
        .as_deref()
        .map(Running::read)
        .transpose()?;
    if running.is_some() {
        choices::one_gpu(&asked.workload.limits)?;
    }
    let named = running
        .as_ref()
        .and_then(|running| running.launch.model.clone())
        .or_else(|| asked.model.clone());
    let model = super::model(&settings.model, named.as_deref(), &loaded, app)?;
    asked.within(model.architecture.max_context);
    let (mut choices, mut notes) = choices::choices(
        settings,
        &asked,
        running.as_ref(),
        &model,
        &loaded.catalogue,
    )?;
    let draft = choices::draft_model(
        &settings.engine,
        running.as_ref(),
        &choices,
        &loaded,
        app,
        &mut notes,
    )?;
    let knowledge = knowledge::load(&loaded)?;
    let facts = catalogue::engine_facts(choices.engine.kind)?;
    choices.engine.release.get_or_insert(facts.resolve(None));
    let mut request = Request {
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
    if result.simulate {
        request.choices.top *= simulated::TRIED;
    }
    let mut sizing = search::plan(&request);
    let mut tried = None;
    if result.simulate {
        tried = Some(simulated::ranked(
            &mut sizing,
            settings,
            &loaded,
            &knowledge,
            app,
        )?);
    }
    sizing
        .notes
        .splice(0..0, asked.notes.into_iter().map(Into::into).chain(notes));
    let instead = request.choices.fixed.is_some().then(|| {
        let mut free = request.clone();
        free.choices.fixed = None;
        search::plan(&free)
    });
    let host = picked(&sizing, result.pick)
        .ok()
        .map(|best| {
            host::of_plan(
                best,
                &model.architecture,
                &asked.workload,
                &loaded.catalogue,
            )
        })
        .transpose()?;
    Ok(Planned {
        sizing,
        instead,
        host,
        tried,
        loaded,
    })
}

pub fn run(context: &Context, flags: &settings::Plan) -> anyhow::Result<Exit> {
    if let Some(answer) = media::run(context, flags)? {
        return Ok(answer);
    }
    let result = &flags.result;
    // That results can be written is known before the work.
    let html = result.html.as_deref().map(Pending::new).transpose()?;
    let saved = result.save.as_deref().map(Pending::new).transpose()?;
    let planned = plan(&context.app, flags)?;
    if let Some(file) = html {
        file.finish(&planned.page())?;
    }
    let feasible = planned.feasible();
    if feasible && let Some(file) = saved {
        file.finish(&gpuwise_wire::to_json(&planned.saved(result.pick)?))?;
    }
    match &result.emit {
        Some(form) if feasible => context.data(&planned.launch(form, result.pick)?)?,
        Some(_) => {
            progress::say(view::text(&planned.sizing, context.form.style).trim_end());
        }
        None => {
            show::show(context, flags, &planned)?;
            if context.form.format == settings::Format::Table
                && let Some(said) = &planned.tried
            {
                context.data(&format!("Tried    {said}\n"))?;
            }
        }
    }
    Ok(if feasible { Exit::Yes } else { Exit::No })
}

/// The deployment that was picked, counted from 1.
fn picked(sizing: &Sizing, pick: u16) -> anyhow::Result<&Deployment> {
    let index = usize::from(pick).saturating_sub(1);
    sizing.deployments.get(index).ok_or_else(|| {
        crate::error::Problem::new(format!(
            "--pick {pick}: there are {} deployments",
            sizing.deployments.len()
        ))
        .hint("a larger --top shows more")
        .into()
    })
}
