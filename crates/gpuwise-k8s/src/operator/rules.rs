//! What a GpuPolicy and GpuQuotas say, as decisions take it.

use crate::{
    resources::{GpuPolicySpec, GpuQuotaSpec, Object, PreemptionName},
    steer::{Cordons, Moves, Preempts, Quota, Rules},
};
use gpuwise_units::Nanoseconds;
use std::{collections::VecDeque, time::Duration};
use tokio::time::Instant;

/// What counts where a policy does not say: moves in an hour, seconds of being suspect and of being well, percent.
const MOVES: i64 = 12;
const AFTER: u64 = 60;
const WELL: u64 = 600;
const SHARE: i64 = 20;

const HOUR: Duration = Duration::from_hours(1);

pub(super) fn quota(object: &Object<GpuQuotaSpec>) -> Quota {
    let spec = &object.spec;
    let count = |gpus: i64| u64::try_from(gpus).unwrap_or_default();
    Quota {
        name: object.metadata.name.clone(),
        namespaces: spec.namespaces.clone(),
        gpus: count(spec.gpus),
        borrowing: spec.borrowing.map(count),
        lending: spec.lending.map(count),
        weight: spec.weight.map_or(1, count),
    }
}

/// What is decided by; `begun`: moves of which there may be so many in an hour.
pub(super) fn rules(object: &Object<GpuPolicySpec>, begun: &Begun) -> Rules {
    let spec = &object.spec;
    let seconds = |seconds: i64| u64::try_from(seconds).unwrap_or_default();
    Rules {
        order: spec.order.map(Into::into),
        backfill: spec.backfill.map(Into::into),
        placement: spec.placement.clone(),
        starvation: spec
            .starvation_seconds
            .map(|s| Nanoseconds(seconds(s).saturating_mul(1_000_000_000))),
        preemption: spec.preemption.map_or(Preempts::Never, Into::into),
        reclaims: spec.reclaim.unwrap_or(false),
        moves: spec.moves.as_ref().map(|moves| {
            let most = moves
                .per_hour
                .unwrap_or(MOVES)
                .clamp(0, i64::from(u32::MAX)) as u32;
            Moves {
                left: most.saturating_sub(begun.within_hour()),
                consolidates: moves.consolidate.unwrap_or(false),
            }
        }),
        repartitions: spec.repartition.unwrap_or(false),
        cordons: spec.cordon.as_ref().map(|cordon| {
            let seconds = |said: Option<i64>, usual: u64| {
                let seconds = said.map_or(usual, seconds);
                Nanoseconds(seconds.saturating_mul(1_000_000_000))
            };
            Cordons {
                after: seconds(cordon.after_seconds, AFTER),
                well: seconds(cordon.well_seconds, WELL),
                most_percent: cordon.most_percent.unwrap_or(SHARE).clamp(0, 100) as u32,
            }
        }),
    }
}

impl From<PreemptionName> for Preempts {
    fn from(name: PreemptionName) -> Self {
        match name {
            PreemptionName::Never => Self::Never,
            PreemptionName::Annotated => Self::Annotated,
            PreemptionName::LowerPriority => Self::LowerPriority,
        }
    }
}

/// When moves began, of the last hour.
#[derive(Debug, Default)]
pub(super) struct Begun(VecDeque<Instant>);

impl Begun {
    pub(super) fn one(&mut self) {
        let now = Instant::now();
        self.0.retain(|at| now.duration_since(*at) < HOUR);
        self.0.push_back(now);
    }

    fn within_hour(&self) -> u32 {
        let recent = self.0.iter().filter(|at| at.elapsed() < HOUR);
        recent.count() as u32
    }
}
