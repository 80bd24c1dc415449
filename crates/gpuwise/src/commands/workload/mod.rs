//! `gpuwise workload`: traffic from what one already has.

mod log;
mod metrics;
mod prometheus;
mod seen;

use super::{Answer, Context};
use crate::{
    cli::{Format, Workload, WorkloadFrom},
    output,
    write::Pending,
};
use gpuwise_view::Style;
use seen::Seen;
use std::path::Path;

pub(crate) fn run(context: &Context, flags: &Workload) -> anyhow::Result<Answer> {
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
    seen: &Seen,
    target: Option<Pending>,
    path: Option<&Path>,
) -> anyhow::Result<Answer> {
    let style = Style {
        colour: false,
        ..context.output.style
    };
    output::say(seen.table().to_text(style).trim_end());
    let json = match path {
        Some(path) => path
            .extension()
            .is_some_and(|ending| ending.eq_ignore_ascii_case("json")),
        None => context.output.format == Format::Json,
    };
    let written = seen.written();
    let text = if json {
        written.to_json()
    } else {
        written.to_toml()
    };
    if let (Some(target), Some(path)) = (target, path) {
        target.finish(&text)?;
        output::say(&format!("\nwritten to {}", path.display()));
    } else {
        output::say("");
        output::data(&text)?;
    }
    Ok(Answer::Yes)
}
