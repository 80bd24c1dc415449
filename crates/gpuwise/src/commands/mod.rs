//! What each command does.

pub(crate) mod accuracy;
#[cfg(feature = "bench")]
pub(crate) mod audit;
#[cfg(feature = "bench")]
mod bench;
pub(crate) mod calibrate;
mod capacity;
mod check;
pub(crate) mod compare;
mod completions;
mod composed;
mod evidence;
mod fleet;
mod gpus;
mod lint;
mod memory;
mod models;
mod offers;
pub(crate) mod operators;
mod place;
mod plan;
pub(crate) mod predict;
pub(crate) mod profile;
mod replay;
#[cfg(feature = "database")]
pub(crate) mod runs;
mod simulate;
mod sources;
mod table;
mod tco;
pub(crate) mod tier;
mod train;
mod validate;
pub(crate) mod watch;
mod workload;

use crate::{
    catalogue::{Loaded, Overrides},
    cli::{Cli, Command, Global, ModelFlags},
    error::Problem,
    model::{self, ResolvedModel},
    output::Output,
};
use anyhow::Context as _;

/// Whether the answer is yes; that it is no is not an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Yes,
    No,
    /// That of a job that was run.
    #[cfg_attr(
        not(all(feature = "database", feature = "bench")),
        allow(dead_code, reason = "only jobs have one")
    )]
    Code(u8),
}

/// What every command gets besides its own flags.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    pub(crate) global: Global,
    pub(crate) output: Output,
    pub(crate) overrides: Overrides,
}

/// Runs the command.
///
/// # Errors
/// When the input is wrong, or the result cannot be written.
pub(crate) fn run(arguments: Cli) -> anyhow::Result<Answer> {
    let context = Context {
        output: Output::new(arguments.global.format, arguments.global.color),
        overrides: Overrides::from_environment(),
        global: arguments.global,
    };
    match arguments.command {
        Command::Plan(flags) => plan::run(&context, &flags),
        Command::Composed(flags) => composed::run(&context, &flags),
        Command::Table(flags) => table::run(&context, &flags),
        Command::Train(flags) => train::run(&context, &flags),
        Command::Memory(flags) => memory::run(&context, &flags),
        Command::Check(flags) => check::run(&context, &flags),
        #[cfg(feature = "bench")]
        Command::Bench(flags) => bench::run(&context, &flags),
        Command::Fleet(command) => fleet::run(&context, &command),
        Command::Place(flags) => place::run(&context, &flags),
        Command::Lint(flags) => lint::run(&context, &flags),
        Command::Capacity(flags) => capacity::run(&context, &flags),
        Command::Replay(flags) => replay::run(&context, &flags),
        Command::Simulate(flags) => simulate::run(&context, &flags),
        Command::Validate(flags) => validate::run(&context, &flags),
        Command::Gpus(flags) => gpus::run(&context, &flags),
        Command::Models(flags) => models::run(&context, &flags),
        Command::Offers(flags) => offers::run(&context, &flags),
        Command::Operators(command) => operators::run(&context, &command),
        Command::Evidence(flags) => evidence::run(&context, &flags),
        Command::Compare(flags) => compare::run(&context, &flags),
        Command::Predict(flags) => predict::run(&context, &flags),
        Command::Profile(flags) => profile::run(&context, &flags),
        Command::Accuracy(flags) => accuracy::run(&context, &flags),
        Command::Calibrate(flags) => calibrate::run(&context, &flags),
        #[cfg(feature = "bench")]
        Command::Audit(flags) => audit::run(&context, &flags),
        #[cfg(feature = "database")]
        Command::Runs(flags) => runs::run(&context, &flags),
        Command::Tco(flags) => tco::run(&context, &flags),
        Command::Tier(flags) => tier::run(&context, &flags),
        Command::Watch(flags) => watch::run(&context, &flags),
        Command::Workload(flags) => workload::run(&context, &flags),
        Command::Completions(flags) => completions::completions(&flags),
        Command::Man(flags) => completions::man(&flags),
    }
}

/// The model of a command: by flags, or as a file or launch command names it.
///
/// # Errors
/// When none is named, or it cannot be found or read.
fn model(
    flags: &ModelFlags,
    named: Option<&str>,
    loaded: &Loaded,
    context: &Context,
) -> anyhow::Result<ResolvedModel> {
    match (flags.model.as_deref(), flags.numbers.given()) {
        (Some(name), true) => Err(Problem::new(format!("model {name:?} and numbers are given; one of them is enough"))
            .hint("leave --params, --layers and the like out, or the name")
            .into()),
        (Some(name), false) => model::resolve(name, &loaded.models, context.global.offline),
        (None, true) => flags.numbers.resolve(),
        (None, false) => match named {
            Some(name) => model::resolve(name, &loaded.models, context.global.offline),
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
fn draft_model(
    name: Option<&str>,
    tokens: u32,
    loaded: &Loaded,
    context: &Context,
) -> anyhow::Result<Option<ResolvedModel>> {
    let Some(name) = name else { return Ok(None) };
    if tokens == 0 {
        return Err(Problem::new(format!(
            "--draft-model {name}: nothing says how many tokens it drafts a step"
        ))
        .hint("add --draft-tokens 4")
        .into());
    }
    model::resolve(name, &loaded.models, context.global.offline)
        .map(Some)
        .context("--draft-model")
}
