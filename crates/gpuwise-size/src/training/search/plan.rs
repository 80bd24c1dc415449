//! From a request to plans, and to what is not among them and why.

use super::{
    Cluster, Physics, Shape,
    best::{self, Best},
    dropped::{alternatives, label, no_fit, over_limits},
    explain,
    market::{self, Candidate},
    mended::FixSearch,
    needs,
    refuse::{self, Refusal},
    request::{Machines, RankBy, TrainRequest},
    run, space,
};
use crate::{
    memory::visible_memory,
    search::{Failure, Offered, ShortlistRule, Standing, model_summary, one_per_gpu, shortlist},
    training::failures,
};
use alloc::{boxed::Box, format, string::String, vec::Vec};
use gpuwise_domain::{
    alignment::Alignment,
    deployment::{Rental, Test},
    estimate::Basis,
    gpu::Device,
    limit::Limit,
    note::{Note, TrainingNote, UsualBatch},
    reason::Reason,
    training::{Method, TrainingSetup},
    training_plan::{TrainingAsked, TrainingPlan, TrainingQuestion, TrainingSizing},
};
use gpuwise_units::Bytes;

/// Alternatives that an answer says something about.
const ALTERNATIVES: usize = 12;
/// No job reaches the peak: of two that are late, one that was searched is told rather than one that
/// was not.
const BEYOND_PEAK: f64 = 4.0;
/// Work of a trained token per parameter at least, in floating-point operations: forward, and the
/// gradient of activations; weights of adapters add little.
const LEAST_WORK: f64 = 4.0;

/// The nearest of those that will not do for which fixes are looked for.
const FIXED: usize = 3;

/// Plans for a job, best first, and why others are not there.
pub fn train(request: &TrainRequest<'_>, physics: &dyn Physics) -> TrainingSizing {
    let shape = Shape::of(request.architecture);
    let mut sizing = TrainingSizing {
        question: TrainingQuestion {
            model: model_summary(&request.name, &request.origin, request.architecture),
            asked: TrainingAsked {
                method: request.choices.method.clone(),
                alignment: request.choices.alignment,
                recipe: request.choices.recipe,
                optimizer: request.choices.optimizer,
                sequence: request.choices.sequence,
                global_batch: request.choices.global_batch,
            },
            job: request.job.clone(),
        },
        ranked: Vec::new(),
        dropped: Vec::new(),
        considered: 0,
        notes: notes(request),
        charts: (),
    };
    let market = market_of(request);
    let mut gpu = String::new();
    let mut settled = Settled::default();
    let mut unfixed = Vec::new();
    for candidate in market::candidates(request, &market) {
        if candidate.cluster.gpu.name != gpu {
            gpu.clone_from(&candidate.cluster.gpu.name);
            settled = Settled::default();
        }
        if !settled.done {
            consider(
                request,
                &shape,
                physics,
                &candidate,
                &mut settled,
                (&mut sizing, &mut unfixed),
            );
        }
    }
    finish(request, physics, &mut sizing, &unfixed);
    sizing
}

/// Where given machines could be rented: anywhere.
pub(super) fn market_of<'a>(request: &TrainRequest<'a>) -> super::Market<'a> {
    match &request.machines {
        Machines::Offered(market) => market.clone(),
        Machines::Given(given) => super::Market {
            gpus: alloc::vec![given.gpu],
            providers: Vec::new(),
            regions: Vec::new(),
            owned: Vec::new(),
            terms: request.terms,
            most: given.gpus,
        },
    }
}

/// What is known of a GPU after some of its cluster sizes.
#[derive(Default)]
struct Settled {
    /// The lowest figure of merit so far.
    least: Option<f64>,
    /// Whether it is of hosts of one's own.
    own: bool,
    /// Sizes in a row that were no better.
    worse: u32,
    /// Whether larger clusters need not be looked at.
    done: bool,
}

impl Settled {
    /// Takes in the figure of merit of the next larger cluster.
    fn see(&mut self, own: bool, merit: f64) {
        // Those that are rented beyond what is owned are measured in another unit.
        if self.own != own {
            *self = Self {
                own,
                ..Self::default()
            };
        }
        match self.least {
            Some(least) if merit >= least => self.worse += 1,
            _ => {
                self.least = Some(merit);
                self.worse = 0;
            }
        }
        self.done = self.worse >= 2;
    }
}

/// A cluster that will not do, as it is told, and what it lacks.
struct Unfixed<'a> {
    label: String,
    candidate: Candidate<'a>,
    lacks: Lacks,
}

enum Lacks {
    /// A layout that its choices allow.
    Layout(Vec<Refusal>),
    /// Time: so many GPUs are reckoned to be enough.
    Time { least: f64 },
    /// A place for the engine that writes completions.
    Engine,
    /// Memory, for the setup that comes nearest.
    Memory(Box<TrainingSetup>),
}

/// Looks at one cluster.
fn consider<'a>(
    request: &TrainRequest<'a>,
    shape: &Shape,
    physics: &dyn Physics,
    candidate: &Candidate<'a>,
    settled: &mut Settled,
    (sizing, unfixed): (&mut TrainingSizing, &mut Vec<Unfixed<'a>>),
) {
    let cluster = &candidate.cluster;
    let gpu = &cluster.gpu.name;
    let refusals = refuse::refusals(shape, &request.choices, cluster);
    if !refusals.is_empty() {
        sizing.dropped.extend(refusals.iter().map(|refusal| {
            let failure = Failure::new(Test::Layout, Reason::Clash(refusal.why.clone()), 1.0);
            failure.dropped(label(cluster), gpu)
        }));
        unfixed.push(Unfixed {
            label: label(cluster),
            candidate: candidate.clone(),
            lacks: Lacks::Layout(refusals),
        });
        return;
    }
    if let Some(ratio) = too_slow_at_peak(request, cluster) {
        let what = Reason::LateAtPeak { ratio };
        let failure = Failure::new(Test::Deadline, what, BEYOND_PEAK * ratio);
        let least = cluster.gpus as f64 * ratio;
        unfixed.push(Unfixed {
            label: label(cluster),
            candidate: candidate.clone(),
            lacks: Lacks::Time { least },
        });
        sizing.dropped.push(failure.dropped(label(cluster), gpu));
        return;
    }
    let found = best::best(shape, &request.choices, cluster, physics);
    sizing.considered += found.considered;
    let Some(best) = &found.best else {
        unfixed.extend(found.nearest().map(|(setup, _)| Unfixed {
            label: format!("{}, {}", label(cluster), setup.placement_words()),
            candidate: candidate.clone(),
            lacks: Lacks::Memory(Box::new(setup.clone())),
        }));
        unfixed.push(Unfixed {
            label: label(cluster),
            candidate: candidate.clone(),
            lacks: Lacks::Engine,
        });
        sizing.dropped.extend(no_fit(physics, cluster, &found));
        return;
    };
    let plan = plan(request, physics, candidate, best);
    let failed = over_limits(request, &plan);
    // What is slower than one that will not do is no alternative.
    if failed.is_none() && matches!(request.machines, Machines::Given(_)) {
        sizing.dropped.extend(alternatives(cluster, &found, best));
    }
    let late = failed.as_ref().is_some_and(|f| f.test == Test::Deadline);
    // One that is late says nothing of larger clusters, nor one that may run out of memory, on which they
    // would not.
    if !late && !plan.tight() {
        settled.see(own(&plan), merit(&plan, request.rank));
    }
    match failed {
        Some(failed) => {
            let name = format!("{}, {}", label(cluster), plan.setup.placement_words());
            if late {
                let least = cluster.gpus as f64 * failed.ratio;
                unfixed.push(Unfixed {
                    label: name.clone(),
                    candidate: candidate.clone(),
                    lacks: Lacks::Time { least },
                });
            }
            sizing.dropped.push(failed.dropped(name, gpu));
        }
        None => sizing.ranked.push(plan),
    }
}

/// Time at the peak of the fastest precision over the deadline, where that alone misses it.
fn too_slow_at_peak(request: &TrainRequest<'_>, cluster: &Cluster<'_>) -> Option<f64> {
    let (tokens, within) = (request.job.tokens?, request.job.within?);
    if matches!(request.machines, Machines::Given(_)) {
        return None;
    }
    let peak = cluster.gpu.peak;
    let rates = [
        peak.fp4, peak.fp8, peak.bf16, peak.fp16, peak.tf32, peak.fp32,
    ];
    let most = rates
        .iter()
        .flatten()
        .map(|rate| rate.get())
        .fold(0.0, f64::max);
    let work = LEAST_WORK * request.architecture.active_parameters().0 as f64 * tokens as f64;
    let ratio = work / (most * cluster.gpus as f64) / within;
    (most > 0.0 && ratio > 1.0).then_some(ratio)
}

/// Whether a plan runs on hosts of one's own.
fn own(plan: &TrainingPlan) -> bool {
    let rental = plan.rental.as_ref();
    rental.is_some_and(Rental::is_owned)
}

/// What a plan is ranked by among its like: seconds, money or GPU-seconds, of the run, else of a token.
fn merit(plan: &TrainingPlan, rank: Option<RankBy>) -> f64 {
    let rate = plan.step.tokens_per_second_per_gpu.value * plan.gpus as f64;
    let seconds = match &plan.run {
        Some(run) => run.total.value,
        None => 1.0 / rate.max(1e-9),
    };
    let usual = if own(plan) {
        RankBy::Time
    } else {
        RankBy::Cost
    };
    let each = match rank.unwrap_or(usual) {
        RankBy::Time => 1.0,
        RankBy::Cost => hourly(plan).unwrap_or(plan.gpus as f64),
    };
    each * seconds
}

/// Money of an hour of everything that is rented; `None` where it is not known or nothing is.
fn hourly(plan: &TrainingPlan) -> Option<f64> {
    let rental = plan.rental.as_ref()?;
    Some(rental.price?.0.as_f64() * f64::from(rental.instances))
}

/// Hosts of one's own before rented ones, and by money these before those without a price.
fn standing(plan: &TrainingPlan, rank: Option<RankBy>) -> Standing {
    let unpriced = rank != Some(RankBy::Time) && hourly(plan).is_none();
    Standing {
        tight: plan.tight(),
        offered: match Offered::of(plan.rental.as_ref()) {
            Offered::Rented if unpriced => Offered::Unpriced,
            offered => offered,
        },
        key: merit(plan, rank),
        ties: [plan.step.step.value, 0.0, 0.0, 0.0],
        name: plan.gpu.clone(),
        kind: plan.gpu.clone(),
        lower: false,
    }
}

/// Sorts plans, keeps one of each GPU, explains the best.
fn finish(
    request: &TrainRequest<'_>,
    physics: &dyn Physics,
    sizing: &mut TrainingSizing,
    unfixed: &[Unfixed<'_>],
) {
    let standings: Vec<Standing> = sizing
        .ranked
        .iter()
        .map(|plan| standing(plan, request.rank))
        .collect();
    let shown = ShortlistRule {
        top: request.top.max(1),
        published_first: false,
    };
    let order = shortlist(&standings, shown);
    sizing.ranked = order
        .into_iter()
        .filter_map(|at| sizing.ranked.get(at).cloned())
        .collect();
    if matches!(request.machines, Machines::Offered(_)) {
        let shown: Vec<&str> = sizing.ranked.iter().map(|plan| plan.gpu.as_str()).collect();
        sizing.dropped = one_per_gpu(core::mem::take(&mut sizing.dropped), &shown);
    } else {
        sizing.dropped.sort_by(|a, b| a.ratio.total_cmp(&b.ratio));
    }
    sizing.dropped.truncate(ALTERNATIVES);
    // Where others do, what would be needed of these is no answer.
    let told = sizing
        .dropped
        .iter_mut()
        .filter(|_| sizing.ranked.is_empty());
    let mut told_of: Vec<&str> = Vec::new();
    for dropped in told.take(FIXED) {
        let Some(one) = unfixed.iter().find(|one| one.label == dropped.label) else {
            continue;
        };
        // Of several things that are wrong with one, the same flags mend all.
        if told_of.contains(&one.label.as_str()) {
            continue;
        }
        told_of.push(&one.label);
        let mending = FixSearch {
            request,
            physics,
            candidate: &one.candidate,
        };
        match &one.lacks {
            Lacks::Layout(refusals) => dropped.fixes = mending.refused(refusals),
            Lacks::Time { least } => dropped.fixes.extend(mending.in_time(*least)),
            Lacks::Engine => dropped.fixes.extend(mending.engine()),
            Lacks::Memory(setup) => dropped.fixes = mending.fitting(setup),
        }
    }
    for plan in &mut sizing.ranked {
        let cluster = cluster_of(request, plan);
        if let Some(cluster) = cluster {
            plan.derivations = explain::derivations(request, plan, &cluster, physics);
        }
    }
}

/// The cluster of a plan again.
fn cluster_of<'a>(request: &TrainRequest<'a>, plan: &TrainingPlan) -> Option<Cluster<'a>> {
    if let Machines::Given(cluster) = &request.machines {
        return Some(*cluster);
    }
    let gpu = request
        .catalogue
        .gpus
        .iter()
        .find(|gpu| gpu.name == plan.gpu)?;
    let mut cluster = market::cluster(request.catalogue, gpu, plan.gpus);
    cluster.per_host = plan.gpus_per_host;
    cluster.domain = plan.domain;
    cluster.network = plan.needs.network_has.map(|bits| bits / 8.0);
    Some(cluster)
}

/// The plan of a setup.
pub(super) fn plan(
    request: &TrainRequest<'_>,
    physics: &dyn Physics,
    candidate: &Candidate<'_>,
    best: &Best,
) -> TrainingPlan {
    let cluster = &candidate.cluster;
    let checkpoints = failures::checkpoints(
        physics.checkpoint(&best.setup),
        cluster.gpus,
        best.step.step.value,
        &request.reliability,
    );
    TrainingPlan {
        gpu: cluster.gpu.name.clone(),
        gpus: cluster.gpus,
        gpus_per_host: cluster.per_host,
        domain: cluster.domain,
        visible: Bytes::new(visible_memory(&Device::whole(cluster.gpu)).0 as u64),
        usable: physics.usable(cluster),
        run: run::run(
            request,
            cluster,
            &best.setup,
            &best.step,
            &checkpoints,
            candidate.rental.as_ref(),
        ),
        needs: needs::needs(
            request.architecture,
            &best.setup,
            cluster,
            &best.memory,
            &best.step,
            &checkpoints,
            request.job.tokens,
        ),
        checkpoints,
        rental: candidate.rental.clone(),
        basis: worse(best.memory.basis, best.step.basis),
        bottleneck: Limit::largest(best.step.parts.iter().copied(), best.step.step.value),
        derivations: Vec::new(),
        setup: best.setup.clone(),
        memory: best.memory.clone(),
        step: best.step.clone(),
    }
}

/// The basis that is worth less.
fn worse(a: Basis, b: Basis) -> Basis {
    a.max(b)
}

/// What was assumed before any cluster is looked at.
fn notes(request: &TrainRequest<'_>) -> Vec<Note> {
    let mut notes = Vec::new();
    let choices = &request.choices;
    if choices.global_batch.is_none() {
        notes.push(TrainingNote::GlobalBatch {
            sequences: space::global_batch(choices, 1),
            usual: match (&choices.alignment, &choices.method) {
                (Some(Alignment::Dpo { .. }), _) => UsualBatch::Pairs,
                (Some(Alignment::Grpo(grpo)), _) => UsualBatch::Prompts {
                    generations: grpo.generations,
                },
                (None, Method::Adapter(_)) => UsualBatch::Adapters,
                (None, Method::Full) => UsualBatch::Tokens,
            },
        });
    }
    if let Some(Alignment::Grpo(grpo)) = &choices.alignment {
        notes.push(TrainingNote::Rollout {
            completion: grpo.completion,
            reward: (grpo.reward > 0.0).then_some(grpo.reward),
        });
    }
    if let Machines::Offered(market) = &request.machines
        && !market.owned.is_empty()
        && request.rank.is_none()
    {
        notes.push(TrainingNote::OwnHosts);
    }
    if choices.compiled {
        notes.push(TrainingNote::Compiled);
    }
    if request.job.tokens.is_none() {
        notes.push(TrainingNote::NoTokens);
    }
    notes.into_iter().map(Note::from).collect()
}
