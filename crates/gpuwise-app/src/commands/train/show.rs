//! What a training answer looks like in each form.

use super::{Context, Trained, picked};
use crate::settings;
use gpuwise_view::{balance as around, explain, training as view};

/// Writes an answer in the form that was asked for.
pub(super) fn show(
    context: &Context,
    flags: &settings::Train,
    trained: &Trained,
) -> anyhow::Result<()> {
    let sizing = &trained.sizing;
    let host = trained.host.as_ref();
    let explained = flags.result.explain && !sizing.ranked.is_empty();
    let plan = explained
        .then(|| picked(sizing, flags.result.pick))
        .transpose()?;
    match context.form.format {
        settings::Format::Table => {
            let style = context.form.style;
            let mut text = view::text(sizing, explained || sizing.ranked.len() == 1, style);
            if let Some(plan) = plan {
                text.push('\n');
                text += &explain::text(&plan.derivations, style);
                for note in plan.memory.assumptions.iter().chain(&plan.step.assumptions) {
                    text += &(style.wrap(&format!("note: {note}"), 6) + "\n");
                }
            }
            if let Some(host) = host {
                text.push('\n');
                text += &around::text(host, style);
            }
            context.data(&text)
        }
        settings::Format::Md => {
            let mut text = view::markdown(sizing);
            if let Some(plan) = plan {
                text += "\n## How it came about\n\n";
                text += &explain::markdown(&plan.derivations);
            }
            if let Some(host) = host {
                text += "\n## What the host must have\n\n";
                text += &around::table(host).to_markdown();
            }
            context.data(&text)
        }
        settings::Format::Csv => context.data(&view::csv(sizing)),
        settings::Format::Json => context.json(&trained.json()),
    }
}
