//! Which use case a command is.

mod completions;

use crate::{
    cli::{Cli, Command},
    output::{Stdout, form},
};
use gpuwise_app::{App, Context, Exit, commands as cases};
use std::sync::Arc;

/// Runs the command.
///
/// # Errors
/// When the input is wrong, or the result cannot be written.
pub(crate) fn run(arguments: Cli) -> anyhow::Result<Exit> {
    let global = arguments.global;
    let context = Context::new(
        App::from_environment(global.offline, global.seed),
        form(global.format, global.color),
        Arc::new(Stdout),
    );
    match arguments.command {
        Command::Plan(flags) => cases::plan::run(&context, &flags),
        Command::Composed(flags) => cases::composed::run(&context, &flags),
        Command::Table(flags) => cases::table::run(&context, &flags),
        Command::Train(flags) => cases::train::run(&context, &flags),
        Command::Memory(flags) => cases::memory::run(&context, &flags),
        Command::Check(flags) => cases::check::run(&context, &flags),
        #[cfg(feature = "bench")]
        Command::Bench(flags) => cases::bench::run(&context, &flags),
        Command::Fleet(command) => cases::fleet::run(&context, &command),
        Command::Place(flags) => cases::place::run(&context, &flags),
        Command::Lint(flags) => cases::lint::run(&context, &flags),
        Command::Capacity(flags) => cases::capacity::run(&context, &flags),
        Command::Replay(flags) => cases::replay::run(&context, &flags),
        Command::Simulate(flags) => cases::simulate::run(&context, &flags),
        Command::Validate(flags) => cases::validate::run(&context, &flags),
        Command::Gpus(flags) => cases::gpus::run(&context, &flags),
        Command::Models(flags) => cases::models::run(&context, &flags),
        Command::Offers(flags) => cases::offers::run(&context, &flags),
        Command::Operators(command) => cases::operators::run(&context, &command),
        Command::Evidence(flags) => cases::evidence::run(&context, &flags),
        Command::Compare(flags) => cases::compare::run(&context, &flags),
        Command::Predict(flags) => cases::predict::run(&context, &flags),
        Command::Profile(flags) => cases::profile::run(&context, &flags),
        Command::Accuracy(flags) => cases::accuracy::run(&context, &flags),
        Command::Calibrate(flags) => cases::calibrate::run(&context, &flags),
        #[cfg(feature = "bench")]
        Command::Audit(flags) => cases::audit::run(&context, &flags),
        #[cfg(feature = "database")]
        Command::Runs(flags) => cases::runs::run(&context, &flags),
        Command::Tco(flags) => cases::tco::run(&context, &flags),
        Command::Tier(flags) => cases::tier::run(&context, &flags),
        Command::Watch(flags) => cases::watch::run(&context, &flags),
        Command::Workload(flags) => cases::workload::run(&context, &flags),
        Command::Completions(flags) => completions::completions(&flags),
        Command::Man(flags) => completions::man(&flags),
    }
}
