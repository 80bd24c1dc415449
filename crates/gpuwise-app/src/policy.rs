//! By what the scheduler goes, read in one place: a policy file, flags over it, the fleet file below.

mod read;

use crate::{error::Problem, settings::HowFlags};
use gpuwise_domain::placement::{Backfill, Fleet, Order, Scheduling, Weigh, WorkerAsk};
use gpuwise_sched::{
    decide::Policy,
    disruption::{Budget, Disruptions, Idle, Tidy},
    policy::{PolicyContext, Preferring, PriceOf, find, names},
    queues::Limits,
    report::span,
    rounds::{MeasuredPair, Pairs, Rounds},
    world::World,
};
use gpuwise_units::Nanoseconds;
use gpuwise_wire::{DisruptionPart, Mirror, PolicyFile, UpkeepPart};
#[cfg(feature = "serve")]
use gpuwise_wire::{
    broker::PolicyDocument,
    live::{SchedulingDocument, SharingDocument},
};
use std::{collections::BTreeMap, path::Path};

pub(crate) use read::read;

/// By what the scheduler goes, with everything that was said and nothing more.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rules {
    /// The file, or what flags say alone.
    pub(crate) file: PolicyFile,
    order: Option<Order>,
    backfill: Option<Backfill>,
    starvation: Option<Nanoseconds>,
}

/// A share as thousandths.
fn milli(field: &str, share: f64, most: f64) -> anyhow::Result<u64> {
    if share.is_finite() && (0.0..=most).contains(&share) {
        return Ok((share * 1000.0 + 0.5) as u64);
    }
    let what = format!("policy: {field} is {share}; expected a number from 0 to {most}");
    Err(Problem::new(what).into())
}

fn time(field: &str, text: &str) -> anyhow::Result<Nanoseconds> {
    text.trim().parse().map_err(|error| {
        let what = format!("policy: {field} is {text:?}: {error}");
        Problem::new(what)
            .hint("a time with its unit, such as \"12h\"")
            .into()
    })
}

impl Rules {
    /// What flags say: `--policy` names a way of choosing nodes, or a file; other flags go above it.
    ///
    /// # Errors
    /// When there is no such policy and no such file, or the file is wrong.
    pub(crate) fn of_flags(flags: &HowFlags) -> anyhow::Result<Self> {
        let mut file = if find(&flags.policy).is_some() {
            PolicyFile {
                nodes: Some(flags.policy.clone()),
                ..PolicyFile::default()
            }
        } else {
            let path = Path::new(&flags.policy);
            let named = path.extension().is_some() || path.is_file();
            if !named {
                let what = format!("--policy {}: there is no such policy", flags.policy);
                return Err(Problem::new(what)
                    .hint(format!(
                        "policies: {}; or a file, as `gpuwise example policy.toml` prints one",
                        names().join(", ")
                    ))
                    .into());
            }
            read(path)?
        };
        if flags.preempt {
            disrupts(&mut file);
        }
        Self::of_file(file, flags.order, flags.backfill, flags.starvation)
    }

    /// What a file says, and what goes above it.
    ///
    /// # Errors
    /// When something that the file says cannot be.
    pub(crate) fn of_file(
        file: PolicyFile,
        order: Option<Order>,
        backfill: Option<Backfill>,
        starvation: Option<Nanoseconds>,
    ) -> anyhow::Result<Self> {
        let said = file.starvation.as_deref();
        let said = said.map(|text| time("starvation", text)).transpose()?;
        let rules = Self {
            order: order.or(file.order.map(Mirror::noun)),
            backfill: backfill.or(file.backfill.map(Mirror::noun)),
            starvation: starvation.or(said),
            file,
        };
        rules.nodes()?;
        rules.limits(Backfill::Any)?;
        rules.disruptions()?;
        rules.tidy()?;
        rules.rounds()?;
        rules.pairs()?;
        Ok(rules)
    }

    /// What a broker's log says.
    ///
    /// # Errors
    /// When this release knows less than the one that wrote it.
    #[cfg(feature = "serve")]
    pub(crate) fn of_document(document: &PolicyDocument) -> anyhow::Result<Self> {
        let mut file = match &document.file {
            Some(file) => (**file).clone(),
            None => PolicyFile::default(),
        };
        file.nodes = Some(document.selector.clone());
        if document.preempt {
            disrupts(&mut file);
        }
        let scheduling = document.scheduling.clone().noun();
        let (order, backfill) = (scheduling.order, scheduling.backfill);
        Self::of_file(file, order, backfill, scheduling.starvation)
    }

    /// What a broker's log says of it; `fleet` is what it was made for.
    #[cfg(feature = "serve")]
    pub(crate) fn document(&self, fleet: &Fleet) -> PolicyDocument {
        let given = &fleet.scheduling;
        let scheduling = Scheduling {
            order: self.order.or(given.order),
            backfill: self.backfill.or(given.backfill),
            starvation: self.starvation.or(given.starvation),
            weighs: given.weighs,
        };
        let part = self.file.disruption.as_ref();
        let all =
            part.is_some_and(|part| [part.preempt, part.migrate, part.elastic] == [Some(true); 3]);
        let bare = PolicyFile {
            nodes: self.file.nodes.clone(),
            ..PolicyFile::default()
        };
        let mut usual = bare.clone();
        disrupts(&mut usual);
        let said = self.file != bare && self.file != usual;
        PolicyDocument {
            selector: self.file.nodes.clone().unwrap_or_else(|| USUAL.into()),
            preempt: all,
            scheduling: SchedulingDocument::of(&scheduling),
            sharing: self
                .file
                .fair_share
                .as_ref()
                .map(|_| SharingDocument::of(&fleet.sharing)),
            file: said.then(|| Box::new(self.file.clone())),
        }
    }

    /// What it is called: the file's name for it, else how nodes are chosen.
    pub(crate) fn name(&self) -> &str {
        let nodes = self.file.nodes.as_deref();
        self.file.name.as_deref().or(nodes).unwrap_or(USUAL)
    }

    fn nodes(&self) -> anyhow::Result<&'static gpuwise_sched::policy::Registered> {
        let name = self.file.nodes.as_deref().unwrap_or(USUAL);
        find(name).ok_or_else(|| {
            Problem::new(format!(
                "policy: nodes is {name:?}, and there is no such policy"
            ))
            .hint(format!("policies: {}", names().join(", ")))
            .into()
        })
    }

    /// Changes what a fleet file says of queues and shares to what the policy says of them.
    ///
    /// # Errors
    /// When it names a queue that the fleet does not have, or a number is none that can be.
    pub(crate) fn shape(&self, fleet: &mut Fleet) -> anyhow::Result<()> {
        let shares = self.file.fair_share.as_ref();
        if let Some(part) = shares {
            let sharing = &mut fleet.sharing;
            if let Some(weigh) = part.weigh {
                sharing.weigh = weigh.noun();
            }
            if let Some(text) = &part.half_life {
                sharing.half_life = Some(time("fair_share.half_life", text)?);
                sharing.past_milli = 1000;
            }
            if let Some(past) = part.past {
                sharing.past_milli = milli("fair_share.past", past, 1000.0)? as u32;
                if sharing.past_milli > 0 && sharing.half_life.is_none() {
                    let what = "policy: fair_share.past does nothing without half_life";
                    return Err(Problem::new(what)
                        .hint(
                            "say after which time past use counts half, such as half_life = \"7d\"",
                        )
                        .into());
                }
            }
            if let Some(text) = &part.budget_period {
                sharing.budget_period = Some(time("fair_share.budget_period", text)?);
            }
        }
        let known = |gpu: &str| fleet.kinds.iter().any(|kind| kind.name == gpu);
        let pairs = self.file.rounds.iter().flat_map(|part| &part.pair);
        if let Some(pair) = pairs.into_iter().find(|pair| !known(&pair.gpu)) {
            let names: Vec<&str> = fleet.kinds.iter().map(|kind| kind.name.as_str()).collect();
            let what = format!(
                "policy: rounds.pair.gpu is {:?}, which the fleet has none of",
                pair.gpu
            );
            return Err(Problem::new(what)
                .hint(format!("it has {}", names.join(", ")))
                .into());
        }
        for part in &self.file.queue {
            let found = fleet
                .queues
                .iter_mut()
                .find(|queue| queue.name == part.name);
            let Some(queue) = found else {
                let known: Vec<&str> = fleet.queues.iter().map(|one| one.name.as_str()).collect();
                return Err(Problem::new(format!(
                    "policy: the fleet has no [[queue]] {:?}",
                    part.name
                ))
                .hint(if known.is_empty() {
                    "it has no queues".to_owned()
                } else {
                    format!("it has {}", known.join(", "))
                })
                .into());
            };
            if let Some(weight) = part.weight {
                queue.weight_milli = milli("queue.weight", weight, 1e6)? as u32;
            }
            queue.priority = part.priority.unwrap_or(queue.priority);
            queue.reclaims = part.reclaims.unwrap_or(queue.reclaims);
            let limit = |field: &str, gpus: Option<f64>| -> anyhow::Result<Option<u64>> {
                gpus.map(|gpus| milli(field, gpus, 1e9)).transpose()
            };
            let borrow = limit("queue.borrow", part.borrow)?;
            let lend = limit("queue.lend", part.lend)?;
            let cap = limit("queue.cap", part.cap)?;
            if queue.quotas.is_empty() && (borrow.or(lend).or(cap)).is_some() {
                let what = format!(
                    "policy: queue {:?} has no quota that it could borrow beyond, lend of, or be capped at",
                    part.name
                );
                return Err(Problem::new(what)
                    .hint("its quota is said in the fleet file, such as quota = { gpus = 8 }")
                    .into());
            }
            for quota in &mut queue.quotas {
                quota.borrowing_milli = borrow.or(quota.borrowing_milli);
                quota.lending_milli = lend.or(quota.lending_milli);
                quota.cap_milli = cap.or(quota.cap_milli);
            }
        }
        if let Some(problem) = gpuwise_domain::placement::queue_problems(&fleet.queues).first() {
            return Err(Problem::new(format!("policy: {}", problem.words(&fleet.queues))).into());
        }
        let counts = |part: &gpuwise_wire::QueuePart| part.weight.or(part.priority.map(f64::from));
        let weighs = self.file.queue.iter().any(|part| counts(part).is_some());
        let compares = shares.is_some_and(|part| {
            part.half_life.is_some() || part.weigh.is_some_and(|word| word.noun() != Weigh::Alike)
        });
        fleet.scheduling.weighs |= weighs || compares;
        Ok(())
    }

    /// Who goes first and who may go ahead, by what is said here, else by the fleet file, else by what is usual.
    pub(crate) fn turns(&self, fleet: &Scheduling) -> Turns {
        let usual = if fleet.weighs {
            Order::Share
        } else {
            Order::Priority
        };
        Turns {
            order: self.order.or(fleet.order).unwrap_or(usual),
            backfill: self.backfill.or(fleet.backfill).unwrap_or(Backfill::Any),
            starvation: self.starvation.or(fleet.starvation),
        }
    }

    /// The policy; `fleet` is what its file says of turns. What is usually asked for is what was asked in
    /// `asked`; where nothing is said of it, policies go by what the world sees arrive, which a daemon has
    /// after a restart as before it.
    ///
    /// # Errors
    /// Not once the rules were made.
    pub(crate) fn policy(
        &self,
        fleet: &Scheduling,
        asked: Option<&World>,
        seed: u64,
    ) -> anyhow::Result<Policy> {
        self.priced_policy(fleet, asked, seed, None)
    }

    /// The same, which goes by these prices where it prefers what is cheapest.
    ///
    /// # Errors
    /// Not once the rules were made.
    pub(crate) fn priced_policy(
        &self,
        fleet: &Scheduling,
        asked: Option<&World>,
        seed: u64,
        prices: Option<PriceOf>,
    ) -> anyhow::Result<Policy> {
        let turns = self.turns(fleet);
        let setting = PolicyContext {
            demand: asked.map(demand).unwrap_or_default(),
            seed,
            ..PolicyContext::default()
        };
        let mut selector = (self.nodes()?.make)(&setting);
        if let Some(word) = self.file.prefer {
            let preferring = Preferring::new(word.noun(), selector);
            selector = Box::new(match prices {
                Some(prices) => preferring.by_prices(prices),
                None => preferring,
            });
        }
        Ok(Policy {
            order: turns.order,
            skips: turns.backfill != Backfill::None,
            disruptions: self.disruptions()?,
            limits: Limits {
                starvation_timeout: turns.starvation,
                ..self.limits(turns.backfill)?
            },
            upkeep: self.tidy()?,
            rounds: self.rounds()?,
            pairs: self.pairs()?,
            ..Policy::new(selector)
        })
    }

    fn limits(&self, backfill: Backfill) -> anyhow::Result<Limits> {
        let most = self.file.reservations;
        let padding = self.file.padding_sigmas;
        if let Some(padding) = padding.filter(|padding| !(0.0..=10.0).contains(padding)) {
            let what = format!("policy: padding_sigmas is {padding}; expected 0 to 10");
            return Err(Problem::new(what).into());
        }
        let usual = Limits::default();
        Ok(Limits {
            reservations: match backfill {
                Backfill::None | Backfill::Any => 0,
                Backfill::Easy => most.unwrap_or(1),
                Backfill::Conservative => most.unwrap_or(u32::MAX),
            },
            padding_sigmas: padding.unwrap_or(usual.padding_sigmas),
            ..usual
        })
    }

    fn disruptions(&self) -> anyhow::Result<Disruptions> {
        let none = DisruptionPart::default();
        let part = self.file.disruption.as_ref().unwrap_or(&none);
        let usual = Disruptions::NONE;
        let small = |field: &str, share: Option<f64>, usual: u32| -> anyhow::Result<u32> {
            share.map_or(Ok(usual), |share| Ok(milli(field, share, 1000.0)? as u32))
        };
        let idle = part.idle.as_ref().map(|idle| -> anyhow::Result<Idle> {
            Ok(Idle {
                busy_milli: small("disruption.idle.busy", idle.busy, 50)?,
                after: time("disruption.idle.after", &idle.after)?,
                reload: time("disruption.idle.reload", &idle.reload)?,
            })
        });
        Ok(Disruptions {
            preempt: part.preempt.unwrap_or(false),
            migrate: part.migrate.unwrap_or(false),
            elastic: part.elastic.unwrap_or(false),
            attach: part.attach.unwrap_or(true),
            repartition: part.repartition.unwrap_or(true),
            reclaim: idle.transpose()?,
            lend: part.lend.unwrap_or(false),
            most: part.most.unwrap_or(usual.most),
            priority_milli: small("disruption.priority", part.priority, usual.priority_milli)?,
            worth_milli: small("disruption.worth", part.worth, usual.worth_milli)?,
        })
    }

    /// Whether jobs take turns.
    pub(crate) fn rounds(&self) -> anyhow::Result<Option<Rounds>> {
        let Some(part) = &self.file.rounds else {
            return Ok(None);
        };
        let length = time("rounds.length", &part.length)?;
        if length < SHORTEST_ROUND {
            let what = format!(
                "policy: rounds.length is {:?}; expected 1 s or more",
                part.length
            );
            return Err(Problem::new(what)
                .hint("a round should be long beside what stopping and starting again takes: \"6min\"")
                .into());
        }
        Ok(Some(Rounds { length }))
    }

    /// Which jobs may share a GPU.
    fn pairs(&self) -> anyhow::Result<Pairs> {
        let listed = self.file.rounds.iter().flat_map(|part| &part.pair);
        let pairs = listed.map(|part| {
            let speed = |share: f64| {
                let milli = milli("rounds.pair.speeds", share, 1.0)?;
                Ok::<u32, anyhow::Error>(u32::try_from(milli).unwrap_or(1000))
            };
            let [first, second] = part.speeds;
            Ok(MeasuredPair {
                jobs: part.jobs.clone(),
                gpu: part.gpu.clone(),
                speeds_milli: [speed(first)?, speed(second)?],
            })
        });
        Ok(Pairs(pairs.collect::<anyhow::Result<_>>()?))
    }

    /// Whether pooled GPUs that are idle go back.
    #[cfg(feature = "serve")]
    pub(crate) fn gives_back(&self) -> bool {
        let part = self.file.upkeep.as_ref();
        part.is_some_and(|part| part.detach_after.is_some())
    }

    fn tidy(&self) -> anyhow::Result<Option<Tidy>> {
        let none = UpkeepPart::default();
        let part = self.file.upkeep.as_ref().unwrap_or(&none);
        let after = part.detach_after.as_deref();
        let budget = part
            .consolidation
            .as_ref()
            .map(|one| -> anyhow::Result<Budget> {
                Ok(Budget {
                    disruptions: one.moves,
                    lost: time("upkeep.consolidation.lost", &one.lost)?,
                    per: time("upkeep.consolidation.per", &one.per)?,
                    horizon: time("upkeep.consolidation.horizon", &one.horizon)?,
                })
            });
        let tidy = Tidy {
            evacuate: part.drain.unwrap_or(false),
            detach_after: after
                .map(|text| time("upkeep.detach_after", text))
                .transpose()?,
            grow: part.grow.unwrap_or(false),
            defragment: budget.transpose()?,
        };
        Ok((tidy != Tidy::default()).then_some(tidy))
    }
}

/// Jobs that allow it are stopped, moved and shrunk.
fn disrupts(file: &mut PolicyFile) {
    let part = file.disruption.get_or_insert_default();
    let all = [&mut part.preempt, &mut part.migrate, &mut part.elastic];
    for one in all {
        *one = Some(true);
    }
}

const SHORTEST_ROUND: Nanoseconds = Nanoseconds(1_000_000_000);

/// How nodes are chosen where nothing is said.
const USUAL: &str = "gpuwise";

/// What is asked for, most frequent first.
fn demand(world: &World) -> Vec<(WorkerAsk, u64)> {
    let mut demand: BTreeMap<WorkerAsk, u64> = BTreeMap::new();
    for (_, state) in world.jobs() {
        *demand.entry(state.job.worker).or_default() += u64::from(state.job.gang.least.max(1));
    }
    let mut demand: Vec<(WorkerAsk, u64)> = demand.into_iter().collect();
    demand.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    demand
}

/// Who goes first and who may go ahead.
pub(crate) struct Turns {
    pub(crate) order: Order,
    pub(crate) backfill: Backfill,
    pub(crate) starvation: Option<Nanoseconds>,
}

impl Turns {
    pub(crate) fn words(&self) -> String {
        let order = match self.order {
            Order::Arrival => "first in, first out",
            Order::Priority => "by priority",
            Order::Shortest => "by priority, then shortest first",
            Order::LeastServed => "by priority, then least served first",
            Order::Deadline => "by priority, then earliest deadline first",
            Order::Share => "by fair share of queues",
            Order::FairTree => "by fair tree of queues: who has used least beside its weight",
        };
        let ahead = match self.backfill {
            Backfill::None => "nobody goes ahead of one who waits",
            Backfill::Any => "backfill without reservation",
            Backfill::Easy => "EASY backfill: the first start is reserved",
            Backfill::Conservative => "conservative backfill: every start is reserved",
        };
        let starved = self.starvation.map_or_else(String::new, |time| {
            format!("; who has waited {} goes first", span(time))
        });
        format!("Taken {order}; {ahead}{starved}.")
    }
}
