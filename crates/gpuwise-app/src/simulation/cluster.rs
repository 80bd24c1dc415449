//! Replicas, routers and clients by flags.

use super::{deployment::Simulated, traffic::time};
use crate::{
    error::Problem,
    settings::{ClusterFlags, RouterName, SchedulingName, SharingName},
};
use gpuwise_domain::engine::EngineKind;
use gpuwise_sim::{
    cluster::{
        CoLocated, Duration, Failure, Failures, Link, Pool, RemotePrefill, Retry, Scenario,
        Sharing, StartUp,
        routers::{CacheAware, KvAware, Measure, Routing, Scorer, Weighted},
    },
    cost::Sized,
    engine::Policy,
};
use gpuwise_units::Nanoseconds;

/// Bytes that a GPU moves a second to another host where nobody says it: 400 Gbit/s.
const USUAL_LINK: f64 = 50e9;

/// How long a replica takes to start again where nobody says it.
const USUAL_START: &str = "3min";

/// The tenant of a deployment that shares its GPUs.
pub(super) const FIRST: u16 = 1;
pub(super) const BESIDE: u16 = 2;

/// What is between the clients and the engines.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// Replicas, in place of the deployment's.
    pub replicas: Option<u32>,
    routing: Routing,
    signal_age: Nanoseconds,
    time_out: Option<Nanoseconds>,
    retry: Option<Retry>,
    max_queued: Option<u32>,
    /// Engines take the smallest priority first.
    pub by_priority: bool,
    pub failures: Failures,
    start: StartUp,
    link: Option<f64>,
    /// How deployments that stand beside one another share GPUs.
    sharing: Sharing,
    /// Whether the context is as long as the traffic needs, whatever the deployment serves.
    any_context: bool,
}

impl Cluster {
    /// As flags have it.
    ///
    /// # Errors
    /// When a quantity cannot be.
    pub fn of(flags: &ClusterFlags) -> anyhow::Result<Self> {
        let optional = |flag: &str, text: &Option<String>| {
            text.as_deref().map(|text| time(flag, text)).transpose()
        };
        let start = time(
            "--start-up",
            flags.start_up.as_deref().unwrap_or(USUAL_START),
        )?;
        Ok(Self {
            replicas: flags.replicas,
            routing: routing(flags.router),
            signal_age: optional("--signal-age", &flags.signal_age)?.unwrap_or_default(),
            time_out: optional("--timeout", &flags.timeout)?,
            retry: (flags.retries > 0).then(|| Retry {
                most: u16::try_from(flags.retries).unwrap_or(u16::MAX),
                ..Retry::default()
            }),
            max_queued: flags.max_queued,
            by_priority: flags.scheduling_policy == SchedulingName::Priority,
            failures: failures(flags)?,
            start: StartUp {
                engine: Some(Duration::fixed(start.seconds().get())),
                ..StartUp::INSTANT
            },
            link: flags.kv_link.as_deref().map(bandwidth).transpose()?,
            sharing: sharing(flags)?,
            any_context: false,
        })
    }

    /// What a plan is tried with: least-loaded routing, patient clients, no failures.
    pub fn usual() -> Self {
        Self {
            replicas: None,
            routing: routing(RouterName::LeastOutstanding),
            signal_age: Nanoseconds::default(),
            time_out: None,
            retry: None,
            max_queued: None,
            by_priority: false,
            failures: Failures::None,
            start: StartUp::INSTANT,
            link: None,
            sharing: Sharing::Slices,
            any_context: false,
        }
    }

    /// The scenario of a deployment, and of one that stands beside it on the same GPUs: requests of
    /// tenant [`BESIDE`] are its own.
    ///
    /// # Errors
    /// When one that computes prompts elsewhere stands beside another.
    pub fn scenario(
        &self,
        simulated: &Simulated<'_>,
        beside: Option<&Simulated<'_>>,
        seed: u64,
    ) -> anyhow::Result<Scenario<Sized>> {
        self.failures_exist(simulated)?;
        self.priorities_exist(simulated)?;
        if self.link.is_some() && simulated.prefill.is_none() {
            return Err(Problem::new(
                "--kv-link: the deployment computes prompts and answers on the same GPUs, so that no cache is moved",
            )
            .hint("leave it out")
            .into());
        }
        match beside {
            Some(other) => self.together(simulated, other, seed),
            None => Ok(self.alone(simulated, seed)),
        }
    }

    /// That replicas which shall die are there.
    fn failures_exist(&self, simulated: &Simulated<'_>) -> anyhow::Result<()> {
        let Failures::Listed(list) = &self.failures else {
            return Ok(());
        };
        let replicas = count(
            self.replicas
                .unwrap_or(simulated.deployment.layout.replicas),
        );
        match list.iter().find(|failure| failure.replica >= replicas) {
            Some(failure) => Err(Problem::new(format!(
                "--fail {}: there is no replica {}, of {replicas} in all",
                failure.replica, failure.replica
            ))
            .hint("replicas are counted from 0")
            .into()),
            None => Ok(()),
        }
    }

    /// That the engine knows priorities, where they shall decide.
    fn priorities_exist(&self, simulated: &Simulated<'_>) -> anyhow::Result<()> {
        let engine = simulated.deployment.engine;
        if !self.by_priority || engine == EngineKind::Vllm {
            return Ok(());
        }
        Err(Problem::new(format!(
            "--scheduling-policy priority: for {engine} no such policy is modelled, for vLLM alone"
        ))
        .hint("leave it out, or simulate a deployment of vLLM")
        .into())
    }

    /// Two deployments on the same GPUs.
    fn together(
        &self,
        simulated: &Simulated<'_>,
        other: &Simulated<'_>,
        seed: u64,
    ) -> anyhow::Result<Scenario<Sized>> {
        if simulated.prefill.is_some() || other.prefill.is_some() {
            return Err(Problem::new(
                "--beside: deployments with a prefill pool of their own do not share GPUs here",
            )
            .hint("simulate them apart")
            .into());
        }
        let mut scenario = self.alone(simulated, seed);
        let mut second = self.alone(other, seed);
        scenario.pools.append(&mut second.pools);
        for (pool, (name, tenant)) in scenario
            .pools
            .iter_mut()
            .zip([("first", FIRST), ("second", BESIDE)])
        {
            pool.name = name.into();
            pool.tenants = vec![tenant];
        }
        scenario.together = Some(CoLocated {
            pools: vec![0, 1],
            sharing: self.sharing,
        });
        Ok(scenario)
    }

    /// One deployment: the pool that serves, and the one that computes prompts where it is another.
    fn alone(&self, simulated: &Simulated<'_>, seed: u64) -> Scenario<Sized> {
        let replicas = self
            .replicas
            .unwrap_or(simulated.deployment.layout.replicas);
        let mut engine = simulated.engine.settings.clone();
        engine.max_queued = self.max_queued.or(engine.max_queued);
        if self.any_context {
            engine.max_context = u32::MAX;
        }
        // llama.cpp is simulated by the same rules, and has no such policy.
        let priority = self.by_priority && simulated.deployment.engine == EngineKind::Vllm;
        if let (true, Policy::Vllm(rules)) = (priority, &mut engine.policy) {
            rules.priority = true;
        }
        let mut pool = Pool {
            routing: self.routing.clone(),
            signal_age: self.signal_age,
            failures: self.failures.clone(),
            start: self.start,
            ..Pool::new(engine, simulated.engine.cost.clone(), count(replicas))
        };
        let mut prompts = None;
        if let (Some(prefill), Some(layout)) = (&simulated.prefill, simulated.deployment.prefill) {
            let gpus = f64::from(simulated.setup.layout.replica_gpus());
            pool.prefill = Some(RemotePrefill {
                pool: 1,
                threshold: 1,
                link: Link {
                    name: "KV link".into(),
                    bytes_per_second: gpus * self.link.unwrap_or(USUAL_LINK),
                    latency: simulated.hand_over,
                },
                bytes_per_token: cache_bytes(simulated),
            });
            prompts = Some(Pool {
                name: "prefill".into(),
                ..Pool::new(
                    prefill.settings.clone(),
                    prefill.cost.clone(),
                    count(layout.layout.replicas),
                )
            });
        }
        let mut scenario = Scenario::new(pool, seed);
        scenario.pools.extend(prompts);
        scenario.time_out = self.time_out;
        scenario.retry.clone_from(&self.retry);
        scenario
    }

    /// The same with a context that is long enough for whatever comes.
    #[must_use]
    pub fn with_any_context(&self) -> Self {
        Self {
            any_context: true,
            ..self.clone()
        }
    }

    /// The same with replica 0 lost from a moment on, until it has started again.
    #[must_use]
    pub fn without_one(&self, from: Nanoseconds) -> Self {
        Self {
            failures: Failures::Listed(vec![Failure {
                replica: 0,
                at: from,
                returns: true,
            }]),
            ..self.clone()
        }
    }
}

fn count(replicas: u32) -> u16 {
    u16::try_from(replicas).unwrap_or(u16::MAX)
}

/// The rule of a name.
pub fn routing(name: RouterName) -> Routing {
    match name {
        RouterName::RoundRobin => Routing::RoundRobin,
        RouterName::LeastOutstanding => Routing::Least(Measure::Requests),
        RouterName::PowerOfTwo => Routing::TwoChoices(Measure::Requests),
        RouterName::Random => Routing::Random,
        RouterName::Session => Routing::Session,
        RouterName::PrefixAware => Routing::CacheAware(CacheAware::default()),
        RouterName::KvAware => Routing::KvAware(KvAware::default()),
        // The default profile of the Gateway API inference extension's endpoint picker.
        RouterName::LlmD => {
            let all = [
                (Scorer::GuessedPrefix, 3.0),
                (Scorer::Queue, 2.0),
                (Scorer::KvFree, 2.0),
            ];
            let weighted = all.map(|(scorer, weight)| Weighted { scorer, weight });
            Routing::Scored(weighted.into())
        }
    }
}

fn sharing(flags: &ClusterFlags) -> anyhow::Result<Sharing> {
    let sharing = match flags.sharing {
        SharingName::Slices => Sharing::Slices,
        SharingName::TimeSlices => Sharing::TimeSlices,
        SharingName::Mps => Sharing::Mps {
            interference: flags.interference,
        },
    };
    if flags.interference.is_some() && flags.sharing != SharingName::Mps {
        return Err(Problem::new(
            "--interference is for --sharing mps: slices do not interfere, and turns are followed",
        )
        .into());
    }
    Ok(sharing)
}

fn failures(flags: &ClusterFlags) -> anyhow::Result<Failures> {
    if let Some(text) = &flags.mtbf {
        if !flags.fail.is_empty() {
            return Err(Problem::new(
                "--fail and --mtbf are given; failures are either scripted or drawn",
            )
            .into());
        }
        let between = time("--mtbf", text)?;
        if between.0 == 0 {
            return Err(Problem::new(format!("--mtbf {text}: expected a time above 0")).into());
        }
        return Ok(Failures::Random {
            between: between.seconds().get(),
            repair: 0.0,
        });
    }
    if flags.fail.is_empty() {
        return Ok(Failures::None);
    }
    let mut out = Vec::new();
    for text in &flags.fail {
        let wrong = || {
            Problem::new(format!(
                "--fail {text}: expected a replica's number and a time"
            ))
            .hint("write 0@300s to kill the first replica after 300 s")
        };
        let (replica, at) = text.split_once('@').ok_or_else(wrong)?;
        out.push(Failure {
            replica: replica.trim().parse().map_err(|_| wrong())?,
            at: time("--fail", at)?,
            returns: true,
        });
    }
    out.sort_by_key(|failure| failure.at);
    Ok(Failures::Listed(out))
}

/// Bytes a second of a text such as `50GB/s` or `400Gbit/s`.
fn bandwidth(text: &str) -> anyhow::Result<f64> {
    let wrong = || {
        Problem::new(format!(
            "--kv-link {text}: expected a bandwidth with its unit"
        ))
        .hint("write 50GB/s or 400Gbit/s")
    };
    let (number, factor) = [
        ("Gbit/s", 1e9 / 8.0),
        ("GB/s", 1e9),
        ("GiB/s", 1073741824.0),
        ("MB/s", 1e6),
    ]
    .into_iter()
    .find_map(|(unit, factor)| Some((text.trim().strip_suffix(unit)?, factor)))
    .ok_or_else(wrong)?;
    let value: f64 = number.trim().parse().map_err(|_| wrong())?;
    if value.is_finite() && value > 0.0 {
        Ok(value * factor)
    } else {
        Err(wrong().into())
    }
}

/// Bytes of cache that a token takes in all ranks of a replica.
fn cache_bytes(simulated: &Simulated<'_>) -> u64 {
    let setup = &simulated.setup;
    let elements = setup.architecture.cache_elements_per_token() as f64;
    (elements * setup.cache.bytes_per_element()) as u64
}
