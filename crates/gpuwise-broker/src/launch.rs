//! What runs on a lease: its command and environment, when it is ready, and what its end says.

use crate::Lease;
use gpuwise_domain::placement::{Assignment, Isolation, Part};
use gpuwise_units::Nanoseconds;
use gpuwise_wire::broker::ServiceAsk;
use std::collections::BTreeMap;

/// A command and its environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    pub words: Vec<String>,
    pub environment: BTreeMap<String, String>,
}

impl Launch {
    /// The command of a lease for one of its workers. Which GPUs it sees, its executor says.
    pub fn of(
        lease: &Lease,
        assignments: &[Assignment],
        worker: usize,
        port: Option<u16>,
        (name, trace): (&str, String),
    ) -> Self {
        let mut environment = lease.ask.env.clone();
        let mut set = |name: &str, value: String| {
            environment.insert(name.into(), value);
        };
        set("GPUWISE_LEASE", lease.id());
        set("GPUWISE_TENANT", lease.ask.tenant.clone());
        set("GPUWISE_WORKER", worker.to_string());
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
        Self {
            words: lease.ask.command.iter().map(fill).collect(),
            environment,
        }
    }
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

/// When a service is ready: each worker answers 200 there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Readiness {
    pub path: String,
    /// How long it may take; later it has failed.
    pub within: Nanoseconds,
}

impl Readiness {
    pub fn of(service: &ServiceAsk) -> Self {
        let within = service.ready_within.as_ref();
        Self {
            path: service.health.clone().unwrap_or_else(|| "/health".into()),
            // Ten minutes, where nobody says.
            within: within
                .and_then(|text| text.parse().ok())
                .unwrap_or(Nanoseconds(600_000_000_000)),
        }
    }
}

/// What an exit code says, as shells give it: 128 and the number of the signal is a signal; `None`: nobody knows.
pub fn ended_by(code: Option<i32>) -> (Option<i32>, String) {
    match code {
        Some(0) => (Some(0), "its command ended".into()),
        Some(code) if code > 128 => {
            let signal = code - 128;
            (None, format!("its command was ended by signal {signal}"))
        }
        Some(code) => (Some(code), format!("its command ended with code {code}")),
        None => (None, "its command was ended, and nobody knows how".into()),
    }
}
