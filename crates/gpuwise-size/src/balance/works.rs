//! Plans as work of a host.

use super::constants::{BalanceConstants, Known};
use alloc::format;
use gpuwise_domain::{
    balance::{CoreWork, HostWork},
    deployment::Deployment,
    media::{MediaDeployment, MediaMemory, MediaSizing},
    model::Architecture,
    network::InputSize,
    training::StepCause,
    training_plan::TrainingPlan,
    workload::Workload,
};
use gpuwise_units::Bytes;

/// Bytes of an activation element.
const ACTIVATION: f64 = 2.0;
/// Of the states that an offloaded optimizer holds for a parameter (FP32 weight and two moments,
/// BF16 gradient: 14 bytes), what moves in a step: the gradient there, the BF16 weight back.
const OFFLOADED_SHARE: f64 = 4.0 / 14.0;

/// A second of serving at the asked load, on a node with so many GPUs of the deployment.
pub fn serving(
    deployment: &Deployment,
    architecture: &Architecture,
    workload: &Workload,
    node_gpus: u32,
    constants: &BalanceConstants,
) -> HostWork {
    let devices = deployment.devices().max(1);
    let gpus = devices.min(node_gpus.max(1));
    let share = f64::from(gpus) / f64::from(devices);
    let layout = deployment.layout;
    let engines = (f64::from(layout.replicas.max(1)) * share).max(1.0);
    let engines = libm::ceil(engines - 1e-9) as u32;
    let processes = gpus + engines * constants.get(Known::EngineProcesses) as u32;
    let requests = deployment.figures.requests.value;
    let prompt = workload.lengths.input.mean;
    let output = workload.lengths.output.mean;
    let computed = prompt * (1.0 - workload.prefix_hit) + output;
    let ranks = f64::from(layout.tensor.max(1));
    // Two all-reduces a layer, a ring's bytes each.
    let each = 2.0 * architecture.layer_count() as f64 * architecture.hidden as f64 * ACTIVATION;
    let ring = 2.0 * (ranks - 1.0) / ranks;
    let exchanged = requests / f64::from(layout.replicas.max(1)) * computed * each * ring;
    let cache = architecture.cache_elements_per_token() as f64 * ACTIVATION;
    let moved = if deployment.host_cache.count() > 0 {
        requests * share * prompt * cache
    } else {
        0.0
    };
    let held = f64::from(processes) * constants.get(Known::ProcessMemory)
        + deployment.host_cache.as_f64() * f64::from(gpus);
    HostWork {
        name: format!("serving of {}", deployment.model),
        seconds: 1.0,
        gpus,
        nodes: devices.div_ceil(gpus),
        processes,
        cores: CoreWork {
            tokenized: requests * share * prompt,
            streamed: requests * share * output,
            ..CoreWork::default()
        },
        copied: Bytes::from_f64(moved),
        group: layout.tensor.min(gpus),
        exchanged: Bytes::from_f64(exchanged),
        held: Bytes::from_f64(held),
        weights: Bytes::from_f64(
            deployment.memory.weight_bytes().as_f64() * f64::from(gpus.min(layout.replica_gpus())),
        ),
        ..HostWork::default()
    }
}

/// A second of a diffusion, vision or embedding model at the asked rate, on a node with so many GPUs of it.
///
/// `inputs` are those of the network for one unit that is counted; `size` is one of them.
pub fn whole(
    sizing: &MediaSizing,
    deployment: &MediaDeployment,
    size: &InputSize,
    inputs: f64,
    node_gpus: u32,
    constants: &BalanceConstants,
) -> HostWork {
    let devices = deployment.devices().max(1);
    let gpus = devices.min(node_gpus.max(1));
    let share = f64::from(gpus) / f64::from(devices);
    let replicas = (f64::from(deployment.replicas.max(1)) * share).max(1.0);
    let replicas = libm::ceil(replicas - 1e-9) as u32;
    let processes = gpus + replicas * constants.get(Known::EngineProcesses) as u32;
    let rate = sizing.question.rate * inputs * share;
    let number = |count: Option<u64>| count.unwrap_or(0) as f64;
    let pixels = number(size.width) * number(size.height);
    // Images are decoded where they come in, and are made on the GPU where they go out.
    let encoded = if sizing.question.task.starts_with("image") {
        rate * constants.get(Known::SampleImage)
    } else {
        0.0
    };
    let windows = size.windows.unwrap_or(1.0);
    let batch = deployment.batch.max(1.0);
    let weights = deployment
        .memory
        .iter()
        .filter(|(cause, _)| matches!(cause, MediaMemory::Weights(_)));
    let weights: f64 = weights.map(|(_, bytes)| bytes.as_f64()).sum();
    let host_bytes = deployment.host_bytes.as_f64();
    let held = f64::from(processes) * constants.get(Known::ProcessMemory)
        + host_bytes * f64::from(replicas);
    HostWork {
        name: format!("serving of {}", sizing.question.name),
        seconds: 1.0,
        gpus,
        nodes: devices.div_ceil(gpus),
        processes,
        cores: CoreWork {
            images: Bytes::from_f64(encoded),
            tokenized: rate * number(size.text_tokens),
            streamed: rate * windows * number(size.written_tokens),
            ..CoreWork::default()
        },
        // They come over the network, whose two directions are alike.
        sent: Bytes::from_f64(encoded),
        hidden: 1.0,
        // Three bytes a pixel in or out, and encoders that wait in host memory.
        copied: Bytes::from_f64(
            rate * (3.0 * pixels * number(size.frames).max(1.0) + host_bytes / batch),
        ),
        group: 1,
        held: Bytes::from_f64(held),
        weights: Bytes::from_f64(weights * f64::from(gpus) + host_bytes),
        ..HostWork::default()
    }
}

pub fn training(plan: &TrainingPlan, constants: &BalanceConstants) -> HostWork {
    let gpus = plan
        .gpus_per_host
        .min(u32::try_from(plan.gpus).unwrap_or(u32::MAX))
        .max(1);
    let nodes = u32::try_from(plan.gpus.div_ceil(u64::from(gpus)))
        .unwrap_or(u32::MAX)
        .max(1);
    // What hosts decide is left out of the step and put back by the balance.
    let outside = [StepCause::Data, StepCause::Offload, StepCause::DataParallel];
    let part = |cause: StepCause| {
        let of = plan.step.parts.iter().filter(|(known, _)| *known == cause);
        of.map(|(_, seconds)| seconds).sum::<f64>()
    };
    let seconds = plan.step.step.value - outside.into_iter().map(part).sum::<f64>();
    let seconds = seconds.max(1e-9);
    let crossing = plan.needs.traffic.iter().filter(|need| need.across_hosts);
    let (sent, cover) = crossing.fold((0.0f64, 0.0f64), |(sent, cover), need| {
        let bytes = need.bits_per_second * need.hidden_behind / 8.0;
        (
            sent + bytes * f64::from(gpus),
            cover.max(need.hidden_behind),
        )
    });
    let offload = plan.setup.offload;
    let moved = if offload.optimizer {
        plan.memory.host.as_f64() * OFFLOADED_SHARE
    } else {
        0.0
    };
    let held = plan.memory.host.as_f64() + f64::from(gpus) * constants.get(Known::ProcessMemory);
    HostWork {
        name: "training".into(),
        seconds,
        gpus,
        nodes,
        processes: gpus,
        cores: CoreWork::default(),
        stored: Bytes::from_f64(plan.needs.data.unwrap_or(0.0) * seconds / f64::from(nodes)),
        copied: Bytes::from_f64(plan.needs.data.unwrap_or(0.0) * seconds / f64::from(nodes)),
        offloaded: Bytes::from_f64(moved),
        // Exchanges of tensor parallelism are in the step already.
        group: 1,
        exchanged: Bytes::new(0),
        sent: Bytes::from_f64(sent),
        hidden: (cover / seconds).min(1.0),
        held: Bytes::from_f64(held),
        weights: Bytes::new(0),
        checkpoint: Bytes::from_f64(plan.checkpoints.bytes.as_f64() / f64::from(nodes)),
        checkpoint_every: Some(plan.checkpoints.interval.value),
        node_price: None,
    }
}
