//! `gpuwise plan`: from a model and a promise to deployments.

pub(super) mod choices;
mod emit;
mod media;
mod rule;
mod show;
mod simulated;

use super::{Answer, Context};
use crate::{
    catalogue::{self, Loaded},
    cli,
    fabric::Joined,
    host, knowledge, output, workload,
    write::Pending,
};
use choices::Running;
use gpuwise_domain::{
    balance::Balance,
    deployment::{Deployment, Saved, Sizing},
};
use gpuwise_size::search::{self, DraftModel, Request};
use gpuwise_view::plan as view;

pub(crate) fn run(context: &Context, flags: &cli::Plan) -> anyhow::Result<Answer> {
    if let Some(answer) = media::run(context, flags)? {
        return Ok(answer);
    }
    let result = &flags.result;
    // That results can be written is known before the work.
    let html = result.html.as_deref().map(Pending::new).transpose()?;
    let saved = result.save.as_deref().map(Pending::new).transpose()?;
    let mut loaded = catalogue::load(&context.overrides.with_prices(&flags.limits.market.prices))?;
    let mut asked = workload::read(flags, &loaded.catalogue)?;
    if let Some(path) = &flags.limits.market.fabric {
        let joined = Joined::read(path, &loaded.catalogue)?.join(&mut loaded.catalogue);
        Joined::allow(&mut asked.workload.limits, &joined, &loaded.catalogue);
    }
    let running = flags
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
    let model = super::model(&flags.model, named.as_deref(), &loaded, context)?;
    asked.within(model.architecture.max_context);
    let (mut choices, mut notes) =
        choices::choices(flags, &asked, running.as_ref(), &model, &loaded.catalogue)?;
    let draft = choices::draft_model(
        &flags.engine,
        running.as_ref(),
        &choices,
        &loaded,
        context,
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
        let (offline, seed) = (context.global.offline, context.global.seed);
        let said = simulated::ranked(&mut sizing, flags, &loaded, &knowledge, offline, seed)?;
        tried = Some(said);
    }
    sizing
        .notes
        .splice(0..0, asked.notes.into_iter().map(Into::into).chain(notes));
    let free = request.choices.fixed.is_some().then(|| {
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
    let beside = Beside {
        free: free.as_ref(),
        host: host.as_ref(),
    };
    let answer = finish(
        context,
        flags,
        &sizing,
        beside,
        &loaded,
        Files { html, saved },
    )?;
    let shown = context.global.format == cli::Format::Table && result.emit.is_none();
    if let Some(said) = tried.filter(|_| shown) {
        output::data(&format!("Tried    {said}\n"))?;
    }
    Ok(answer)
}

/// What is said beside a plan.
#[derive(Clone, Copy)]
struct Beside<'a> {
    /// What could run instead of what runs.
    free: Option<&'a Sizing>,
    /// What the picked deployment asks of its host.
    host: Option<&'a Balance>,
}

/// Files to be written.
struct Files {
    html: Option<Pending>,
    saved: Option<Pending>,
}

fn finish(
    context: &Context,
    flags: &cli::Plan,
    sizing: &Sizing,
    beside: Beside<'_>,
    loaded: &Loaded,
    files: Files,
) -> anyhow::Result<Answer> {
    let result = &flags.result;
    if let Some(file) = files.html {
        file.finish(&gpuwise_view::html::report(
            sizing,
            concat!("gpuwise ", env!("CARGO_PKG_VERSION")),
        ))?;
    }
    let feasible =
        !sizing.deployments.is_empty() && (beside.free.is_none() || choices::bears(sizing));
    if feasible && let Some(file) = files.saved {
        file.finish(&gpuwise_wire::to_json(&Saved {
            deployment: picked(sizing, result.pick)?.clone(),
            workload: Some(sizing.workload.clone()),
        }))?;
    }
    if let Some(form) = &result.emit {
        if feasible {
            output::data(&emit::text(
                form,
                picked(sizing, result.pick)?,
                &loaded.catalogue,
            )?)?;
        } else {
            output::say(view::text(sizing, context.output.style).trim_end());
        }
    } else {
        show::show(context, flags, sizing, beside, loaded)?;
    }
    Ok(if feasible { Answer::Yes } else { Answer::No })
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
