//! Which use case a command is.

mod completions;

use crate::{
    cli::{Cli, Deed},
    output::{Stdout, form},
};
use gpuwise_app::{App, Context, Exit, commands as cases};
use std::sync::Arc;

/// Runs the command.
pub(crate) fn run(arguments: Cli) -> anyhow::Result<Exit> {
    let global = arguments.global;
    let context = Context::new(
        App::from_environment(global.offline, global.seed),
        form(global.format, global.color),
        Arc::new(Stdout),
    );
    match &arguments.command {
        Deed::Ask(command) => cases::run(&context, command),
        Deed::Completions(flags) => completions::completions(flags),
        Deed::Man(flags) => completions::man(flags),
        Deed::Schema(flags) => completions::schema(flags),
    }
}
