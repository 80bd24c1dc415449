//! What became of a checkpoint.

use super::{convert::Done, made::Merged};
use gpuwise_compress::{Scheme, relative_error};
use gpuwise_units::Bytes;
use gpuwise_view::table::{Cell, Column, Table};
use std::collections::BTreeMap;

/// In what a loss is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lost {
    /// How far numbers are from what they were: the relative error in the Frobenius norm.
    Error,
    /// The share of the sum of squares that was removed.
    Removed,
}

impl Lost {
    pub(super) fn by(scheme: Scheme) -> Self {
        match scheme {
            Scheme::TwoFour(_) => Self::Removed,
            _ => Self::Error,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Removed => "removed",
        }
    }

    /// Of sums of squares: what was lost, and what there was.
    fn of(self, lost: f64, power: f64) -> f64 {
        match self {
            Self::Error => relative_error(lost, power),
            Self::Removed => relative_error(lost, power).powi(2),
        }
    }

    fn said(self, worst: &Done) -> String {
        let what = match self {
            Self::Error => "error: relative, in the Frobenius norm; the worst is",
            Self::Removed => {
                "removed: of the sum of the squares of weights; little of it can be much of the quality, and there is \
                 no knowing without fine-tuning and a measurement; the most is of"
            }
        };
        let share = self.of(worst.lost, worst.power) * 100.0;
        format!("{what} {} with {share:.2} %", worst.tensor)
    }
}

/// Tensors of one kind together.
#[derive(Default)]
struct Kind {
    tensors: u64,
    before: u64,
    after: u64,
    lost: f64,
    power: f64,
    /// The largest loss of one of them.
    worst: f64,
}

fn percent(share: f64) -> Cell {
    Cell::new(format!("{:.2} %", share * 100.0), share)
}

fn bytes(count: u64) -> Cell {
    Cell::new(Bytes::new(count).to_string(), count)
}

pub(super) fn table(done: &[Done], how: Lost, (written, said): (&str, &[Option<String>])) -> Table {
    let mut table = Table::new(vec![
        Column::left("layers", "layers"),
        Column::right("tensors", "tensors"),
        Column::right("before", "before"),
        Column::right("after", "after"),
        Column::right(how.name(), how.name()),
        Column::right("worst", "worst"),
    ]);
    let mut kinds: BTreeMap<(bool, String), Kind> = BTreeMap::new();
    for one in done {
        let key = if let Some(why) = &one.kept {
            (true, format!("kept: {why}"))
        } else {
            let layer = super::choose::layer(&one.tensor).unwrap_or(&one.tensor);
            (false, layer.rsplit('.').next().unwrap_or(layer).to_owned())
        };
        let kind = kinds.entry(key).or_default();
        kind.tensors += 1;
        kind.before += one.bytes_before;
        kind.after += one.bytes_after;
        kind.lost += one.lost;
        kind.power += one.power;
        kind.worst = kind.worst.max(how.of(one.lost, one.power));
    }
    let mut whole = Kind::default();
    for ((kept, name), kind) in kinds {
        whole.tensors += kind.tensors;
        whole.before += kind.before;
        whole.after += kind.after;
        whole.lost += kind.lost;
        whole.power += kind.power;
        whole.worst = whole.worst.max(kind.worst);
        table.push(row(&name, &kind, how, kept));
    }
    table.push(row("all", &whole, how, false));
    let worst = done.iter().filter(|one| one.kept.is_none());
    let worst = worst.max_by(|a, b| how.of(a.lost, a.power).total_cmp(&how.of(b.lost, b.power)));
    if let Some(worst) = worst {
        table.footnote(how.said(worst));
    }
    if let Some((added, rounded)) = merged(done.iter()).filter(|(added, _)| *added > 0.0) {
        table.footnote(format!(
            "adapter: merged before; it adds {:.2} % to its layers, of which {:.2} % went by rounding the sum",
            added * 100.0,
            rounded * 100.0
        ));
    }
    for said in said.iter().flatten() {
        table.footnote(said.clone());
    }
    table.footnote(format!(
        "written: {written}; the quality that is left was not measured"
    ));
    table
}

/// What an adapter added and what rounding took of that, of all these.
fn merged<'a>(done: impl Iterator<Item = &'a Done>) -> Option<(f64, f64)> {
    let all = done.filter_map(|one| one.merged);
    let all = all.reduce(|all, one| Merged {
        power: all.power + one.power,
        added: all.added + one.added,
        lost: all.lost + one.lost,
    })?;
    Some((
        relative_error(all.added, all.power),
        relative_error(all.lost, all.added),
    ))
}

/// What became of weights that are as exact as they were.
pub(super) fn table_of_exact(
    done: &[Done],
    written: &str,
    (adapter, before): (bool, Option<String>),
) -> Table {
    let mut columns = vec![
        Column::left("layers", "layers"),
        Column::right("tensors", "tensors"),
        Column::right("bytes", "size"),
    ];
    if adapter {
        columns.push(Column::right("added", "added"));
        columns.push(Column::right("rounded", "rounded"));
    }
    let mut table = Table::new(columns);
    let mut kinds: BTreeMap<(bool, &str), Vec<&Done>> = BTreeMap::new();
    for one in done {
        let layer = super::choose::layer(&one.tensor).unwrap_or(&one.tensor);
        let key = match one.merged {
            Some(_) => (false, layer.rsplit('.').next().unwrap_or(layer)),
            None => (true, "as they were"),
        };
        kinds.entry(key).or_default().push(one);
    }
    for ((_, name), these) in &kinds {
        let mut row = vec![
            Cell::text(*name),
            Cell::count(these.len() as u64),
            bytes(these.iter().map(|one| one.bytes_after).sum()),
        ];
        if adapter {
            let merged = merged(these.iter().copied()).filter(|(added, _)| *added > 0.0);
            row.push(Cell::of(merged, |(added, _)| percent(added)));
            row.push(Cell::of(merged, |(_, rounded)| percent(rounded)));
        }
        table.push(row);
    }
    if adapter {
        table.footnote("added: what the adapter adds, of the weights; rounded: what storing the sum in their numbers takes of that; both in the Frobenius norm");
    }
    if let Some(said) = before {
        table.footnote(said);
    }
    table.footnote(format!("written: {written}"));
    table
}

/// What became of each tensor.
pub(super) fn tensors(done: &[Done], how: Lost) -> Table {
    let mut table = Table::new(vec![
        Column::left("tensor", "tensor"),
        Column::right("elements", "elements"),
        Column::right("bytes_before", "before"),
        Column::right("bytes_after", "after"),
        Column::right(how.name(), how.name()),
        Column::left("kept", "kept"),
    ]);
    for one in done {
        let relative = how.of(one.lost, one.power);
        table.push(vec![
            Cell::text(one.tensor.as_str()),
            Cell::count(one.elements),
            Cell::count(one.bytes_before),
            Cell::count(one.bytes_after),
            if one.kept.is_some() {
                Cell::missing()
            } else {
                percent(relative)
            },
            Cell::of(one.kept.as_deref(), Cell::text),
        ]);
    }
    table
}

/// What became of weights that are plain numbers again.
pub(super) fn table_of_plain(done: &[Done], written: &str) -> Table {
    let mut table = Table::new(vec![
        Column::left("layers", "layers"),
        Column::right("tensors", "tensors"),
        Column::right("after", "after"),
    ]);
    for (name, quantized) in [("quantized before", true), ("as they were", false)] {
        let these = || done.iter().filter(|one| one.kept.is_none() == quantized);
        table.push(vec![
            Cell::text(name),
            Cell::count(these().count() as u64),
            bytes(these().map(|one| one.bytes_after).sum()),
        ]);
    }
    table.footnote(format!(
        "written: {written}; what was lost before stays lost"
    ));
    table
}

fn row(name: &str, kind: &Kind, how: Lost, kept: bool) -> Vec<Cell> {
    let (lost, worst) = if kept {
        (Cell::missing(), Cell::missing())
    } else {
        (percent(how.of(kind.lost, kind.power)), percent(kind.worst))
    };
    vec![
        Cell::text(name),
        Cell::count(kind.tensors),
        bytes(kind.before),
        bytes(kind.after),
        lost,
        worst,
    ]
}
