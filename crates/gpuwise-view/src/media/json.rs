//! A plan for a diffusion, vision or embedding model, as JSON.

use crate::{explain, plan::words};
use gpuwise_domain::{
    estimate::Estimate,
    media::{MediaDeployment, MediaSizing},
};
use serde_json::{Value, json};

/// The plan, complete.
pub fn json(sizing: &MediaSizing) -> Value {
    let parts = sizing.parts.iter().map(|(name, parameters, flops)| {
        json!({ "name": name, "parameters": parameters, "flop_per_input": flops })
    });
    let dropped = sizing
        .dropped
        .iter()
        .map(|dropped| json!({ "gpu": dropped.gpu, "reason": dropped.reason }));
    json!({
        "feasible": !sizing.deployments.is_empty(),
        "network": sizing.name,
        "task": sizing.task,
        "parts": parts.collect::<Vec<_>>(),
        "input": sizing.input,
        "unit": sizing.unit.plural(),
        "rate_per_second": sizing.rate,
        "latency": sizing.latency.as_ref().map(|target| json!({
            "at": words::percentile(target.percentile),
            "at_most_seconds": target.at_most.get(),
        })),
        "objective": sizing.objective.name(),
        "deployments": sizing.deployments.iter().map(deployment).collect::<Vec<_>>(),
        "dropped": dropped.collect::<Vec<_>>(),
        "considered": sizing.considered,
        "notes": sizing.notes,
    })
}

fn estimate(estimate: &Estimate) -> Value {
    json!({ "value": estimate.value, "low": estimate.low, "high": estimate.high })
}

fn deployment(one: &MediaDeployment) -> Value {
    let memory = one
        .memory
        .iter()
        .map(|(cause, bytes)| json!({ "name": cause.to_string(), "bytes": bytes.count() }));
    json!({
        "gpu": one.gpu,
        "slice": one.slice,
        "gpu_count": one.devices(),
        "replicas": one.replicas,
        "gpus_per_replica": one.shards,
        "precision": one.precision,
        "encoders_offloaded": one.encoders_offloaded,
        "decoder_tiled": one.tiled,
        "most_batch": one.most_batch,
        "batch": one.batch,
        "mean_latency_seconds": estimate(&one.mean_latency),
        "latency_seconds": estimate(&one.latency),
        "capacity_per_second": estimate(&one.capacity),
        "load": one.load,
        "memory": memory.collect::<Vec<_>>(),
        "usable_bytes": one.usable.count(),
        "host_bytes": one.host_bytes.count(),
        "power_watts": one.power.as_ref().map(estimate),
        "joules_per_unit": one.joules_per_unit.as_ref().map(estimate),
        "rental": one.rental.as_ref().map(words::rental),
        "price_per_hour": one.per_hour.map(|price| json!({
            "amount": price.0.as_f64(),
            "currency": price.0.currency.code(),
        })),
        "price_per_unit": one.per_unit.map(|price| json!({
            "amount": price.as_f64(),
            "currency": price.currency.code(),
        })),
        "basis": one.basis.name(),
        "bottleneck": words::said(one.bottleneck.as_ref()),
        "derivations": explain::json(&one.derivations),
    })
}
