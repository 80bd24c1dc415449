//! gpuwise: from a language model and a promise to the right GPUs.
//!
//! The one place where files, the environment and the terminal are seen; everything else is a
//! function of its arguments.

mod accuracy;
mod catalogue;
mod cli;
mod commands;
mod engine;
mod error;
mod fabric;
mod fetch;
mod fitting;
mod fleet;
mod host;
mod knowledge;
mod layout;
mod media;
mod model;
mod names;
mod output;
mod profiles;
#[cfg(feature = "bench")]
mod prometheus;
mod questions;
mod simulation;
mod usage_rules;
mod workload;
mod write;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = match cli::Cli::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return output::usage(&error),
    };
    match commands::run(arguments) {
        Ok(commands::Answer::Yes) => ExitCode::SUCCESS,
        Ok(commands::Answer::No) => ExitCode::from(1),
        Ok(commands::Answer::Code(code)) => ExitCode::from(code),
        Err(error) => {
            output::error(&error);
            ExitCode::from(2)
        }
    }
}
