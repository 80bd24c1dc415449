//! Proposals that were remembered, and what became of them.

use super::{civil, record::hourly};
use crate::{
    record::{self, Fields, Record},
    table::Table,
};
use gpuwise_units::Money;

#[derive(Debug, Clone, PartialEq)]
pub struct ProofRow {
    pub workload: String,
    pub proposal: String,
    /// When, seconds since 1970.
    pub made_at: i64,
    /// What became of it, in a word or two.
    pub state: &'static str,
    /// Money an hour that was predicted.
    pub predicted: Option<Money>,
    /// Money an hour that came.
    pub proven: Option<Money>,
    pub predicted_gpus: f64,
    pub proven_gpus: Option<f64>,
    /// Mean latency before and after, seconds.
    pub latency: (Option<f64>, Option<f64>),
    /// How it is known, or why it cannot be told.
    pub why: String,
}

impl Record for ProofRow {
    const NAME: &'static str = "Proof";

    fn fields(of: &mut Fields<'_, Self>) {
        of.column("workload", "Workload", |r| &r.workload).wrap(10);
        of.column("proposal", "proposed", |r| &r.proposal).wrap(12);
        of.column("made", "on", |r| {
            civil(r.made_at).chars().take(10).collect::<String>()
        })
        .priority(1);
        of.column("state", "is", |r| r.state);
        of.column("predicted_saving_per_hour", "predicted", |r| {
            r.predicted.map(hourly)
        })
        .unit("¤/h");
        of.column("proven_saving_per_hour", "proven", |r| r.proven.map(hourly))
            .unit("¤/h");
        of.field("predicted_saving_gpus", |r| r.predicted_gpus);
        of.field("proven_saving_gpus", |r| r.proven_gpus);
        of.column("latency_change", "latency", |r| {
            let before = r.latency.0.filter(|before| *before > 0.0)?;
            Some(r.latency.1? / before - 1.0)
        })
        .said_of(|change| format!("{:+.0} %", change * 100.0));
        of.field("latency_before_seconds", |r| r.latency.0);
        of.field("latency_after_seconds", |r| r.latency.1);
        of.column("why", "because", |r| &r.why).wrap(18).priority(3);
    }
}

pub fn proof_table(rows: &[ProofRow]) -> Table {
    record::table(rows).when_empty("Nothing has been proposed yet: `gpuwise audit --prometheus URL` remembers what it proposes.")
}
