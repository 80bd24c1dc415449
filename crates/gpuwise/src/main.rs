//! gpuwise: from a language model and a promise to the right GPUs.
//!
//! The one place where files, the environment and the terminal are seen; everything else is a
//! function of its arguments.

mod cli;
mod commands;
mod output;

use clap::Parser;
use gpuwise_app::Exit;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = match cli::Cli::try_parse() {
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
