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
    error::Problem,
    fabric::Joined,
    host, knowledge,
    made::made,
    model::ResolvedModel,
    progress, settings,
    workload::{self, StatedWorkload},
    write::Pending,
};
use choices::Running;
use gpuwise_domain::{
    balance::Balance,
    catalogue::Catalogue,
    deployment::{Deployment, Saved, Sizing},
    engine::Engine,
    facts::EngineFacts,
    note::{CommandNote, Note},
    workload::Workload,
};
use gpuwise_size::{
    knowledge::Knowledge,
    search::{self, Choices, DraftModel, Request},
};
use gpuwise_view::{plan as view, record};
pub use media::{MediaPlanned, plan as media_plan};
use serde_json::Value;

/// A plan, and what was asked beside it.
#[derive(Debug)]
#[must_use]
pub struct Planned {
    /// The deployments, ranked, and what was dropped.
    pub sizing: Sizing,
    /// What could run instead of what runs, where a launch command was named.
    pub instead: Option<Sizing>,
    /// What the picked deployment asks of its host.
    pub host: Option<Balance>,
    /// What came of trying deployments under the traffic, where that was asked for.
    pub tried: Option<Note>,
    loaded: Loaded,
}

impl Planned {
    /// Whether a deployment keeps the SLO; of a launch command, whether it sustains the load.
    pub fn feasible(&self) -> bool {
        !self.sizing.ranked.is_empty()
            && (self.instead.is_none() || choices::sustains(&self.sizing))
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
            workload: Some(self.sizing.question.workload.clone()),
        })
    }

    /// The report as one self-contained HTML page.
    pub fn page(&self) -> String {
        let starts = self.sizing.ranked.first().and_then(|best| {
            let text = emit::text(best.engine.name(), best, &self.loaded);
            text.ok()
        });
        gpuwise_view::html::report(&self.sizing, starts.as_deref(), &made())
    }

    /// The launch command or manifest of a deployment.
    ///
    /// # Errors
    /// When the form is of another engine, or the release lacks a flag that is needed.
    pub fn launch(&self, form: &str, pick: u16) -> anyhow::Result<String> {
        emit::text(form, self.picked(pick)?, &self.loaded)
    }

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
        let joined = Joined::read(path, &loaded)?.join(&mut loaded.catalogue);
        Joined::allow(&mut asked.workload.limits, &joined, &loaded.catalogue);
    }
    let running = settings
        .traffic
        .from
        .as_deref()
        .map(|command| Running::read(command, &loaded))
        .transpose()?;
    if running.is_some() {
        choices::one_gpu(&asked.workload.limits)?;
    }
    let named = running
        .as_ref()
        .and_then(|running| running.launch.model.clone())
        .or_else(|| asked.model.clone());
    let grounds = Grounds::new(
        settings,
        &mut asked,
        (running.as_ref(), named.as_deref()),
        None,
        &loaded,
        app,
    )?;
    let notes = std::mem::take(&mut asked.notes);
    let mut request = grounds.request(&asked.workload, &loaded.catalogue);
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
            &grounds.knowledge,
            app,
        )?);
    }
    let notes = notes.into_iter().map(Note::from);
    let command = grounds.notes.iter().cloned().map(Note::from);
    sizing.notes.splice(0..0, notes.chain(command));
    // Pools of prefill and decode fix no layout: what is found is what could run instead.
    let fixed = request.choices.fixed.as_ref();
    let as_it_runs = fixed.is_some_and(|fixed| fixed.layout.is_some());
    let instead = as_it_runs.then(|| {
        let mut free = request.clone();
        free.choices.fixed = None;
        search::plan(&free)
    });
    let host = picked(&sizing, result.pick)
        .ok()
        .map(|best| host::of_plan(best, &grounds.model.architecture, &asked.workload, &loaded))
        .transpose()?;
    Ok(Planned {
        sizing,
        instead,
        host,
        tried,
        loaded,
    })
}

/// What a question about serving rests on, beside the traffic.
pub(super) struct Grounds {
    pub(super) model: ResolvedModel,
    pub(super) choices: Choices,
    pub(super) notes: Vec<CommandNote>,
    draft: Option<ResolvedModel>,
    knowledge: Knowledge,
    facts: EngineFacts,
    /// Those of every engine.
    engines: Vec<EngineFacts>,
}

impl Grounds {
    /// As flags have it, or the command of what runs; `named` is the model where no flag says one.
    pub(super) fn new(
        settings: &settings::Plan,
        asked: &mut StatedWorkload,
        (running, named): (Option<&Running>, Option<&str>),
        saved: Option<&Deployment>,
        loaded: &Loaded,
        app: &App,
    ) -> anyhow::Result<Self> {
        let model = super::model(&settings.model, named, loaded, app)?;
        asked.within(model.architecture.max_context);
        let (mut choices, mut notes) =
            choices::choices(settings, asked, running, &model, &loaded.catalogue)?;
        if let Some(saved) = saved {
            let stated = settings.engine.engine.is_some() || running.is_some();
            if !stated && asked.engine.is_none() {
                choices.engine = Engine::newest(saved.engine);
            }
            choices.keep(saved);
        }
        if let Some(stated) = &settings.engine.context {
            served_within(stated, &choices, &asked.workload)?;
        }
        let runs = (running, saved);
        let draft =
            choices::draft_model(&settings.engine, runs, &choices, loaded, app, &mut notes)?;
        if settings.engine.draft_tokens.is_some() {
            // What runs drafts by whatever its command names.
            let tokens = choices.draft_tokens;
            super::can_draft(&model, draft.as_ref(), tokens, choices.engine.kind)?;
        }
        let facts = catalogue::engine_facts(loaded, choices.engine.kind)?;
        choices.engine.release.get_or_insert(facts.resolve(None));
        Ok(Self {
            model,
            choices,
            notes,
            draft,
            knowledge: knowledge::load(loaded)?,
            facts,
            engines: catalogue::all_engine_facts(loaded)?,
        })
    }

    /// The question itself.
    pub(super) fn request<'a>(
        &'a self,
        workload: &'a Workload,
        catalogue: &'a Catalogue,
    ) -> Request<'a> {
        Request {
            name: self.model.name.clone(),
            origin: self.model.origin.clone(),
            architecture: &self.model.architecture,
            workload,
            catalogue,
            knowledge: &self.knowledge,
            facts: Some(&self.facts),
            engines: &self.engines,
            draft: self.draft.as_ref().map(|model| DraftModel {
                name: model.name.clone(),
                architecture: &model.architecture,
            }),
            choices: self.choices.clone(),
        }
    }
}

/// The context that is asked for holds a request of the mean; what is longer is refused, and no service of it.
fn served_within(stated: &str, choices: &Choices, workload: &Workload) -> anyhow::Result<()> {
    let lengths = &workload.lengths;
    let mean = lengths.input.mean + lengths.output.mean;
    let within = choices.max_context.is_none_or(|most| mean <= most as f64);
    if within {
        return Ok(());
    }
    let longest = lengths.input.longest.0 + lengths.output.longest.0;
    Err(Problem::new(format!(
        "--context {stated}: a request has {mean:.0} tokens in the mean, prompt and answer, and engines refuse what is longer than their context"
    ))
    .hint(format!("leave it out, or say --context {longest} for the longest request"))
    .into())
}

/// Shows a plan in the form that was asked for.
#[cfg(feature = "kubernetes")]
pub(super) fn show_of(
    context: &Context,
    flags: &settings::Plan,
    planned: &Planned,
) -> anyhow::Result<()> {
    show::show(context, flags, planned)
}

pub(crate) fn schema(answer: &str) -> String {
    show::schema(answer)
}

/// The schema of a plan for a diffusion, vision or embedding model.
pub(crate) fn media_schema(answer: &str) -> String {
    record::document_schema::<MediaPlanned>(
        answer,
        "What runs a diffusion, vision or embedding model under an SLO",
    )
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
                context.data(&view::labelled(
                    context.form.style,
                    "Tried",
                    &said.to_string(),
                ))?;
            }
        }
    }
    Ok(if feasible { Exit::Yes } else { Exit::No })
}

/// The deployment that was picked, counted from 1.
fn picked(sizing: &Sizing, pick: u16) -> anyhow::Result<&Deployment> {
    let index = usize::from(pick).saturating_sub(1);
    sizing.ranked.get(index).ok_or_else(|| {
        crate::error::Problem::new(format!(
            "--pick {pick}: there are {} deployments",
            sizing.ranked.len()
        ))
        .hint("a larger --top shows more")
        .into()
    })
}
