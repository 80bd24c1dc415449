//! What a candidate failed, and of all that failed the nearest.

use alloc::{string::String, vec::Vec};
use core::cmp::Ordering;
use gpuwise_domain::{
    deployment::{Dropped, Test},
    fix::Fix,
    reason::Reason,
};
use gpuwise_units::HourlyPrice;

/// A test that a candidate failed.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) test: Test,
    pub(crate) shortfall: Reason,
    pub(crate) fixes: Vec<Fix>,
    /// Needed over had.
    pub(crate) ratio: f64,
}

impl Failure {
    pub(crate) const fn new(test: Test, shortfall: Reason, ratio: f64) -> Self {
        Self {
            test,
            shortfall,
            fixes: Vec::new(),
            ratio,
        }
    }

    pub(crate) fn fixed_by(mut self, fix: impl Into<Option<Fix>>) -> Self {
        self.fixes.extend(fix.into());
        self
    }

    /// It passes every test; another does it for less.
    pub(crate) fn dominated(own: Option<HourlyPrice>, best: Option<HourlyPrice>) -> Self {
        let Some(hour) = own else {
            return Self::new(Test::Dominated, Reason::Unoffered, f64::INFINITY);
        };
        let times = best.map(|best| hour.0.as_f64() / best.0.as_f64().max(1e-9));
        let shortfall = Reason::Dearer { hour, times };
        Self::new(Test::Dominated, shortfall, times.unwrap_or(1.0))
    }

    pub(crate) fn dropped(self, label: String, gpu: &str) -> Dropped {
        Dropped {
            label,
            gpu: gpu.into(),
            test: self.test,
            shortfall: self.shortfall,
            fixes: self.fixes,
            ratio: self.ratio,
        }
    }
}

/// What failed later and by less came nearer; support comes first because nothing else was looked at.
pub(crate) fn nearer(a: (Test, f64), b: (Test, f64)) -> Ordering {
    b.0.cmp(&a.0).then(a.1.total_cmp(&b.1))
}

/// The nearest of each GPU that is not shown, the nearest first.
pub(crate) fn one_per_gpu(mut dropped: Vec<Dropped>, shown: &[&str]) -> Vec<Dropped> {
    dropped.retain(|one| !shown.contains(&one.gpu.as_str()));
    dropped.sort_by(|a, b| nearer((a.test, a.ratio), (b.test, b.ratio)));
    let mut out: Vec<Dropped> = Vec::new();
    for one in dropped {
        if !out.iter().any(|told| told.gpu == one.gpu) {
            out.push(one);
        }
    }
    out
}
