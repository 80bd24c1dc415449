//! What `gpuwise plan` is asked for a workload.

use super::Infeasible;
use gpuwise_domain::{catalogue::Catalogue, deployment::Deployment};
use gpuwise_k8s::{operator::WorkloadAsk, resources::WorkloadTraffic};
use std::collections::BTreeMap;

/// GPUs that it may be sized for.
pub(super) fn candidates(
    ask: &WorkloadAsk,
    products: &BTreeMap<String, Vec<String>>,
    catalogue: &Catalogue,
) -> anyhow::Result<Vec<String>> {
    if let Some(pinned) = &ask.pinned {
        return Ok(vec![pinned.gpu.clone()]);
    }
    let gpus: Vec<String> = if ask.spec.gpus.is_empty() {
        products.keys().cloned().collect()
    } else {
        ask.spec.gpus.clone()
    };
    if gpus.is_empty() {
        anyhow::bail!(
            "no GPU of the cluster is in the catalogue: {}; name some in spec.gpus",
            ask.products.iter().cloned().collect::<Vec<_>>().join(", ")
        );
    }
    let same = |name: &str, gpu: &str| catalogue.gpu(name).is_some_and(|known| known.name == gpu);
    let avoided = |name: &String| {
        let mut whole = ask.avoided.iter().filter(|one| one.slice.is_none());
        whole.any(|one| same(name, &one.gpu))
    };
    let left: Vec<String> = gpus.iter().filter(|name| !avoided(name)).cloned().collect();
    if left.is_empty() {
        let what = format!(
            "its SLO was missed on {}, the only GPUs that it may have; status.avoided says until when they are not tried again",
            gpus.join(", ")
        );
        return Err(Infeasible(what).into());
    }
    Ok(left)
}

/// The workload as flags of `gpuwise plan`, on one GPU.
pub(super) fn flags(ask: &WorkloadAsk, gpu: &str) -> Vec<String> {
    let spec = &ask.spec;
    let traffic = traffic(ask);
    let mut all = vec![
        spec.model.clone(),
        format!("--rate={}", traffic.rate),
        format!("--gpu={gpu}"),
        "--top=20".to_owned(),
    ];
    if !ask.slices {
        all.push("--no-slices".into());
    }
    let mut flag = |name: &str, value: Option<String>| {
        all.extend(value.map(|value| format!("--{name}={value}")));
    };
    flag("isl", traffic.input_tokens.map(|tokens| tokens.to_string()));
    flag(
        "osl",
        traffic.output_tokens.map(|tokens| tokens.to_string()),
    );
    flag("ttft", spec.slo.ttft.clone());
    flag("tpot", spec.slo.tpot.clone());
    flag("engine", spec.engine.clone());
    all
}

/// For what it is sized: what was measured, what a decision was made for, or what its spec says.
pub(super) fn traffic(ask: &WorkloadAsk) -> &WorkloadTraffic {
    let pinned = ask.pinned.as_ref().map(|pinned| &pinned.traffic);
    let known = ask.traffic.as_ref().or(pinned);
    known
        .filter(|traffic| !traffic.rate.is_empty())
        .unwrap_or(&ask.spec.traffic)
}

pub(super) fn replicas(ask: &WorkloadAsk, deployment: &Deployment) -> i32 {
    let planned = || i32::try_from(deployment.layout.replicas).unwrap_or(i32::MAX);
    let pinned = ask.pinned.as_ref().map(|pinned| pinned.replicas);
    ask.spec.replicas.or(pinned).unwrap_or_else(planned)
}
