//! A lease as jobs of Slurm: one on all its nodes, or of a service one for each worker.

use super::{super::local::launch, SlurmSettings, script::Ask};
use gpuwise_broker::{Broker, Lease};
use gpuwise_domain::placement::{Assignment, NodeId, Part};
use std::collections::BTreeMap;

/// What jobs are to be submitted, or why Slurm cannot be asked so.
pub(super) fn of(
    lease: &Lease,
    assignments: &[Assignment],
    broker: &Broker,
    settings: &SlurmSettings,
) -> Result<Vec<Ask>, String> {
    let account = settings.accounts.of_tenant(&lease.ask.tenant);
    let charged = |ask: Ask| Ask {
        account: account.map(str::to_owned),
        ..ask
    };
    if lease.ask.service.is_none() {
        return Ok(vec![charged(part(lease, 0, assignments, broker, None)?)]);
    }
    let workers = assignments.chunks(1).enumerate();
    let each = workers.map(|(worker, own)| {
        let port = port(lease, worker, settings.ports);
        part(lease, worker, own, broker, Some(port)).map(charged)
    });
    each.collect()
}

/// The port of a worker: the same wherever it starts, so that a job that is requeued keeps it; another where a start
/// has failed, since somebody may listen on it.
fn port(lease: &Lease, worker: usize, (first, last): (u16, u16)) -> u16 {
    let many = u64::from(last.saturating_sub(first)) + 1;
    // Leases beside one another are apart, whatever they have of workers.
    let own = u64::from(lease.number) * 37 + u64::from(lease.failed_starts) * 1009;
    let at = (own + worker as u64) % many;
    first.saturating_add(u16::try_from(at).unwrap_or(0))
}

fn part(
    lease: &Lease,
    worker: usize,
    assignments: &[Assignment],
    broker: &Broker,
    port: Option<u16>,
) -> Result<Ask, String> {
    let world = broker.world();
    let mut nodes: BTreeMap<NodeId, (u32, u64)> = BTreeMap::new();
    for one in assignments {
        if one.gpus.iter().any(|share| share.part != Part::Whole) {
            return Err(
                "Slurm gives whole GPUs; parts of one are for its administrator to make".into(),
            );
        }
        let (gpus, workers) = nodes.entry(one.node).or_default();
        *gpus += u32::try_from(one.gpus.len()).unwrap_or(u32::MAX);
        *workers += 1;
    }
    let (gpus, workers) = nodes.values().next().copied().unwrap_or_default();
    if nodes.values().any(|one| *one != (gpus, workers)) {
        let each: Vec<String> = nodes.values().map(|(gpus, _)| gpus.to_string()).collect();
        return Err(format!(
            "a job of Slurm has as many GPUs on each of its nodes, and this one would have {}",
            each.join(", ")
        ));
    }
    let named = |id: &NodeId| Some(world.node(*id)?.node.name.clone());
    let asked = world.job(lease.job()).map(|state| &state.job.worker);
    let first = assignments.first().and_then(|one| one.gpus.first());
    let kind =
        first.and_then(|share| Some(world.kind(world.gpu(share.gpu)?.gpu.kind)?.name.clone()));
    let launch = launch(lease, assignments, worker, port);
    Ok(Ask {
        lease: lease.number,
        worker,
        nodes: nodes.keys().filter_map(named).collect(),
        gpus,
        kind,
        account: None,
        features: lease.ask.features.clone(),
        cpu_milli: asked.map_or(0, |one| one.cpu_milli.saturating_mul(workers)),
        memory_mib: asked.map_or(0, |one| one.memory_mib.saturating_mul(workers)),
        port,
        words: launch.words,
        environment: launch.environment,
    })
}
