//! Figures by HolisticTraceAnalysis's own definitions, under the names that it gives them.

use crate::{
    figures::number,
    table::{Cell, Column, Table},
};
use gpuwise_domain::profile::hta::HtaFigures;
use serde_json::{Value, json};

/// Temporal breakdown and overlap of each rank.
pub fn ranks(figures: &HtaFigures) -> Table {
    let us = |key: &str, title: &str| Column::right(key, title).unit("µs");
    let percent = |key: &str, title: &str| Column::right(key, title).unit("%");
    let mut table = Table::new(vec![
        Column::right("rank", "rank"),
        us("idle_time(us)", "idle"),
        us("compute_time(us)", "compute"),
        us("non_compute_time(us)", "other"),
        us("kernel_time(us)", "span"),
        percent("idle_time_pctg", "idle"),
        percent("compute_time_pctg", "compute"),
        percent("non_compute_time_pctg", "other"),
        percent("comp_comm_overlap_pctg", "overlap"),
    ])
    .when_empty("No GPU event is in the files.");
    for rank in &figures.ranks {
        let whole = |value: f64| Cell::new(format!("{value:.0}"), value);
        let share = |value: f64| {
            let share = two_decimals(100.0 * value / rank.kernel_us);
            Cell::new(format!("{share:.2}"), share)
        };
        table.push(vec![
            Cell::new(rank.rank.to_string(), rank.rank),
            whole(rank.idle_us),
            whole(rank.compute_us),
            whole(rank.non_compute_us),
            whole(rank.kernel_us),
            share(rank.idle_us),
            share(rank.compute_us),
            share(rank.non_compute_us),
            Cell::of(rank.overlap_percent, |overlap| {
                Cell::new(format!("{overlap:.2}"), two_decimals(overlap))
            }),
        ]);
    }
    table
}

/// Time by kinds of kernels over all ranks.
pub fn kernel_types(figures: &HtaFigures) -> Table {
    let mut table = Table::new(vec![
        Column::left("kernel_type", "kernels"),
        Column::right("sum", "time").unit("µs"),
        Column::right("percentage", "share").unit("%"),
    ]);
    for kind in &figures.kernel_types {
        table.push(vec![
            Cell::text(kind.kernel_type.clone()),
            Cell::new(format!("{:.0}", kind.sum_us), kind.sum_us),
            Cell::new(number(kind.percentage), kind.percentage),
        ]);
    }
    table
}

/// Everything, as HolisticTraceAnalysis names it.
pub fn json(figures: &HtaFigures) -> Value {
    json!({
        "temporal_breakdown": figures.ranks.iter().map(|rank| {
            let share = |value: f64| two_decimals(100.0 * value / rank.kernel_us);
            json!({
                "rank": rank.rank,
                "idle_time(us)": rank.idle_us,
                "compute_time(us)": rank.compute_us,
                "non_compute_time(us)": rank.non_compute_us,
                "kernel_time(us)": rank.kernel_us,
                "idle_time_pctg": share(rank.idle_us),
                "compute_time_pctg": share(rank.compute_us),
                "non_compute_time_pctg": share(rank.non_compute_us),
            })
        }).collect::<Vec<_>>(),
        "comm_comp_overlap": figures.ranks.iter().map(|rank| json!({
            "rank": rank.rank,
            "comp_comm_overlap_pctg": rank.overlap_percent.map(two_decimals),
        })).collect::<Vec<_>>(),
        "kernel_breakdown": {
            "kernel_type": figures.kernel_types.iter().map(|kind| json!({
                "kernel_type": kind.kernel_type,
                "sum": kind.sum_us,
                "percentage": kind.percentage,
            })).collect::<Vec<_>>(),
            "kernels": figures.kernels.iter().map(|kernel| json!({
                "name": kernel.name,
                "sum (us)": kernel.sum_us,
                "max (us)": kernel.max_us,
                "min (us)": kernel.min_us,
                "stddev": kernel.stddev,
                "mean (us)": kernel.mean_us,
                "kernel_type": kernel.kernel_type,
                "rank": kernel.rank,
            })).collect::<Vec<_>>(),
        },
    })
}

fn two_decimals(value: f64) -> f64 {
    (value * 100.0).round_ties_even() / 100.0
}
