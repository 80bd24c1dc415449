//! A candidate as a deployment, with ranges and derivations.

use super::{Request, candidate::Viable};
use crate::media::time::PartTime;
use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};
use gpuwise_domain::{
    deployment::Rental,
    estimate::{Basis, Derivation, Estimate},
    limit::{Limit, PartCause, Resource},
    media::MediaDeployment,
    network::{OperationKind, PartRole, Walk},
};
use gpuwise_units::{HourlyPrice, Money};

/// Share of a denoiser's work that is convolution in those that were measured, at least.
const LEAST_CONVOLVED: f64 = 0.1;

pub(super) fn deployment(
    request: &Request<'_>,
    tried: &Viable<'_>,
    rental: Option<Rental>,
    hour: Option<HourlyPrice>,
) -> MediaDeployment {
    let generation = &tried.device.gpu.generation;
    let known = request.constants.knows(generation) && measured_kind(request.walk);
    let (low, high) = if known {
        request.constants.range
    } else {
        request.constants.far_range
    };
    let speed = |value: f64| Estimate::with_factors(value, low, high);
    let slowness = |value: f64| Estimate::with_factors(value, 1.0 / high, 1.0 / low);
    let power = tried
        .watts
        .map(|watts| Estimate::with_factors(watts, 0.8, 1.2));
    MediaDeployment {
        gpu: tried.device.gpu.name.clone(),
        slice: tried.device.slice.map(|slice| slice.profile.clone()),
        replicas: tried.replicas,
        shards: tried.shards,
        precision: tried.precision().to_string(),
        encoders_offloaded: tried.residence.encoders_offloaded,
        tiled: tried.residence.tiled,
        most_batch: f64::from(tried.most),
        batch: tried.served.batch,
        mean_latency: slowness(tried.mean_latency),
        latency: slowness(tried.latency),
        capacity: speed(tried.capacity / request.inputs),
        load: tried.served.load,
        memory: tried.memory.causes(),
        usable: tried.usable,
        host_bytes: tried.memory.offloaded,
        power,
        joules_per_unit: power.map(|power| power.scaled(1.0 / request.rate)),
        rental,
        per_hour: hour,
        per_unit: hour.and_then(|hour| per_unit(request, hour)),
        basis: if known {
            Basis::Calibrated
        } else {
            Basis::Extrapolated
        },
        bottleneck: bottleneck(request, tried),
        derivations: derivations(request, tried),
    }
}

/// Whether rows of such networks were fitted: all kinds but denoisers that hardly convolve.
pub fn measured_kind(walk: &Walk) -> bool {
    let denoisers = walk
        .parts
        .iter()
        .filter(|part| part.role == PartRole::Denoiser);
    denoisers.into_iter().all(|part| {
        let convolved: u64 = part
            .operations
            .iter()
            .filter(|operation| operation.kind == OperationKind::Convolution)
            .map(|operation| operation.count * operation.flops)
            .sum();
        convolved as f64 > LEAST_CONVOLVED * part.flops() as f64
    })
}

/// The hour's price over the units of an hour, rounded once.
fn per_unit(request: &Request<'_>, hour: HourlyPrice) -> Option<Money> {
    let (together, _) = request.unit.priced();
    // Units an hour, in millionths.
    let units = libm::round(request.rate * 3600.0 * 1e6);
    if !(1.0..9e18).contains(&units) {
        return None;
    }
    Some(hour.0.times(i64::from(together) * 1_000_000, units as i64))
}

/// What takes the largest share of the time.
fn bottleneck(request: &Request<'_>, tried: &Viable<'_>) -> Option<Limit<PartCause>> {
    let total: f64 = tried.parts.iter().map(|part| part.seconds).sum::<f64>() + tried.loading;
    let parts = tried.parts.iter().map(|part| (part, part.seconds));
    let Limit { cause, share } = Limit::largest(parts, total)?;
    let walked = request.walk.parts.get(cause.part);
    Some(Limit {
        cause: PartCause {
            resource: resource(cause),
            part: walked.map_or_else(String::new, |part| part.name.clone()),
        },
        share,
    })
}

fn resource(part: &PartTime) -> Resource {
    let most = part
        .compute
        .max(part.memory)
        .max(part.overhead)
        .max(part.exchange);
    if most <= part.compute {
        Resource::Compute
    } else if most <= part.memory {
        Resource::Memory
    } else if most <= part.overhead {
        Resource::Host
    } else {
        Resource::Link
    }
}

fn derivations(request: &Request<'_>, tried: &Viable<'_>) -> Vec<Derivation> {
    let served = &tried.served;
    let parts: Vec<Derivation> = tried
        .parts
        .iter()
        .filter(|part| part.seconds > 0.0)
        .map(|part| part_derivation(request, part))
        .collect();
    let batch = Derivation::computed(
        format!("time of a batch of {:.1}", served.batch),
        format!("{:.4} s", served.seconds),
        "sum over parts",
        parts,
    );
    let inputs = Derivation::fact(
        "inputs a second",
        format!("{:.4}", request.rate * request.inputs),
        format!("{} × {} inputs each", request.unit.plural(), request.inputs),
    );
    let latency = Derivation::computed(
        "latency",
        format!("{:.4} s", tried.latency),
        "wait for a free replica + time of the own batch",
        Vec::from([batch, inputs]),
    );
    Vec::from([latency, tried.memory.explain()])
}

fn part_derivation(request: &Request<'_>, part: &PartTime) -> Derivation {
    let walked = request.walk.parts.get(part.part);
    let name = walked.map_or("", |walked| walked.name.as_str());
    let flops = walked.map_or(0.0, |walked| walked.passes * walked.flops() as f64);
    let fact = |name: &str, seconds: f64, source: &str| {
        Derivation::fact(name, format!("{seconds:.4} s"), source)
    };
    Derivation::computed(
        name,
        format!("{:.4} s", part.seconds),
        "√(arithmetic² + memory²) operation by operation + launches",
        Vec::from([
            Derivation::fact(
                "work of one input",
                format!("{:.2} TFLOP", flops / 1e12),
                "the walk through the network",
            ),
            fact(
                "arithmetic alone",
                part.compute,
                "peak × achieved share, catalogue/media.toml",
            ),
            fact(
                "memory alone",
                part.memory,
                "bandwidth × achieved share, catalogue/media.toml",
            ),
            fact(
                "launches and the host",
                part.overhead,
                "catalogue/media.toml",
            ),
        ]),
    )
}
