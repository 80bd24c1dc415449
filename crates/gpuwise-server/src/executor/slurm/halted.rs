//! Jobs that Slurm has suspended: they keep their nodes and do not run.

use super::{
    held::{Held, Seen},
    jobs::JobPhase,
    work::Worker,
};
use gpuwise_broker::Observation;
use gpuwise_domain::placement::JobId;

impl Worker {
    /// Whether a part of it is suspended; that it is, or is no longer, is told where it has changed.
    pub(super) fn is_halted(&self, job: JobId, held: &mut Held, seen: &[Seen<'_>]) -> bool {
        let suspended = seen.iter().find_map(|one| match one {
            Seen::Job(job) if job.state == JobPhase::Suspended => Some(job.id),
            _ => None,
        });
        let order = held.order;
        // What does not run yet is no news to the broker; what it took for halted before this look may run by now.
        let first = held.up.is_none();
        match suspended {
            Some(number) if held.known && !held.halted => {
                held.halted = true;
                self.endpoints.remove(job.0);
                let reason = format!("Slurm has suspended its job {number}");
                self.tell(Observation::Halted { job, order, reason });
            }
            None if held.known && (held.halted || first) => {
                held.halted = false;
                if !held.addresses.is_empty() {
                    self.endpoints.set(job.0, held.addresses.clone());
                }
                self.tell(Observation::Resumed { job, order });
            }
            _ => {}
        }
        suspended.is_some()
    }
}
