//! Scaling policies of services, and how a service follows demand.

use super::One;
use crate::error::Problem;
use clap::Args;
use gpuwise_read::catalogue::toml_line;
use gpuwise_wire::broker::{
    ScaleDecisionAnswer, ScalePolicy, ScalingAnswer, SeenDocument, StartAnswer,
};
use std::path::{Path, PathBuf};

/// Decisions that are shown.
const SHOWN: usize = 3;

#[derive(Debug, Args)]
pub struct Set {
    #[command(flatten)]
    pub(super) one: One,
    /// The policy (TOML or JSON)
    #[arg(long, value_name = "FILE")]
    pub(super) policy: PathBuf,
}

/// A policy file: JSON where its name says so, else TOML.
pub(super) fn read(path: &Path) -> anyhow::Result<ScalePolicy> {
    let text = std::fs::read_to_string(path).map_err(|source| {
        Problem::new(format!("{} cannot be read", path.display())).because(source)
    })?;
    let json = path.extension().is_some_and(|end| end == "json");
    let read = if json {
        serde_json::from_str(&text).map_err(|error| error.to_string())
    } else {
        toml::from_str(&text)
            .map_err(|error| format!("line {}: {}", toml_line(&text, &error), error.message()))
    };
    read.map_err(|error| {
        Problem::new(format!("{}: {error}", path.display()))
            .hint("max = 4 and rate = 5.0 are enough: requests a second that one replica serves within its SLO")
            .into()
    })
}

/// Lines of `gpuwise lease show`.
pub(super) fn lines(scaling: &ScalingAnswer, own: &str, line: &mut impl FnMut(&str, &str)) {
    let count = |role: &str| {
        scaling
            .members
            .iter()
            .filter(|one| one.role == role)
            .count()
    };
    line(
        "scaled",
        &format!(
            "{} to serve ({} do or start), {} to be warm ({} are or will be)",
            scaling.replicas,
            count("serving"),
            scaling.warm,
            count("warm")
        ),
    );
    line("", &scaling.reason);
    if let Some(known) = &scaling.seen {
        line("seen", &seen(known));
    }
    if let Some(back) = scaling.return_p99 {
        line("", &format!("a warm one was back within {back:.2} s (p99)"));
    }
    for one in &scaling.weights {
        let gb = one.bytes as f64 / 1e9;
        let what = format!(
            "{gb:.1} GB in the memory of {} ({}): {}",
            one.node, one.state, one.reason
        );
        line("weights", &what);
    }
    for start in &scaling.starts {
        line("starts", &starts(start));
    }
    let own = scaling.members.iter().filter(|one| one.lease != own);
    let each: Vec<String> = own
        .map(|one| format!("{} {} ({})", one.lease, one.role, one.state))
        .collect();
    if !each.is_empty() {
        line("replicas", &each.join(", "));
    }
    for decision in scaling.decisions.iter().take(SHOWN) {
        line("decided", &decided(decision));
    }
}

/// What was seen when it was decided last; what nobody knows is said to be so.
fn seen(seen: &SeenDocument) -> String {
    let or_unknown = |known: Option<String>| known.unwrap_or_else(|| "unknown".into());
    let arrived = or_unknown(seen.arrived.map(|count| format!("{count:.0} requests")));
    let tokens = seen.tokens.map(|tokens| {
        format!(
            "{:.0} of prompts, {:.0} of answers",
            tokens.prompts, tokens.answers
        )
    });
    let tokens = tokens.unwrap_or_else(|| "not counted".into());
    let cache = or_unknown(seen.cache.map(|used| format!("{:.0} % used", used * 100.0)));
    let late = (seen.requests > 0.0).then(|| {
        let share = seen.late / seen.requests * 100.0;
        format!("{share:.2} % of {:.0}", seen.requests)
    });
    format!(
        "{arrived}; tokens {tokens}; {} wait, {:.0} run; KV cache {cache}; late {}",
        seen.queued,
        seen.running,
        or_unknown(late)
    )
}

/// What starts take from a state on a class of nodes, and whether the controller goes by it.
fn starts(start: &StartAnswer) -> String {
    let StartAnswer {
        class,
        from,
        seen,
        median,
        p90,
        p99,
        expected,
    } = start;
    let expected = if *expected { "; expected next" } else { "" };
    format!(
        "on {class}, {from}: {median:.1} s (p50), {p90:.1} s (p90), {p99:.1} s (p99); {seen} seen{expected}"
    )
}

/// What was decided and done, in a line.
pub(super) fn decided(decision: &ScaleDecisionAnswer) -> String {
    let at = &decision.at;
    let at = at.split_once('.').map_or(at.as_str(), |(at, _)| at);
    let steps = decision.steps.join(", ");
    format!("{} {steps}: {}", at.replace('T', " "), decision.reason)
}
