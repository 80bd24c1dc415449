//! `gpuwise engine`: an engine that makes up its answers.

use crate::{
    app::{Context, Exit},
    error::Problem,
    progress,
};
use clap::Args;
use gpuwise_server::{EngineSettings, engine};
use gpuwise_units::Nanoseconds;
use std::{net::SocketAddr, time::Duration};

#[derive(Debug, Args)]
pub struct Engine {
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8000")]
    listen: SocketAddr,
    /// The model that it says it serves
    #[arg(long, value_name = "NAME", default_value = "made-up")]
    model: String,
    /// From when a request runs until its first token
    #[arg(long, value_name = "TIME", default_value = "200ms")]
    ttft: Nanoseconds,
    /// Between tokens
    #[arg(long, value_name = "TIME", default_value = "20ms")]
    tpot: Nanoseconds,
    /// Requests that run at once; others wait
    #[arg(long, value_name = "N", default_value = "64", value_parser = clap::value_parser!(u32).range(1..))]
    concurrency: u32,
    /// From its start until it answers
    #[arg(long, value_name = "TIME", default_value = "0s")]
    load: Nanoseconds,
}

pub fn run(_context: &Context, flags: &Engine) -> anyhow::Result<Exit> {
    let time = |span: Nanoseconds| Duration::from_nanos(span.0);
    let settings = EngineSettings {
        listen: flags.listen,
        model: flags.model.clone(),
        ttft: time(flags.ttft),
        tpot: time(flags.tpot),
        concurrency: flags.concurrency,
        load: time(flags.load),
    };
    let said = engine(settings, &mut |address| {
        progress::say(&format!(
            "{} at http://{address}/v1, answers made up. Ctrl-C stops it.",
            flags.model
        ));
    });
    said.map_err(|error| {
        let problem =
            Problem::new("the engine cannot start").hint("--listen names another address");
        anyhow::Error::new(error).context(problem)
    })?;
    Ok(Exit::Yes)
}
