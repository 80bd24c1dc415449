//! `gpuwise serve`: the broker as a daemon.

use super::{
    bounds::{BoundFlags, PatienceFlags, time},
    client::is_this_machine,
    desk::AppDesk,
    local::LocalFlags,
    machine::{self, DriverFlags, Machine},
    place,
    pods::PodFlags,
    private,
    said::tell,
    slurm::SlurmFlags,
};
use crate::{
    app::{Context, Exit},
    catalogue,
    commands::series,
    error::Problem,
    examples,
    fetch::collector,
    fleet,
    policy::Rules,
    progress,
    prometheus::ServerFlags,
    settings,
};
use anyhow::Context as _;
use clap::{Args, ValueEnum};
use gpuwise_domain::placement::{Event, Fleet, resource_block_of};
use gpuwise_scale::fluid::Demand;
use gpuwise_server::{
    ClockError, ClockLimits, Collect, Delays, ExecutorKind, OidcSettings, Rehearsal, RightSize,
    Said, ServeError, Settings, TlsFiles, TrueSpeed, redfish::Settings as Composer, serve,
};
use gpuwise_store::StoreError;
use gpuwise_units::{Bytes, Nanoseconds};
use gpuwise_wire::broker::PolicyDocument;
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

#[derive(Debug, Args)]
pub struct Serve {
    /// File that says flags, such as listen = "10.0.0.1:8600" (TOML); those given here win over it
    // It is read before flags are: see [`settings::file::Files::with_config`].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address to listen on; other machines reach it only where this is not a loopback address
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8600")]
    listen: SocketAddr,
    /// Address where other gateways (Envoy) ask which endpoint of a service gets a request, by gRPC, as `gpuwise epp`
    /// answers; by TLS where --tls-cert is given
    #[arg(long, value_name = "ADDRESS:PORT")]
    epp: Option<SocketAddr>,
    /// Certificate in PEM, with those between it and an authority: answers by TLS. It is read again when it is
    /// renewed
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Database of the log: sqlite://FILE or postgres://user@host/name [default: broker.db in the user's data directory]
    #[arg(
        long,
        value_name = "URL",
        env = "GPUWISE_STORE",
        hide_env_values = true
    )]
    store: Option<String>,
    /// Fleet file: of a new log its fleet; of one that is there, what it says otherwise than the file before is taken
    /// over, as `gpuwise node reload` does [default: this machine, where the executor is local and a driver lists its GPUs; else
    /// an example]
    #[arg(long, value_name = "FILE")]
    fleet: Option<PathBuf>,
    /// Who carries out what is decided
    #[arg(long, value_enum, default_value_t = ExecutorName::Simulated)]
    executor: ExecutorName,
    #[command(flatten)]
    driver: DriverFlags,
    /// Simulated seconds in a second
    #[arg(long, value_name = "N", default_value = "1")]
    speed: f64,
    /// Requests that the tokens of each tenant may make in a second; 0: no limit
    #[arg(long, value_name = "N", default_value_t = 1000)]
    tenant_requests: u32,
    /// How far this machine's clock may be behind the log, or be set back; less is made up for by slower time, more is
    /// refused
    #[arg(
        long,
        value_name = "TIME",
        default_value = "10min",
        help_heading = "Clock"
    )]
    clock_back: Nanoseconds,
    /// How long after the log was last written this machine's clock may be at a start; while the broker runs, a clock
    /// that leaps forward by more than a minute is not believed
    #[arg(
        long,
        value_name = "TIME",
        default_value = "90d",
        help_heading = "Clock"
    )]
    clock_forward: Nanoseconds,
    /// Believe this machine's clock at this start, however far from the log it is; time goes on from the later of both
    #[arg(long, help_heading = "Clock")]
    accept_clock: bool,
    /// What a simulated start takes
    #[arg(long, value_name = "TIME", default_value = "20s")]
    start_takes: Nanoseconds,
    /// What waking a simulated engine that sleeps takes
    #[arg(long, value_name = "TIME", default_value = "5s")]
    wake_takes: Nanoseconds,
    /// What a simulated start takes where weights lie in the memory of the node
    #[arg(long, value_name = "TIME", default_value = "10s")]
    warm_start_takes: Nanoseconds,
    /// Share of simulated starts that fail
    #[arg(long, value_name = "SHARE", default_value = "0")]
    start_fails: f64,
    /// Simulated services tell their use, and are so many times as fast as we predict, such as 0.8, or
    /// llama-3.1-8b=0.8 for one model; repeat
    #[arg(long, value_name = "[MODEL=]N", help_heading = "Services")]
    true_speed: Vec<String>,
    /// Requests come to a simulated service that follows demand as in this trace of rates, or of requests with their
    /// tokens, such as llama=traffic.csv, from when it is asked for; repeat
    #[arg(long, value_name = "MODEL=FILE", help_heading = "Services")]
    rehearse: Vec<String>,
    /// Memory of each node in which weights of popular models may lie, so that they start sooner, such as 256GiB
    /// [default: none]
    #[arg(long, value_name = "SIZE", help_heading = "Services")]
    warm_memory: Option<Bytes>,
    /// What is done where telemetry says that a service has the wrong size
    #[arg(long, value_enum, default_value_t = RightSizeName::Propose, help_heading = "Services")]
    right_size: RightSizeName,
    /// How often services are asked what they did
    #[arg(
        long,
        value_name = "TIME",
        default_value = "1min",
        help_heading = "Services"
    )]
    telemetry_every: Nanoseconds,
    /// How often the size of each service is looked at
    #[arg(
        long,
        value_name = "TIME",
        default_value = "6h",
        help_heading = "Services"
    )]
    review_every: Nanoseconds,
    /// Over how long a new size is proven before it stays
    #[arg(
        long,
        value_name = "TIME",
        default_value = "2d",
        help_heading = "Services"
    )]
    proof: Nanoseconds,
    /// Collector that gets traces of leases by OTLP over HTTP, such as http://localhost:4318
    #[arg(long, value_name = "URL", env = "OTEL_EXPORTER_OTLP_ENDPOINT")]
    otlp: Option<String>,
    /// Say each request on standard error, as a line of JSON
    #[arg(long)]
    log_requests: bool,
    /// Identity provider whose tokens (JWT) are believed beside the broker's own, such as
    /// `https://login.example.org`
    #[arg(
        long,
        value_name = "URL",
        requires = "oidc_audience",
        help_heading = "OpenID Connect"
    )]
    oidc_issuer: Option<String>,
    /// For whom its tokens must be
    #[arg(
        long,
        value_name = "NAME",
        requires = "oidc_issuer",
        help_heading = "OpenID Connect"
    )]
    oidc_audience: Option<String>,
    /// Its keys (JWKS) [default: as the provider's description names them]
    #[arg(
        long,
        value_name = "URL|FILE",
        requires = "oidc_issuer",
        help_heading = "OpenID Connect"
    )]
    oidc_keys: Option<String>,
    /// The claim that says a role: administrator, operator, tenant-admin, member or auditor
    #[arg(
        long,
        value_name = "CLAIM",
        default_value = "gpuwise_role",
        help_heading = "OpenID Connect"
    )]
    oidc_role: String,
    /// The claim that says a tenant
    #[arg(
        long,
        value_name = "CLAIM",
        default_value = "gpuwise_tenant",
        help_heading = "OpenID Connect"
    )]
    oidc_tenant: String,
    #[command(
        flatten,
        next_help_heading = "Prometheus, which saw what GPUs and engines did"
    )]
    telemetry: ServerFlags,
    #[command(
        flatten,
        next_help_heading = "Processes of this machine (--executor local)"
    )]
    local: LocalFlags,
    #[command(flatten, next_help_heading = "Slurm")]
    slurm: SlurmFlags,
    #[command(flatten, next_help_heading = "Kubernetes")]
    pods: PodFlags,
    /// Who composes hosts of pooled GPUs: redfish=URL, such as `redfish=https://fabric.example:8443`; what runs there
    /// is the executor's
    #[arg(long, value_name = "redfish=URL", help_heading = "Composed GPUs")]
    compose: Option<String>,
    /// How often what the Redfish service says of GPUs is held against what is believed
    #[arg(
        long,
        value_name = "TIME",
        default_value = "30s",
        help_heading = "Composed GPUs"
    )]
    compose_every: Nanoseconds,
    #[command(flatten, next_help_heading = "Composed GPUs")]
    redfish: settings::RedfishFlags,
    #[command(flatten, next_help_heading = "Services")]
    patience: PatienceFlags,
    #[command(flatten, next_help_heading = "Bounds")]
    bounds: BoundFlags,
    #[command(flatten, next_help_heading = "Scheduling")]
    how: settings::HowFlags,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ExecutorName {
    /// Nothing runs: actions take their time
    Simulated,
    /// Processes of this machine
    Local,
    /// Jobs of a Slurm cluster, whose nodes the fleet file names
    Slurm,
    /// Pods of a Kubernetes cluster, whose nodes the fleet file names
    Kubernetes,
}

/// What becomes of sizes that are wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RightSizeName {
    /// Nothing
    Off,
    /// Another size is proposed, and people decide
    Propose,
    /// Another size is proposed and accepted, proven, and undone where the SLO suffers
    Accept,
}

/// `0.8`, or `llama-3.1-8b=0.8`.
fn speeds(flags: &Serve) -> anyhow::Result<Option<Vec<TrueSpeed>>> {
    if !flags.true_speed.is_empty() && flags.executor != ExecutorName::Simulated {
        return Err(Problem::new("--true-speed is of simulated services")
            .hint("leave it out, or use --executor simulated")
            .into());
    }
    let read = |text: &String| {
        let (model, speed) = text
            .rsplit_once('=')
            .map_or((None, text.as_str()), |(model, speed)| (Some(model), speed));
        let speed: Option<f64> = speed.trim().parse().ok();
        let speed = speed.filter(|speed| (0.01..=100.0).contains(speed));
        let speed = speed.ok_or_else(|| {
            Problem::new(format!(
                "--true-speed {text:?}: expected 0.01 to 100, or MODEL=0.8"
            ))
        })?;
        Ok(TrueSpeed {
            model: model.map(str::to_owned),
            speed,
        })
    };
    let all: anyhow::Result<Vec<TrueSpeed>> = flags.true_speed.iter().map(read).collect();
    Ok(Some(all?).filter(|all| !all.is_empty()))
}

pub fn run(context: &Context, flags: &Serve) -> anyhow::Result<Exit> {
    // The log, its token, what is kept of leases and what they write are for the broker's account alone.
    let umask = private::umask();
    if let Some(config) = &flags.config {
        progress::say(&format!("Settings are read from {}.", config.display()));
    }
    checked(flags)?;
    let settings = settings_of(context, flags, umask)?;
    private::tighten(&settings.store, &settings.own)?;
    let monitor = monitor(context, flags)?;
    let desk = Arc::new(AppDesk::new(context.app.clone(), flags.proof, monitor)?);
    let shown = gpuwise_store::shown(&settings.store);
    let listens = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&listens);
    let say = move |said: &Said| {
        if matches!(said, Said::Listens { .. }) {
            seen.store(true, Ordering::Relaxed);
        }
        tell(&shown, said);
    };
    let say: Arc<dyn Fn(&Said) + Send + Sync> = Arc::new(say);
    let result = serve(settings, desk, &say);
    let runs = listens.load(Ordering::Relaxed);
    match result {
        Ok(()) => Ok(Exit::Yes),
        Err(error @ ServeError::Listen { .. }) => Err(anyhow::Error::new(error).context(
            Problem::new("the broker cannot start").hint("--listen names another address"),
        )),
        Err(ServeError::Clock(error)) => Err(anyhow::Error::new(error)
            .context(Problem::new("the broker cannot start").hint(clock_hint(error)))),
        Err(error @ ServeError::Store(StoreError::Tail { .. })) => Err(anyhow::Error::new(error)
            .context(Problem::new("the broker cannot start").hint(
                "restore the last backup into a new database; `gpuwise store check` says what else is wrong",
            ))),
        Err(error @ ServeError::Store(StoreError::Fenced { .. })) => Err(anyhow::Error::new(error)
            .context(Problem::new("the broker stopped").hint(
                "it was silent, and another one has taken over; what it answered is in the log",
            ))),
        Err(error @ ServeError::Store(StoreError::Open { .. })) => Err(anyhow::Error::new(error)
            .context(Problem::new("the broker cannot start").hint(
                "--store names its database: a file in a directory that is there and can be written, or a server \
                 that answers",
            ))),
        Err(error) if runs => Err(error).context("the broker stopped"),
        Err(error) => Err(error).context("the broker cannot start"),
    }
}

/// What is to be done where the machine's clock is not believed.
const fn clock_hint(error: ClockError) -> &'static str {
    match error {
        ClockError::LogAhead { .. } => {
            "set this machine's clock right; if it is right, the log was written by a wrong clock, or with --speed: \
             restore a backup from before, or go on from the log's time with --accept-clock"
        }
        ClockError::LogBehind { .. } => {
            "set this machine's clock right; if it is right, since nothing wrote the log for so long, start once with \
             --accept-clock"
        }
        ClockError::Early { .. }
        | ClockError::Late { .. }
        | ClockError::SetBack { .. }
        | ClockError::SetForward { .. } => {
            "set this machine's clock right; if it is right, start with --accept-clock"
        }
    }
}

/// How often a Redfish service is asked where nobody says.
const LOOKS: Nanoseconds = Nanoseconds(30_000_000_000);

/// Who composes hosts, and how it is asked.
fn composer(flags: &Serve, fleet: &Fleet) -> anyhow::Result<Option<Composer>> {
    let Some(text) = &flags.compose else {
        return Ok(None);
    };
    let url = text.strip_prefix("redfish=").ok_or_else(|| {
        Problem::new(format!("--compose {text:?}: expected redfish=URL"))
            .hint("such as redfish=https://fabric.example:8443")
    })?;
    let mut composer = flags.redfish.settings("--compose", url)?;
    composer.every = Duration::from_nanos(flags.compose_every.0);
    if composer.every < Duration::from_secs(1) {
        return Err(Problem::new("--compose-every: expected 1 s or more").into());
    }
    let blocks = |uid: &str| resource_block_of(uid).is_some();
    let gpus = fleet.gpus.iter().any(|gpu| blocks(&gpu.uid));
    let hosts = fleet.nodes.iter().any(|node| blocks(&node.uid));
    // A log that is there has a fleet of its own.
    if flags.fleet.is_some() && !(gpus && hosts) {
        let what = "--compose: the fleet file names no resource blocks";
        return Err(Problem::new(what)
            .hint("gpuwise fleet import --redfish URL -o fleet.toml writes them")
            .into());
    }
    Ok(Some(composer))
}

/// What flags cannot be together, or at all.
fn checked(flags: &Serve) -> anyhow::Result<()> {
    if !(flags.speed.is_finite() && flags.speed > 0.0 && flags.speed <= 1e6) {
        return Err(
            Problem::new(format!("--speed {}: expected above 0, to 1e6", flags.speed)).into(),
        );
    }
    if !(0.0..=1.0).contains(&flags.start_fails) {
        let what = format!("--start-fails {}: expected 0 to 1", flags.start_fails);
        return Err(Problem::new(what).into());
    }
    if flags.executor != ExecutorName::Simulated && (flags.speed - 1.0).abs() > 0.0 {
        return Err(Problem::new("--speed: real processes take real time")
            .hint("leave it out, or use --executor simulated")
            .into());
    }
    let usual = Delays::USUAL;
    let simulated = flags.start_takes != usual.start
        || flags.wake_takes != usual.wake
        || flags.warm_start_takes != usual.warm_start
        || flags.start_fails > 0.0;
    if flags.executor != ExecutorName::Simulated && simulated {
        let what = "--start-takes, --warm-start-takes, --wake-takes and --start-fails are of simulated starts";
        return Err(Problem::new(what)
            .hint("leave them out, or use --executor simulated")
            .into());
    }
    if flags.executor == ExecutorName::Slurm && flags.warm_memory.is_some() {
        return Err(
            Problem::new("--warm-memory: Slurm's nodes read no weights ahead")
                .hint("leave it out, or use --executor local")
                .into(),
        );
    }
    if flags.executor != ExecutorName::Local && flags.local.said() {
        let what =
            "--run-as, --same-account, --pass-env and --log-size are of processes of this machine";
        return Err(Problem::new(what)
            .hint("leave them out, or use --executor local")
            .into());
    }
    if flags.executor != ExecutorName::Slurm && flags.slurm.said() {
        return Err(Problem::new("--slurm-…: nothing is asked of Slurm")
            .hint("leave them out, or use --executor slurm")
            .into());
    }
    if flags.executor == ExecutorName::Slurm && flags.fleet.is_none() && flags.store.is_none() {
        return Err(Problem::new("--executor slurm: no fleet is named")
            .hint("sinfo --json > nodes.json; gpuwise fleet import nodes.json -o fleet.toml; then --fleet fleet.toml")
            .into());
    }
    let pods = flags.executor == ExecutorName::Kubernetes;
    let named = flags.fleet.is_some() || flags.store.is_some();
    flags
        .pods
        .checked(pods, named, flags.warm_memory.is_some())?;
    if flags.compose.is_none() && (flags.redfish.said() || flags.compose_every != LOOKS) {
        return Err(
            Problem::new("--redfish-… and --compose-every: nothing is composed")
                .hint("leave them out, or name what composes by --compose redfish=URL")
                .into(),
        );
    }
    if flags.compose.is_some() && (flags.speed - 1.0).abs() > 0.0 {
        return Err(
            Problem::new("--speed: composing real hosts takes real time")
                .hint("leave it out, or leave --compose out")
                .into(),
        );
    }
    collector(flags.otlp.as_deref())
}

fn settings_of(context: &Context, flags: &Serve, umask: u32) -> anyhow::Result<Settings> {
    let store = match &flags.store {
        Some(store) => store.clone(),
        None => default_store()?,
    };
    let machine = match flags.executor {
        ExecutorName::Simulated | ExecutorName::Slurm | ExecutorName::Kubernetes => {
            flags.driver.of_nothing()?
        }
        ExecutorName::Local => flags.driver.load()?,
    };
    let (found, file, policy) = fleet_and_policy(context, flags, machine.as_deref())?;
    let compose = composer(flags, &found.0)?;
    for (flag, span) in [
        ("--clock-forward", flags.clock_forward),
        ("--telemetry-every", flags.telemetry_every),
    ] {
        time(flag, span)?;
    }
    Ok(Settings {
        compose,
        driver: machine.map(|machine| -> Arc<dyn gpuwise_server::Cutter> { machine }),
        listen: flags.listen,
        picker: flags.epp,
        store,
        fleet: Some(found),
        fleet_file: flags.fleet.is_some().then_some(file),
        policy: Some(policy),
        policy_said: said(&flags.how),
        executor: match flags.executor {
            ExecutorName::Simulated => ExecutorKind::Simulated(Delays {
                start: flags.start_takes,
                warm_start: flags.warm_start_takes,
                wake: flags.wake_takes,
                fails_milli: (flags.start_fails * 1000.0 + 0.5) as u32,
                ..Delays::USUAL
            }),
            ExecutorName::Local => ExecutorKind::Local(flags.local.settings(umask)?),
            ExecutorName::Slurm => ExecutorKind::Slurm(flags.slurm.settings()?),
            ExecutorName::Kubernetes => flags.pods.executor()?,
        },
        patience: flags.patience.patience()?,
        connections: flags.bounds.connections()?,
        tenant_bounds: flags.bounds.tenant()?,
        tenant_requests: Some(flags.tenant_requests).filter(|most| *most > 0),
        speed: flags.speed,
        clock: ClockLimits {
            back: flags.clock_back,
            forward: flags.clock_forward,
            accepted: flags.accept_clock,
        },
        otlp: flags.otlp.clone(),
        lines: flags.log_requests,
        oidc: oidc(flags),
        tls: flags
            .tls_cert
            .clone()
            .zip(flags.tls_key.clone())
            .map(|(certificate, key)| TlsFiles {
                certificate,
                key,
                clients: None,
            }),
        rehearsed: rehearsed(flags)?,
        warm_memory: flags.warm_memory.map_or(0, Bytes::count),
        token_file: place::token_of,
        state: match flags.slurm.state()? {
            Some(folder) => folder,
            None => place::state()?,
        },
        own: place::state()?,
        collect: Collect {
            speeds: speeds(flags)?,
            every: flags.telemetry_every,
            review: flags.review_every,
            right_size: match flags.right_size {
                RightSizeName::Off => RightSize::Off,
                RightSizeName::Propose => RightSize::Propose,
                RightSizeName::Accept => RightSize::Accept,
            },
        },
    })
}

/// Whose tokens are believed beside our own.
fn oidc(flags: &Serve) -> Option<OidcSettings> {
    let named = flags.oidc_issuer.clone().zip(flags.oidc_audience.clone());
    named.map(|(issuer, audience)| OidcSettings {
        issuer,
        audience,
        keys: flags.oidc_keys.clone(),
        role: flags.oidc_role.clone(),
        tenant: flags.oidc_tenant.clone(),
    })
}

/// What comes to simulated services.
fn rehearsed(flags: &Serve) -> anyhow::Result<Vec<(String, Rehearsal)>> {
    if !flags.rehearse.is_empty() && flags.executor != ExecutorName::Simulated {
        return Err(Problem::new("--rehearse is of simulated services")
            .hint("leave it out, or use --executor simulated")
            .into());
    }
    let read = |text: &String| {
        let parts = text.split_once('=');
        let parts = parts.filter(|(model, file)| !model.is_empty() && !file.is_empty());
        let (model, file) = parts.ok_or_else(|| {
            Problem::new(format!(
                "--rehearse {text:?}: expected MODEL=FILE, such as llama=traffic.csv"
            ))
        })?;
        let read = series::read_whole(Path::new(file))?;
        let Some((_, regular)) = read.series.first() else {
            return Err(
                Problem::new(format!("--rehearse {text:?}: there is no series in it")).into(),
            );
        };
        let demand = |readings: &[Option<f64>]| Demand {
            period: regular.period.seconds().get(),
            rates: readings.iter().map(|rate| rate.unwrap_or(0.0)).collect(),
        };
        let tokens = series::tokens(Path::new(file))?;
        let comes = Rehearsal {
            requests: demand(&regular.readings),
            tokens: tokens.map(|[_, prompts, answers]| (demand(&prompts), demand(&answers))),
        };
        Ok((model.to_owned(), comes))
    };
    flags.rehearse.iter().map(read).collect()
}

/// The Prometheus that is read, where one is named.
fn monitor(
    context: &Context,
    flags: &Serve,
) -> anyhow::Result<Option<gpuwise_probe::prometheus::Client>> {
    match &flags.telemetry.prometheus {
        Some(_) if (flags.speed - 1.0).abs() > 0.0 => {
            let what = "--prometheus: what is measured takes real time, and --speed is not 1";
            Err(Problem::new(what).hint("leave one of them out").into())
        }
        Some(address) => {
            let offline = context.app.offline && !is_this_machine(address);
            Ok(Some(flags.telemetry.client(address, offline)?))
        }
        None => Ok(None),
    }
}

/// Whether somebody said how is to be decided: what is usual leaves a log its own policy.
fn said(how: &settings::HowFlags) -> bool {
    let usual = settings::HowFlags::of_policy("gpuwise");
    how.policy != usual.policy
        || how.preempt
        || how.order.is_some()
        || how.backfill.is_some()
        || how.starvation.is_some()
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

fn fleet_and_policy(
    context: &Context,
    flags: &Serve,
    machine: Option<&Machine>,
) -> anyhow::Result<(Found, Fleet, PolicyDocument)> {
    let loaded = catalogue::load(&context.app.overrides)?;
    let own = machine.map(Machine::node).transpose()?.flatten();
    let mut file = if let Some(path) = &flags.fleet {
        fleet::read(path, &loaded.catalogue)?
    } else if let Some(node) = own {
        machine::fleet(node, &loaded.catalogue)?
    } else {
        let text = examples::named("lab.toml")?.text;
        fleet::of_text("example fleet", text, &loaded.catalogue)?
    };
    // Says what is wrong before anything is written.
    let rules = Rules::of_flags(&flags.how)?;
    let as_said = file.fleet.clone();
    rules.shape(&mut file.fleet)?;
    if flags.compose.is_some() && !rules.gives_back() {
        progress::say(
            "▲ Unless the policy has upkeep.detach_after, GPUs stay where they were last used, also while others wait.",
        );
    }
    fleet::world(&file, None)?;
    let policy = rules.document(&file.fleet);
    let mut whole = file.fleet.clone();
    let mut present: Vec<Event> = file.present.iter().cloned().map(Event::done).collect();
    present.extend(fleet::states(&mut whole));
    Ok(((whole, present), as_said, policy))
}
