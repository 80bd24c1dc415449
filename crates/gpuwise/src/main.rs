//! gpuwise: from a language model and a promise to the right GPUs.
//!
//! The one place where files, the environment and the terminal are seen; everything else is a
//! function of its arguments.

mod cli;
mod commands;
mod output;

#[cfg(feature = "bench")]
use gpuwise_app::prometheus;
use gpuwise_app::{
    accuracy, catalogue, engine, error, fabric, fetch, fitting, fleet, host, knowledge, layout,
    media, model, names, operators, profiles, questions, simulation, usage_rules, workload, write,
};

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = match cli::Cli::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return output::usage(&error),
    };
    gpuwise_app::progress::listen(Box::new(output::Terminal));
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
