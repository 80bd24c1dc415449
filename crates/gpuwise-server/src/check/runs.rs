//! What runs beside what a log says: processes of this machine, or jobs of Slurm, that carry the mark of its leases.

use crate::executor::{local_runs, slurm_runs};
use gpuwise_broker::{Broker, LeaseState, lease_id};
use std::collections::BTreeMap;

/// Where leases of a log run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunsAt {
    /// Processes of this machine.
    Local,
    /// Jobs of Slurm, of the user who asks.
    Slurm,
}

/// What runs of leases that are over or unknown, and leases that are active and of which nothing runs.
///
/// # Errors
/// When it cannot be seen what runs.
pub(super) fn compared(broker: &Broker, at: RunsAt) -> Result<Vec<String>, String> {
    let runs = match at {
        RunsAt::Local => local_runs(broker),
        RunsAt::Slurm => slurm_runs(broker)?,
    };
    Ok(differences(broker, at, &runs))
}

fn differences(broker: &Broker, at: RunsAt, runs: &BTreeMap<u32, String>) -> Vec<String> {
    let mut found = Vec::new();
    for (number, what) in runs {
        let id = lease_id(*number);
        match broker.lease(*number).map(|lease| lease.over.is_some()) {
            None => found.push(format!("{what} runs for {id}, which the log does not know")),
            Some(true) => found.push(format!("{what} runs for {id}, which is over")),
            Some(false) => {}
        }
    }
    for lease in broker.leases().filter(|lease| lease.over.is_none()) {
        // Of one without a command no process runs here, and a job at Slurm.
        let runs_there = at == RunsAt::Slurm || !lease.ask.command.is_empty();
        let active = broker.state(lease).0 == LeaseState::Active;
        if active && runs_there && !runs.contains_key(&lease.number) {
            let id = lease.id();
            found.push(format!("{id} is active by the log, and nothing of it runs"));
        }
    }
    found
}
