//! What is judged, as Markdown.

use gpuwise_measure::tier::{
    accuracy::{ProductJudgement, SHARES},
    timings::Timings,
    unseen::LeftOut,
};
use gpuwise_view::table::{Cell, Column, Table};
use std::fmt::Write as _;

pub(super) const HEAD: &str = "# How good tier choice is

Written by `gpuwise tier --evaluate`; every figure of a product is of rows that were left out when it
was predicted, and each table of workloads says by what it was predicted.
A *shape* left out is left out on every GPU and in every precision at once; a *GPU* with every board of
the same chip (H100 with H200, B200 with GB200, B300 with GB300). Regret is the cost of what was chosen
over the least cost that was to be had, less 1; within 5 % of the best counts as the best.

    gpuwise tier --evaluate --matmuls profile/gemm/gemm_latency.csv.gz --matmuls operators/gemm.csv.gz
    gpuwise tier --evaluate WORKLOADS
    gpuwise tier --evaluate WORKLOADS --leave-out model

WORKLOADS: `--workloads` with each of `argonne_llm_inference_bench.csv`, `mlperf_inference.csv` and
`aic_silicon_inferencex.csv` of `questions/`. Choices are taken by the functions that decide in `tier`.
";

fn share(value: f64) -> Cell {
    if value.is_finite() {
        Cell::new(format!("{value:.3}"), value)
    } else {
        Cell::missing()
    }
}

fn percent(value: f64) -> Cell {
    if value.is_finite() {
        Cell::new(format!("{:.1}", 100.0 * value), 100.0 * value)
    } else {
        Cell::missing()
    }
}

/// Errors, choices, risk and coverage on matrix products.
pub(super) fn products(timings: &Timings, judged: &ProductJudgement) -> String {
    let mut text = String::from("\n## Times of matrix products\n\n");
    text += "By operator functions that were fitted without what is left out: the same by which `tier` and `plan` price, and fitted in the same way. Ranges are what 80 % of the errors, taken both ways, lie between on other chips of which as near a relative was timed (generation, family). Where they span more than three times, nothing is said, and neither of a GPU of whose family nothing was timed where fewer than three others stood so alone: these rows *abstained*, and no choice is judged about them.\n\n";
    for (system, precision, rows) in &timings.host_bound {
        let precision = precision.name();
        let _ = writeln!(
            text,
            "{rows} rows of {system} in {precision} are not judged: they were timed launch by launch, and are the host's."
        );
    }
    text += "\n";
    text += &errors(judged, false).to_markdown();
    text += "\n### GPU by GPU\n\n";
    text += &errors(judged, true).to_markdown();
    text += "\n## Which GPU for a matrix product\n\n";
    text += &choices(judged).to_markdown();
    text += "\n## Risk and coverage\n\nMean regret when only that share of the decisions is taken whose expected regret is least.\n\n";
    text += &risks(judged).to_markdown();
    text
}

fn errors(judged: &ProductJudgement, by_gpu: bool) -> Table {
    let mut columns = vec![
        Column::left("left_out", "left out"),
        Column::left("precision", "precision"),
    ];
    if by_gpu {
        columns.push(Column::left("gpu", "GPU"));
    }
    columns.extend([
        Column::right("rows", "rows"),
        Column::right("abstained", "abstained"),
        Column::right("median_error_percent", "median error").unit("%"),
        Column::right("p90_error_percent", "90 %").unit("%"),
        Column::right("roofline_median_percent", "roofline's median").unit("%"),
        Column::right("inside_percent", "in 80 % range").unit("%"),
    ]);
    let mut table = Table::new(columns);
    for row in judged
        .errors
        .iter()
        .filter(|row| row.gpu.is_some() == by_gpu)
    {
        let mut cells = vec![
            Cell::text(row.left_out.name()),
            Cell::text(row.precision.name()),
        ];
        if let Some(gpu) = &row.gpu {
            cells.push(Cell::text(gpu));
        }
        cells.extend([
            Cell::count(row.rows.0 as u64),
            Cell::count(row.rows.1 as u64),
            percent(row.error.0),
            percent(row.error.1),
            percent(row.roofline),
            percent(row.inside),
        ]);
        table.push(cells);
    }
    table
}

fn choices(judged: &ProductJudgement) -> Table {
    let mut table = Table::new(vec![
        Column::left("left_out", "left out"),
        Column::left("cost", "least"),
        Column::left("precision", "precision"),
        Column::left("chooser", "chooser"),
        Column::right("decisions", "decisions"),
        Column::right("top", "best or within 5 %"),
        Column::right("mean_regret", "mean regret"),
        Column::right("p95_regret", "95 %"),
    ]);
    for row in &judged.choices {
        let left_out = match (row.left_out, row.chooser.as_str()) {
            (_, "gpuwise") => row.left_out.name(),
            (LeftOut::Shapes, _) => "–",
            _ => row.left_out.name(),
        };
        table.push(vec![
            Cell::text(left_out),
            Cell::text(row.cost),
            Cell::text(row.precision.name()),
            Cell::text(&row.chooser),
            Cell::count(row.judgement.decisions as u64),
            share(row.judgement.top),
            share(row.judgement.mean),
            share(row.judgement.p95),
        ]);
    }
    table
}

fn risks(judged: &ProductJudgement) -> Table {
    let mut columns = vec![
        Column::left("left_out", "left out"),
        Column::left("cost", "least"),
        Column::left("precision", "precision"),
    ];
    columns.extend(SHARES.map(|share| {
        let percent = format!("{:.0}", 100.0 * share);
        Column::right(format!("mean_regret_{percent}"), format!("{percent} %"))
    }));
    let mut table = Table::new(columns);
    for row in &judged.risks {
        let mut cells = vec![
            Cell::text(row.left_out.name()),
            Cell::text(row.cost),
            Cell::text(row.precision.name()),
        ];
        cells.extend(row.curve.iter().map(|(_, judgement)| {
            if judgement.mean.is_finite() {
                Cell::new(format!("{:.4}", judgement.mean), judgement.mean)
            } else {
                Cell::missing()
            }
        }));
        table.push(cells);
    }
    table
}
