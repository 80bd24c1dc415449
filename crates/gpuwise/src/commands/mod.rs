//! What each command does.

mod gpus;
mod models;

use crate::{
    catalogue::Overrides,
    cli::{Cli, Command, Global},
    output::Output,
};

/// Whether the answer is yes; that it is no is not an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Yes,
    No,
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
        Command::Gpus(flags) => gpus::run(&context, &flags),
        Command::Models(flags) => models::run(&context, &flags),
    }
}
