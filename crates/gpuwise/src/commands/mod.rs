//! Which use case a command is.

mod completions;

use crate::{
    cli::{Cli, Invocation},
    output::{Stdout, form},
};
use gpuwise_app::{App, Context, Exit, Format, commands as cases};
use std::sync::Arc;

/// Runs the command.
pub(crate) fn run(arguments: Cli) -> anyhow::Result<Exit> {
    let global = arguments.global;
    let usual = match &arguments.command {
        Invocation::Ask(command) => command.usual_format(),
        _ => Format::Table,
    };
    let context = Context::new(
        App::from_environment(global.offline, global.seed),
        form(global.format, usual, global.color),
        Arc::new(Stdout),
    );
    match &arguments.command {
        Invocation::Ask(command) => cases::run(&context, command),
        Invocation::Completions(flags) => completions::completions(flags),
        Invocation::Man(flags) => completions::man(flags),
        Invocation::Example(flags) => completions::example(&context, flags),
        Invocation::Schema(flags) => completions::schema(flags),
    }
}
