//! What a process is told of its lease.

use super::devices::Devices;
use gpuwise_broker::{Broker, Lease};
use gpuwise_domain::placement::{Assignment, Isolation, Part};
use std::collections::BTreeMap;

/// A command and its environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::executor) struct Launch {
    pub(in crate::executor) words: Vec<String>,
    pub(in crate::executor) environment: BTreeMap<String, String>,
}

/// Where a process reads which GPUs it has.
const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

impl Launch {
    pub(super) fn devices(&self) -> &str {
        self.environment.get(VISIBLE).map_or("", String::as_str)
    }
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
    let mut environment = lease.ask.env.clone();
    let mut set = |name: &str, value: String| {
        environment.insert(name.into(), value);
    };
    set("GPUWISE_LEASE", lease.id());
    set("GPUWISE_TENANT", lease.ask.tenant.clone());
    set("GPUWISE_WORKER", worker.to_string());
    let (name, trace) = crate::observe::traceparent(lease);
    set(name, trace);
    if let Some(port) = port {
        set("PORT", port.to_string());
    }
    if let Some(milli) = compute_cap(assignments) {
        // Of CUDA's multi-process service: heeded where its daemon runs.
        set(
            "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
            milli.div_ceil(10).to_string(),
        );
    }
    if let Some(cap) = memory_cap(assignments) {
        set("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", cap);
    }
    let fill = |word: &String| match port {
        Some(port) => word.replace("{port}", &port.to_string()),
        None => word.clone(),
    };
    Launch {
        words: lease.ask.command.iter().map(fill).collect(),
        environment,
    }
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

/// Thousandths of the multiprocessors that a share may use.
fn compute_cap(assignments: &[Assignment]) -> Option<u32> {
    let mut shares = assignments.iter().flat_map(|one| &one.gpus);
    shares.find_map(|share| match share.part {
        Part::Fraction {
            milli,
            isolation: Isolation::Mps,
            ..
        } => Some(milli),
        _ => None,
    })
}

/// Memory that a share may use, device by device, as CUDA's multi-process service takes it.
fn memory_cap(assignments: &[Assignment]) -> Option<String> {
    let shares = assignments.iter().flat_map(|one| &one.gpus);
    let caps: Vec<String> = (0..)
        .zip(shares)
        .filter_map(|(device, share): (u32, _)| match share.part {
            Part::Fraction {
                memory_mib,
                isolation: Isolation::Mps,
                ..
            } if memory_mib > 0 => Some(format!("{device}={memory_mib}M")),
            _ => None,
        })
        .collect();
    (!caps.is_empty()).then(|| caps.join(","))
}
