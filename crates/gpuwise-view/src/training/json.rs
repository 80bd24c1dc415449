//! Training plans as JSON: everything, in full precision, with units in the names of keys.

use crate::plan::{derivation, model_json, words::said};
use gpuwise_domain::{
    deployment::Rental,
    estimate::Estimate,
    training::{Method, TrainingMemory, TrainingSetup},
    training_plan::{
        CheckpointPlan, TrainingDropped, TrainingNeeds, TrainingPlan, TrainingRun, TrainingSizing,
    },
};
use serde_json::{Value, json};

/// An answer, complete.
pub fn sizing_json(sizing: &TrainingSizing) -> Value {
    let asked = &sizing.asked;
    let job = &sizing.job;
    json!({
        "feasible": !sizing.plans.is_empty(),
        "model": model_json(&sizing.model),
        "job": {
            "method": method(&asked.method),
            "recipe": asked.recipe.name(),
            "optimizer": asked.optimizer.name(),
            "sequence_tokens": asked.sequence,
            "global_batch": asked.global_batch,
            "tokens": job.tokens,
            "within_seconds": job.within,
            "budget": job.budget.map(|budget| json!({
                "micros": budget.micros,
                "currency": budget.currency.code(),
            })),
            "evaluation": job.evaluation.map(|evaluation| json!({
                "tokens": evaluation.tokens,
                "every_steps": evaluation.every,
            })),
        },
        "plans": sizing.plans.iter().map(plan_json).collect::<Vec<_>>(),
        "dropped": sizing.dropped.iter().map(dropped).collect::<Vec<_>>(),
        "considered": sizing.considered,
        "notes": sizing.notes,
    })
}

/// One plan, complete.
pub fn plan_json(plan: &TrainingPlan) -> Value {
    json!({
        "gpu": plan.gpu,
        "gpus": plan.gpus,
        "gpus_per_host": plan.gpus_per_host,
        "gpus_per_link_domain": plan.domain,
        "setup": setup(&plan.setup),
        "memory": memory(&plan.memory),
        "visible_bytes": plan.visible.count(),
        "usable_bytes": plan.usable.count(),
        "may_run_out_of_memory": plan.tight(),
        "step": {
            "seconds": estimate(&plan.step.step),
            "parts": plan.step.parts.iter().map(|(cause, seconds)| json!({
                "cause": cause.name(),
                "seconds": seconds,
            })).collect::<Vec<_>>(),
            "tokens_per_second_per_gpu": estimate(&plan.step.tokens_per_second_per_gpu),
            "model_flops_per_second_per_gpu": estimate(&plan.step.model_flops_per_gpu),
            "mfu": plan.step.mfu.as_ref().map(estimate),
            "hfu": plan.step.hfu.as_ref().map(estimate),
            "assumptions": plan.step.assumptions,
        },
        "run": plan.run.as_ref().map(run),
        "checkpoints": checkpoints(&plan.checkpoints),
        "needs": needs(&plan.needs),
        "rental": plan.rental.as_ref().map(rental),
        "basis": plan.basis.name(),
        "bottleneck": said(plan.bottleneck.as_ref()),
        "derivations": plan.derivations.iter().map(derivation).collect::<Vec<_>>(),
    })
}

fn estimate(estimate: &Estimate) -> Value {
    json!({ "value": estimate.value, "low": estimate.low, "high": estimate.high })
}

fn method(method: &Method) -> Value {
    match method {
        Method::Full => json!({ "kind": "full" }),
        Method::Adapter(adapter) => json!({
            "kind": adapter.kind.name(),
            "name": adapter.name,
            "rank": adapter.rank,
            "modules": adapter.modules,
            "base": adapter.base.name(),
        }),
    }
}

fn setup(setup: &TrainingSetup) -> Value {
    let layout = &setup.layout;
    json!({
        "method": method(&setup.method),
        "recipe": setup.recipe.name(),
        "optimizer": setup.optimizer.name(),
        "recompute": setup.recompute.name(),
        "loss": setup.loss.name(),
        "framework": setup.framework.name(),
        "sequence_tokens": setup.sequence.0,
        "micro_batch": setup.micro_batch,
        "accumulation": setup.accumulation(),
        "global_batch": setup.global_batch,
        "layout": {
            "tensor_parallel": layout.tensor,
            "pipeline_parallel": layout.pipeline,
            "interleave": layout.interleave,
            "context_parallel": layout.context,
            "expert_parallel": layout.expert,
            "data_parallel": layout.data,
            "sequence_parallel": layout.sequence_parallel,
        },
        "sharding": setup.sharding.words(),
        "offload": {
            "optimizer": setup.offload.optimizer,
            "parameters": setup.offload.parameters,
            "activations": setup.offload.activations,
        },
        "compiled": setup.compiled,
    })
}

fn memory(memory: &TrainingMemory) -> Value {
    let ranks = memory.ranks.iter().map(|rank| {
        json!({
            "from_stage": rank.stage,
            "causes": rank.causes.iter().map(|(cause, bytes)| json!({
                "cause": cause.name(),
                "bytes": bytes.count(),
            })).collect::<Vec<_>>(),
            "phases": rank.phases.iter().map(|(phase, bytes)| json!({
                "phase": phase.name(),
                "bytes": bytes.count(),
            })).collect::<Vec<_>>(),
            "peak_bytes": estimate(&rank.peak),
            "reserved_bytes": estimate(&rank.reserved),
        })
    });
    json!({
        "ranks": ranks.collect::<Vec<_>>(),
        "host_bytes": memory.host.count(),
        "trainable_parameters": memory.trainable,
        "assumptions": memory.assumptions,
    })
}

fn run(run: &TrainingRun) -> Value {
    json!({
        "steps": run.steps,
        "stepping_seconds": estimate(&run.stepping),
        "evaluating_seconds": run.evaluating,
        "saving_seconds": estimate(&run.saving),
        "lost_seconds": estimate(&run.lost),
        "total_seconds": estimate(&run.total),
        "failures": estimate(&run.failures),
        "cost": run.cost.map(|cost| json!({
            "micros": cost.value.micros,
            "low_micros": cost.low.micros,
            "high_micros": cost.high.micros,
            "currency": cost.currency().code(),
        })),
        "energy_joules": run.energy.as_ref().map(estimate),
    })
}

fn checkpoints(plan: &CheckpointPlan) -> Value {
    json!({
        "bytes": plan.bytes.count(),
        "write_seconds": estimate(&plan.write),
        "interval_seconds": estimate(&plan.interval),
        "interval_steps": plan.steps,
        "mean_seconds_between_stops": estimate(&plan.mtbf),
        "lost_share": estimate(&plan.lost_share),
    })
}

fn needs(needs: &TrainingNeeds) -> Value {
    let traffic = needs.traffic.iter().map(|need| {
        json!({
            "kind": need.kind.name(),
            "bytes_per_step_per_gpu": need.bytes,
            "hidden_behind_seconds": need.hidden_behind,
            "bits_per_second_per_gpu": need.bits_per_second,
            "across_hosts": need.across_hosts,
        })
    });
    json!({
        "traffic": traffic.collect::<Vec<_>>(),
        "network_bits_per_second_per_gpu": needs.network_has,
        "storage_bytes": needs.capacity.map(gpuwise_units::Bytes::count),
        "data_bytes_per_second": needs.data,
        "checkpoint_bytes_per_second": needs.checkpoint_write,
    })
}

fn rental(rental: &Rental) -> Value {
    json!({
        "provider": rental.provider.name(),
        "instance": rental.instance,
        "region": rental.region,
        "terms": rental.terms.name(),
        "instances": rental.instances,
        "gpus_per_instance": f64::from(rental.gpu_thousandths) / 1000.0,
        "idle_gpus": rental.idle,
        "price_micros_per_hour": rental.price.map(|price| price.0.micros),
        "currency": rental.price.map(|price| price.0.currency.code().to_owned()),
        "date": rental.date,
        "source": rental.source,
    })
}

fn dropped(dropped: &TrainingDropped) -> Value {
    json!({
        "label": dropped.label,
        "gpu": dropped.gpu,
        "test": dropped.test.name(),
        "shortfall": dropped.shortfall,
        "cures": dropped.cures,
        "needed_over_had": dropped.ratio,
    })
}
