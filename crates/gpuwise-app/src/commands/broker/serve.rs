//! `gpuwise serve`: the broker as a daemon.

use super::{desk::AppDesk, place};
use crate::{
    app::{Context, Exit},
    catalogue,
    error::Problem,
    examples, fleet,
    policy::Rules,
    progress, settings,
};
use anyhow::Context as _;
use clap::{Args, ValueEnum};
use gpuwise_domain::placement::{Event, Fleet};
use gpuwise_server::{Delays, ExecutorKind, Said, ServeError, Settings, serve};
use gpuwise_store::StoreError;
use gpuwise_units::Nanoseconds;
use gpuwise_wire::broker::PolicyDocument;
use std::{net::SocketAddr, path::PathBuf, sync::Arc};

#[derive(Debug, Args)]
pub struct Serve {
    /// File that says flags, such as listen = "10.0.0.1:8600" (TOML); those given here win over it
    // It is read before flags are: see [`settings::file::Files::with_config`].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address to listen on; other machines reach it only where this is not a loopback address
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8600")]
    listen: SocketAddr,
    /// Database of the log: sqlite://FILE or postgres://user@host/name [default: broker.db in the user's data directory]
    #[arg(
        long,
        value_name = "URL",
        env = "GPUWISE_STORE",
        hide_env_values = true
    )]
    store: Option<String>,
    /// Fleet file of a new log [default: an example, with the simulated executor]
    #[arg(long, value_name = "FILE")]
    fleet: Option<PathBuf>,
    /// Who carries out what is decided
    #[arg(long, value_enum, default_value_t = ExecutorName::Simulated)]
    executor: ExecutorName,
    /// Simulated seconds in a second
    #[arg(long, value_name = "N", default_value = "1")]
    speed: f64,
    /// What a simulated start takes
    #[arg(long, value_name = "TIME", default_value = "20s")]
    start_takes: Nanoseconds,
    /// Share of simulated starts that fail
    #[arg(long, value_name = "SHARE", default_value = "0")]
    start_fails: f64,
    #[command(flatten, next_help_heading = "Scheduling")]
    how: settings::HowFlags,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ExecutorName {
    /// Nothing runs: actions take their time
    Simulated,
    /// Processes of this machine
    Local,
}

pub fn run(context: &Context, flags: &Serve) -> anyhow::Result<Exit> {
    if let Some(config) = &flags.config {
        progress::say(&format!("Settings are read from {}.", config.display()));
    }
    if !(flags.speed.is_finite() && flags.speed > 0.0 && flags.speed <= 1e6) {
        return Err(
            Problem::new(format!("--speed {}: expected above 0, to 1e6", flags.speed)).into(),
        );
    }
    if !(0.0..=1.0).contains(&flags.start_fails) {
        let what = format!("--start-fails {}: expected 0 to 1", flags.start_fails);
        return Err(Problem::new(what).into());
    }
    if flags.executor == ExecutorName::Local && (flags.speed - 1.0).abs() > 0.0 {
        return Err(Problem::new("--speed: real processes take real time")
            .hint("leave it out, or use --executor simulated")
            .into());
    }
    let simulated = flags.start_takes != Delays::USUAL.start || flags.start_fails > 0.0;
    if flags.executor == ExecutorName::Local && simulated {
        let what = "--start-takes and --start-fails are of simulated starts";
        return Err(Problem::new(what)
            .hint("leave them out, or use --executor simulated")
            .into());
    }
    let store = match &flags.store {
        Some(store) => store.clone(),
        None => default_store()?,
    };
    let (found, policy) = fleet_and_policy(context, flags)?;
    let settings = Settings {
        listen: flags.listen,
        store,
        fleet: Some(found),
        policy: Some(policy),
        executor: match flags.executor {
            ExecutorName::Simulated => ExecutorKind::Simulated(Delays {
                start: flags.start_takes,
                fails_milli: (flags.start_fails * 1000.0 + 0.5) as u32,
                ..Delays::USUAL
            }),
            ExecutorName::Local => ExecutorKind::Local,
        },
        speed: flags.speed,
        token_file: place::token_of,
        state: place::state()?,
    };
    let desk = Arc::new(AppDesk::new(context.app.clone())?);
    let shown = gpuwise_store::shown(&settings.store);
    let result = serve(settings, desk, &mut |said| tell(&shown, &said));
    match result {
        Ok(()) => Ok(Exit::Yes),
        Err(error @ ServeError::Listen { .. }) => Err(anyhow::Error::new(error).context(
            Problem::new("the broker cannot start").hint("--listen names another address"),
        )),
        Err(error @ ServeError::Store(StoreError::Fenced { .. })) => Err(anyhow::Error::new(error)
            .context(Problem::new("the broker stopped").hint(
                "it was silent, and another one has taken over; what it answered is in the log",
            ))),
        Err(error) => Err(error).context("the broker stopped"),
    }
}

fn tell(store: &str, said: &Said) {
    progress::say(&match said {
        Said::Waits { address, holder } => format!(
            "Another broker writes this log ({holder}); waiting at http://{address} until it is silent."
        ),
        Said::Token(path) => format!(
            "An administrator's token is in {}; `gpuwise` reads it there.",
            path.display()
        ),
        Said::Listens { address, events } => {
            format!(
                "Broker at http://{address}, log in {store} ({events} events). Ctrl-C stops it."
            )
        }
    });
}

pub(super) fn default_store() -> anyhow::Result<String> {
    let path = place::store()?;
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|source| {
            Problem::new(format!("{} cannot be made", folder.display())).because(source)
        })?;
    }
    Ok(format!("sqlite://{}", path.display()))
}

type Found = (Fleet, Vec<Event>);

fn fleet_and_policy(context: &Context, flags: &Serve) -> anyhow::Result<(Found, PolicyDocument)> {
    let loaded = catalogue::load(&context.app.overrides)?;
    let mut file = if let Some(path) = &flags.fleet {
        fleet::read(path, &loaded.catalogue)?
    } else {
        let text = examples::named("lab.toml")?.text;
        fleet::of_text("example fleet", text, &loaded.catalogue)?
    };
    // Says what is wrong before anything is written.
    let rules = Rules::of_flags(&flags.how)?;
    rules.shape(&mut file.fleet)?;
    fleet::world(&file, None)?;
    let policy = rules.document(&file.fleet);
    let mut whole = file.fleet.clone();
    let mut present: Vec<Event> = file.present.iter().cloned().map(Event::done).collect();
    present.extend(fleet::states(&mut whole));
    Ok(((whole, present), policy))
}
