//! `gpuwise epp`: which endpoint of a pool gets each request of a gateway.

use super::{Context, Exit};
use crate::{engine_page, error::Problem, progress, settings::RouterName, simulation::routing};
use clap::Args;
use gpuwise_server::{
    Asker, Membership, Objectives, PickerSettings, PoolSettings, Port, Ports, QueueSettings,
    TlsFiles, picker,
};
use gpuwise_units::Nanoseconds;
use std::{
    collections::BTreeMap, net::SocketAddr, ops::RangeInclusive, path::PathBuf, sync::Arc,
    time::Duration,
};

/// Endpoints that can be named by a flag.
const ENDPOINTS: usize = 4096;

#[derive(Debug, Args)]
pub struct Flags {
    /// Address where gateways ask, by gRPC; other machines reach it only where this is not a loopback address
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9002")]
    listen: SocketAddr,
    /// The endpoints to pick from, such as 10.0.0.7:8000,10.0.0.8:8000
    #[arg(
        long,
        value_name = "HOST:PORT",
        value_delimiter = ',',
        required_unless_present = "pool"
    )]
    endpoints: Vec<String>,
    /// The InferencePool whose ready pods are the endpoints, in the Kubernetes of --kubeconfig or that this runs in
    #[arg(long, value_name = "NAMESPACE/NAME", conflicts_with = "endpoints")]
    pool: Option<String>,
    /// The kubeconfig [default: $KUBECONFIG, ~/.kube/config, or the account of the pod it runs in]
    #[arg(
        long,
        value_name = "FILE",
        requires = "pool",
        conflicts_with = "endpoints"
    )]
    kubeconfig: Option<PathBuf>,
    /// Which of its contexts [default: the current one]
    #[arg(
        long,
        value_name = "NAME",
        requires = "pool",
        conflicts_with = "endpoints"
    )]
    context: Option<String>,
    /// Which endpoint a request goes to
    #[arg(long, value_enum, default_value_t = RouterName::LlmD)]
    router: RouterName,
    /// The header that names a session, for --router session
    #[arg(long, value_name = "NAME", default_value = "x-session-id")]
    session_header: String,
    /// Requests that an endpoint takes at once; beyond that 429 is answered [default: no limit]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    concurrency: Option<u32>,
    /// Endpoints named beside the first, for a gateway that tries them in turn
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=8))]
    fallbacks: u32,
    /// Between two looks at what an engine has to do (its /metrics)
    #[arg(long, value_name = "TIME", default_value = "500ms")]
    every: String,
    /// An objective that requests may name (x-llm-d-inference-objective), such as batch=-10; below 0 is refused first.
    /// With --pool, the InferenceObjectives of the pool count instead
    #[arg(
        long = "objective",
        value_name = "NAME=PRIORITY",
        conflicts_with = "pool"
    )]
    objectives: Vec<String>,
    /// Requests that wait for an endpoint while all have enough to do, by priority; 0: none waits, and those below
    /// priority 0 are refused
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=65_536))]
    queue: u32,
    /// How long a request waits at most
    #[arg(long, value_name = "TIME", default_value = "30s")]
    queue_time: String,
    /// Port at which engines publish events of their KV caches (vLLM's --kv-events-config), such as 5557; +1000 is so
    /// many after the engine's own port. What an engine has cached is then what it says
    #[arg(long, value_name = "PORT")]
    kv_events: Option<Port>,
    /// Port at which they say missed events again (replay_endpoint)
    #[arg(long, value_name = "PORT", requires = "kv_events")]
    kv_replay: Option<Port>,
    /// Address where its own figures are answered, at /metrics
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics: Option<SocketAddr>,
    /// Certificate in PEM, with those between it and an authority: answers by TLS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Authorities in PEM: who asks must show a certificate of one of them
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    client_ca: Option<PathBuf>,
}

pub(super) fn run(context: &Context, flags: &Flags) -> anyhow::Result<Exit> {
    if flags.router == RouterName::KvAware {
        return Err(Problem::new(
            "--router kv-aware goes by the blocks that each engine has in use, which their pages do not tell",
        )
        .hint("--router llm-d or prefix-aware go by what was sent where, and with --kv-events by what engines say they hold")
        .into());
    }
    let every = time("--every", &flags.every, "10 ms to 1 min", 10..=60_000)?;
    let patience = time(
        "--queue-time",
        &flags.queue_time,
        "10 ms to 1 h",
        10..=3_600_000,
    )?;
    let members = Membership::default();
    let objectives = Objectives::default();
    objectives.set(named(&flags.objectives)?);
    let from = if let Some(pool) = &flags.pool {
        follow(flags, pool, members.clone(), objectives.clone())?
    } else {
        let all = listed(&flags.endpoints)?;
        let many = all.len();
        // Who is in it does not change, and is known.
        members.set(all);
        format!("{many} endpoints")
    };
    let tls = flags.tls_cert.clone().zip(flags.tls_key.clone());
    let scheme = if tls.is_some() { "TLS" } else { "no TLS" };
    let settings = PickerSettings {
        listen: flags.listen,
        metrics: flags.metrics,
        tls: tls.map(|(certificate, key)| TlsFiles {
            certificate,
            key,
            clients: flags.client_ca.clone(),
        }),
        pool: PoolSettings {
            routing: routing(flags.router),
            seed: context.app.seed,
            session: flags.session_header.to_ascii_lowercase(),
            most: flags.concurrency,
            fallbacks: flags.fallbacks as usize,
        },
        members,
        look: Arc::new(|address: &str| engine_page::load(&format!("http://{address}/metrics"))),
        every,
        objectives,
        queue: QueueSettings {
            most: flags.queue as usize,
            patience,
        },
        events: flags.kv_events.map(|events| {
            let replay = flags.kv_replay;
            let asker: Arc<Asker> = Arc::new(engine_page::tokens);
            (Ports { events, replay }, asker)
        }),
        say: Arc::new(|text: &str| progress::say(text)),
    };
    picker(settings, |at, figures| {
        progress::say(&format!(
            "picks for gateways at {at} ({scheme}), among {from}"
        ));
        if let Some(figures) = figures {
            progress::say(&format!("answers figures at http://{figures}/metrics"));
        }
    })
    .map_err(|error| super::scale::server_problem(&error))?;
    Ok(Exit::Yes)
}

/// A time of a flag, within a range of milliseconds.
fn time(
    flag: &str,
    given: &str,
    expected: &str,
    range: RangeInclusive<u64>,
) -> anyhow::Result<Duration> {
    let time: Nanoseconds = (given.parse())
        .map_err(|error| Problem::new(flag.to_owned()).because(anyhow::Error::new(error)))?;
    let time = Duration::from_nanos(time.0);
    let within = Duration::from_millis(*range.start())..=Duration::from_millis(*range.end());
    if !within.contains(&time) {
        return Err(Problem::new(format!("{flag} {given}: expected {expected}")).into());
    }
    Ok(time)
}

/// Objectives as they were named, with their priorities.
fn named(given: &[String]) -> anyhow::Result<BTreeMap<String, i64>> {
    let mut all = BTreeMap::new();
    for one in given {
        let (name, priority) = one
            .rsplit_once('=')
            .filter(|(name, _)| !name.is_empty())
            .and_then(|(name, priority)| Some((name, priority.parse().ok()?)))
            .ok_or_else(|| {
                Problem::new(format!(
                    "--objective {one:?}: expected a name and a whole number"
                ))
                .hint("such as batch=-10; requests that name none have priority 0")
            })?;
        if all.insert(name.to_owned(), priority).is_some() {
            return Err(Problem::new(format!("--objective {name}: is named twice")).into());
        }
    }
    Ok(all)
}

/// Endpoints as they were named, each once.
fn listed(given: &[String]) -> anyhow::Result<Vec<String>> {
    let mut all: Vec<String> = Vec::new();
    for one in given {
        let one = one.trim();
        let is_one = one.rsplit_once(':').is_some_and(|(host, port)| {
            !host.is_empty()
                && !host.contains(['/', ' ', '@'])
                && port.parse::<u16>().is_ok_and(|port| port > 0)
        });
        if !is_one {
            return Err(
                Problem::new(format!("--endpoints {one:?}: expected a host and a port"))
                    .hint("such as 10.0.0.7:8000, or [fd00::7]:8000; no scheme and no path")
                    .into(),
            );
        }
        if !all.iter().any(|known| known == one) {
            all.push(one.to_owned());
        }
    }
    if all.len() > ENDPOINTS {
        return Err(Problem::new(format!("--endpoints: at most {ENDPOINTS}")).into());
    }
    Ok(all)
}

#[cfg(not(feature = "kubernetes"))]
fn follow(_: &Flags, _: &str, _: Membership, _: Objectives) -> anyhow::Result<String> {
    Err(Problem::new(
        "this gpuwise was built without Kubernetes and cannot follow an InferencePool",
    )
    .hint("build it with `cargo build --release -p gpuwise --features kubernetes`")
    .hint("or name the endpoints: --endpoints 10.0.0.7:8000,10.0.0.8:8000")
    .into())
}

/// Follows a pool on a thread of its own, for as long as the process runs.
#[cfg(feature = "kubernetes")]
fn follow(
    flags: &Flags,
    pool: &str,
    members: Membership,
    objectives: Objectives,
) -> anyhow::Result<String> {
    use gpuwise_k8s::watch::{PoolName, PoolSaid, Source, follow_pool};
    let named = pool.split_once('/').filter(|(namespace, name)| {
        let part = |text: &str| {
            let of = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
            !text.is_empty() && text.chars().all(of)
        };
        part(namespace) && part(name)
    });
    let (namespace, name) = named.ok_or_else(|| {
        Problem::new(format!("--pool {pool:?}: expected a namespace and a name"))
            .hint("such as team/llama, as `kubectl get inferencepools -A` lists them")
    })?;
    let within = flags.kubeconfig.is_none()
        && flags.context.is_none()
        && std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
    let source = if within {
        Source::InCluster
    } else {
        Source::Kubeconfig {
            file: flags.kubeconfig.clone(),
            context: flags.context.clone(),
        }
    };
    let pool_name = PoolName {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    let mut said = String::new();
    let tell = move |seen: PoolSaid<'_>| match seen {
        PoolSaid::Members(all) => {
            said.clear();
            members.set(all);
        }
        PoolSaid::Objectives(all) => objectives.set(all),
        // A watch that goes on failing is said once.
        PoolSaid::Trouble(words) if said != words => {
            progress::say(&format!("▲ the pool cannot be seen whole: {words}"));
            words.clone_into(&mut said);
        }
        PoolSaid::Trouble(_) => {}
    };
    // What cannot be used is said before anybody is answered.
    follow_pool(&source, pool_name, tell).map_err(|error| Problem::of_cluster(&error))?;
    Ok(format!("the pods of InferencePool {pool}"))
}
