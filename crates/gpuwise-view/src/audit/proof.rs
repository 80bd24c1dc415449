//! Proposals that were remembered, and what became of them.

use crate::{
    figures,
    table::{Cell, Column, Table},
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

pub fn proof_table(rows: &[ProofRow]) -> Table {
    let mut table = Table::new(vec![
        Column::left("workload", "Workload").wrap(10),
        Column::left("proposal", "proposed").wrap(12),
        Column::left("made", "on").priority(1),
        Column::left("state", "is"),
        Column::right("predicted_saving_per_hour", "predicted").unit("$/h"),
        Column::right("proven_saving_per_hour", "proven").unit("$/h"),
        Column::raw("predicted_saving_gpus"),
        Column::raw("proven_saving_gpus"),
        Column::right("latency_change", "latency"),
        Column::raw("latency_before_seconds"),
        Column::raw("latency_after_seconds"),
        Column::left("why", "because").wrap(18).priority(3),
    ])
    .when_empty("Nothing has been proposed yet: `gpuwise audit --prometheus URL` remembers what it proposes.");
    let money = |value: Option<Money>| {
        Cell::of(value, |money| {
            Cell::new(figures::amount(money.as_f64()), money.as_f64())
        })
    };
    for row in rows {
        let (before, after) = row.latency;
        let change = before
            .zip(after)
            .filter(|(before, _)| *before > 0.0)
            .map(|(b, a)| a / b - 1.0);
        table.push(vec![
            Cell::text(row.workload.clone()),
            Cell::text(row.proposal.clone()),
            Cell::text(
                super::civil(row.made_at)
                    .chars()
                    .take(10)
                    .collect::<String>(),
            ),
            Cell::text(row.state),
            money(row.predicted),
            money(row.proven),
            Cell::number(row.predicted_gpus),
            Cell::of(row.proven_gpus, Cell::number),
            Cell::of(change, |change| {
                Cell::new(format!("{:+.0} %", change * 100.0), change)
            }),
            Cell::of(before, Cell::number),
            Cell::of(after, Cell::number),
            Cell::text(row.why.clone()),
        ]);
    }
    table
}
