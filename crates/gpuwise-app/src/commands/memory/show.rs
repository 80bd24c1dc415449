//! The answer of `gpuwise memory` as text and data.

use super::{
    answer::{DeviceMemory, Remembered},
    fixes::Fix,
};
use crate::{commands::Context, settings};
use gpuwise_units::{Bytes, Tokens};
use gpuwise_view::{
    State, Style, escape_markdown, explain, figures,
    memory::{markdown, text},
    plan::words,
    record,
    table::Table,
};
use std::fmt::Write as _;

pub(super) fn show(
    context: &Context,
    flags: &settings::Memory,
    found: &Remembered,
) -> anyhow::Result<()> {
    let style = context.form.style;
    match context.form.format {
        settings::Format::Json => context.json(&record::json(found)),
        settings::Format::Csv => context.table(&table(found)),
        settings::Format::Table => {
            let mut out = heading(found, style);
            match found.devices.as_slice() {
                [one] => {
                    out += &text(&one.report, style);
                    out += &logged(one, style);
                    out += &verdict(found, one, style);
                }
                _ => out += &table(found).to_text(style),
            }
            if flags.explain {
                for one in &found.devices {
                    let derived = std::slice::from_ref(&one.derivation);
                    let _ = write!(out, "\n{}", explain::text(derived, style));
                }
            }
            for (position, note) in found.notes.iter().enumerate() {
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
                escape_markdown(&found.model.name),
                escape_markdown(&asked(found))
            );
            match found.devices.as_slice() {
                [one] => {
                    out += &markdown(&one.report);
                    let wide = Style {
                        width: 4096,
                        ..style
                    };
                    let said = logged(one, wide) + &verdict(found, one, wide);
                    let _ = write!(out, "\n{}", escape_markdown(&said));
                }
                _ => out += &table(found).to_markdown(),
            }
            if flags.explain {
                for one in &found.devices {
                    let derived = std::slice::from_ref(&one.derivation);
                    let _ = write!(out, "\n{}", explain::markdown(derived));
                }
            }
            for note in &found.notes {
                let _ = write!(out, "\n- {}", escape_markdown(note));
            }
            out.push('\n');
            context.data(&out)
        }
    }
}

fn asked(found: &Remembered) -> String {
    let requests = if found.concurrency == 1 {
        "request"
    } else {
        "concurrent requests"
    };
    format!(
        "{} {requests} of up to {} tokens",
        figures::count(found.concurrency),
        Tokens(found.context)
    )
}

fn heading(found: &Remembered, style: Style) -> String {
    let mut out = style.wrap(&words::model(&found.model), 2) + "\n";
    let mut line = asked(found);
    if let Some(one) = found.devices.first() {
        let _ = write!(
            line,
            "; {}; {} weights, {} KV cache",
            one.release, one.weights, one.kv_cache
        );
        if found.devices.len() == 1 && one.gpus > 1 {
            let _ = write!(line, "; {} on {} GPUs", one.layout, one.gpus);
        }
    }
    out += &style.wrap(&line, 2);
    out += "\n\n";
    out
}

/// What the engine's log of its cache means, where it is not what the cache holds.
fn logged(one: &DeviceMemory, style: Style) -> String {
    let said = one.logged_as.as_ref();
    said.map_or_else(String::new, |said| style.wrap(said, 2) + "\n")
}

/// Whether the requests fit, what is short, and what would fix it.
fn verdict(found: &Remembered, one: &DeviceMemory, style: Style) -> String {
    let mut range = ranged(one, style);
    if one.fits && one.starts {
        return range;
    }
    let short = figures::gib(one.short);
    let each = if one.gpus > 1 { " on each GPU" } else { "" };
    let what = match &one.obstacle {
        Some(obstacle) => format!("it does not start: {obstacle}"),
        None => format!("{} do not fit: {short} GiB short{each}", asked(found)),
    };
    let mut out = style.finish(style.wrap(&format!("{} {what}", State::Bad.mark()), 2));
    out.push('\n');
    range.push_str(&out);
    out = range;
    let mut whole = one.fixes.iter().filter(|fix| fix.whole);
    let mut line = |label: &str, fix: &Fix| {
        out += &style.wrap(&format!("{label} {}", fix.what), 2);
        out.push('\n');
    };
    match whole.next() {
        Some(fix) => line("cheapest fix:", fix),
        None => line(
            "fix:",
            &Fix {
                what: if one.starts {
                    "none: no layout of up to 128 GPUs holds it"
                } else {
                    "none that was tried: other weights, other GPUs"
                }
                .into(),
                whole: false,
            },
        ),
    }
    whole.for_each(|fix| line("or:", fix));
    one.fixes
        .iter()
        .filter(|fix| !fix.whole)
        .for_each(|fix| line("as it is:", fix));
    out
}

/// The range of the cache, and whether what was asked lies at its edge.
fn ranged(one: &DeviceMemory, style: Style) -> String {
    let (low, high) = one.cache_range;
    if high == Bytes::ZERO {
        return String::new();
    }
    let range = format!(
        "80 % range of the KV cache: {} to {} GiB",
        figures::gib(low),
        figures::gib(high)
    );
    let mut out = style.wrap(&range, 2) + "\n";
    if one.tight {
        let said = format!(
            "{} tight: with {} GiB of cache the requests {}",
            State::Warning.mark(),
            figures::gib(if one.fits { low } else { high }),
            if one.fits { "do not fit" } else { "fit" }
        );
        out += &style.finish(style.wrap(&said, 2));
        out.push('\n');
    }
    out
}

/// A row for each GPU with the fewest of them that are enough.
fn table(found: &Remembered) -> Table {
    let mut table = record::table(&found.devices).when_empty("No GPU to look at.");
    table.footnote(format!(
        "Per GPU, with the GPUs of the column GPUs in tensor parallel; logged: the KV cache as the engine \
         reports it; held: in requests of the asked length; asked: {}.",
        asked(found)
    ));
    table
}
