//! A plan as JSON: everything, in full precision, with units in the names of keys.

use super::words;
use gpuwise_domain::{
    deployment::{
        Cost, Deployment, Dropped, Figures, FrontPoint, LoadPoint, MemoryPart, MemoryReport,
        ModelSummary, Quality, Rental, Sizing,
    },
    estimate::{Derivation, Estimate},
    layout::Layout,
    workload::{LengthDistribution, Limits, Promise, Target, Traffic, Workload},
};
use gpuwise_units::{Bytes, HourlyPrice, Percentile};
use serde_json::{Value, json};

/// A plan, complete.
pub fn sizing_json(sizing: &Sizing) -> Value {
    json!({
        "feasible": !sizing.deployments.is_empty(),
        "model": model(&sizing.model),
        "workload": workload(&sizing.workload),
        "objective": sizing.objective.name(),
        "deployments": sizing.deployments.iter().map(deployment_json).collect::<Vec<_>>(),
        "points": sizing.points.iter().map(point).collect::<Vec<_>>(),
        "dropped": sizing.dropped.iter().map(dropped).collect::<Vec<_>>(),
        "considered": sizing.considered,
        "curve": sizing.curve.iter().map(load_point).collect::<Vec<_>>(),
        "notes": sizing.notes,
    })
}

pub(crate) fn model(model: &ModelSummary) -> Value {
    json!({
        "name": model.name,
        "origin": model.origin,
        "model_type": model.model_type,
        "parameters": model.parameters,
        "active_parameters": model.active_parameters,
        "layers": model.layers,
        "published_weights": model.published,
        "weight_bytes": model.weight_bytes.count(),
        "kv_bytes_per_token": model.cache_bytes_per_token,
        "max_context_tokens": model.max_context,
        "assumptions": model.assumptions,
    })
}

fn workload(workload: &Workload) -> Value {
    let traffic = match workload.traffic {
        Traffic::Open { rate, burstiness } => json!({
            "requests_per_second": rate.get(),
            "burstiness": burstiness,
        }),
        Traffic::Closed { concurrency } => json!({ "concurrency": concurrency }),
    };
    json!({
        "traffic": traffic,
        "input_tokens": lengths(&workload.lengths.input),
        "output_tokens": lengths(&workload.lengths.output),
        "prefix_hit": workload.prefix_hit,
        "promise": promise(&workload.promise),
        "limits": limits(&workload.limits),
    })
}

fn lengths(lengths: &LengthDistribution) -> Value {
    json!({
        "mean": lengths.mean,
        "squared_variation": lengths.variation,
        "longest": lengths.longest.0,
    })
}

fn promise(promise: &Promise) -> Value {
    let target = |target: &Target| json!({ "at": words::percentile(target.percentile), "seconds": target.at_most.get() });
    json!({
        "ttft": promise.ttft.as_ref().map(target),
        "tpot": promise.tpot.as_ref().map(target),
        "end_to_end": promise.end_to_end.as_ref().map(target),
        "output_tokens_per_second": promise.throughput.map(gpuwise_units::PerSecond::get),
    })
}

fn limits(limits: &Limits) -> Value {
    let owned = limits
        .owned
        .iter()
        .map(|(gpu, gpus)| json!({ "gpu": gpu, "gpus": gpus }));
    json!({
        "gpus": limits.gpus,
        "providers": limits.providers,
        "regions": limits.regions,
        "budget": price(limits.budget),
        "power_watts": limits.power.map(gpuwise_units::Watts::get),
        "spare_replicas": limits.spare_replicas,
        "quality_loss_percent": limits.quality_loss,
        "owned": owned.collect::<Vec<_>>(),
    })
}

/// A deployment, complete.
pub fn deployment_json(deployment: &Deployment) -> Value {
    let settings = &deployment.settings;
    json!({
        "model": deployment.model,
        "engine": deployment.engine.name(),
        "release": deployment.release.map(|release| release.to_string()),
        "gpu": deployment.gpu,
        "slice": deployment.slice,
        "gpu_count": deployment.devices(),
        "layout": layout(&deployment.layout),
        "prefill_layout": deployment.prefill.map(|pool| layout(&pool.layout)),
        "weights": deployment.weights,
        "weights_published": deployment.weights_published,
        "kv_cache": deployment.cache,
        "quality": quality(&deployment.quality),
        "settings": {
            "batched_tokens": settings.batched_tokens,
            "sequences": settings.sequences,
            "max_context_tokens": settings.max_context,
            "memory_fraction": settings.memory_fraction,
            "block_tokens": settings.block,
            "eager": settings.eager,
        },
        "draft_tokens": deployment.draft_tokens,
        "draft_model": deployment.draft_model,
        "host_kv_bytes_per_gpu": deployment.host_cache.count(),
        "adapters": deployment.adapters.map(|a| json!({ "count": a.count, "rank": a.rank })),
        "rental": deployment.rental.as_ref().map(rental),
        "memory": memory_json(&deployment.memory),
        "figures": figures(&deployment.figures),
        "cost": cost(&deployment.cost),
        "basis": deployment.basis.name(),
        "bottleneck": words::said(deployment.bottleneck.as_ref()),
        "headroom": {
            "load": deployment.headroom.rate,
            "factor": deployment.headroom.factor,
            "limited_by": words::said(deployment.headroom.limited_by.as_ref()),
        },
        "derivations": deployment.derivations.iter().map(derivation).collect::<Vec<_>>(),
    })
}

fn layout(layout: &Layout) -> Value {
    json!({
        "name": layout.to_string(),
        "replicas": layout.replicas,
        "tensor": layout.tensor,
        "pipeline": layout.pipeline,
        "attention_data": layout.attention_data,
        "expert": layout.expert,
        "decode_context": layout.decode_context,
    })
}

fn quality(quality: &Quality) -> Value {
    match quality {
        Quality::Published => {
            json!({ "loss_percent": 0.0, "evaluation": null, "same_model": true, "source": null })
        }
        Quality::Loss {
            percent,
            evaluation,
            same_model,
            source,
        } => json!({
            "loss_percent": percent,
            "evaluation": evaluation,
            "same_model": same_model,
            "source": source,
        }),
        Quality::Unknown => Value::Null,
    }
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
        "instance_price": price(rental.price),
        "priced_at": rental.priced_at(),
        "date": rental.date,
        "source": rental.source,
    })
}

/// What a device's memory holds, part by part, in bytes.
pub fn memory_json(memory: &MemoryReport) -> Value {
    let parts = |parts: &[MemoryPart]| -> Vec<Value> {
        let part = |part: &MemoryPart| {
            json!({
                "name": part.name,
                "bytes": part.bytes.count(),
                "outside_budget": part.outside_budget,
                "formula": part.formula,
            })
        };
        parts.iter().map(part).collect()
    };
    json!({
        "device": memory.device,
        "fits": memory.shortfall == Bytes::ZERO,
        "reported_bytes": memory.reported.map(Bytes::count),
        "visible_bytes": memory.visible.count(),
        "visible_known": memory.visible_known,
        "budget_bytes": memory.budget.count(),
        "weights": parts(&memory.weights),
        "overheads": parts(&memory.overheads),
        "weight_bytes": memory.weight_bytes().count(),
        "overhead_bytes": memory.overhead_bytes().count(),
        "kv_cache_bytes": memory.cache.count(),
        "shortfall_bytes": memory.shortfall.count(),
        "kv_cache_tokens": memory.cache_tokens,
        "sequences": memory.sequences,
    })
}

fn figures(figures: &Figures) -> Value {
    json!({
        "ttft_seconds": latency(&figures.ttft, figures.ttft_at),
        "tpot_seconds": latency(&figures.tpot, figures.tpot_at),
        "end_to_end_seconds": latency(&figures.end_to_end, figures.end_to_end_at),
        "requests_per_second": estimate(&figures.requests),
        "output_tokens_per_second": estimate(&figures.output_throughput),
        "running_sequences": figures.running,
        "load": figures.utilization,
        "power_watts": figures.power.as_ref().map(estimate),
        "joules_per_output_token": figures.joules_per_token.as_ref().map(estimate),
    })
}

fn estimate(estimate: &Estimate) -> Value {
    json!({ "value": estimate.value, "low": estimate.low, "high": estimate.high })
}

fn latency(estimate: &Estimate, at: Option<Percentile>) -> Value {
    json!({
        "at": words::percentile(at),
        "value": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
    })
}

fn cost(cost: &Cost) -> Value {
    json!({
        "per_hour": price(cost.per_hour),
        "per_million_input_tokens": cost.per_million_input,
        "per_million_output_tokens": cost.per_million_output,
    })
}

fn price(price: Option<HourlyPrice>) -> Value {
    price.map_or(Value::Null, |HourlyPrice(money)| {
        json!({ "amount_per_hour": money.as_f64(), "currency": money.currency.code() })
    })
}

fn point(point: &FrontPoint) -> Value {
    json!({
        "label": point.label,
        "gpu": point.gpu,
        "price_per_hour": point.per_hour,
        "ttft_seconds": point.ttft,
        "tpot_seconds": point.tpot,
        "end_to_end_seconds": point.end_to_end,
        "joules_per_output_token": point.joules_per_token,
        "on_front": point.on_front,
    })
}

fn load_point(point: &LoadPoint) -> Value {
    json!({
        "load": point.load,
        "ttft_seconds": estimate(&point.ttft),
        "tpot_seconds": estimate(&point.tpot),
        "kept": point.kept,
    })
}

fn dropped(dropped: &Dropped) -> Value {
    json!({
        "label": dropped.label,
        "gpu": dropped.gpu,
        "test": dropped.test.name(),
        "shortfall": dropped.shortfall.to_string(),
        "cure": dropped.cure,
        "needed_over_had": dropped.ratio,
    })
}

/// A derivation with its inputs.
pub(crate) fn derivation(step: &Derivation) -> Value {
    json!({
        "name": step.name,
        "value": step.value,
        "number": step.figure.map(|figure| figure.value),
        "unit": step.figure.map(|figure| figure.unit.name()),
        "formula": step.formula,
        "source": step.source,
        "inputs": step.inputs.iter().map(derivation).collect::<Vec<_>>(),
    })
}
