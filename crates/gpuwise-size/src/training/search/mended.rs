//! What makes a question pass that none of its machines answers: every change is tried before it is told.

use super::{
    Cluster, Physics, Shape,
    best::best,
    change::{ParallelDegree, QuestionChange},
    dropped::over_limits,
    flags::chosen,
    market::{self, Candidate},
    plan::{market_of, plan},
    refuse::{Refusal, refusals},
    request::{Degrees, Machines, Market, TrainChoices, TrainRequest},
};
use crate::{memory::visible_memory, search};
use alloc::{collections::VecDeque, format, vec::Vec};
use gpuwise_domain::{
    alignment::Alignment,
    deployment::Test,
    fix::{Fix, Flag},
    gpu::{Device, Gpu},
    offer::Offer,
    training::TrainingSetup,
    training_plan::TrainingPlan,
};

/// Times of the GPUs that are reckoned to end a run in time: what is exchanged grows with them.
const MORE: [f64; 6] = [1.0, 1.25, 1.5, 2.0, 3.0, 4.0];
/// GPUs of a job at most.
const MOST_GPUS: u64 = 65_536;
/// Refusals in a row that are mended: a degree, one that no longer fits beside it, and a batch.
const DEPTH: usize = 3;
/// ChangedQuestion questions that are looked at, and of those that no refusal holds back, that are searched.
const LOOKED_AT: usize = 256;
const SEARCHED: usize = 12;
/// Fixes of a refusal.
const SHOWN: usize = 2;

/// A question with some choices made otherwise.
#[derive(Clone)]
struct ChangedQuestion<'a> {
    choices: TrainChoices,
    cluster: Cluster<'a>,
    changes: Vec<QuestionChange>,
}

impl<'a> ChangedQuestion<'a> {
    /// One more choice made otherwise; `None`: it was before.
    fn with(&self, change: QuestionChange, request: &TrainRequest<'a>) -> Option<Self> {
        let again = |before: &QuestionChange| match (before, &change) {
            (QuestionChange::Degree(one, _), QuestionChange::Degree(other, _)) => one == other,
            (one, other) => core::mem::discriminant(one) == core::mem::discriminant(other),
        };
        if self.changes.iter().any(again) {
            return None;
        }
        let mut out = self.clone();
        change.apply(&mut out.choices, &mut out.cluster, request.catalogue);
        out.changes.push(change);
        Some(out)
    }

    fn flags(&self) -> Vec<Flag> {
        let gpu = &self.cluster.gpu.name;
        self.changes.iter().map(|change| change.flag(gpu)).collect()
    }

    fn asked(&self, request: &TrainRequest<'a>) -> TrainRequest<'a> {
        TrainRequest {
            choices: self.choices.clone(),
            ..request.clone()
        }
    }
}

/// Everything that is tried for one candidate.
pub(super) struct FixSearch<'r, 'a> {
    pub(super) request: &'r TrainRequest<'a>,
    pub(super) physics: &'r dyn Physics,
    pub(super) candidate: &'r Candidate<'a>,
}

impl<'a> FixSearch<'_, 'a> {
    const fn is_given(&self) -> bool {
        matches!(self.request.machines, Machines::Given(_))
    }

    /// The same machines; in another number only where they are given, since others are candidates of
    /// their own.
    fn on(&self, cluster: Cluster<'a>) -> Option<Candidate<'a>> {
        if cluster.gpus == self.candidate.cluster.gpus && cluster.gpu == self.candidate.cluster.gpu
        {
            return Some(self.candidate.clone());
        }
        let market = market_of(self.request);
        self.is_given()
            .then(|| market::given(self.request, &market, cluster))
    }

    /// Choices and machines under which nothing is refused, nearest first.
    fn allowed(&self, refused: &[Refusal]) -> Vec<ChangedQuestion<'a>> {
        let shape = Shape::of(self.request.architecture);
        let start = ChangedQuestion {
            choices: self.request.choices.clone(),
            cluster: self.candidate.cluster,
            changes: Vec::new(),
        };
        let next = |from: &ChangedQuestion<'a>, refused: &[Refusal]| -> Vec<ChangedQuestion<'a>> {
            let first = refused.first().map(|refusal| refusal.nearest.clone());
            let all = first.unwrap_or_default().into_iter();
            let given = |change: &QuestionChange| {
                self.is_given() || !matches!(change, QuestionChange::Gpus(_))
            };
            all.filter(given)
                .filter_map(|change| from.with(change, self.request))
                .collect()
        };
        let mut queue: VecDeque<ChangedQuestion<'a>> = next(&start, refused).into();
        let mut out = Vec::new();
        for _ in 0..LOOKED_AT {
            let Some(one) = queue.pop_front() else { break };
            let refused = refusals(&shape, &one.choices, &one.cluster);
            if refused.is_empty() {
                out.push(one);
            } else if one.changes.len() < DEPTH {
                queue.extend(next(&one, &refused));
            }
        }
        out
    }

    /// What lets a refused question pass, with the fewest flags.
    pub(super) fn refused(&self, refused: &[Refusal]) -> Vec<Fix> {
        let mut allowed = self.allowed(refused);
        allowed.truncate(SEARCHED);
        let mut out = Vec::new();
        let mut fewest = usize::MAX;
        for one in &allowed {
            let Some(place) = self.on(one.cluster) else {
                continue;
            };
            let Some((limits, plan)) = self.passes(&one.choices, &place) else {
                continue;
            };
            let flags = [one.flags(), limits].concat();
            if flags.len() > fewest {
                continue;
            }
            if flags.len() < fewest {
                fewest = flags.len();
                out.clear();
            }
            out.push(gives(flags, &plan));
        }
        out.truncate(SHOWN);
        if !out.is_empty() {
            return out;
        }
        // What divides it does not fit: what more is to be changed then.
        let more = allowed.iter().find_map(|one| {
            let place = self.on(one.cluster)?;
            let shape = Shape::of(self.request.architecture);
            let found = best(&shape, &one.choices, &place.cluster, self.physics);
            let (setup, _) = found.nearest()?;
            let asked = one.asked(self.request);
            let then = FixSearch {
                request: &asked,
                physics: self.physics,
                candidate: &place,
            };
            let fix = then.fitting(setup).into_iter().next()?;
            Some(after(&one.flags(), fix))
        });
        more.or_else(|| self.searched()).into_iter().collect()
    }

    /// The degrees that were stated, as a search finds them.
    fn searched(&self) -> Option<Fix> {
        let stated = self.request.choices.degrees;
        let choices = TrainChoices {
            degrees: Degrees::default(),
            ..self.request.choices.clone()
        };
        let (limits, plan) = self.passes(&choices, self.candidate)?;
        let layout = plan.setup.layout;
        let found = [
            (ParallelDegree::Tensor, layout.tensor),
            (ParallelDegree::Pipeline, layout.pipeline),
            (ParallelDegree::Interleave, layout.interleave),
            (ParallelDegree::Context, layout.context),
            (ParallelDegree::Expert, layout.expert),
            (ParallelDegree::Data, layout.data),
        ];
        let found = found
            .into_iter()
            .filter(|(degree, _)| degree.stated(&stated).is_some());
        let flags = found
            .map(|(degree, value)| Flag::new(degree.flag(), value))
            .collect();
        Some(gives([flags, limits].concat(), &plan))
    }

    /// Flags of limits under which a question passes, and its plan; `None`: it does not fit.
    fn passes(
        &self,
        choices: &TrainChoices,
        place: &Candidate<'a>,
    ) -> Option<(Vec<Flag>, TrainingPlan)> {
        let shape = Shape::of(self.request.architecture);
        if !refusals(&shape, choices, &place.cluster).is_empty() {
            return None;
        }
        let best = best(&shape, choices, &place.cluster, self.physics).best?;
        let asked = TrainRequest {
            choices: choices.clone(),
            ..self.request.clone()
        };
        let plan = plan(&asked, self.physics, place, &best);
        Some((limits(&asked, &plan), plan))
    }

    /// What makes a setup fit that does not.
    pub(super) fn fitting(&self, setup: &TrainingSetup) -> Vec<Fix> {
        let fits = |changed: &TrainingSetup| {
            let (before, after) = (setup.layout.gpus(), changed.layout.gpus());
            let cluster = self.candidate.cluster;
            let cluster = if before == after {
                cluster
            } else {
                market::resized(
                    self.request.catalogue,
                    &cluster,
                    cluster.gpus - before + after,
                )
            };
            let place = self.on(cluster)?;
            let choices = chosen(&self.request.choices, setup, changed);
            Some(self.passes(&choices, &place)?.0)
        };
        let all = self
            .physics
            .fixes(setup, &self.candidate.cluster)
            .into_iter();
        let changed = all.filter_map(|(fix, changed)| Some(within(fix, fits(&changed)?)));
        let mut out: Vec<Fix> = self.engine().into_iter().chain(changed).collect();
        if self.is_given() {
            out.extend(self.larger());
        }
        out
    }

    /// The share of memory, else the ranks, of the engine that writes completions, with which it passes.
    pub(super) fn engine(&self) -> Option<Fix> {
        let Some(Alignment::Grpo(grpo)) = self.request.choices.alignment else {
            return None;
        };
        let with = |share: f64, tensor: u32, flag: Flag| {
            let mut changed = grpo;
            (changed.engine.share, changed.engine.tensor) = (share, tensor);
            let choices = TrainChoices {
                alignment: Some(Alignment::Grpo(changed)),
                ..self.request.choices.clone()
            };
            let (limits, plan) = self.passes(&choices, self.candidate)?;
            Some(gives([alloc::vec![flag], limits].concat(), &plan))
        };
        let (share, ranks) = (grpo.engine.share, grpo.engine.tensor);
        let mut shares: Vec<f64> = (1..=9).map(|tenths| f64::from(tenths) / 10.0).collect();
        shares.retain(|other| libm::fabs(other - share) > 0.01);
        shares.sort_by(|a, b| libm::fabs(a - share).total_cmp(&libm::fabs(b - share)));
        let mut by_share = shares.into_iter().map(|share| {
            with(
                share,
                ranks,
                Flag::new("--vllm-gpu-memory-utilization", share),
            )
        });
        let mut spread = [2, 4, 8]
            .into_iter()
            .filter(|more| *more > ranks)
            .map(|ranks| with(share, ranks, QuestionChange::RolloutRanks(ranks).flag("")));
        by_share
            .find_map(|fix| fix)
            .or_else(|| spread.find_map(|fix| fix))
    }

    /// As many of the cheapest GPU with more memory on which it fits.
    fn larger(&self) -> Option<Fix> {
        let market = search::Market {
            catalogue: self.request.catalogue,
            providers: &[],
            regions: &[],
            owned: Vec::new(),
            terms: self.request.terms,
        };
        let cluster = &self.candidate.cluster;
        let memory = |gpu: &Gpu| visible_memory(&Device::whole(gpu)).0;
        let has = memory(cluster.gpu);
        let mut all: Vec<(f64, &'a Gpu)> = Vec::new();
        for gpu in self
            .request
            .catalogue
            .gpus
            .iter()
            .filter(|gpu| !gpu.announced)
        {
            let each = |offer: &&Offer| {
                let price = offer.price(market.terms)?;
                Some(price.0.as_f64() / f64::from(offer.gpus()))
            };
            let offers = market.offers(&gpu.name);
            let price = offers.first().and_then(each).filter(|_| memory(gpu) > has);
            all.extend(price.map(|price| (price, gpu)));
        }
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        all.into_iter().find_map(|(_, gpu)| {
            let place = market::cluster(self.request.catalogue, gpu, cluster.gpus);
            let place = self.on(place)?;
            let (limits, plan) = self.passes(&self.request.choices, &place)?;
            let gpus = Flag::gpus(cluster.gpus, &gpu.name);
            Some(gives([alloc::vec![gpus], limits].concat(), &plan))
        })
    }

    /// How many of a GPU end a run in time that is late on fewer: tried from what is reckoned on. What
    /// they cost beyond a budget is told beside.
    pub(super) fn in_time(&self, least: f64) -> Option<Fix> {
        let cluster = &self.candidate.cluster;
        match &self.request.machines {
            Machines::Given(_) => {
                let host = u64::from(cluster.per_host.max(1));
                let counts = MORE.iter().map(|times| {
                    let gpus = libm::ceil(least * times) as u64;
                    match gpus {
                        gpus if gpus > host => gpus.next_multiple_of(host),
                        gpus => gpus.next_power_of_two(),
                    }
                });
                let mut counts = counts.filter(|gpus| *gpus <= MOST_GPUS);
                counts.find_map(|gpus| {
                    let place = self.on(market::resized(self.request.catalogue, cluster, gpus))?;
                    self.ends_in_time(Flag::gpus(gpus, &cluster.gpu.name), &place)
                })
            }
            Machines::Offered(market) => {
                let wider = Market {
                    gpus: alloc::vec![cluster.gpu],
                    most: MOST_GPUS,
                    ..market.clone()
                };
                let asked = TrainRequest {
                    machines: Machines::Offered(wider.clone()),
                    ..self.request.clone()
                };
                let all = market::candidates(&asked, &wider).into_iter();
                let mut more = all
                    .filter(|one| {
                        let gpus = one.cluster.gpus;
                        gpus > market.most && gpus as f64 >= least
                    })
                    .take(MORE.len());
                more.find_map(|place| {
                    self.ends_in_time(Flag::new("--max-gpus", place.cluster.gpus), &place)
                })
            }
        }
    }

    fn ends_in_time(&self, machines: Flag, place: &Candidate<'a>) -> Option<Fix> {
        let (limits, plan) = self.passes(&self.request.choices, place)?;
        if limits.iter().any(|flag| flag.name == "--within") {
            return None;
        }
        Some(gives([alloc::vec![machines], limits].concat(), &plan))
    }
}

/// The limits that a plan keeps where it does not keep those of its request.
pub(super) fn limits(request: &TrainRequest<'_>, plan: &TrainingPlan) -> Vec<Flag> {
    let mut asked = request.clone();
    let mut out = Vec::new();
    while let Some(over) = over_limits(&asked, plan) {
        let Some(run) = &plan.run else { break };
        if over.test == Test::Deadline {
            let hours = libm::ceil(run.total.value / 3600.0);
            asked.job.within = None;
            out.push(Flag::new("--within", format!("{hours}h")));
        } else {
            asked.job.budget = None;
            out.extend(run.cost.map(|cost| Flag::money("--budget", cost.value, "")));
        }
    }
    out
}

fn gives(flags: Vec<Flag>, plan: &TrainingPlan) -> Fix {
    Fix::Flags {
        flags,
        gives: Some(plan.setup.placement_words()),
    }
}

/// A fix after other flags.
fn after(before: &[Flag], fix: Fix) -> Fix {
    let joined = |flags: Vec<Flag>| {
        // A flag that is changed again is told as it is in the end.
        let kept = before
            .iter()
            .filter(|one| flags.iter().all(|flag| flag.name != one.name));
        kept.cloned().chain(flags.iter().cloned()).collect()
    };
    with_flags(fix, joined)
}

/// A fix with the limits that it asks for.
fn within(fix: Fix, limits: Vec<Flag>) -> Fix {
    with_flags(fix, |flags| [flags, limits].concat())
}

fn with_flags(fix: Fix, change: impl FnOnce(Vec<Flag>) -> Vec<Flag>) -> Fix {
    match fix {
        Fix::Flags { flags, gives } => Fix::Flags {
            flags: change(flags),
            gives,
        },
        Fix::Setup {
            flags,
            change: what,
            needs,
            cost,
        } => Fix::Setup {
            flags: change(flags),
            change: what,
            needs,
            cost,
        },
        other => other,
    }
}
