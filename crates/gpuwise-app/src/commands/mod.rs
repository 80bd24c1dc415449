//! What each command does: settings in, an answer in the form that was asked for out.

pub mod accuracy;
#[cfg(feature = "bench")]
pub mod audit;
#[cfg(feature = "bench")]
pub mod bench;
pub mod calibrate;
pub mod capacity;
pub mod check;
pub mod compare;
pub mod composed;
pub mod evidence;
pub mod fleet;
pub mod gpus;
pub mod lint;
pub mod memory;
pub mod models;
pub mod offers;
pub mod operators;
pub mod place;
pub mod plan;
pub mod predict;
pub mod profile;
pub mod replay;
#[cfg(feature = "database")]
pub mod runs;
pub mod simulate;
pub mod sources;
pub mod table;
pub mod tco;
pub mod tier;
pub mod train;
pub mod validate;
pub mod watch;
pub mod workload;

use crate::{
    app::{App, Context},
    catalogue::Loaded,
    error::Problem,
    model::{self, ResolvedModel},
    settings::ModelFlags,
};
use anyhow::Context as _;

pub use crate::app::Exit;

/// The model of a command: by flags, or as a file or launch command names it.
///
/// # Errors
/// When none is named, or it cannot be found or read.
pub(crate) fn model(
    flags: &ModelFlags,
    named: Option<&str>,
    loaded: &Loaded,
    app: &App,
) -> anyhow::Result<ResolvedModel> {
    match (flags.model.as_deref(), flags.numbers.given()) {
        (Some(name), true) => Err(Problem::new(format!("model {name:?} and numbers are given; one of them is enough"))
            .hint("leave --params, --layers and the like out, or the name")
            .into()),
        (Some(name), false) => model::resolve(name, &loaded.models, app.offline),
        (None, true) => flags.numbers.resolve(),
        (None, false) => match named {
            Some(name) => model::resolve(name, &loaded.models, app.offline),
            None => Err(Problem::new("no model is named")
                .hint("name one of `gpuwise models`, a directory with a config.json, a GGUF file, or --params and --layers")
                .into()),
        },
    }
}

/// The model that drafts, as `--draft-model` names it.
///
/// # Errors
/// When no tokens are drafted, or it cannot be found or read.
pub(crate) fn draft_model(
    name: Option<&str>,
    tokens: u32,
    loaded: &Loaded,
    app: &App,
) -> anyhow::Result<Option<ResolvedModel>> {
    let Some(name) = name else { return Ok(None) };
    if tokens == 0 {
        return Err(Problem::new(format!(
            "--draft-model {name}: nothing says how many tokens it drafts a step"
        ))
        .hint("add --draft-tokens 4")
        .into());
    }
    model::resolve(name, &loaded.models, app.offline)
        .map(Some)
        .context("--draft-model")
}
