//! `gpuwise plan`: from a model and a promise to deployments.

mod choices;
mod emit;
mod rule;

use super::{Answer, Context};
use crate::{
    catalogue::{self, Loaded},
    cli, knowledge, output, workload,
    write::Pending,
};
use choices::Running;
use gpuwise_domain::deployment::{Deployment, Sizing};
use gpuwise_size::search::{self, Request};
use gpuwise_view::{explain, plan as view};

pub(crate) fn run(context: &Context, flags: &cli::Plan) -> anyhow::Result<Answer> {
    let result = &flags.result;
    // That results can be written is known before the work.
    let html = result.html.as_deref().map(Pending::new).transpose()?;
    let saved = result.save.as_deref().map(Pending::new).transpose()?;
    let loaded = catalogue::load(&context.overrides.with_prices(&flags.limits.prices))?;
    let asked = workload::read(flags, &loaded.catalogue)?;
    let running = flags
        .traffic
        .from
        .as_deref()
        .map(Running::read)
        .transpose()?;
    let named = running
        .as_ref()
        .and_then(|running| running.launch.model.clone())
        .or_else(|| asked.model.clone());
    let model = super::model(&flags.model, named.as_deref(), &loaded, context)?;
    let (choices, notes) = choices::choices(
        flags,
        &asked,
        running.as_ref(),
        &model.architecture,
        &loaded.catalogue,
    )?;
    let knowledge = knowledge::load(&loaded)?;
    let request = Request {
        name: model.name.clone(),
        origin: model.origin.clone(),
        architecture: &model.architecture,
        workload: &asked.workload,
        catalogue: &loaded.catalogue,
        knowledge: &knowledge,
        choices,
    };
    let mut sizing = search::plan(&request);
    sizing
        .notes
        .splice(0..0, asked.notes.into_iter().chain(notes));
    let free = request.choices.fixed.is_some().then(|| {
        let mut free = request.clone();
        free.choices.fixed = None;
        search::plan(&free)
    });
    finish(
        context,
        flags,
        &sizing,
        free.as_ref(),
        &loaded,
        Files { html, saved },
    )
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
    free: Option<&Sizing>,
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
    let feasible = !sizing.deployments.is_empty() && (free.is_none() || choices::bears(sizing));
    if feasible && let Some(file) = files.saved {
        file.finish(&gpuwise_wire::to_json(picked(sizing, result.pick)?))?;
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
        shown(context, flags, sizing, free, loaded)?;
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

fn shown(
    context: &Context,
    flags: &cli::Plan,
    sizing: &Sizing,
    free: Option<&Sizing>,
    loaded: &Loaded,
) -> anyhow::Result<()> {
    let style = context.output.style;
    let result = &flags.result;
    let why_not = result
        .why_not
        .iter()
        .map(|name| {
            Ok(crate::names::gpu(&loaded.catalogue, "--why-not", name)?
                .name
                .as_str())
        })
        .collect::<anyhow::Result<Vec<&str>>>()?;
    let best = sizing
        .deployments
        .get(usize::from(result.pick).saturating_sub(1));
    let derivations = best
        .filter(|_| result.explain)
        .map(|best| best.derivations.as_slice());
    match context.global.format {
        cli::Format::Table => {
            let mut out = view::text(sizing, style);
            if let Some(free) = free {
                out += &format!("\n{}", style.wrap(&choices::compared(sizing, free), 2));
                out.push('\n');
            }
            for gpu in &why_not {
                out += &format!("\n{}", view::why_not(sizing, gpu, style));
            }
            if let Some(derivations) = derivations {
                out += &format!("\n{}", explain::text(derivations, style));
            }
            if let Some(cli::RuleName::Liqid) = result.rule {
                out += &format!("\n{}", rule::text(sizing, style));
            }
            // The first screen says only how many notes there are; what was left aside of a
            // command that runs is part of the answer.
            if (result.explain || free.is_some()) && !sizing.deployments.is_empty() {
                for note in &sizing.notes {
                    out += &format!("\n{}", style.wrap(&format!("note: {note}"), 6));
                }
                out.push('\n');
            }
            output::data(&out)
        }
        cli::Format::Md => {
            let mut out = view::markdown(sizing);
            if let Some(free) = free {
                out += &format!(
                    "\n{}\n",
                    gpuwise_view::escape_markdown(&choices::compared(sizing, free))
                );
            }
            for gpu in &why_not {
                out += &format!("\n{}", view::why_not_markdown(sizing, gpu));
            }
            if let Some(derivations) = derivations {
                out += &format!(
                    "\n## How it came about\n\n{}",
                    explain::markdown(derivations)
                );
            }
            if let Some(cli::RuleName::Liqid) = result.rule {
                out += &format!("\n{}", rule::markdown(sizing));
            }
            output::data(&out)
        }
        cli::Format::Csv => output::data(&view::csv(sizing)),
        cli::Format::Json => {
            let mut value = view::sizing_json(sizing);
            if let serde_json::Value::Object(fields) = &mut value {
                if let Some(free) = free {
                    fields.insert("instead".into(), view::sizing_json(free));
                }
                if let Some(cli::RuleName::Liqid) = result.rule {
                    fields.insert("rule".into(), rule::json(sizing));
                }
            }
            output::json(&value)
        }
    }
}
