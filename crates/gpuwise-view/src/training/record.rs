//! What programs read of training plans: every field once, with units in the names of keys.

use super::tables::{plans, ranked};
use crate::{
    answer::Candidates,
    plan::words::said,
    record::{Fields, Record},
    table::Table,
};
use gpuwise_domain::{
    alignment::{Alignment, Reference},
    price::{Per, Price},
    training::{
        MemoryCause, Method, Offload, Phase, RankMemory, StepCause, StepTime, TrainingLayout,
        TrainingMemory, TrainingSetup,
    },
    training_plan::{
        CheckpointPlan, MoneyRange, TrafficNeed, TrainingAsked, TrainingEvaluation, TrainingJob,
        TrainingNeeds, TrainingPlan, TrainingQuestion, TrainingRun, TrainingSizing,
    },
};
use gpuwise_units::Bytes;

impl Candidates for TrainingPlan {
    type Question = TrainingQuestion;
    type Charts = ();
    const NAME: &'static str = "TrainingSizing";

    fn question(of: &mut Fields<'_, TrainingSizing>) {
        of.group("model", |s| &s.question.model);
        of.made_part("job", |s| Job(&s.question.asked, &s.question.job));
    }

    fn ranked(of: &mut Fields<'_, TrainingSizing>) {
        of.made("plans", ranked);
    }

    fn table(answer: &TrainingSizing) -> Table {
        plans(answer)
    }
}

/// What is trained how, and for how long.
struct Job<'a>(&'a TrainingAsked, &'a TrainingJob);

impl Record for Job<'_> {
    const NAME: &'static str = "TrainingJob";

    fn fields(of: &mut Fields<'_, Self>) {
        of.part("method", |j| &j.0.method);
        of.maybe("alignment", |j| j.0.alignment.as_ref());
        of.field("recipe", |j| j.0.recipe.name());
        of.field("optimizer", |j| j.0.optimizer.name());
        of.field("sequence_tokens", |j| j.0.sequence);
        of.field("global_batch", |j| j.0.global_batch);
        of.field("tokens", |j| j.1.tokens);
        of.field("within_seconds", |j| j.1.within);
        of.field("budget", |j| {
            j.1.budget.map(|budget| Price::of(budget, Per::All))
        });
        of.maybe("evaluation", |j| j.1.evaluation.as_ref());
    }
}

impl Record for TrainingEvaluation {
    const NAME: &'static str = "Evaluation";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("tokens", |e| e.tokens);
        of.field("every_steps", |e| e.every);
    }
}

impl Record for Method {
    const NAME: &'static str = "Method";

    fn fields(of: &mut Fields<'_, Self>) {
        let adapter = |method: &Self| match method {
            Self::Full => None,
            Self::Adapter(adapter) => Some(adapter.clone()),
        };
        of.field("kind", |m| {
            adapter(m).map_or("full", |adapter| adapter.kind.name())
        });
        of.field("name", |m| adapter(m).and_then(|adapter| adapter.name));
        of.field("rank", |m| adapter(m).and_then(|adapter| adapter.rank));
        of.field("modules", |m| {
            adapter(m).map_or_else(Vec::new, |adapter| adapter.modules)
        });
        of.field("base", |m| adapter(m).map(|adapter| adapter.base.name()));
    }
}

const fn reference(of: Reference) -> &'static str {
    match of {
        Reference::Copy => "copy",
        Reference::Base => "base without adapter",
    }
}

impl Record for Alignment {
    const NAME: &'static str = "Alignment";

    fn fields(of: &mut Fields<'_, Self>) {
        let grpo = |alignment: &Self| match alignment {
            Self::Grpo(grpo) => Some(*grpo),
            Self::Dpo { .. } => None,
        };
        of.field("kind", Self::name);
        of.field("precomputed_reference", |a| match a {
            Self::Dpo { precomputed } => Some(*precomputed),
            Self::Grpo(_) => None,
        });
        of.field("generations", |a| grpo(a).map(|g| g.generations));
        of.field("prompt_tokens", |a| grpo(a).map(|g| g.prompt));
        of.field("completion_tokens", |a| grpo(a).map(|g| g.completion));
        of.field("beta", |a| grpo(a).map(|g| g.beta));
        of.field("reward_seconds", |a| grpo(a).map(|g| g.reward));
        of.field("vllm_mode", |a| grpo(a).map(|g| g.engine.mode.name()));
        of.field("vllm_memory_share", |a| grpo(a).map(|g| g.engine.share));
        of.field("vllm_tensor_parallel", |a| {
            grpo(a).map(|g| u64::from(g.engine.tensor))
        });
        of.field("vllm_own_gpus", |a| grpo(a).map(|g| g.engine.own_gpus()));
        of.field("vllm_sleeps", |a| grpo(a).map(|g| g.engine.sleeps));
        of.field("vllm_held_bytes", |a| grpo(a).map(|g| g.engine.held));
    }
}

impl Record for TrainingPlan {
    const NAME: &'static str = "TrainingPlan";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("gpu", |p| &p.gpu);
        of.field("gpus", |p| p.gpus);
        of.field("gpus_per_host", |p| p.gpus_per_host);
        of.field("gpus_per_link_domain", |p| p.domain);
        of.group("setup", |p| &p.setup);
        of.part("memory", |p| &p.memory);
        of.field("visible_bytes", |p| p.visible);
        of.field("usable_bytes", |p| p.usable);
        of.field(
            "may_run_out_of_memory",
            gpuwise_domain::training_plan::TrainingPlan::tight,
        );
        of.part("step", |p| &p.step);
        of.maybe("run", |p| p.run.as_ref());
        of.part("checkpoints", |p| &p.checkpoints);
        of.part("needs", |p| &p.needs);
        of.maybe("rental", |p| p.rental.as_ref()).grouped();
        of.field("basis", |p| p.basis.name());
        of.field("bottleneck", |p| said(p.bottleneck.as_ref()));
        of.list("derivations", |p| &p.derivations);
    }
}

impl Record for TrainingSetup {
    const NAME: &'static str = "TrainingSetup";

    fn fields(of: &mut Fields<'_, Self>) {
        of.part("method", |s| &s.method);
        of.maybe("alignment", |s| s.alignment.as_ref());
        of.field("reference", |s| s.reference().map(reference));
        of.field("recipe", |s| s.recipe.name());
        of.field("optimizer", |s| s.optimizer.name());
        of.field("recompute", |s| s.recompute.name());
        of.field("loss", |s| s.loss.name());
        of.field("framework", |s| s.framework.name());
        of.field("sequence_tokens", |s| s.sequence);
        of.field("micro_batch", |s| s.micro_batch);
        of.field(
            "accumulation",
            gpuwise_domain::training::TrainingSetup::accumulation,
        );
        of.field("global_batch", |s| s.global_batch);
        of.group("layout", |s| &s.layout);
        of.field("sharding", |s| s.sharding.words());
        of.part("offload", |s| &s.offload);
        of.field("compiled", |s| s.compiled);
    }
}

impl Record for TrainingLayout {
    const NAME: &'static str = "TrainingLayout";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("tensor_parallel", |l| l.tensor);
        of.field("pipeline_parallel", |l| l.pipeline);
        of.field("interleave", |l| l.interleave);
        of.field("context_parallel", |l| l.context);
        of.field("expert_parallel", |l| l.expert);
        of.field("data_parallel", |l| l.data);
        of.field("sequence_parallel", |l| l.sequence_parallel);
    }
}

impl Record for Offload {
    const NAME: &'static str = "Offload";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("optimizer", |o| o.optimizer);
        of.field("parameters", |o| o.parameters);
        of.field("activations", |o| o.activations);
    }
}

impl Record for TrainingMemory {
    const NAME: &'static str = "TrainingMemory";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("reserved_bytes", |m| m.fullest().map(|rank| rank.reserved));
        of.list("ranks", |m| &m.ranks);
        of.field("host_bytes", |m| m.host);
        of.field("trainable_parameters", |m| m.trainable);
        of.field("assumptions", |m| &m.assumptions);
    }
}

impl Record for RankMemory {
    const NAME: &'static str = "RankMemory";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("from_stage", |r| r.stage);
        of.list("causes", |r| &r.causes);
        of.list("phases", |r| &r.phases);
        of.field("peak_bytes", |r| r.peak);
        of.field("reserved_bytes", |r| r.reserved);
    }
}

impl Record for (MemoryCause, Bytes) {
    const NAME: &'static str = "MemoryCause";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("cause", |c| c.0.name());
        of.field("bytes", |c| c.1);
    }
}

impl Record for (Phase, Bytes) {
    const NAME: &'static str = "MemoryPhase";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("phase", |p| p.0.name());
        of.field("bytes", |p| p.1);
    }
}

impl Record for StepTime {
    const NAME: &'static str = "StepTime";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("seconds", |s| s.step);
        of.list("parts", |s| &s.parts);
        of.field("tokens_per_second_per_gpu", |s| s.tokens_per_second_per_gpu);
        of.field("model_flops_per_second_per_gpu", |s| s.model_flops_per_gpu);
        of.field("mfu", |s| s.mfu);
        of.field("hfu", |s| s.hfu);
        of.field("assumptions", |s| &s.assumptions);
    }
}

impl Record for (StepCause, f64) {
    const NAME: &'static str = "StepPart";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("cause", |p| p.0.name());
        of.field("seconds", |p| p.1);
    }
}

impl Record for TrainingRun {
    const NAME: &'static str = "TrainingRun";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("steps", |r| r.steps);
        of.field("stepping_seconds", |r| r.stepping);
        of.field("evaluating_seconds", |r| r.evaluating);
        of.field("saving_seconds", |r| r.saving);
        of.field("lost_seconds", |r| r.lost);
        of.field("total_seconds", |r| r.total);
        of.field("failures", |r| r.failures);
        of.field("cost", |r| r.cost.as_ref().map(in_all));
        of.field("energy_joules", |r| r.energy);
    }
}

fn in_all(cost: &MoneyRange) -> (Price, Price, Price) {
    let price = |money| Price::of(money, Per::All);
    (price(cost.value), price(cost.low), price(cost.high))
}

impl Record for CheckpointPlan {
    const NAME: &'static str = "Checkpoints";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("bytes", |c| c.bytes);
        of.field("write_seconds", |c| c.write);
        of.field("interval_seconds", |c| c.interval);
        of.field("interval_steps", |c| c.steps);
        of.field("mean_seconds_between_stops", |c| c.mtbf);
        of.field("lost_share", |c| c.lost_share);
    }
}

impl Record for TrainingNeeds {
    const NAME: &'static str = "TrainingNeeds";

    fn fields(of: &mut Fields<'_, Self>) {
        of.list("traffic", |n| &n.traffic);
        of.field("network_bits_per_second_per_gpu", |n| n.network_has);
        of.field("storage_bytes", |n| n.capacity);
        of.field("data_bytes_per_second", |n| n.data);
        of.field("checkpoint_bytes_per_second", |n| n.checkpoint_write);
    }
}

impl Record for TrafficNeed {
    const NAME: &'static str = "TrafficNeed";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("kind", |n| n.kind.name());
        of.field("bytes_per_step_per_gpu", |n| n.bytes);
        of.field("hidden_behind_seconds", |n| n.hidden_behind);
        of.field("bits_per_second_per_gpu", |n| n.bits_per_second);
        of.field("across_hosts", |n| n.across_hosts);
    }
}
