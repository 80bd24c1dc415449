//! What would become of a lease.

use crate::{
    app::{Context, Exit, Format},
    commands::broker::client::Client,
    schemas::AnswerName,
};
use gpuwise_wire::broker::{DryRunAnswer, LeaseAsk};
use std::fmt::Write as _;

pub(super) fn run(context: &Context, client: &Client, ask: &LeaseAsk) -> anyhow::Result<Exit> {
    let told: DryRunAnswer = client.post("/v1/plans:dry-run", None, ask)?;
    let context = context.answering(AnswerName::LeaseDryRun);
    if context.form.format == Format::Table {
        context.data(&words(&told))?;
    } else {
        context.json(&serde_json::to_value(&told)?)?;
    }
    Ok(if told.admitted { Exit::Yes } else { Exit::No })
}

fn words(told: &DryRunAnswer) -> String {
    if let Some(problem) = &told.problem {
        return format!("It would be refused: {}\n", problem.detail);
    }
    let state = told.state.as_deref().unwrap_or_default();
    let mut text = format!("It would be {state}.\n");
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "  {name:<9} {value}");
    };
    let places: Vec<String> = told
        .gpus
        .iter()
        .map(|gpu| format!("{}:{} {}", gpu.node, gpu.index, gpu.gpu))
        .collect();
    if !places.is_empty() {
        line("where", &places.join(", "));
    }
    if let Some(size) = &told.size {
        line("sized", &size.deployment);
    }
    if let Some(reason) = &told.reason {
        line("waits", reason);
    }
    if let Some(start) = &told.expected_start {
        let start = start
            .split_once('.')
            .map_or(start.as_str(), |(short, _)| short);
        line("starts", &start.replace('T', " "));
    }
    for fix in &told.fixes {
        line("helps", fix);
    }
    if !told.disturbs.is_empty() {
        line("disturbs", &told.disturbs.join(", "));
    }
    if let Some(cost) = &told.costs_at_most {
        line("at most", cost);
    }
    if let Some(cold) = &told.cold {
        line("cold", &super::offers::cold(cold));
    }
    text
}
