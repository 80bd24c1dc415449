//! `gpuwise predict`: many questions at once.

use super::{Context, Exit};
use crate::{
    catalogue, knowledge,
    questions::{Rows, answers, models_of, read_rows, with_stated_gpus},
    simulation::{Simulate, simulated},
};
use gpuwise_lab::answer::Answer;
use gpuwise_view::table::{Cell, Column, Table};
use std::path::PathBuf;

/// Flags of `gpuwise predict`.
#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Tables of questions (CSV, also .gz; `-` is standard input; a directory stands for its files)
    #[arg(required = true, value_name = "QUESTIONS")]
    questions: Vec<PathBuf>,
    /// Follow questions with a rate or a trace request by request, in place of formulas
    #[arg(long)]
    simulate: bool,
}

pub fn run(context: &Context, flags: &Flags) -> anyhow::Result<Exit> {
    let asked = read_rows(&flags.questions)?;
    let loaded = with_stated_gpus(&asked, catalogue::load(&context.app.overrides)?);
    let knowledge = knowledge::load(&loaded)?;
    let models = models_of(&asked, &loaded);
    let rows = Rows {
        asked: &asked,
        models: &models,
        loaded: &loaded,
    };
    let answers = answers(rows, &knowledge);
    let answers = if flags.simulate {
        let seed = context.app.seed;
        let which = Simulate::Dynamic;
        simulated(&asked, answers, &models, &loaded, &knowledge, seed, which)
    } else {
        answers
    };
    let mut table = Table::new(vec![
        Column::left("id", "id"),
        Column::left("metric", "metric"),
        Column::right("value", "value"),
        Column::right("low", "low"),
        Column::right("high", "high"),
        Column::left("unit", "unit"),
        Column::left("basis", "basis"),
        Column::left("reason", "reason").priority(2).wrap(20),
    ]);
    for (row, answer) in asked.iter().zip(&answers) {
        table.push(cells(
            &row.question.id,
            &row.question.metric,
            &row.question.unit,
            answer,
        ));
    }
    context.table(&table)?;
    Ok(Exit::Yes)
}

fn cells(id: &str, metric: &str, unit: &str, answer: &Answer) -> Vec<Cell> {
    let number = |value: Option<f64>| Cell::of(value, Cell::number);
    vec![
        Cell::text(id),
        Cell::text(metric),
        number(answer.estimate.map(|e| e.value)),
        number(answer.estimate.map(|e| e.low)),
        number(answer.estimate.map(|e| e.high)),
        Cell::text(unit),
        Cell::of(answer.basis, |basis| Cell::text(basis.name())),
        Cell::text(&answer.reason),
    ]
}
