//! The table, the rule's errors and the popular ranges, in every form.

use super::{Context, Swept};
use crate::settings::Format;
use gpuwise_size::{
    search,
    sweep::{self, Purpose, Row},
};
use gpuwise_units::Bytes;
use gpuwise_view::{
    figures,
    html::AnswerPage,
    svg::{self, Picture, SizeSeries},
    table::{Cell, Column, Table},
};
use serde_json::{Value, json};

pub(super) fn show(context: &Context, swept: &Swept<'_>) -> anyhow::Result<()> {
    let tables = [
        ("rows", sizes(swept)),
        ("rule_errors", rule_errors(swept)),
        ("popular_ranges", ranges(swept)),
    ];
    let shown = tables.iter().filter(|(_, table)| !table.is_empty());
    match context.form.format {
        Format::Table => {
            let texts: Vec<String> = shown
                .map(|(_, table)| table.to_text(context.form.style))
                .collect();
            context.data(&texts.join("\n"))
        }
        Format::Md => {
            let texts: Vec<String> = shown.map(|(_, table)| table.to_markdown()).collect();
            context.data(&texts.join("\n"))
        }
        Format::Csv => context.data(&tables[0].1.to_csv()),
        Format::Json => {
            let mut all = serde_json::Map::new();
            all.insert("models".into(), models(swept));
            all.extend(
                tables
                    .iter()
                    .map(|(key, table)| ((*key).to_owned(), table.to_json())),
            );
            context.json(&Value::Object(all))
        }
    }
}

pub(super) fn page(swept: &Swept<'_>) -> AnswerPage<'static> {
    let named: Vec<&str> = swept
        .models
        .iter()
        .map(|named| short(&named.resolved.name))
        .collect();
    let drawn = picture(swept);
    let tables = [
        ("GPUs and memory", sizes(swept)),
        ("The 25 % rule", rule_errors(swept)),
        ("Popular ranges", ranges(swept)),
    ];
    let tables = tables.into_iter().filter(|(_, table)| !table.is_empty());
    AnswerPage {
        title: "GPU memory against model size".into(),
        answer: format!("GPUs and memory for {}.", named.join(", ")),
        tables: tables
            .map(|(title, table)| (title.to_owned(), table))
            .collect(),
        pictures: drawn
            .map(|drawn| (drawn, "Memory against model size.".into()))
            .into_iter()
            .collect(),
        ..AnswerPage::default()
    }
}

fn models(swept: &Swept<'_>) -> Value {
    let of = |named: &super::Named| {
        json!({
            "model": named.resolved.name,
            "class": named.class,
            "parameters": named.resolved.architecture.parameters().0,
            "origin": named.resolved.origin,
        })
    };
    swept.models.iter().map(of).collect()
}

/// The name without who published it.
fn short(model: &str) -> &str {
    model.rsplit_once('/').map_or(model, |(_, name)| name)
}

fn purpose(row: &Row) -> (String, String) {
    match &row.purpose {
        Purpose::Inference {
            format,
            context,
            concurrency,
        } => (
            format.clone(),
            format!("{concurrency} × {}", tokens(*context)),
        ),
        Purpose::Training {
            method,
            sequence,
            micro_batch,
        } => (
            method.clone(),
            format!("{micro_batch} × {}", tokens(*sequence)),
        ),
    }
}

fn tokens(count: u64) -> String {
    if count >= 1024 && count.is_multiple_of(1024) {
        format!("{}k", count / 1024)
    } else {
        figures::count(count)
    }
}

fn sizes(swept: &Swept<'_>) -> Table {
    let mut table = Table::new(vec![
        Column::left("model", "model"),
        Column::left("use", "weights, method").wrap(7),
        Column::right("load", "requests × tokens").wrap(8),
        Column::right("weights_bytes", "weights").unit("GB").wrap(7),
        Column::right("held_bytes", "KV, states").unit("GB").wrap(6),
        Column::right("other_bytes", "other")
            .unit("GB")
            .priority(80),
        Column::right("total_bytes", "in all").unit("GB"),
        Column::right("gpus", "GPUs"),
        Column::left("layout", "layout").priority(90),
        Column::right("usd_per_hour", "USD/h"),
        Column::right("rule_bytes", "rule").unit("GB"),
        Column::right("rule_off", "rule off").wrap(6),
        Column::raw("gpu"),
        Column::raw("parameters"),
        Column::raw("purpose"),
        Column::raw("replicas"),
        Column::raw("instances"),
        Column::raw("instance"),
        Column::raw("price_date"),
        Column::raw("why_not"),
    ]);
    for row in &swept.rows {
        table.push(cells(row));
    }
    let gpus: Vec<&str> = swept.rows.iter().map(|row| row.gpu.as_str()).fold(
        Vec::new(),
        |mut known: Vec<&str>, gpu| {
            if !known.contains(&gpu) {
                known.push(gpu);
            }
            known
        },
    );
    table.footnote(format!(
        "counted in {}; memory is what the engine holds on all of them, in 10⁹ bytes; prices are those of the cheapest offer on demand unless said otherwise",
        gpus.join(", ")
    ));
    let several = |row: &Row| row.need.as_ref().is_ok_and(|need| need.replicas > 1);
    if swept.rows.iter().any(several) {
        table.footnote("weights such as 2 × 72.7: two replicas hold them once each");
    }
    let training = |row: &Row| matches!(row.purpose, Purpose::Training { .. });
    if swept.rows.iter().any(training) {
        table.footnote("training: the fewest GPUs that `gpuwise train` finds a layout for whose memory fits with its range; AdamW, micro-batches of one sequence, activation checkpointing; train all in mixed precision, LoRA and QLoRA of rank 16; weights are with their FP32 copies");
    }
    for named in swept.models {
        if let Some(class) = &named.class {
            table.footnote(format!("{class}: {} stands for it", named.resolved.name));
        }
    }
    for row in &swept.rows {
        if let Err(why) = &row.need {
            table.footnote(format!("{}: {why}", short(&row.model)));
        }
    }
    table
}

fn cells(row: &Row) -> Vec<Cell> {
    let (what, load) = purpose(row);
    let need = row.need.as_ref().ok();
    let size = |bytes: Option<Bytes>| {
        Cell::of(bytes, |bytes| Cell::new(gb(bytes.as_f64()), bytes.count()))
    };
    let training = matches!(row.purpose, Purpose::Training { .. });
    vec![
        Cell::new(short(&row.model), row.model.clone()),
        Cell::text(what),
        Cell::text(load),
        Cell::of(need, weights),
        size(need.map(|need| need.held)),
        size(need.map(|need| need.other)),
        size(need.map(sweep::Need::total)),
        Cell::of(need, |need| Cell::count(u64::from(need.gpus))),
        Cell::of(need, |need| Cell::text(&need.layout)),
        Cell::of(need.and_then(|need| need.per_hour), |hour| {
            Cell::new(figures::amount(hour.0.as_f64()), hour.0.as_f64())
        }),
        size(Some(row.rule)),
        Cell::of(row.off(), |off| Cell::new(signed(off), off)),
        Cell::text(&row.gpu),
        Cell::count(row.parameters),
        Cell::text(if training { "training" } else { "inference" }),
        Cell::of(need, |need| Cell::count(u64::from(need.replicas))),
        Cell::of(need.and_then(|need| need.rental.as_ref()), |rental| {
            Cell::count(u64::from(rental.instances))
        }),
        Cell::of(need.and_then(|need| need.rental.as_ref()), |rental| {
            Cell::text(format!("{} {}", rental.provider, rental.instance))
        }),
        Cell::of(need.and_then(|need| need.rental.as_ref()), |rental| {
            Cell::text(&rental.date)
        }),
        Cell::of(row.need.as_ref().err(), Cell::text),
    ]
}

/// `145` of one replica, `2 × 72.7` of two.
fn weights(need: &sweep::Need) -> Cell {
    let all = need.weights.as_f64();
    let said = match need.replicas {
        0 | 1 => gb(all),
        several => format!("{several} × {}", gb(all / f64::from(several))),
    };
    Cell::new(said, need.weights.count())
}

fn gb(bytes: f64) -> String {
    let gb = bytes / 1e9;
    if gb >= 100.0 {
        figures::count(gb.round() as u64)
    } else {
        format!("{gb:.1}")
    }
}

fn signed(share: f64) -> String {
    let percent = (share * 100.0).round();
    if percent == 0.0 {
        return "0 %".into();
    }
    format!("{percent:+.0} %")
}

fn rule_errors(swept: &Swept<'_>) -> Table {
    let mut table = Table::new(vec![
        Column::left("model", "the 25 % rule").wrap(14),
        Column::left("use", "weights or method").wrap(8),
        Column::right("least", "lowest"),
        Column::right("median", "median"),
        Column::right("most", "highest"),
        Column::right("rows", "rows"),
    ])
    .when_empty("nothing fits: the rule is compared with nothing");
    let errors = sweep::errors(&swept.rows);
    let share = |value: f64| Cell::new(signed(value), value);
    for error in &errors {
        table.push(vec![
            Cell::new(short(&error.model), error.model.clone()),
            Cell::text(&error.what),
            share(error.least),
            share(error.median),
            share(error.most),
            Cell::count(error.rows as u64),
        ]);
    }
    let mut offs: Vec<f64> = swept.rows.iter().filter_map(Row::off).collect();
    offs.sort_by(f64::total_cmp);
    if let Some(median) = gpuwise_units::math::median(&offs) {
        table.footnote(format!(
            "the rule (parameters × bits / 8 × 1.25) against what is needed: {} in the median of {} rows, {} to {}",
            signed(median),
            offs.len(),
            signed(offs.first().copied().unwrap_or_default()),
            signed(offs.last().copied().unwrap_or_default()),
        ));
    }
    table.footnote("it leaves out the context and the requests (KV cache), the engine's own memory on every GPU, activations, and in training gradients and optimizer states; nothing in it depends on traffic");
    table
}

fn ranges(swept: &Swept<'_>) -> Table {
    let mut table = Table::new(vec![
        Column::left("class", "popular range"),
        Column::right("said_bytes", "says").unit("GB"),
        Column::right("per_parameter", "bytes a parameter"),
        Column::left("assumption", "comes from").wrap(24),
        Column::right("assumption_bytes", "which is").unit("GB"),
        Column::right("off", "apart"),
        Column::right("over_serving", "over BF16 serving of one 8k request").wrap(12),
    ]);
    for named in swept.models {
        let Some((low, high)) = named.popular_gb else {
            continue;
        };
        let summary = search::model_summary(
            &named.resolved.name,
            &named.resolved.origin,
            &named.resolved.architecture,
        );
        let assumptions =
            sweep::usual_assumptions(summary.parameters, summary.cache_bytes_per_token);
        let ends = sweep::ends((low * 1e9, high * 1e9), summary.parameters, &assumptions);
        for end in ends {
            table.push(vec![
                Cell::text(named.class.clone().unwrap_or_default()),
                Cell::new(gb(end.said), end.said),
                Cell::new(format!("{:.1}", end.per_parameter), end.per_parameter),
                Cell::text(&end.nearest.words),
                Cell::new(gb(end.nearest.bytes), end.nearest.bytes),
                Cell::new(signed(end.off), end.off),
                Cell::of(end.over_serving, |times| {
                    Cell::new(format!("{times:.1} ×"), times)
                }),
            ]);
        }
    }
    table
}

/// Memory against size: a line for each use, and the rule in the first precision.
pub(super) fn picture(swept: &Swept<'_>) -> Option<Picture> {
    let first_gpu = &swept.gpu.0;
    let mut series: Vec<SizeSeries> = Vec::new();
    let mut add = |name: String, panel, rule: bool, point: (f64, f64)| match series
        .iter_mut()
        .find(|known| known.name == name)
    {
        Some(known) => known.points.push(point),
        None => series.push(SizeSeries {
            name,
            panel,
            points: vec![point],
            rule,
        }),
    };
    for row in swept.rows.iter().filter(|row| row.gpu == *first_gpu) {
        let (what, load) = purpose(row);
        let parameters = row.parameters as f64;
        if let Ok(need) = &row.need {
            let panel = match row.purpose {
                Purpose::Inference { .. } => "serving",
                Purpose::Training { .. } => "training",
            };
            add(
                format!("{what}, {load} tokens"),
                panel,
                false,
                (parameters, need.total().as_f64()),
            );
        }
    }
    let mut ruled: Vec<(&str, String)> = Vec::new();
    for row in swept.rows.iter().filter(|row| row.gpu == *first_gpu) {
        let (what, _) = purpose(row);
        let key = (row.model.as_str(), what.clone());
        if matches!(row.purpose, Purpose::Inference { .. }) && !ruled.contains(&key) {
            ruled.push(key);
            let rule = row.rule.as_f64();
            add(
                format!("25 % rule in {what}"),
                "serving",
                true,
                (row.parameters as f64, rule),
            );
        }
    }
    for one in &mut series {
        one.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    svg::sizes(&series, (first_gpu, swept.gpu.1), "sizes")
}
