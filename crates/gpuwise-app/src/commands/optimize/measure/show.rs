//! What was measured, before and after.

use super::{Figure, Measured, Side, save::Saved};
use gpuwise_units::Bytes;
use gpuwise_view::{
    figures,
    table::{Cell, Column, Table},
};

/// Rounded to where its error begins: `6.23 ± 0.04`.
fn told(figure: Figure) -> String {
    let Figure { value, error } = figure;
    let digits = if error > 0.0 {
        (1 - error.log10().floor() as i32).clamp(0, 6) as usize
    } else {
        3
    };
    format!("{value:.digits$} ± {error:.digits$}")
}

fn shown(figure: Figure, after: &str) -> Cell {
    Cell::new(format!("{}{after}", told(figure)), figure.value)
}

fn error(figure: Option<Figure>) -> Cell {
    Cell::of(figure, |figure| Cell::new("", figure.error))
}

/// A row of the table.
struct Row {
    what: &'static str,
    before: Option<Figure>,
    after: Option<Figure>,
    change: Cell,
}

impl Row {
    /// The same of both sides.
    fn of(
        what: &'static str,
        measured: &Measured,
        figure: impl Fn(&Side) -> Option<Figure>,
        change: impl Fn(f64) -> Cell,
    ) -> Self {
        let distance = measured.distance.as_ref();
        let before = distance.and_then(|distance| figure(&distance.original));
        let after = figure(&measured.model);
        let ratio = before.zip(after).map(|(b, a)| a.value / b.value);
        Self {
            what,
            before,
            after,
            change: Cell::of(ratio, change),
        }
    }

    fn cells(self) -> Vec<Cell> {
        vec![
            Cell::text(self.what),
            Cell::of(self.before, |figure| shown(figure, "")),
            Cell::of(self.after, |figure| shown(figure, "")),
            self.change,
            error(self.before),
            error(self.after),
        ]
    }
}

fn size(measured: &Measured) -> Vec<Cell> {
    let cell = |side: &Side| {
        Cell::of(side.bytes, |count| {
            Cell::new(Bytes::new(count).to_string(), count)
        })
    };
    let before = measured.distance.as_ref().map(|of| &of.original);
    let ratio = before
        .and_then(|before| before.bytes)
        .zip(measured.model.bytes)
        .map(|(before, after)| after as f64 / before as f64);
    vec![
        Cell::text("weights"),
        before.map_or_else(Cell::missing, cell),
        cell(&measured.model),
        Cell::of(ratio, factor),
        Cell::missing(),
        Cell::missing(),
    ]
}

fn factor(ratio: f64) -> Cell {
    Cell::new(format!("× {}", figures::number(ratio)), ratio)
}

/// A figure that only both together have.
fn between(what: &str, figure: Figure, after: &str) -> Vec<Cell> {
    vec![
        Cell::text(what),
        Cell::missing(),
        shown(figure, after),
        Cell::missing(),
        Cell::missing(),
        Cell::new("", figure.error),
    ]
}

pub(super) fn table(measured: &Measured, saved: Option<&Saved>) -> Table {
    let distance = measured.distance.as_ref();
    let before = distance.map_or("before", |distance| distance.original.name.as_str());
    let mut table = Table::new(vec![
        Column::left("measure", "measure"),
        Column::right("before", before),
        Column::right("after", measured.model.name.as_str()),
        Column::right("change", "change"),
        Column::raw("before_error"),
        Column::raw("after_error"),
    ]);
    if measured.model.bytes.is_some() {
        table.push(size(measured));
    }
    let loss = distance.map(|distance| distance.loss);
    let mut perplexity = Row::of("perplexity", measured, |side| Some(side.perplexity), factor);
    if let Some(loss) = loss {
        let sign = if loss.value >= 0.0 { "+" } else { "" };
        perplexity.change = Cell::new(format!("{sign}{} %", told(loss)), loss.value / 100.0);
    }
    table.push(perplexity.cells());
    if let Some(divergence) = distance.and_then(|distance| distance.divergence) {
        table.push(between("KL divergence", divergence, ""));
    }
    if let Some(distance) = distance {
        table.push(between("same first token", distance.same_first, " %"));
    }
    if measured.model.speed.is_some() {
        let prompt = |side: &Side| side.speed.map(|speed| speed.prompt);
        table.push(Row::of("prompt, tokens/s", measured, prompt, factor).cells());
        let answer = |side: &Side| side.speed.map(|speed| speed.answer);
        table.push(Row::of("answer, tokens/s", measured, answer, factor).cells());
    }
    notes(&mut table, measured, saved);
    table
}

fn notes(table: &mut Table, measured: &Measured, saved: Option<&Saved>) {
    table.footnote(format!(
        "on {}: {}, {} tokens scored; by {}; ± one standard error, of the change token by token",
        measured.text,
        measured.pieces,
        figures::count(measured.scored),
        measured.by
    ));
    match &measured.distance {
        Some(distance) if distance.loss.value.abs() < 2.0 * distance.loss.error => {
            table.footnote("the loss is within what this text can tell: a longer --text says more");
        }
        Some(_) => {}
        None => table.footnote("what was lost needs the original: --against"),
    }
    for note in &measured.notes {
        table.footnote(note.as_str());
    }
    if let Some(saved) = saved {
        table.footnote(format!(
            "kept in {}: {} {} loses {} % of perplexity",
            saved.file.display(),
            saved.model,
            saved.scheme,
            figures::number(saved.loss)
        ));
    }
}
