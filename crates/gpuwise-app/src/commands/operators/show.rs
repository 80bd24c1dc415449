//! `gpuwise operators show`.

use super::super::{Context, Exit};
use crate::operators::{functions, operator};
use crate::schemas::AnswerName;
use crate::{catalogue, error::Problem, names, settings::OperatorsShow, write::Pending};
use gpuwise_operators::{Basis, Example, Functions, Line, Silicon, Size, tables::Operator};
use gpuwise_view::{
    svg::{EfficiencySeries, efficiency},
    table::{Cell, Column, Table},
};

pub(super) fn run(context: &Context, flags: &OperatorsShow) -> anyhow::Result<Exit> {
    let pending = flags.output.as_deref().map(Pending::new).transpose()?;
    let loaded = catalogue::load(&context.app.overrides)?;
    let device = names::device(&loaded.catalogue, "GPU", &flags.gpu)?;
    let silicon = Silicon::of(&device);
    let engine = crate::engine::engine(&flags.engine)?.kind;
    let operator = operator("operator", &flags.operator)?;
    let functions = functions(&loaded)?;
    let nothing = || Problem::new(format!("operator {}: nothing to draw", operator.name));
    let example = functions
        .example(operator, engine, &silicon)
        .ok_or_else(nothing)?;
    if example.over_link() && silicon.link <= 0.0 {
        let what = format!("{}: no link between GPUs is known", silicon.name);
        return Err(Problem::new(what).into());
    }
    let mut table = Table::new(columns(example.size));
    let mut series = Vec::new();
    for line in &example.lines {
        series.push(curve(&functions, operator, &example, line, &mut table)?);
    }
    let on = format!("{} on {}", example.what, silicon.name);
    table.footnote(format!(
        "{on} under {}; weights and caches come from memory. Roofline: {}.",
        engine.title(),
        example.limit
    ));
    if series.iter().any(|one| one.extrapolated) {
        table.footnote(format!(
            "Extrapolated: nothing was measured on {} under {} in this format; the share is carried, the specs are its own.",
            silicon.name,
            engine.title()
        ));
    }
    if let Some(pending) = pending {
        let picture =
            efficiency(&series, &on, axis(example.size), "efficiency").ok_or_else(nothing)?;
        pending.finish(&picture.to_svg())?;
    }
    context.answering(AnswerName::OperatorsShow).table(&table)?;
    Ok(Exit::Yes)
}

fn columns(size: Size) -> Vec<Column> {
    let title = match size {
        Size::Tokens => "Tokens",
        Size::Sequences => "Sequences",
        Size::Bytes => "Bytes",
    };
    vec![
        Column::left("format", "Format"),
        Column::right(size.name(), title),
        Column::right("time", "Time").unit("ms"),
        Column::right("low", "Low").unit("ms"),
        Column::right("high", "High").unit("ms"),
        Column::right("share", "Of roofline").unit("%"),
        Column::left("basis", "Basis"),
    ]
}

/// What the drawn axis is called; bytes are drawn in millions.
const fn axis(size: Size) -> &'static str {
    match size {
        Size::Bytes => "MB",
        other => other.name(),
    }
}

/// A format's rows, and what is drawn of it.
fn curve(
    functions: &Functions,
    operator: &Operator,
    example: &Example,
    line: &Line,
    table: &mut Table,
) -> anyhow::Result<EfficiencySeries> {
    let scale = if example.size == Size::Bytes {
        1e-6
    } else {
        1.0
    };
    let mut points = Vec::new();
    let mut basis = None;
    for doubling in example.doublings.clone() {
        let size = 1_u64 << doubling;
        let (told, share) = functions.along(operator, line, size as f64)?;
        points.push((size as f64 * scale, share));
        table.push(vec![
            Cell::text(&line.format),
            Cell::count(size),
            Cell::number(told.seconds * 1e3),
            Cell::number(told.low * 1e3),
            Cell::number(told.high * 1e3),
            Cell::new(format!("{:.0}", share * 100.0), share * 100.0),
            Cell::text(told.basis.name()),
        ]);
        basis = Some(told.basis);
    }
    let extrapolated = basis.is_some_and(Basis::extrapolated);
    let name = basis.map_or("", Basis::name);
    Ok(EfficiencySeries {
        name: match name.strip_prefix("carried ") {
            Some(whence) => format!("{}, extrapolated {whence}", line.format),
            None => format!("{}, {name}", line.format),
        },
        points,
        extrapolated,
    })
}
