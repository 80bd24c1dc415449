//! What a training answer looks like in each form.

use super::{Context, picked};
use crate::{cli, output};
use gpuwise_domain::training_plan::TrainingSizing;
use gpuwise_view::{explain, training as view};

/// Writes an answer in the form that was asked for.
///
/// # Errors
/// When a plan is picked that is not there, or stdout cannot be written.
pub(super) fn show(
    context: &Context,
    flags: &cli::Train,
    sizing: &TrainingSizing,
) -> anyhow::Result<()> {
    let explained = flags.result.explain && !sizing.plans.is_empty();
    let plan = explained
        .then(|| picked(sizing, flags.result.pick))
        .transpose()?;
    match context.global.format {
        cli::Format::Table => {
            let style = context.output.style;
            let mut text = view::text(sizing, explained || sizing.plans.len() == 1, style);
            if let Some(plan) = plan {
                text.push('\n');
                text += &explain::text(&plan.derivations, style);
                for note in plan.memory.assumptions.iter().chain(&plan.step.assumptions) {
                    text += &(style.wrap(&format!("note: {note}"), 6) + "\n");
                }
            }
            output::data(&text)
        }
        cli::Format::Md => {
            let mut text = view::markdown(sizing);
            if let Some(plan) = plan {
                text += "\n## How it came about\n\n";
                text += &explain::markdown(&plan.derivations);
            }
            output::data(&text)
        }
        cli::Format::Csv => output::data(&view::csv(sizing)),
        cli::Format::Json => output::json(&view::sizing_json(sizing)),
    }
}
