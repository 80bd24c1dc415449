//! The decision: a learned forest, scaled times and rules side by side, each with its reasons. The first
//! that is sure decides, in this order; a user's own rules come before scaled times. Where none is sure,
//! the least scaled cost decides.

use super::{
    carried::{Ratios, WIDEST, trusted},
    choice::{Choice, Cost, choose_under_slo, keeps},
    learned::{FEATURES, correct, features},
    ranking::{may_cost_less, undecided},
    rules::{Fired, burden, fire},
    scaling::{Scaled, Tier, Unscaled, scale},
};
use crate::learn::forest::Forest;
use gpuwise_domain::tier::{Job, TierRules};
use gpuwise_operators::Functions;

/// What decides, and how sure it must be.
#[derive(Debug, Clone, Copy)]
pub struct Deciders<'a> {
    /// Rules, and how well times carry over.
    pub rules: &'a TierRules,
    /// Whether rules come before scaled times that are sure enough: those of the user's own do.
    pub rules_first: bool,
    /// What prices a job's kernels.
    pub functions: &'a Functions,
    /// A forest, where one was learned.
    pub forest: Option<&'a Forest>,
    /// Forest and scaled times abstain where they expect to lose more than this share of the cost.
    pub most_regret: f64,
}

gpuwise_units::named! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Decider: name {
        Forest = "forest",
        Rule = "rule",
        Physics = "physics",
    }
}

/// A tier as a candidate.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Index of the tier.
    pub tier: usize,
    pub scaled: Scaled,
    /// The time that counts: the forest's where it speaks, else the scaled one; seconds, 80 % range.
    pub seconds: (f64, f64, f64),
    /// What the forest looks at that lies outside what it learned from; `None` where it speaks.
    pub unlearned: Option<&'static str>,
    /// USD of a unit of work at that time, with its range.
    pub cost: (f64, f64, f64),
    /// The chance that a unit of work takes longer than it may; 0 without an SLO.
    pub miss: f64,
    /// Whether its time rests on what was timed of its family, on itself or on jobs learned from: only
    /// then is its place among the others told. Else its range spans [`WIDEST`].
    pub ranked: bool,
}

/// Why a tier is no candidate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The memory does not suffice.
    #[error("needs {needed} GiB a GPU, {there} GiB are there")]
    Memory {
        /// GiB needed, to the tenth.
        needed: String,
        /// GiB that may be filled.
        there: String,
    },
    /// Peak memory, or the tier's, is not known, and the tier may have less than now.
    #[error("its memory is not known to suffice")]
    UnknownMemory,
    #[error("takes {0} s, longer than it may")]
    Slow(String),
    #[error("no price of it is known")]
    Price,
    /// Its time cannot be told.
    #[error(transparent)]
    Time(#[from] Unscaled),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Opinion {
    /// Index of the candidate, or why there is none.
    pub candidate: Result<usize, String>,
    /// Reasons, the strongest first.
    pub reasons: Vec<String>,
}

/// The decision about a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// The tiers that fit, cheapest first.
    pub candidates: Vec<Candidate>,
    /// The others, each with its reason.
    pub refused: Vec<(usize, Refused)>,
    /// What the rules say.
    pub rule: Opinion,
    /// What the forest says.
    pub forest: Opinion,
    /// What scaled times say.
    pub physics: Opinion,
    /// Who decided, and the candidate; `None` where no tier fits.
    pub decided: Option<(Decider, usize)>,
    /// Candidates that may cost less than the one decided, where one of both is not
    /// [ranked](Candidate::ranked).
    pub undecided: Vec<usize>,
    /// What was looked at before the decision was taken: that it stays since what was preferred costs more, or that it
    /// costs more and why it is proposed all the same.
    pub note: Option<String>,
}

/// Standard deviations between the middle and the end of an 80 % range of a normal.
const EIGHTY: f64 = 1.281_551_565_5;

/// Decides which of the tiers a job belongs on.
pub fn decide(job: &Job, now: &Tier, tiers: &[Tier], by: &Deciders<'_>) -> Decision {
    let mut candidates = Vec::new();
    let mut refused = Vec::new();
    for (at, tier) in tiers.iter().enumerate() {
        match candidate(job, now, (at, tier), by) {
            Ok(candidate) => candidates.push(candidate),
            Err(reason) => refused.push((at, reason)),
        }
    }
    candidates.sort_by(|a, b| a.cost.0.total_cmp(&b.cost.0).then(a.tier.cmp(&b.tier)));
    let (physics, sure) = physics(&candidates, tiers, by.most_regret);
    let rule = rule(job, now, tiers, by, &candidates);
    let forest = forest(job, now, tiers, by, &candidates);
    let by_physics = (Decider::Physics, &physics);
    let sure_physics = (sure && !by.rules_first).then_some(by_physics);
    let decided = [
        Some((Decider::Forest, &forest)),
        sure_physics,
        Some((Decider::Rule, &rule)),
        Some(by_physics),
    ]
    .into_iter()
    .flatten()
    .find_map(|(decider, opinion)| Some((decider, *opinion.candidate.as_ref().ok()?)));
    let (decided, note) = decided.map_or((None, None), |(decider, at)| {
        let (at, note) = against_now(job, now, tiers, (&candidates, &refused), at);
        (Some((decider, at)), note)
    });
    let undecided = decided.map_or_else(Vec::new, |(_, at)| undecided(&candidates, at));
    Decision {
        candidates,
        refused,
        rule,
        forest,
        physics,
        decided,
        undecided,
        note,
    }
}

/// Whether a tier is what the job runs on now.
fn is_now(tier: &Tier, now: &Tier) -> bool {
    tier.name == now.name && tier.gpus == now.gpus && tier.slice == now.slice
}

/// What is chosen, held against what runs: nothing that costs more is proposed where that keeps its SLO; where it does
/// not, or has no known price, that is said.
fn against_now(
    job: &Job,
    now: &Tier,
    tiers: &[Tier],
    (candidates, refused): (&[Candidate], &[(usize, Refused)]),
    at: usize,
) -> (usize, Option<String>) {
    let tier = |at: usize| tiers.get(at);
    let present = |at: usize| tier(at).is_some_and(|tier| is_now(tier, now));
    let Some(chosen) = candidates.get(at).filter(|one| !present(one.tier)) else {
        return (at, None);
    };
    let percent = |of: f64| gpuwise_units::significant(100.0 * (chosen.cost.0 / of - 1.0), 2);
    let stays = candidates.iter().position(|one| present(one.tier));
    if let Some((stays, cost)) = stays.and_then(|at| Some((at, candidates.get(at)?.cost.0))) {
        if chosen.cost.0 <= cost * (1.0 + 1e-9) {
            return (at, None);
        }
        let name = tier(chosen.tier).map_or("what is preferred", |tier| tier.name.as_str());
        let note = format!("it stays: {name} would cost {} % more", percent(cost));
        return (stays, Some(note));
    }
    let why = refused
        .iter()
        .find(|(at, _)| present(*at))
        .map(|(_, why)| why);
    let note = match (why, now.hourly) {
        (Some(Refused::Slow(_)), Some(hourly)) => {
            let cost = job.seconds * hourly / 3600.0;
            let slo = job.slo.unwrap_or(job.seconds);
            (chosen.cost.0 > cost).then(|| {
                format!(
                    "its SLO of {} s is broken where it runs; this keeps it for {} % more",
                    gpuwise_units::significant(slo, 3),
                    percent(cost)
                )
            })
        }
        (Some(Refused::Price), _) => Some(format!(
            "what {} costs is not known, nor whether this costs less",
            now.name
        )),
        _ => None,
    };
    (at, note)
}

/// One tier: its memory, its time, its price.
fn candidate(
    job: &Job,
    now: &Tier,
    (at, tier): (usize, &Tier),
    by: &Deciders<'_>,
) -> Result<Candidate, Refused> {
    let scaling = &by.rules.scaling;
    memory(job, now, tier, scaling.memory_headroom)?;
    let mut scaled = scale(job, now, tier, scaling, by.functions)?;
    let family = |ratios: Ratios| trusted(ratios.compute.basis.max(ratios.memory.basis));
    let timed = tier.processor == now.processor || scaled.carried.is_some_and(family);
    if !timed {
        // As good as unknown.
        let end = WIDEST.sqrt();
        scaled.low = scaled.low.min(scaled.seconds / end);
        scaled.high = scaled.high.max(scaled.seconds * end);
    }
    let hourly = tier.hourly.ok_or(Refused::Price)?;
    let mut seconds = (scaled.seconds, scaled.low, scaled.high);
    let mut unlearned = Some("everything");
    if let Some(corrected) = by
        .forest
        .and_then(|forest| correct(forest, job, now, tier, &scaled))
    {
        if let Some(outside) = corrected.said.outside.first() {
            unlearned = FEATURES.get(*outside).copied();
        } else {
            unlearned = None;
            seconds = (corrected.seconds, corrected.low, corrected.high);
        }
    }
    let miss = job.slo.map_or(0.0, |slo| 1.0 - keeps(seconds, slo));
    if miss > 0.5 {
        return Err(Refused::Slow(gpuwise_units::significant(seconds.0, 3)));
    }
    let cost = |seconds: f64| seconds * hourly / 3600.0;
    Ok(Candidate {
        tier: at,
        scaled,
        seconds,
        unlearned,
        ranked: timed || unlearned.is_none(),
        cost: (cost(seconds.0), cost(seconds.1), cost(seconds.2)),
        miss,
    })
}

fn memory(job: &Job, now: &Tier, tier: &Tier, headroom: f64) -> Result<(), Refused> {
    const GIB: f64 = (1u64 << 30) as f64;
    if is_now(tier, now) {
        return Ok(());
    }
    let total = |tier: &Tier| Some(tier.memory?.as_f64() * f64::from(tier.gpus));
    let Some(peak) = job.peak_memory else {
        // What runs now fits now: no less memory than that, all GPUs together and each.
        let enough =
            tier.memory >= now.memory && total(tier) >= total(now) && tier.memory.is_some();
        return enough.then_some(()).ok_or(Refused::UnknownMemory);
    };
    let needed = peak.as_f64() * f64::from(now.gpus) / f64::from(tier.gpus.max(1));
    let there = tier.memory.ok_or(Refused::UnknownMemory)?.as_f64() * headroom;
    // What runs now fits now, however full.
    if needed <= there || (tier.memory >= now.memory && tier.gpus >= now.gpus) {
        return Ok(());
    }
    let gib = |bytes: f64| gpuwise_units::significant(bytes / GIB, 3);
    Err(Refused::Memory {
        needed: gib(needed),
        there: gib(there),
    })
}

fn spread(range: (f64, f64, f64)) -> f64 {
    libm::log(range.2 / range.1) / (2.0 * EIGHTY)
}

/// The choice by these times; each tier costs so much an hour.
fn chosen(
    candidates: &[Candidate],
    tiers: &[Tier],
    seconds: impl Fn(&Candidate) -> (f64, f64, f64),
) -> Option<Choice> {
    let costs: Vec<Option<Cost>> = candidates
        .iter()
        .map(|candidate| {
            let range = seconds(candidate);
            Some(Cost {
                value: range.0 * tiers.get(candidate.tier)?.hourly?,
                spread: spread(range),
            })
        })
        .collect();
    let keeps: Vec<f64> = candidates.iter().map(|one| 1.0 - one.miss).collect();
    choose_under_slo(&costs, &keeps)
}

const NONE_FITS: &str = "no tier fits";

/// What scaled times say, and whether they expect to lose no more than so much.
fn physics(candidates: &[Candidate], tiers: &[Tier], most_regret: f64) -> (Opinion, bool) {
    let scaled = |candidate: &Candidate| {
        let scaled = &candidate.scaled;
        (scaled.seconds, scaled.low, scaled.high)
    };
    let choice = chosen(candidates, tiers, scaled);
    let Some((choice, candidate)) =
        choice.and_then(|choice| Some((choice, candidates.get(choice.chosen)?)))
    else {
        let none = Opinion {
            candidate: Err(NONE_FITS.into()),
            reasons: Vec::new(),
        };
        return (none, false);
    };
    let at = choice.chosen;
    let open = undecided(candidates, at);
    let sure = choice.expected_regret <= most_regret;
    let parts = candidate.scaled.parts;
    let mut shares = [
        ("computing", parts.compute),
        ("device memory", parts.memory),
        ("launches", parts.launch),
        ("communication", parts.communication),
        ("copies", parts.copies),
        ("the host", parts.host),
    ];
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut reasons: Vec<String> = shares
        .iter()
        .filter(|(_, seconds)| *seconds > 0.0)
        .map(|(name, seconds)| {
            let share = 100.0 * seconds / parts.total();
            format!(
                "{} % of its time there is {name}",
                gpuwise_units::significant(share, 2)
            )
        })
        .collect();
    reasons.extend(candidate.scaled.carried.map(|ratios| {
        let of = if ratios.own {
            "its products"
        } else {
            "products that are bound as its kernels are"
        };
        format!("by operator times of {of}, {}", basis(ratios))
    }));
    if let Some(first) = open.first() {
        reasons.push(may_cost_less(candidates, tiers, *first, open.len() - 1));
    }
    if !sure {
        let expected = gpuwise_units::significant(100.0 * choice.expected_regret, 2);
        reasons.push(format!(
            "tiers lie too close together to be sure: {expected} % more than the best is to be expected"
        ));
    }
    let opinion = Opinion {
        candidate: Ok(at),
        reasons,
    };
    (opinion, sure)
}

/// What the less well known of both times rests on.
fn basis(ratios: Ratios) -> &'static str {
    ratios.compute.basis.max(ratios.memory.basis).name()
}

fn rule(
    job: &Job,
    now: &Tier,
    tiers: &[Tier],
    by: &Deciders<'_>,
    candidates: &[Candidate],
) -> Opinion {
    let Some(Fired { rule, figures }) = fire(by.rules, job, now) else {
        return Opinion {
            candidate: Err("no rule applies".into()),
            reasons: Vec::new(),
        };
    };
    let mut reasons = vec![format!("{}: {}", rule.name, rule.reason)];
    reasons.extend(figures.iter().map(|(condition, value)| {
        format!(
            "{} is {}, {} {}",
            condition.figure.name(),
            gpuwise_units::significant(*value, 2),
            if condition.above { "above" } else { "below" },
            condition.threshold
        )
    }));
    let best = candidates
        .iter()
        .enumerate()
        .filter_map(|(at, candidate)| {
            let tier = tiers.get(candidate.tier)?;
            Some((at, burden(rule.prefer, tier, candidate.cost.0, job)?))
        })
        .min_by(|a, b| a.1.total_cmp(&b.1));
    let candidate = match (best, candidates.first()) {
        (None, _) | (_, None) => Err(format!(
            "{} applies, and no tier of its preference fits",
            rule.name
        )),
        // A preference is a short cut; where ranges do not even touch, it is the wrong one.
        (Some((at, _)), Some(cheapest)) if candidates[at].cost.1 > cheapest.cost.2 => Err(format!(
            "{} applies, and {} would be sure to cost less than what it prefers",
            rule.name, tiers[cheapest.tier].name
        )),
        (Some((at, _)), Some(_)) => Ok(at),
    };
    Opinion { candidate, reasons }
}

/// Largest reasons of a forest that are given.
const REASONS: usize = 3;

fn forest(
    job: &Job,
    now: &Tier,
    tiers: &[Tier],
    by: &Deciders<'_>,
    candidates: &[Candidate],
) -> Opinion {
    let silent = |reason: String| Opinion {
        candidate: Err(reason),
        reasons: Vec::new(),
    };
    let Some(forest) = by.forest else {
        return silent("none was learned".into());
    };
    let Some(choice) = chosen(candidates, tiers, |candidate| candidate.seconds) else {
        return silent(NONE_FITS.into());
    };
    if choice.expected_regret > by.most_regret {
        let expected = gpuwise_units::significant(100.0 * choice.expected_regret, 2);
        return silent(format!(
            "tiers lie too close together: {expected} % more than the best is to be expected"
        ));
    }
    let candidate = &candidates[choice.chosen];
    if let Some(feature) = candidate.unlearned {
        return silent(format!(
            "{feature} of the cheapest tier lies outside what it learned from"
        ));
    }
    let row = features(job, now, &tiers[candidate.tier], &candidate.scaled);
    let (_, moved) = forest.contributions(&row);
    let mut reasons: Vec<(f64, &str)> = moved
        .iter()
        .zip(FEATURES)
        .map(|(moved, name)| (*moved, name))
        .filter(|(moved, _)| moved.abs() > 1e-6)
        .collect();
    reasons.sort_by(|a, b| b.0.abs().total_cmp(&a.0.abs()));
    Opinion {
        candidate: Ok(choice.chosen),
        reasons: reasons
            .iter()
            .take(REASONS)
            .map(|(moved, name)| {
                format!(
                    "{name} makes it {} % {}",
                    gpuwise_units::significant(100.0 * libm::expm1(moved.abs()), 2),
                    if *moved > 0.0 { "slower" } else { "faster" }
                )
            })
            .collect(),
    }
}
