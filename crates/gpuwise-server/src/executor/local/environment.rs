//! What a process is told of its lease.

use super::devices::Devices;
use gpuwise_broker::{Broker, Launch, Lease};
use gpuwise_domain::placement::Assignment;

/// Where a process reads which GPUs it has.
const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

/// The GPUs that it was told.
pub(super) fn devices(launch: &Launch) -> &str {
    launch.environment.get(VISIBLE).map_or("", String::as_str)
}

/// The command of a lease for one of its workers, on `visible` GPUs.
pub(super) fn command(
    lease: &Lease,
    visible: String,
    assignments: &[Assignment],
    worker: usize,
    port: Option<u16>,
) -> Launch {
    let mut launch = launch(lease, assignments, worker, port);
    launch.environment.insert(VISIBLE.into(), visible);
    launch
}

/// The same, where somebody else says which GPUs it sees.
pub(in crate::executor) fn launch(
    lease: &Lease,
    assignments: &[Assignment],
    worker: usize,
    port: Option<u16>,
) -> Launch {
    let trace = crate::observe::traceparent(lease);
    Launch::of(lease, assignments, worker, port, trace)
}

/// The GPUs of assignments as CUDA is told: their lasting ids, and those of MIG instances; or why that cannot be.
pub(super) fn visible(
    broker: &Broker,
    devices: &Devices,
    assignments: &[Assignment],
) -> Result<String, String> {
    let shares = assignments.iter().flat_map(|one| &one.gpus);
    let ids: Result<Vec<String>, String> = shares
        .map(|share| devices.name(broker, share.gpu, share.part))
        .collect();
    Ok(ids?.join(","))
}
