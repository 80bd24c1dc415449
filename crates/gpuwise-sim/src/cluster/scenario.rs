//! What is simulated: plain data.

use super::{
    retry::Retry,
    routers::Routing,
    start::{Failures, StartUp},
};
use crate::engine::{Role, Settings, SettingsError};
use gpuwise_units::Nanoseconds;

/// Pools of replicas, and the clients that use them. `C` is a [`crate::cost::StepCost`].
#[derive(Debug, Clone)]
pub struct Scenario<C> {
    /// Decides all chances: starts, failures, routers, retries.
    pub seed: u64,
    /// The pools. Each request goes to the first pool that serves its tenant.
    pub pools: Vec<Pool<C>>,
    pub together: Option<CoLocated>,
    /// How long a client waits for the whole answer, from each time that it sends.
    pub time_out: Option<Nanoseconds>,
    /// Whether clients send again after an error.
    pub retry: Option<Retry>,
    /// When the run ends, whatever is unfinished then; `None`: when all requests are over.
    pub horizon: Option<Nanoseconds>,
    /// How often [`super::Observer::sample`] is told of the state; `None`: never.
    pub sample_every: Option<Nanoseconds>,
}

/// Equal replicas behind one gateway.
#[derive(Debug, Clone)]
pub struct Pool<C> {
    pub name: String,
    pub engine: Settings,
    /// Step times of each replica.
    pub cost: C,
    /// How many replicas are asked for from when on, in order of time. Those asked for at 0 serve
    /// from the beginning, others after their start.
    pub replicas: Vec<(Nanoseconds, u16)>,
    /// How long a start takes.
    pub start: StartUp,
    pub failures: Failures,
    /// Which replica a request goes to.
    pub routing: Routing,
    /// The gateway looks at counts only so often, and sees the replicas as of then; 0: as they are.
    /// What routers remember of their own, and what replicas say they have cached, is not aged.
    pub signal_age: Nanoseconds,
    pub admission: Admission,
    /// The tenants it serves; empty: everyone.
    pub tenants: Vec<u16>,
    /// Where prompts are computed, if not in the pool itself.
    pub prefill: Option<RemotePrefill>,
}

impl<C> Pool<C> {
    /// So many replicas from the beginning, one after the other, without failures or limits.
    pub fn new(engine: Settings, cost: C, replicas: u16) -> Self {
        Self {
            name: "replicas".to_owned(),
            engine,
            cost,
            replicas: vec![(Nanoseconds(0), replicas)],
            start: StartUp::default(),
            failures: Failures::None,
            routing: Routing::RoundRobin,
            signal_age: Nanoseconds(0),
            admission: Admission::default(),
            tenants: Vec::new(),
            prefill: None,
        }
    }
}

impl<C> Scenario<C> {
    /// One pool, and clients that wait for ever and never send again.
    pub fn new(pool: Pool<C>, seed: u64) -> Self {
        Self {
            seed,
            pools: vec![pool],
            together: None,
            time_out: None,
            retry: None,
            horizon: None,
            sample_every: None,
        }
    }
}

/// What a gateway takes. What it cannot place and may not hold it refuses (503).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Admission {
    /// Requests in a replica, beyond which it is passed over; `None`: no limit.
    pub in_replica: Option<u32>,
    /// Prompt tokens in a replica, beyond which it is passed over; an idle one takes any.
    pub tokens_in_replica: Option<u64>,
    /// Requests that wait at the gateway for a replica.
    pub held: GatewayQueue,
    pub order: GatewayOrder,
    /// Most requests of a tenant in flight; beyond these it is refused (429).
    pub tenant_limits: Vec<(u16, u32)>,
}

/// How many requests wait at the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GatewayQueue {
    #[default]
    None,
    /// At most so many.
    Most(u32),
    /// At most so many prompt tokens.
    MostTokens(u64),
    All,
}

/// Which request at the gateway is first.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum GatewayOrder {
    /// The first that came.
    #[default]
    Arrival,
    /// The one of the smallest priority; the first of equals.
    Priority,
    /// Prompt tokens of tenants that wait are taken in proportion to their weights; 1 for who is not
    /// listed.
    Weights(Vec<(u16, f64)>),
}

/// Prompts that are computed by another pool. A replica that decodes is picked first; a prompt of which
/// it has all but few tokens it computes itself.
#[derive(Debug, Clone, PartialEq)]
pub struct RemotePrefill {
    /// The place of the pool that computes prompts.
    pub pool: usize,
    /// Tokens that the decoding replica does not have, from which on another computes the prompt.
    pub threshold: u32,
    /// What the cache is moved by.
    pub link: Link,
    /// Bytes of KV cache of a token, over all ranks of a replica.
    pub bytes_per_token: u64,
}

/// A link between replicas. One transfer at a time leaves a replica, and one at a time enters one, in
/// the order in which decoding replicas ask; others wait.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    pub name: String,
    /// Bytes per second of one transfer.
    pub bytes_per_second: f64,
    /// Time of any transfer beside its bytes.
    pub latency: Nanoseconds,
}

/// Pools of which the first replicas share one set of GPUs, the second ones another, and so on.
#[derive(Debug, Clone, PartialEq)]
pub struct CoLocated {
    pub pools: Vec<usize>,
    pub sharing: Sharing,
}

/// How engines share GPUs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sharing {
    /// Slices of their own (MIG): step times are those of the slice, no interference.
    Slices,
    /// Turns: while several have work each gets its share of the time. Turns are taken to be short
    /// against steps.
    TimeSlices,
    /// At the same time (MPS): while others have work each step takes so many times as long. How much
    /// that is depends on the models and is not known: it has to be given.
    Mps {
        /// The factor, at least 1.
        interference: Option<f64>,
    },
}

/// A scenario that cannot be run.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ScenarioError {
    /// There is nothing to run on.
    #[error("the scenario has no pool of replicas: give at least one")]
    NoPool,
    #[error("pool “{pool}”: {error}")]
    Engine { pool: String, error: SettingsError },
    /// More replicas than can be numbered.
    #[error("the scenario has more than 65,534 replicas in all: simulate a part of them")]
    TooMany,
    /// The number of replicas changes in the past.
    #[error("pool “{pool}”: the numbers of replicas are not in order of time")]
    Unordered { pool: String },
    #[error("pool “{pool}”: {what} is {value}; it must be {must}")]
    Number {
        pool: String,
        what: &'static str,
        value: f64,
        must: &'static str,
    },
    /// The other pool is not there or has another role.
    #[error(
        "pool “{pool}” has its prompts computed by pool number {other}, which must be another pool \
         whose engines compute prompts alone"
    )]
    Prefill {
        pool: String,
        /// The place it names.
        other: usize,
    },
    /// Nobody sends to it.
    #[error(
        "the engines of pool “{pool}” compute prompts alone, and no pool has prompts computed there"
    )]
    Unused { pool: String },
    /// It can be known by measurement only.
    #[error(
        "how much models interfere that run at the same time on a GPU (MPS) is not known: \
         give the factor by which steps take longer, measured (for example 1.2), or use slices (MIG) \
         or time slices"
    )]
    Interference,
    /// A number that cannot be.
    #[error(
        "steps beside other models (MPS) take {factor} times as long: give a factor of at least 1"
    )]
    Factor { factor: f64 },
    /// The same pool twice, or one that is not there.
    #[error("pools that share GPUs must be there, and each named once")]
    CoLocated,
}

impl<C> Scenario<C> {
    /// Whether it can be run.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn check(&self) -> Result<(), ScenarioError> {
        if self.pools.is_empty() {
            return Err(ScenarioError::NoPool);
        }
        for pool in &self.pools {
            pool.check()?;
            if let Some(prefill) = &pool.prefill {
                let other = self.pools.get(prefill.pool).map(|other| other.engine.role);
                if other != Some(Role::Prefill) || pool.engine.role == Role::Prefill {
                    return Err(ScenarioError::Prefill {
                        pool: pool.name.clone(),
                        other: prefill.pool,
                    });
                }
            }
        }
        for (place, pool) in self.pools.iter().enumerate() {
            let used = |other: &Pool<C>| other.prefill.as_ref().is_some_and(|to| to.pool == place);
            if pool.engine.role == Role::Prefill && !self.pools.iter().any(used) {
                return Err(ScenarioError::Unused {
                    pool: pool.name.clone(),
                });
            }
        }
        self.together
            .as_ref()
            .map_or(Ok(()), |together| together.check(self.pools.len()))
    }
}

impl<C> Pool<C> {
    fn check(&self) -> Result<(), ScenarioError> {
        self.engine.check().map_err(|error| ScenarioError::Engine {
            pool: self.name.clone(),
            error,
        })?;
        if !self.replicas.is_sorted_by_key(|(time, _)| time.0) {
            return Err(ScenarioError::Unordered {
                pool: self.name.clone(),
            });
        }
        let number = |what, value, must, good: bool| {
            let error = || ScenarioError::Number {
                pool: self.name.clone(),
                what,
                value,
                must,
            };
            if good { Ok(()) } else { Err(error()) }
        };
        for (what, part) in self.start.parts() {
            if let Some(part) = part {
                number(
                    what,
                    part.mean,
                    "a time of 0 seconds or more",
                    part.is_sound(),
                )?;
            }
        }
        if let Failures::Random { between, repair } = self.failures {
            let sound = |value: f64| value.is_finite() && value > 0.0;
            number(
                "the time between failures",
                between,
                "more than 0 seconds",
                sound(between),
            )?;
            let good = repair == 0.0 || sound(repair);
            number("the time to repair", repair, "0 seconds or more", good)?;
        }
        if let Some(prefill) = &self.prefill {
            let speed = prefill.link.bytes_per_second;
            number(
                "the link in bytes per second",
                speed,
                "more than 0",
                speed > 0.0,
            )?;
        }
        if let GatewayOrder::Weights(weights) = &self.admission.order {
            for (_, weight) in weights {
                number(
                    "the weight of a tenant",
                    *weight,
                    "more than 0",
                    *weight > 0.0,
                )?;
            }
        }
        Ok(())
    }
}

impl CoLocated {
    fn check(&self, pools: usize) -> Result<(), ScenarioError> {
        let mut places = self.pools.clone();
        places.sort_unstable();
        places.dedup();
        if places.len() < self.pools.len() || places.iter().any(|place| *place >= pools) {
            return Err(ScenarioError::CoLocated);
        }
        match self.sharing {
            Sharing::Mps { interference: None } => Err(ScenarioError::Interference),
            Sharing::Mps {
                interference: Some(factor),
            } if !(1.0..=1e6).contains(&factor) => Err(ScenarioError::Factor { factor }),
            _ => Ok(()),
        }
    }
}
