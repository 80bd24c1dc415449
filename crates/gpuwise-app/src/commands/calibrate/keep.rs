//! Rows of one's own are kept, and what they change is shown.

use super::believed::{once, plausible};
use crate::{
    catalogue,
    commands::{Context, Exit},
    error::Problem,
    held_back::{HeldBackGroup, tried},
    knowledge,
    questions::{QuestionRow, Rows, models_of, read_tables},
    write::Pending,
};
use gpuwise_domain::question::Question;
use gpuwise_lab::observed;
use gpuwise_size::knowledge::Knowledge;
use gpuwise_view::table::{Cell, Column, Table};
use std::{fs, path::Path};

/// Keeps rows as the user's own, and says what they change.
pub(super) fn keep(
    context: &Context,
    asked: &[QuestionRow],
    loaded: &catalogue::Loaded,
) -> anyhow::Result<Exit> {
    let file = knowledge::feedback_file().ok_or_else(|| {
        Problem::new("there is no place for rows of your own").hint("set HOME or XDG_CONFIG_HOME")
    })?;
    let fitted = knowledge::fitted(loaded)?;
    let models = models_of(asked, loaded);
    let rows = Rows {
        asked,
        models: &models,
        loaded,
    };
    let observed = observed(rows, &fitted);
    plausible(asked, &observed)?;
    if observed.is_empty() {
        return Err(
            Problem::new("none of these rows can be compared with a prediction")
                .hint("`gpuwise predict FILE` gives the reason for each row")
                .into(),
        );
    }
    let kept = if file.is_file() {
        fs::read_to_string(&file).unwrap_or_default()
    } else {
        String::new()
    };
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).map_err(|error| {
            Problem::new(format!("cannot make {}", folder.display())).because(error)
        })?;
    }
    let (new, again) = once(&kept, asked.to_vec())?;
    let before = if kept.is_empty() {
        Vec::new()
    } else {
        read_tables(std::slice::from_ref(&file))?
    };
    Pending::new(&file)?.finish(&appended(&kept, &new)?)?;
    let tried = of_all(before, new, &fitted, loaded);
    let mut table = shown_table(&tried);
    let empty = asked
        .iter()
        .filter(|row| row.question.value.is_none_or(|value| value <= 0.0));
    let empty: Vec<&str> = empty.map(|row| row.question.id.as_str()).collect();
    if let Some(first) = empty.first() {
        table.footnote(format!(
            "{} of {} rows have no value above 0 and say nothing, the first of them {first}",
            empty.len(),
            asked.len()
        ));
    }
    for (source, rows) in again {
        let rows = if rows == 1 {
            "1 row".to_owned()
        } else {
            format!("{rows} rows")
        };
        table.footnote(format!("{source}: {rows} known already, which count once"));
    }
    table.footnote(format!(
        "kept in {}; `gpuwise calibrate --forget` removes them",
        shown(&file)
    ));
    context.table(&table)?;
    Ok(Exit::Yes)
}

/// What all rows that are kept are worth by groups: those of rows that are new, or all where none is.
fn of_all(
    before: Vec<QuestionRow>,
    new: Vec<QuestionRow>,
    fitted: &Knowledge,
    loaded: &catalogue::Loaded,
) -> Vec<HeldBackGroup> {
    let (known, some) = (before.len(), !new.is_empty());
    let mut all = before;
    all.extend(new);
    let models = models_of(&all, loaded);
    let rows = Rows {
        asked: &all,
        models: &models,
        loaded,
    };
    let observed = observed(rows, fitted);
    tried(&all, &observed, &fitted.ranges, |row| row >= known || !some)
}

/// What the rows say, and what they are worth on points that they have not seen.
fn shown_table(tried: &[HeldBackGroup]) -> Table {
    let mut table = Table::new(vec![
        Column::left("gpu", "GPU").wrap(14),
        Column::left("model", "model").wrap(12),
        Column::left("weights", "weights").priority(3),
        Column::left("engine", "engine").priority(2),
        Column::left("metric", "metric"),
        Column::right("points", "points").priority(4),
        Column::right("rows", "rows").priority(1),
        Column::right("measured_over_predicted", "measured / predicted").wrap(9),
        Column::right("error_before_percent", "error before")
            .unit("%")
            .wrap(6),
        Column::right("error_after_percent", "after").unit("%"),
        Column::right("range_before", "range before").wrap(9),
        Column::right("range_after", "after"),
        Column::left("applied", "applied").priority(5),
    ]);
    for row in tried {
        let range = |(low, high): (f64, f64)| {
            Cell::text(format!(
                "−{:.0}/+{:.0}",
                (1.0 - low) * 100.0,
                (high - 1.0) * 100.0
            ))
        };
        let percent = |error: f64| Cell::new(format!("{:.1}", error * 100.0), error * 100.0);
        table.push(vec![
            Cell::text(row.gpu.clone()),
            Cell::text(row.model.clone()),
            Cell::text(row.weights.clone()),
            Cell::text(row.engine.clone()),
            Cell::text(row.class.key()),
            Cell::count(row.points as u64),
            Cell::count(row.rows as u64),
            Cell::new(format!("{:.2}", row.ratio), row.ratio),
            percent(row.before),
            Cell::of(row.after, percent),
            range(row.range[0]),
            range(row.range[1]),
            Cell::text(if row.applied { "yes" } else { "no" }),
        ]);
    }
    for row in tried.iter().filter(|row| !row.moves) {
        table.footnote(format!(
            "not applied: {} of {} on {} moves with no step that could be corrected, such as where it is faster than the \
             GPU's bandwidth and peak allow",
            row.class.key(),
            row.model,
            row.gpu
        ));
    }
    for row in tried.iter().filter(|row| !row.applied && row.moves) {
        table.footnote(format!(
            "not applied: {} of {} on {}, since points that are held back are predicted worse with it than without",
            row.class.key(),
            row.model,
            row.gpu
        ));
    }
    table.footnote(
        "error: mean of |predicted − measured| / measured, before, and after as each point is predicted \
         by the others (from 10 points on, each half by the other); range: 80 %, in percent of the figure",
    );
    if tried.iter().any(|row| row.after.is_none()) {
        table.footnote("with one point nothing can be held back: measure at two loads or more");
    }
    table
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

const HEADER: [&str; 16] = [
    "id",
    "model",
    "gpu",
    "num_gpus",
    "tp",
    "pp",
    "dp",
    "precision",
    "engine",
    "isl",
    "osl",
    "batch_or_concurrency",
    "metric",
    "unit",
    "extra",
    "value",
];

/// The kept rows and these, as one table.
pub fn appended(kept: &str, asked: &[QuestionRow]) -> anyhow::Result<String> {
    let mut writer = csv::Writer::from_writer(kept.as_bytes().to_vec());
    if kept.is_empty() {
        writer.write_record(HEADER)?;
    }
    for row in asked.iter().filter(|row| row.question.value.is_some()) {
        writer.write_record(cells(&row.question))?;
    }
    Ok(String::from_utf8(writer.into_inner()?)?)
}

/// A measured row as it is kept, its name first.
pub(super) fn cells(q: &Question) -> [String; 16] {
    let whole = |value: Option<u32>| value.map_or_else(String::new, |v| v.to_string());
    let real = |value: Option<f64>| value.map_or_else(String::new, |v| v.to_string());
    let extra: Vec<String> = q
        .extra
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    [
        q.id.clone(),
        q.model.clone(),
        q.gpu.clone(),
        whole(q.gpus),
        whole(q.tensor),
        whole(q.pipeline),
        whole(q.data),
        q.precision.clone(),
        q.engine.clone(),
        real(q.input),
        real(q.output),
        gpuwise_read::question::load_cell(&q.load),
        q.metric.clone(),
        q.unit.clone(),
        extra.join("; "),
        real(q.value),
    ]
}
