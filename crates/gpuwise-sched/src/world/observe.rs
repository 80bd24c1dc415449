//! What is seen to run, held against what was wanted.
//!
//! What is not seen where it was told to leave has left; a worker that is not seen is lost. What is seen
//! where nobody wants it is noted: its place is not free until it is gone, and a plan stops it
//! ([`crate::decide::repair`]); nothing is stopped by an observation alone.

use super::{GpuState, Phase, Refused, Tenancy, World};
use gpuwise_domain::placement::{Assignment, GpuId, GpuShare, JobId, NodeId, Seen};
use gpuwise_units::Nanoseconds;
use std::sync::Arc;

/// Where what is and what is wanted differ.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub enum Drift {
    /// A worker of this job should be there and is not.
    Missing(JobId),
    /// This job is there, and nobody wants it there.
    Stray(JobId),
    /// A job that is not known is on this GPU.
    Stranger(JobId, GpuId),
}

impl World {
    /// Where what was last seen and what was wanted differed, by node.
    pub fn drift(&self) -> impl Iterator<Item = (NodeId, &[Drift])> {
        self.drift.iter().map(|(node, all)| (*node, all.as_slice()))
    }

    pub(super) fn observed(
        &mut self,
        at: Nanoseconds,
        id: NodeId,
        seen_at: Nanoseconds,
        seen: &[Seen],
    ) -> Result<(), Refused> {
        let node = self.node(id).ok_or(Refused::NoSuchNode(id))?;
        if node.left || node.fence().is_some_and(|fence| fence.fenced.is_some()) {
            self.ignored.fenced += 1;
            return Ok(());
        }
        let gpus = node.gpus.clone();
        let mut drift = Vec::new();
        self.not_seen(at, (id, &gpus), seen_at, seen, &mut drift);
        self.seen(at, (id, &gpus), seen_at, seen, &mut drift);
        drift.sort_unstable();
        drift.dedup();
        let known = self.drift.get(&id).map_or(&[][..], Vec::as_slice);
        if known != drift {
            let all = Arc::make_mut(&mut self.drift);
            if drift.is_empty() {
                all.remove(&id);
            } else {
                all.insert(id, drift);
            }
        }
        Ok(())
    }

    /// Who should be there or was told to leave, and is not seen.
    fn not_seen(
        &mut self,
        at: Nanoseconds,
        (id, gpus): (NodeId, &[GpuId]),
        seen_at: Nanoseconds,
        seen: &[Seen],
        drift: &mut Vec<Drift>,
    ) {
        let mut expected: Vec<JobId> = Vec::new();
        for gpu in gpus {
            expected.extend(self.holders_of(*gpu));
            let leaving = self.gpu(*gpu).map_or(&[][..], |gpu| &*gpu.leaving);
            expected.extend(leaving.iter().map(|(job, _)| *job));
        }
        expected.sort_unstable();
        expected.dedup();
        expected.retain(|job| seen.iter().all(|one| one.job != *job));
        for job in expected {
            let Some(state) = self.job(job) else { continue };
            let told = state.stop().map(|stop| stop.begun);
            if state.stopping && told.is_none_or(|told| told < seen_at) {
                self.has_left(job, id);
                continue;
            }
            let Phase::Running { since } = state.phase else {
                continue;
            };
            if since >= seen_at {
                continue;
            }
            drift.push(Drift::Missing(job));
            let lost = state.assignments.iter().filter(|one| one.node == id);
            let lost: Vec<Assignment> = lost.cloned().collect();
            for assignment in &lost {
                self.worker_lost(at, job, assignment);
            }
        }
    }

    /// Who was told to leave is gone from a node.
    fn has_left(&mut self, job: JobId, id: NodeId) {
        let Some(state) = self.job(job) else { return };
        let ask = state.job.worker;
        let here = |gpu: &GpuId| self.gpu(*gpu).is_some_and(|gpu| gpu.node == Some(id));
        let gpus: Vec<GpuId> = state.rare.leaving.iter().copied().filter(here).collect();
        let hosts = state
            .leaving_hosts()
            .iter()
            .filter(|host| **host == id)
            .count();
        for gpu in &gpus {
            if let Some(gpu) = self.gpus.get_mut(gpu.index()) {
                gpu.leaving.retain(|(who, _)| *who != job);
            }
        }
        for _ in 0..hosts {
            self.host_left(id, &ask);
        }
        if let Some(state) = self.jobs.get_mut(job) {
            state.rare.change(|rare| {
                rare.leaving.retain(|gpu| !gpus.contains(gpu));
                rare.leaving_hosts.retain(|host| *host != id);
            });
        }
        self.left_if_nowhere(job);
    }

    /// Who is seen and should not be there.
    fn seen(
        &mut self,
        at: Nanoseconds,
        (id, gpus): (NodeId, &[GpuId]),
        seen_at: Nanoseconds,
        seen: &[Seen],
        drift: &mut Vec<Drift>,
    ) {
        let mut strangers: Vec<GpuId> = Vec::new();
        for one in seen {
            let here = one.gpus.iter().filter(|share| gpus.contains(&share.gpu));
            let here: Vec<GpuShare> = here.copied().collect();
            let Some(state) = self.job(one.job) else {
                for share in &here {
                    drift.push(Drift::Stranger(one.job, share.gpu));
                    strangers.push(share.gpu);
                }
                continue;
            };
            let mine = |share: &GpuShare| {
                let gpu = self.gpu(share.gpu);
                gpu.is_some_and(|gpu| holds(gpu, one.job, share))
                    || state.rare.leaving.contains(&share.gpu)
            };
            let rests = state.phase.waits() && !state.stopping && state.phase.since() < seen_at;
            if !rests || here.iter().all(mine) {
                continue;
            }
            drift.push(Drift::Stray(one.job));
            self.leave(
                one.job,
                &[Assignment {
                    node: id,
                    gpus: here,
                }],
            );
            if let Some(state) = self.jobs.get_mut(one.job) {
                state.stopping = true;
                state.phase = Phase::Waiting { since: at };
            }
        }
        for gpu in gpus {
            let stray = strangers.contains(gpu);
            if self.gpu(*gpu).is_some_and(|state| state.stray != stray) {
                if let Some(state) = self.gpus.get_mut(gpu.index()) {
                    state.stray = stray;
                }
                self.recount(id);
            }
        }
    }
}

/// Whether a job has this share of a GPU.
fn holds(gpu: &GpuState, job: JobId, share: &GpuShare) -> bool {
    match (&gpu.held, share.part) {
        (Tenancy::Whole(holder), _) => *holder == job,
        (Tenancy::Shared { holders, .. }, _) => holders.iter().any(|one| one.job == job),
        (Tenancy::Sliced(instances), _) => instances.iter().any(|one| one.holder == Some(job)),
        (Tenancy::Free, _) => false,
    }
}
