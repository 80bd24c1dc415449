//! The answer of `gpuwise memory` as text and data.

use super::{
    cures::{Cure, cures},
    fit::{Fit, Wanted},
};
use crate::{commands::Context, model::ResolvedModel, settings};
use gpuwise_domain::{catalogue::Catalogue, deployment::MemoryReport};
use gpuwise_size::{memory, search::model_summary};
use gpuwise_units::Tokens;
use gpuwise_view::{
    State, Style, escape_markdown, explain, figures,
    memory::{csv, json, markdown, text},
    plan::words,
    table::{Cell, Column, Table},
};
use serde_json::{Value, json as object};
use std::fmt::Write as _;

pub(super) fn show(
    context: &Context,
    flags: &settings::Memory,
    model: &ResolvedModel,
    wanted: Wanted,
    fits: &[Fit<'_>],
    notes: &[String],
    catalogue: &Catalogue,
) -> anyhow::Result<()> {
    let style = context.form.style;
    match context.form.format {
        settings::Format::Json => {
            context.json(&document(flags, model, wanted, fits, notes, catalogue))
        }
        settings::Format::Csv => match fits {
            [one] => context.data(&csv(std::slice::from_ref(&one.report))),
            many => context.data(&table(many, wanted).to_csv()),
        },
        settings::Format::Table => {
            let mut out = heading(model, wanted, fits, style);
            match fits {
                [one] => {
                    out += &text(std::slice::from_ref(&one.report), style);
                    out += &logged(one, style);
                    out += &verdict(one, catalogue, style);
                }
                many => out += &table(many, wanted).to_text(style),
            }
            if flags.explain {
                for fit in fits {
                    let _ = write!(
                        out,
                        "\n{}",
                        explain::text(&[memory::explain(&fit.plan, &fit.setup)], style)
                    );
                }
            }
            for (position, note) in notes.iter().enumerate() {
                if position == 0 {
                    out.push('\n');
                }
                out += &style.wrap(&format!("note: {note}"), 6);
                out.push('\n');
            }
            context.data(&out)
        }
        settings::Format::Md => {
            let mut out = format!(
                "# Memory of {}\n\n{}\n\n",
                escape_markdown(&model.name),
                escape_markdown(&asked(wanted))
            );
            match fits {
                [one] => {
                    out += &markdown(std::slice::from_ref(&one.report));
                    let wide = Style {
                        width: 4096,
                        ..style
                    };
                    let said = logged(one, wide) + &verdict(one, catalogue, wide);
                    let _ = write!(out, "\n{}", escape_markdown(&said));
                }
                many => out += &table(many, wanted).to_markdown(),
            }
            if flags.explain {
                for fit in fits {
                    let _ = write!(
                        out,
                        "\n{}",
                        explain::markdown(&[memory::explain(&fit.plan, &fit.setup)])
                    );
                }
            }
            for note in notes {
                let _ = write!(out, "\n- {}", escape_markdown(note));
            }
            out.push('\n');
            context.data(&out)
        }
    }
}

fn asked(wanted: Wanted) -> String {
    let requests = if wanted.concurrency == 1 {
        "request"
    } else {
        "requests at once"
    };
    format!(
        "{} {requests} of up to {} tokens",
        figures::count(wanted.concurrency),
        Tokens(wanted.context)
    )
}

fn heading(model: &ResolvedModel, wanted: Wanted, fits: &[Fit<'_>], style: Style) -> String {
    let summary = model_summary(&model.name, &model.origin, &model.architecture);
    let mut out = style.wrap(&words::model(&summary), 2) + "\n";
    let mut line = asked(wanted);
    if let Some(fit) = fits.first() {
        let setup = &fit.setup;
        let engine = match setup.engine.release {
            Some(release) => format!("{} {release}", setup.engine.kind),
            None => format!("{}, newest release", setup.engine.kind),
        };
        let _ = write!(
            line,
            "; {engine}; {} weights, {} KV cache",
            setup.weights.name(),
            setup.cache.name
        );
        if fits.len() == 1 && fit.gpus() > 1 {
            let _ = write!(line, "; {} on {} GPUs", setup.layout, fit.gpus());
        }
    }
    out += &style.wrap(&line, 2);
    out += "\n\n";
    out
}

/// What the engine's log of its cache means, where it is not what the cache holds.
fn logged(fit: &Fit<'_>, style: Style) -> String {
    fit.logged_as()
        .map_or_else(String::new, |said| style.wrap(&said, 2) + "\n")
}

/// Whether the requests fit, what is short, and what would cure it.
fn verdict(fit: &Fit<'_>, catalogue: &Catalogue, style: Style) -> String {
    if fit.fits() {
        return String::new();
    }
    let short = figures::gib(fit.short());
    let each = if fit.gpus() > 1 { " on each GPU" } else { "" };
    let mut out = style.finish(style.wrap(
        &format!(
            "{} {} do not fit: {short} GiB short{each}",
            State::Bad.mark(),
            asked(fit.wanted)
        ),
        2,
    ));
    out.push('\n');
    let cures = cures(fit, catalogue);
    let mut whole = cures.iter().filter(|cure| cure.whole);
    let mut line = |label: &str, cure: &Cure| {
        out += &style.wrap(&format!("{label} {}", cure.what), 2);
        out.push('\n');
    };
    match whole.next() {
        Some(cure) => line("cheapest fix:", cure),
        None => line(
            "fix:",
            &Cure {
                what: "none with one to eight of the GPUs that are rented out; more hosts (--pp), or a smaller model".into(),
                whole: false,
            },
        ),
    }
    whole.for_each(|cure| line("or:", cure));
    cures
        .iter()
        .filter(|cure| !cure.whole)
        .for_each(|cure| line("as it is:", cure));
    out
}

/// A row for each GPU with the fewest of them that are enough.
fn table(fits: &[Fit<'_>], wanted: Wanted) -> Table {
    let mut table = Table::new(vec![
        Column::left("device", "GPU").wrap(16),
        Column::left("fits", "fits"),
        Column::right("gpus", "GPUs"),
        Column::right("visible_bytes", "visible")
            .unit("GiB")
            .priority(60),
        Column::right("budget_bytes", "engine")
            .unit("GiB")
            .priority(50),
        Column::right("weight_bytes", "weights").unit("GiB"),
        Column::right("overhead_bytes", "other")
            .unit("GiB")
            .priority(70),
        Column::right("kv_cache_bytes", "KV cache").unit("GiB"),
        Column::right("kv_cache_tokens", "logged")
            .unit("tokens")
            .priority(80),
        Column::right("held_tokens", "held")
            .unit("tokens")
            .priority(75),
        Column::right("requests", "requests").unit("at once"),
        Column::right("short_bytes", "short").unit("GiB"),
    ])
    .when_empty("No GPU to look at.");
    for fit in fits {
        let report: &MemoryReport = &fit.report;
        let size = |bytes: gpuwise_units::Bytes| Cell::new(figures::gib(bytes), bytes.count());
        let mark = if fit.fits() {
            format!("{} yes", State::Good.mark())
        } else {
            format!("{} no", State::Bad.mark())
        };
        table.push(vec![
            Cell::text(&report.device),
            Cell::new(mark, fit.fits()),
            Cell::count(fit.gpus().into()),
            size(report.visible),
            size(report.budget),
            size(report.weight_bytes()),
            size(report.overhead_bytes()),
            size(report.cache),
            Cell::count(report.cache_tokens),
            Cell::count(fit.held_tokens()),
            Cell::new(
                figures::number((fit.requests() * 10.0).floor() / 10.0),
                fit.requests(),
            ),
            if fit.fits() {
                Cell::new("", 0)
            } else {
                size(fit.short())
            },
        ]);
    }
    table.footnote(format!(
        "Per GPU, with the GPUs of the column GPUs in tensor parallel; logged: the KV cache as the engine \
         reports it; held: in requests of the asked length; asked: {}.",
        asked(wanted)
    ));
    table
}

fn document(
    flags: &settings::Memory,
    model: &ResolvedModel,
    wanted: Wanted,
    fits: &[Fit<'_>],
    notes: &[String],
    catalogue: &Catalogue,
) -> Value {
    let device = |fit: &Fit<'_>| {
        let report = json(std::slice::from_ref(&fit.report));
        let cures: Vec<Value> = if fit.fits() {
            Vec::new()
        } else {
            cures(fit, catalogue)
                .into_iter()
                .map(|cure| object!({"what": cure.what, "cures_all": cure.whole}))
                .collect()
        };
        let mut value = object!({
            "fits": fit.fits(),
            "gpus": fit.gpus(),
            "layout": fit.setup.layout.to_string(),
            "weights": fit.setup.weights.name(),
            "kv_cache": fit.setup.cache.name,
            "engine": fit.setup.engine.kind.name(),
            "requests_at_once": fit.requests(),
            "held_tokens": fit.held_tokens(),
            "short_bytes": fit.short().count(),
            "memory": report.get(0).cloned().unwrap_or(Value::Null),
            "cures": cures,
        });
        if let (true, Value::Object(fields)) = (flags.explain, &mut value) {
            fields.insert(
                "derivation".into(),
                explain::json(&[memory::explain(&fit.plan, &fit.setup)]),
            );
        }
        value
    };
    let summary = model_summary(&model.name, &model.origin, &model.architecture);
    object!({
        "model": {
            "name": summary.name,
            "origin": summary.origin,
            "parameters": summary.parameters,
            "weight_bytes": summary.weight_bytes.count(),
            "kv_cache_bytes_per_token": summary.cache_bytes_per_token,
        },
        "context_tokens": wanted.context,
        "concurrency": wanted.concurrency,
        "devices": fits.iter().map(device).collect::<Vec<_>>(),
        "notes": notes,
    })
}
