//! Sentences about training that every form shares.

use crate::figures::{amount, bytes, currency_sign, number, percent, ranged_seconds, seconds};
use gpuwise_domain::{
    alignment::{Alignment, RolloutMode},
    deployment::ModelSummary,
    estimate::Estimate,
    training::StepCause,
    training_plan::{
        MoneyRange, TrafficNeed, TrainingJob, TrainingPlan, TrainingRun, TrainingSizing,
    },
};
use gpuwise_units::{Parameters, Tokens};
use std::fmt::Write as _;

/// `meta-llama/Llama-3.1-8B: 8.03B parameters in 32 layers`.
pub fn model(model: &ModelSummary) -> String {
    let mut out = format!(
        "{}: {} parameters",
        model.name,
        Parameters(model.parameters)
    );
    if model.active_parameters > 0 && model.active_parameters < model.parameters {
        let _ = write!(
            out,
            ", {} active a token",
            Parameters(model.active_parameters)
        );
    }
    let _ = write!(out, ", {} layers", model.layers);
    out
}

/// What is trained, in which numbers and batches.
pub fn job(sizing: &TrainingSizing) -> String {
    let asked = &sizing.question.asked;
    let learned = asked.alignment.as_ref().map_or_else(
        || format!("sequences of {} tokens", Tokens(asked.sequence)),
        |alignment| alignment.words(asked.sequence),
    );
    // GPUs without BF16 take another recipe than is usual.
    let best = sizing.ranked.first();
    let recipe = best.map_or(asked.recipe, |plan| plan.setup.recipe);
    let mut out = format!(
        "{}; {}, {}; {learned}",
        asked.method.words(),
        recipe.name(),
        asked.optimizer.name(),
    );
    let batch = asked
        .global_batch
        .or_else(|| Some(sizing.ranked.first()?.setup.global_batch));
    if let Some(batch) = batch {
        let counted = match asked.alignment {
            Some(Alignment::Dpo { .. }) => " pairs",
            Some(Alignment::Grpo(_)) => " completions",
            None => "",
        };
        let _ = write!(out, ", {batch}{counted} a step");
    }
    if let Some(tokens) = sizing.question.job.tokens {
        // Counts of this size read as those of parameters do.
        let _ = write!(out, "; {} tokens in all", Parameters(tokens));
    }
    out
}

/// What a sentence that names a plan must not hide: ranges that reach beyond deadline or budget, memory that may not
/// suffice, a price whose day is not known.
pub fn uncertain(job: &TrainingJob, plan: &TrainingPlan) -> String {
    let mut out = String::new();
    if let Some(run) = &plan.run {
        if let Some(within) = job.within.filter(|within| run.total.high > *within) {
            let (time, within) = (long(&run.total), seconds(within));
            let _ = write!(out, ", likely within {within}: {time}");
        }
        if let (Some(budget), Some(cost)) = (job.budget, &run.cost)
            && cost.high.micros > budget.micros
        {
            let _ = write!(out, ", likely for {budget} at most: {}", money(cost));
        }
    }
    if plan.tight() {
        out += ", in memory that may not suffice";
    }
    if plan
        .rental
        .as_ref()
        .is_some_and(crate::plan::words::of_unknown_day)
    {
        out += ", at a price of unknown date";
    }
    out
}

/// Deadline and budget; `None` where there are none.
pub fn limits(sizing: &TrainingSizing) -> Option<String> {
    let job = &sizing.question.job;
    let within = job
        .within
        .map(|within| format!("within {}", seconds(within)));
    let budget = job.budget.map(|budget| format!("for {budget} at most"));
    let all: Vec<String> = within.into_iter().chain(budget).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

/// `8 × H100 SXM5 80GB`, on how many hosts where on several.
pub fn machines(plan: &TrainingPlan) -> String {
    format!("{} × {}", plan.gpus, plan.gpu)
}

/// Batch, recomputation and what else a setup has: `micro-batch 2 × 8, all layers recomputed`.
pub fn setup(plan: &TrainingPlan) -> String {
    use gpuwise_domain::training::{Framework, Recompute};
    let setup = &plan.setup;
    let mut out = format!("micro-batch {}", setup.micro_batch);
    if setup.accumulation() > 1 {
        let _ = write!(out, " × {}", setup.accumulation());
    }
    out += match setup.recompute {
        Recompute::None => ", nothing recomputed",
        Recompute::Selective if setup.framework == Framework::Megatron => ", attention recomputed",
        Recompute::Selective => ", all but attention and every other matmul recomputed",
        Recompute::Full => ", all layers recomputed",
    };
    let off = &setup.offload;
    for (kept, what) in [
        (off.optimizer, "optimizer"),
        (off.parameters, "weights"),
        (off.activations, "activations"),
    ] {
        if kept {
            let _ = write!(out, ", {what} in host memory");
        }
    }
    out
}

/// Seconds of a step, tokens a second and shares of the peak, with their ranges.
pub fn speed(plan: &TrainingPlan) -> String {
    let step = &plan.step;
    let mut out = format!(
        "{} a step, {} on each GPU",
        ranged_seconds(&step.step),
        crate::figures::ranged_unit(&step.tokens_per_second_per_gpu, "tokens/s")
    );
    let share = |share: &Estimate| crate::figures::ranged_unit(&share.scaled(100.0), "%");
    if let Some(mfu) = &step.mfu {
        let _ = write!(out, ", MFU {}", share(mfu));
    }
    if let Some(hfu) = step
        .hfu
        .as_ref()
        .filter(|hfu| step.mfu.is_none_or(|mfu| hfu.value > 1.001 * mfu.value))
    {
        let _ = write!(out, ", HFU {}", share(hfu));
    }
    out
}

/// `matmuls 61 %, attention 8 %`; parts below 1 % are left out.
pub fn step(plan: &TrainingPlan) -> String {
    let parts: Vec<String> = shares(plan)
        .into_iter()
        .filter(|(_, _, share)| *share >= 0.01)
        .map(|(cause, _, share)| format!("{} {}", cause.name(), percent(share)))
        .collect();
    parts.join(", ")
}

/// What writing completions takes of a step, and which engines do it; `None` where there are none.
pub fn rollout(plan: &TrainingPlan) -> Option<String> {
    let grpo = plan.setup.grpo()?;
    let parts = &plan.step.parts;
    let part = parts.iter().find(|(c, _)| *c == StepCause::Rollout);
    let (_, seconds_of) = part?;
    let engine = &grpo.engine;
    let (engines, place) = match engine.mode {
        RolloutMode::Colocate => {
            let engines = plan.setup.layout.gpus() / u64::from(engine.tensor.max(1));
            let sleeping = if engine.sleeps {
                ", asleep while it trains"
            } else {
                ", which it keeps while it trains"
            };
            let held = format!("{} of each GPU{sleeping}", bytes(engine.held));
            (engines, held)
        }
        RolloutMode::Server { engines } => (
            u64::from(engines),
            format!("{} GPUs of their own", engine.own_gpus()),
        ),
    };
    let share = seconds_of / plan.step.step.value.max(1e-12);
    Some(format!(
        "{} of a step ({}) writes {} completions for {} prompts: {engines} × vLLM TP{} on {place}",
        seconds(*seconds_of),
        percent(share),
        plan.setup.global_batch,
        plan.setup.global_batch / grpo.generations.max(1),
        engine.tensor
    ))
}

/// Causes of a step's time with seconds and share, largest first.
pub(crate) fn shares(plan: &TrainingPlan) -> Vec<(StepCause, f64, f64)> {
    let total = plan.step.step.value.max(1e-12);
    let mut all: Vec<(StepCause, f64, f64)> = plan
        .step
        .parts
        .iter()
        .map(|(cause, seconds)| (*cause, *seconds, seconds / total))
        .collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    all
}

/// What the fullest GPU holds, and which phase holds most.
pub fn memory(plan: &TrainingPlan) -> String {
    let Some(rank) = plan.memory.fullest() else {
        return "not known".into();
    };
    let gib = |value: f64| number(value / 1_073_741_824.0);
    let mut out = format!(
        "{} GiB ({}–{}) of {} usable",
        gib(rank.reserved.value),
        gib(rank.reserved.low),
        gib(rank.reserved.high),
        bytes(plan.usable)
    );
    let highest = rank.phases.iter().max_by_key(|(_, held)| *held);
    if let Some((phase, _)) = highest {
        let _ = write!(out, ", most in {}", phase.name());
    }
    if plan.memory.ranks.len() > 1 {
        let _ = write!(out, " of stage {}", rank.stage);
    }
    let mut causes = rank.causes.clone();
    causes.sort_by_key(|(cause, held)| (std::cmp::Reverse(*held), *cause));
    let parts: Vec<String> = causes
        .iter()
        .filter(|(_, held)| held.as_f64() >= 0.01 * rank.peak.value)
        .map(|(cause, held)| format!("{} {}", cause.name(), bytes(*held)))
        .collect();
    if !parts.is_empty() {
        let _ = write!(out, ": {}", parts.join(", "));
    }
    out
}

/// That the range of memory reaches beyond what a job may fill; `None` where it does not.
pub fn tight(plan: &TrainingPlan) -> Option<String> {
    let rank = plan.memory.fullest().filter(|_| plan.tight())?;
    Some(format!(
        "may run out of memory: it may reach {} GiB, a job may fill {} of the {} that a program sees; \
         no layout that was asked for leaves room for the range, so try a step before relying on it, or \
         take more GPUs",
        number(rank.reserved.high / 1_073_741_824.0),
        bytes(plan.usable),
        bytes(plan.visible)
    ))
}

/// How long the run takes and what that is made of.
pub fn run(run: &TrainingRun) -> String {
    let mut out = format!(
        "{} steps in {}",
        crate::figures::count(run.steps),
        long(&run.total)
    );
    let _ = write!(out, ": {} of steps", seconds(run.stepping.value));
    if run.evaluating > 0.0 {
        let _ = write!(out, ", {} of evaluation", seconds(run.evaluating));
    }
    let _ = write!(
        out,
        ", {} of saving, {} lost to failures",
        seconds(run.saving.value),
        seconds(run.lost.value)
    );
    out
}

/// Money with its range, and energy.
pub fn bill(run: &TrainingRun) -> Option<String> {
    let mut parts = Vec::new();
    if let Some(cost) = &run.cost {
        parts.push(money(cost));
    }
    if let Some(energy) = &run.energy {
        parts.push(format!(
            "{} for the GPUs",
            crate::figures::ranged_unit(&energy.scaled(1.0 / 3.6e6), "kWh")
        ));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// `$412 (350–480)`.
pub fn money(range: &MoneyRange) -> String {
    format!(
        "{}{} ({}–{})",
        currency_sign(range.currency().code()),
        amount(range.value.as_f64()),
        amount(range.low.as_f64()),
        amount(range.high.as_f64())
    )
}

/// Seconds with their range, each in the unit a reader would say.
pub fn long(estimate: &Estimate) -> String {
    if (estimate.high - estimate.low) <= estimate.value.abs() * 1e-3 {
        return seconds(estimate.value);
    }
    format!(
        "{} ({} to {})",
        seconds(estimate.value),
        seconds(estimate.low),
        seconds(estimate.high)
    )
}

pub fn checkpoints(plan: &TrainingPlan) -> String {
    let saved = &plan.checkpoints;
    let mut out = format!(
        "a checkpoint of {} every {}",
        bytes(saved.bytes),
        seconds(saved.interval.value)
    );
    let steps = if saved.steps == 1 { "step" } else { "steps" };
    let _ = write!(
        out,
        " ({} {steps}), {} to write; MTBF {}",
        saved.steps,
        long(&saved.write),
        long(&saved.mtbf)
    );
    if let Some(run) = &plan.run {
        let _ = write!(out, ", {} in this run", number(run.failures.value));
    }
    let _ = write!(
        out,
        "; {} of the time goes to both",
        percent(saved.lost_share.value)
    );
    out
}

/// What the network must give so that traffic hides; what crosses no host is left to the links.
pub fn network(plan: &TrainingPlan) -> String {
    let has = |out: &mut String| match plan.needs.network_has {
        Some(bits) => {
            let _ = write!(out, "; it has {} Gbit/s", number(bits / 1e9));
        }
        None => out.push_str("; what it has is not known, and taken as usual for this GPU"),
    };
    let crossing: Vec<String> = plan
        .needs
        .traffic
        .iter()
        .filter(|need| need.across_hosts)
        .map(rate)
        .collect();
    let inside: Vec<String> = plan
        .needs
        .traffic
        .iter()
        .filter(|need| !need.across_hosts)
        .map(rate)
        .collect();
    let mut parts = Vec::new();
    if !crossing.is_empty() {
        let mut out = format!(
            "a GPU needs {} between hosts to hide it",
            crossing.join(", ")
        );
        has(&mut out);
        parts.push(out);
    }
    if !inside.is_empty() {
        parts.push(format!("{} inside a host", inside.join(", ")));
    }
    if parts.is_empty() {
        return "no traffic between GPUs".into();
    }
    parts.join("; ")
}

fn rate(need: &TrafficNeed) -> String {
    format!(
        "{} Gbit/s for {}",
        number(need.bits_per_second / 1e9),
        need.kind.name()
    )
}

/// What storage must give.
pub fn storage(plan: &TrainingPlan) -> String {
    let needs = &plan.needs;
    let rate = |value: f64| format!("{}/s", gpuwise_units::Bytes::new(value as u64));
    let mut parts = vec![format!(
        "{} to write checkpoints in that time",
        rate(needs.checkpoint_write)
    )];
    if let Some(data) = needs.data {
        parts.push(format!("{} to read tokens", rate(data)));
    }
    if let Some(capacity) = needs.capacity {
        parts.push(format!(
            "{} for two checkpoints and the data",
            bytes(capacity)
        ));
    }
    parts.join(", ")
}
