//! gpuwise: from a language model and an SLO to the right GPUs.
//!
//! The one place where files, the environment and the terminal are seen; everything else is a
//! function of its arguments.

mod cli;
mod commands;
mod output;
mod usage;

use clap::FromArgMatches as _;
#[cfg(feature = "serve")]
use gpuwise_app::commands::broker;
use gpuwise_app::{Exit, settings::file::Files};
use std::{ffi::OsString, path::Path, process::ExitCode};

fn main() -> ExitCode {
    let arguments = arguments();
    #[cfg(feature = "serve")]
    if arguments
        .get(1)
        .is_some_and(|word| word == broker::SUPERVISOR)
        && arguments.len() == 2
    {
        // The broker starts it, beside each command of a lease; its own words are in the lease's log.
        return match broker::supervise() {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::from(2),
        };
    }
    let files = Files::here().and_then(|files| files.with_config(arguments.iter().cloned()));
    let definition = match files.and_then(|files| files.apply(cli::definition())) {
        Ok(definition) => definition,
        Err(error) => {
            output::error(&error);
            return ExitCode::from(2);
        }
    };
    let matches = definition.try_get_matches_from(arguments);
    let arguments = match matches.and_then(|matches| cli::Cli::from_arg_matches(&matches)) {
        Ok(arguments) => arguments,
        Err(error) => return output::usage(&error),
    };
    gpuwise_app::progress::listen(Box::new(output::Terminal));
    match commands::run(arguments) {
        Ok(Exit::Yes) => ExitCode::SUCCESS,
        Ok(Exit::No) => ExitCode::from(1),
        Ok(Exit::Code(code)) => ExitCode::from(code),
        Err(error) => {
            output::error(&error);
            ExitCode::from(2)
        }
    }
}

/// The arguments; under the name kubectl-gpuwise (`kubectl gpuwise why POD`) what is about a cluster is meant
/// of `gpuwise operator`.
fn arguments() -> Vec<OsString> {
    let mut all: Vec<OsString> = std::env::args_os().collect();
    let named = |path: &OsString| {
        Path::new(path)
            .file_stem()
            .is_some_and(|name| name == "kubectl-gpuwise")
    };
    let of_cluster = |word: &OsString| {
        ["why", "top", "plan", "manifests"]
            .iter()
            .any(|known| word == known)
    };
    if all.first().is_some_and(named) && all.get(1).is_some_and(of_cluster) {
        all.insert(1, "operator".into());
    }
    all
}
