//! `gpuwise evidence`: the published measurements nearest to a question, beside our figures.

use super::{Context, Exit, sources::Sources};
use crate::{catalogue, catalogue::Loaded, error::Problem, knowledge, names, settings::Evidence};
use gpuwise_domain::{
    catalogue::Catalogue,
    estimate::Estimate,
    evidence::EvidenceRow,
    question::{Load, Question},
};
use gpuwise_lab::answer::{self, answer};
use gpuwise_size::{
    evidence::{Nearby, Shape, Sought, nearest},
    knowledge::Knowledge,
};
use gpuwise_view::{
    figures,
    table::{Cell, Column, Table},
};
use std::{cell::RefCell, collections::BTreeMap};

pub fn run(context: &Context, flags: &Evidence) -> anyhow::Result<Exit> {
    let loaded = catalogue::load(&context.app.overrides)?;
    let model = super::model(&flags.model, None, &loaded, &context.app)?;
    let gpu = flags
        .gpu
        .as_deref()
        .map(|name| names::device(&loaded.catalogue, "--gpu", name).map(|device| device.gpu))
        .transpose()?;
    let mut rows = catalogue::evidence(&loaded)?;
    if let Some(metric) = &flags.metric {
        let known: std::collections::BTreeSet<String> =
            rows.iter().map(|row| row.metric.clone()).collect();
        rows.retain(|row| row.metric.contains(metric.as_str()));
        if rows.is_empty() {
            let known: Vec<String> = known.into_iter().collect();
            return Err(
                Problem::new(format!("--metric {metric}: no measurement is of it"))
                    .hint(format!("metrics are {}", known.join(", ")))
                    .into(),
            );
        }
    }
    let shapes: RefCell<BTreeMap<String, Option<Shape>>> = RefCell::default();
    let shape_of = |name: &str| {
        let known = || {
            loaded
                .models
                .resolve(name)
                .ok()
                .map(|(_, architecture)| Shape::of(&architecture))
        };
        *shapes.borrow_mut().entry(name.into()).or_insert_with(known)
    };
    let sought = Sought {
        model: &model.name,
        shape: Shape::of(&model.architecture),
        gpu,
        catalogue: &loaded.catalogue,
    };
    let found = nearest(&rows, &sought, &shape_of, usize::from(flags.top));
    let knowledge = knowledge::load(&loaded)?;
    let of = gpu.map_or_else(String::new, |gpu| format!(" on {}", gpu.name));
    let table = table(
        &found,
        &loaded,
        &knowledge,
        &format!("No published measurement is near {}{of}.", model.name),
    );
    if context.form.format == crate::settings::Format::Table && !table.is_empty() {
        let heading = format!(
            "Published measurements nearest to {}{of}, the nearest first:",
            model.name
        );
        context.data(&format!("{}\n\n", context.form.style.wrap(&heading, 2)))?;
    }
    context.table(&table)?;
    Ok(if table.is_empty() {
        Exit::No
    } else {
        Exit::Yes
    })
}

fn table(found: &[Nearby<'_>], loaded: &Loaded, knowledge: &Knowledge, empty: &str) -> Table {
    let mut table = Table::new(vec![
        Column::left("model", "model").wrap(12),
        Column::left("gpus", "GPUs").wrap(12),
        Column::left("setting", "setting").wrap(12),
        Column::left("load", "load").wrap(10),
        Column::left("metric", "metric").wrap(10),
        Column::right("value", "measured"),
        Column::right("ours", "ours").wrap(14),
        Column::left("near", "how near").priority(40).wrap(12),
        Column::left("source", "source"),
        Column::raw("unit"),
        Column::raw("ours_low"),
        Column::raw("ours_high"),
        Column::raw("ours_basis"),
        Column::raw("distance"),
        Column::raw("gpu"),
        Column::raw("gpu_count"),
        Column::raw("precision"),
        Column::raw("engine"),
        Column::raw("isl"),
        Column::raw("osl"),
        Column::raw("runs"),
        Column::raw("note"),
    ])
    .when_empty(empty);
    let mut sources = Sources::default();
    for near in found {
        let row = near.row;
        let ours = ours(row, loaded, knowledge);
        let estimate = ours.estimate;
        let real = |value: Option<f64>| Cell::of(value, Cell::number);
        let count = row.gpus.unwrap_or(1);
        table.push(vec![
            Cell::new(
                row.model.rsplit('/').next().unwrap_or(&row.model),
                row.model.as_str(),
            ),
            Cell::text(format!("{count} × {}", gpu_name(row, &loaded.catalogue))),
            Cell::text(setting(row)),
            Cell::text(load_of(row)),
            Cell::new(row.metric.replace('_', " "), row.metric.as_str()),
            Cell::new(
                format!("{} {}", figures::number(row.value), row.unit),
                row.value,
            ),
            Cell::of(estimate, |estimate: Estimate| {
                Cell::new(figures::ranged(&estimate), estimate.value)
            }),
            Cell::text(&near.why),
            sources.cell(&row.source),
            Cell::text(&row.unit),
            real(estimate.map(|estimate| estimate.low)),
            real(estimate.map(|estimate| estimate.high)),
            Cell::of(ours.basis, |basis| Cell::text(basis.name())),
            Cell::number(near.distance),
            Cell::text(&row.gpu),
            Cell::count(count.into()),
            Cell::text(&row.precision),
            Cell::text(&row.engine),
            real(row.input),
            real(row.output),
            Cell::count(row.runs.into()),
            Cell::text(&row.note),
        ]);
    }
    table.footnote("Ours is our figure for exactly that row, with its 80 % range, in the same unit; – where the row does not say what it depends on.");
    sources.footnotes(&mut table);
    table
}

/// The catalogue's name of a row's GPU, else as it is published.
fn gpu_name<'a>(row: &'a EvidenceRow, catalogue: &'a Catalogue) -> &'a str {
    catalogue
        .gpu(&row.gpu)
        .map_or(row.gpu.as_str(), |gpu| gpu.name.as_str())
}

fn setting(row: &EvidenceRow) -> String {
    let ranks = |name: &str, ranks: Option<u32>| {
        ranks
            .filter(|ranks| *ranks > 1)
            .map(|ranks| format!("{name}{ranks}"))
    };
    let stated = |text: &str| (!text.is_empty() && text != "UNSET").then(|| text.to_owned());
    let parts = [
        ranks("TP", row.tensor),
        ranks("DP", row.data),
        stated(&row.precision),
        stated(&row.engine),
        stated(&row.note),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn load_of(row: &EvidenceRow) -> String {
    let tokens = |tokens: Option<f64>, way: &str| {
        tokens.map(|tokens| format!("{} {way}", figures::number(tokens)))
    };
    let load = match row.load.strip_prefix("rate=") {
        Some(rate) => Some(rate.to_owned()),
        None if row.load.is_empty() => None,
        None => Some(format!("{} concurrent", row.load)),
    };
    [tokens(row.input, "in"), tokens(row.output, "out"), load]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(", ")
}

/// Our answer to exactly what a row measured.
fn ours(row: &EvidenceRow, loaded: &Loaded, knowledge: &Knowledge) -> answer::Answer {
    let Ok((_, architecture)) = loaded.models.resolve(&row.model) else {
        return answer::Answer::none("the model is not in the catalogue");
    };
    let apart = row.note.contains("apart");
    let Some(load) = load_cell(&row.load).filter(|_| !apart) else {
        return answer::Answer::none("the row does not say how it was measured");
    };
    answer(
        &question(row, load),
        &architecture,
        &loaded.catalogue,
        knowledge,
    )
}

fn load_cell(cell: &str) -> Option<Load> {
    match cell.strip_prefix("rate=") {
        Some(rate) => rate
            .strip_suffix("/s")?
            .parse()
            .ok()
            .map(|rate| Load::Rate(vec![rate])),
        None if cell.is_empty() => Some(Load::Unstated),
        None => cell.parse().ok().map(Load::InFlight),
    }
}

/// A row as a question; its note holds what the question form has as further inputs.
fn question(row: &EvidenceRow, load: Load) -> Question {
    let mut extra = Vec::new();
    let words: Vec<&str> = row
        .note
        .split([' ', ';'])
        .filter(|word| !word.is_empty())
        .collect();
    let scenarios = ["offline", "server", "interactive"];
    for (at, word) in words.iter().enumerate() {
        if scenarios.contains(&word.to_lowercase().as_str()) {
            extra.push(("scenario".to_owned(), (*word).to_owned()));
            if let Some(benchmark) = at.checked_sub(1).and_then(|before| words.get(before)) {
                extra.push(("benchmark".to_owned(), (*benchmark).to_owned()));
            }
        }
        if let Some(ranks) = word
            .strip_prefix("EP")
            .filter(|ranks| ranks.parse::<u32>().is_ok())
        {
            extra.push(("moe_ep".to_owned(), ranks.to_owned()));
        }
    }
    Question {
        model: row.model.clone(),
        gpu: row.gpu.clone(),
        gpus: row.gpus,
        tensor: row.tensor,
        data: row.data,
        precision: row.precision.clone(),
        engine: row.engine.clone(),
        input: row.input,
        output: row.output,
        load,
        metric: row.metric.clone(),
        unit: row.unit.clone(),
        extra,
        ..Question::default()
    }
}
