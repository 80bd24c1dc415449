//! One step of a change.

use crate::resources::{Avoided, Change, ChangeReason, Decided, GpuWorkloadStatus, Phase};
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;

/// So many looks in a row in which the SLO is missed take a change back: one may be chance.
pub const MISSES: i32 = 3;

/// How far the pods of a decision are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rollout {
    /// Not all pods are new and ready.
    UnderWay,
    Done,
}

/// What is measured of an SLO, with figures in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SloSeen {
    Kept(String),
    Missed(String),
    /// Why nothing can be told.
    Untold(String),
}

/// What is known of a workload at a look.
#[derive(Debug, Clone)]
pub struct Look {
    pub now: Timestamp,
    pub rollout: Rollout,
    /// A measurement that was not counted yet.
    pub slo: Option<SloSeen>,
}

/// How long a workload gives its changes.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub rollout: SignedDuration,
    pub verify: SignedDuration,
    pub avoid: SignedDuration,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    Stay,
    /// The new pods are there: the SLO is watched.
    Verify,
    /// It is over, and what is there stays.
    Settle,
    /// The decision before is rolled out.
    Back(ChangeReason),
}

/// What is to be done of a workload; counts a measurement in its status.
pub fn next(status: &mut GpuWorkloadStatus, look: &Look, limits: &Limits) -> Next {
    match &look.slo {
        Some(SloSeen::Missed(_)) => status.missed = status.missed.saturating_add(1),
        Some(SloSeen::Kept(_)) => status.missed = 0,
        Some(SloSeen::Untold(_)) | None => {}
    }
    let missed = status.missed >= MISSES && status.previous.is_some();
    let Some(change) = &mut status.change else {
        return if missed {
            Next::Back(ChangeReason::SloMissed)
        } else {
            Next::Stay
        };
    };
    // A time that cannot be read has not passed: the phase begins anew.
    let since = change.since.parse::<Timestamp>().unwrap_or(look.now);
    let over = |limit| look.now.duration_since(since) >= limit;
    match (change.phase, look.rollout) {
        (Phase::RollingOut, Rollout::Done) => Next::Verify,
        (Phase::RollingOut, Rollout::UnderWay) => {
            if over(limits.rollout) && status.previous.is_some() {
                Next::Back(ChangeReason::NotReady)
            } else {
                Next::Stay
            }
        }
        (Phase::RollingBack, Rollout::Done) => Next::Settle,
        (Phase::RollingBack, Rollout::UnderWay) => Next::Stay,
        (Phase::Verifying, _) => {
            if matches!(look.slo, Some(SloSeen::Kept(_) | SloSeen::Missed(_))) {
                change.told = change.told.saturating_add(1);
            }
            // Who had too little before does not get it back.
            if missed && change.why != ChangeReason::TooSmall {
                Next::Back(ChangeReason::SloMissed)
            } else if over(limits.verify) {
                Next::Settle
            } else {
                Next::Stay
            }
        }
    }
}

/// How long until time alone ends a phase; `None`: none is under way, or its time is over.
pub fn ends(status: &GpuWorkloadStatus, limits: &Limits, now: Timestamp) -> Option<Duration> {
    let change = status.change.as_ref()?;
    let limit = match change.phase {
        Phase::RollingOut => limits.rollout,
        Phase::Verifying => limits.verify,
        Phase::RollingBack => return None,
    };
    let since = change.since.parse::<Timestamp>().ok()?;
    let end = since.checked_add(limit).ok()?;
    let left = Duration::try_from(end.duration_since(now)).ok()?;
    (!left.is_zero()).then_some(left)
}

/// Another decision is to be rolled out; what was settled last is what it can go back to.
pub fn begin(
    status: &mut GpuWorkloadStatus,
    decided: Decided,
    why: ChangeReason,
    plan: &str,
    now: Timestamp,
) {
    let old = status.decision.replace(decided);
    if status.change.is_none() {
        status.previous = old;
    }
    phase(status, Phase::RollingOut, why, plan, now);
}

/// All pods are new: the SLO is watched from now on.
pub fn verify(status: &mut GpuWorkloadStatus, now: Timestamp) {
    let (why, plan) = status
        .change
        .as_ref()
        .map(|change| (change.why, change.plan.clone()))
        .unwrap_or_default();
    phase(status, Phase::Verifying, why, &plan, now);
}

/// The change is over.
pub fn settle(status: &mut GpuWorkloadStatus) {
    let over = status.change.take();
    if over.is_some_and(|change| change.why == ChangeReason::TooSmall) {
        status.previous = None;
    }
}

/// The decision before takes the place of one that did not do; that is avoided for a while. Nothing where there is
/// none.
pub fn back(
    status: &mut GpuWorkloadStatus,
    (why, words): (ChangeReason, &str),
    plan: &str,
    limits: &Limits,
    now: Timestamp,
) {
    let Some(previous) = status.previous.take() else {
        return;
    };
    if let Some(failed) = status.decision.replace(previous) {
        let until = now.checked_add(limits.avoid).unwrap_or(Timestamp::MAX);
        let stays = |one: &Avoided| one.holds(now) && !one.names(&failed);
        status.avoided.retain(stays);
        // The oldest give way: the schema has room for so many.
        while status.avoided.len() >= 64 {
            status.avoided.remove(0);
        }
        let (gpu, slice) = (failed.gpu.clone(), failed.slice.clone());
        let same = status
            .decision
            .as_ref()
            .is_some_and(|now| now.gpu == gpu && now.slice == slice);
        // Fewer replicas of the same GPU failed: the GPU is not to blame.
        if !same {
            status.avoided.push(Avoided {
                gpu,
                slice,
                until: format!("{until:.0}"),
                why: words.to_owned(),
            });
        }
    }
    phase(status, Phase::RollingBack, why, plan, now);
}

fn phase(
    status: &mut GpuWorkloadStatus,
    phase: Phase,
    why: ChangeReason,
    plan: &str,
    now: Timestamp,
) {
    status.missed = 0;
    status.change = Some(Change {
        phase,
        since: format!("{now:.0}"),
        plan: plan.to_owned(),
        why,
        told: 0,
    });
}
