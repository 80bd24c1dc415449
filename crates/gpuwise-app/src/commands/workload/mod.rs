//! `gpuwise workload`: traffic from what one already has.

mod log;
mod metrics;
mod observed;
mod prometheus;

use super::{Context, Exit};
use crate::{
    progress,
    settings::{Format, Workload, WorkloadFrom},
    write::Pending,
};
use gpuwise_view::Style;
use observed::ObservedTraffic;
use std::path::Path;

pub fn run(context: &Context, flags: &Workload) -> anyhow::Result<Exit> {
    match &flags.from {
        WorkloadFrom::FromMetrics(flags) => {
            let target = pending(flags.output.as_deref())?;
            let seen = match &flags.prometheus {
                Some(server) => prometheus::seen(context, flags, server)?,
                None => metrics::seen(context, flags)?,
            };
            give(context, &seen, target, flags.output.as_deref())
        }
        WorkloadFrom::FromLog(flags) => {
            let target = pending(flags.output.as_deref())?;
            let trace = pending(flags.save_trace.as_deref())?;
            let (seen, requests) = log::seen(flags)?;
            if let Some(trace) = trace {
                trace.finish(&log::trace_text(&requests)?)?;
            }
            give(context, &seen, target, flags.output.as_deref())
        }
    }
}

/// A file that could be written, before the work.
fn pending(path: Option<&Path>) -> anyhow::Result<Option<Pending>> {
    path.map(Pending::new).transpose()
}

/// The summary first, on stderr; then the file.
fn give(
    context: &Context,
    seen: &ObservedTraffic,
    target: Option<Pending>,
    path: Option<&Path>,
) -> anyhow::Result<Exit> {
    let style = Style {
        colour: false,
        ..context.form.style
    };
    progress::say(seen.table().to_text(style).trim_end());
    let json = match path {
        Some(path) => path
            .extension()
            .is_some_and(|ending| ending.eq_ignore_ascii_case("json")),
        None => context.form.format == Format::Json,
    };
    let written = seen.written();
    let text = if json {
        written.to_json()
    } else {
        written.to_toml()
    };
    if let (Some(target), Some(path)) = (target, path) {
        target.finish(&text)?;
        progress::say(&format!("\nwritten to {}", path.display()));
    } else {
        progress::say("");
        context.data(&text)?;
    }
    Ok(Exit::Yes)
}
