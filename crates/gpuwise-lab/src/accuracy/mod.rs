//! Predicted against measured values: errors by group.

mod report;

pub use report::{Section, report};

use gpuwise_domain::estimate::Basis;
use gpuwise_units::math;
use gpuwise_view::table::{Cell, Column, Table};
use std::collections::BTreeMap;

/// A measured row with its prediction.
#[derive(Debug, Clone)]
pub struct Compared {
    /// Equal for rows that ask the same.
    pub identity: String,
    pub source: String,
    pub metric: String,
    pub gpu: String,
    pub model: String,
    pub engine: String,
    pub measured: f64,
    /// The prediction and its range; `None` where it was refused.
    pub predicted: Option<(f64, f64, f64)>,
    pub basis: Option<Basis>,
    /// Whether it was predicted by constants that were fitted on its own table.
    pub in_sample: bool,
}

gpuwise_units::named! {
    /// By what errors are grouped.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
    pub enum By: title {
        /// By table and metric.
        Source = "table",
        /// By metric alone.
        Metric = "metric",
        /// By metric and GPU.
        Gpu = "GPU",
        /// By metric and model.
        Model = "model",
        /// By metric and engine.
        Engine = "engine",
        /// By metric and what the figure rests on.
        Basis = "basis",
    }
}

impl By {
    fn of(self, row: &Compared) -> String {
        match self {
            Self::Source => row.source.clone(),
            Self::Metric => String::new(),
            Self::Gpu => row.gpu.clone(),
            Self::Model => row.model.clone(),
            Self::Engine => row.engine.clone(),
            Self::Basis => row.basis.map_or("", Basis::name).into(),
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Errors {
    /// Different questions, and how many were answered.
    pub questions: usize,
    pub answered: usize,
    /// Mean and median of |predicted − measured| / measured, and the mean logarithm, in percent.
    pub mean: f64,
    pub median: f64,
    pub bias: f64,
    /// Share inside the 80 % range, in percent, and the median of high over low.
    pub inside: f64,
    pub width: f64,
    /// Answered questions whose own table the constants were fitted on.
    pub in_sample: usize,
}

/// One question: rows that ask the same, with the geometric mean of their values.
fn questions<'a>(rows: impl Iterator<Item = &'a Compared>) -> Vec<(&'a Compared, f64)> {
    let mut sums: BTreeMap<&str, (&Compared, f64, f64)> = BTreeMap::new();
    for row in rows.filter(|row| row.measured > 0.0) {
        let entry = sums.entry(&row.identity).or_insert((row, 0.0, 0.0));
        entry.1 += row.measured.ln();
        entry.2 += 1.0;
    }
    sums.into_values()
        .map(|(row, sum, count)| (row, (sum / count).exp()))
        .collect()
}

pub fn errors<'a>(rows: impl Iterator<Item = &'a Compared>) -> Errors {
    let questions = questions(rows);
    let mut relative = Vec::new();
    let mut widths = Vec::new();
    let (mut bias, mut inside) = (0.0, 0.0);
    let mut in_sample = 0;
    for (row, measured) in &questions {
        let Some((value, low, high)) = row.predicted else {
            continue;
        };
        relative.push((value - measured).abs() / measured);
        widths.push(high / low);
        in_sample += usize::from(row.in_sample);
        bias += (value / measured).ln();
        if (low..=high).contains(measured) {
            inside += 1.0;
        }
    }
    let count = relative.len() as f64;
    if relative.is_empty() {
        return Errors {
            questions: questions.len(),
            ..Errors::default()
        };
    }
    Errors {
        questions: questions.len(),
        answered: relative.len(),
        mean: 100.0 * relative.iter().sum::<f64>() / count,
        median: 100.0 * median(&mut relative),
        bias: 100.0 * bias / count,
        inside: 100.0 * inside / count,
        width: median(&mut widths),
        in_sample,
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    math::median(values).unwrap_or(f64::NAN)
}

/// A table of errors by metric and group.
pub fn table(rows: &[Compared], by: By) -> Table {
    let mut columns = vec![Column::left("metric", "metric").wrap(20)];
    if by != By::Metric {
        columns.push(Column::left("group", by.title()).wrap(16));
    }
    columns.extend([
        Column::right("questions", "asked"),
        Column::right("answered", "told"),
        Column::right("in_sample", "in-sample"),
        Column::right("mean_error_percent", "mean %"),
        Column::right("median_error_percent", "median %"),
        Column::right("bias_percent", "bias %"),
        Column::right("inside_percent", "in range %"),
        Column::right("high_over_low", "high/low"),
    ]);
    let mut groups: BTreeMap<(String, String), Vec<&Compared>> = BTreeMap::new();
    for row in rows {
        groups
            .entry((row.metric.clone(), by.of(row)))
            .or_default()
            .push(row);
    }
    let mut table = Table::new(columns);
    for ((metric, group), rows) in groups {
        let errors = errors(rows.into_iter());
        let figure = |value: f64, decimals: usize| {
            if errors.answered == 0 {
                Cell::missing()
            } else {
                Cell::new(format!("{value:.decimals$}"), value)
            }
        };
        let mut cells = vec![Cell::text(metric)];
        if by != By::Metric {
            cells.push(Cell::text(group));
        }
        cells.extend([
            Cell::count(errors.questions as u64),
            Cell::count(errors.answered as u64),
            Cell::count(errors.in_sample as u64),
            figure(errors.mean, 1),
            figure(errors.median, 1),
            figure(errors.bias, 1),
            figure(errors.inside, 0),
            figure(errors.width, 2),
        ]);
        table.push(cells);
    }
    table.footnote("asked: different questions; told: answered; in-sample: told by constants that were fitted on the same table; errors |predicted − measured| / measured; bias: mean ln(predicted / measured); in range: measured values inside the 80 % range");
    table
}
