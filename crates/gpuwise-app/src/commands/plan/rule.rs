//! `--rule liqid`: a rule of thumb beside the result, and where the difference comes from.

use gpuwise_domain::deployment::{Deployment, Sizing};
use gpuwise_units::{Bytes, Parameters};
use gpuwise_view::{
    Style, figures,
    record::{self},
    table::Table,
};

const FORMULA: &str = "parameters × bits / 8 × 1.25";

/// What the rule adds for everything that is not weights.
const MARGIN: f64 = 1.25;

/// Bytes by the rule: parameters × bits / 8 × 1.25.
fn by_rule(sizing: &Sizing) -> f64 {
    sizing.question.model.parameters as f64 * bits(sizing) / 8.0 * MARGIN
}

/// Bits of a weight as published, from bytes and parameters.
fn bits(sizing: &Sizing) -> f64 {
    let model = &sizing.question.model;
    (model.weight_bytes.as_f64() * 8.0 / (model.parameters.max(1) as f64)).round()
}

fn counted(count: u32, what: &str) -> String {
    if count == 1 {
        format!("1 {what}")
    } else {
        format!("{count} {what}s")
    }
}

fn in_all(deployment: &Deployment, bytes: Bytes) -> f64 {
    bytes.as_f64() * f64::from(deployment.layout.replica_gpus())
}

/// What the rule says of memory, beside ours.
pub(super) struct RuleOfThumb {
    bytes: f64,
    parts: Vec<RulePart>,
}

impl RuleOfThumb {
    pub(super) fn of(sizing: &Sizing) -> Self {
        let best = sizing.ranked.first();
        Self {
            bytes: by_rule(sizing),
            parts: best.map_or_else(Vec::new, |best| parts(sizing, best)),
        }
    }
}

gpuwise_view::record!(RuleOfThumb, "RuleOfThumb", |of| {
    of.field("name", |_| "liqid");
    of.field("formula", |_| FORMULA);
    of.field("bytes", |r| r.bytes);
    of.list("parts", |r| &r.parts);
});

/// A part of memory by the rule and by ours.
struct RulePart {
    part: &'static str,
    rule: f64,
    ours: f64,
    why: String,
}

gpuwise_view::record!(RulePart, "RulePart", |of| {
    let gib = |bytes: f64| figures::gib(Bytes::from_f64(bytes));
    of.field("part", |p| p.part).title("memory of one replica");
    of.field("rule_bytes", |p| p.rule)
        .title("rule")
        .unit("GiB")
        .said_of(gib);
    of.field("ours_bytes", |p| p.ours)
        .title("ours")
        .unit("GiB")
        .said_of(gib);
    of.field("why", |p| &p.why).title("why").wrap(30);
});

fn parts(sizing: &Sizing, best: &Deployment) -> Vec<RulePart> {
    let rule = by_rule(sizing);
    let report = &best.memory;
    let weights = in_all(best, report.weight_bytes());
    let other = in_all(best, report.overhead_bytes());
    let running = best.figures.running * f64::from(best.layout.attention_data.max(1));
    let held =
        sizing.question.workload.lengths.input.mean + sizing.question.workload.lengths.output.mean;
    let cache = running * held * sizing.question.model.cache_bytes_per_token as f64;
    let row = |part, rule, ours, why| RulePart {
        part,
        rule,
        ours,
        why,
    };
    vec![
        row(
            "weights",
            rule / MARGIN,
            weights,
            format!(
                "{} parameters, by the rule of {:.0} bits; ours {} on {}",
                Parameters(sizing.question.model.parameters),
                bits(sizing),
                best.weights,
                counted(best.layout.replica_gpus(), "GPU")
            ),
        ),
        row(
            "everything else",
            rule - rule / MARGIN,
            other + cache,
            "the rule adds a quarter whatever the traffic; ours is context, activations, graphs and the cache below".into(),
        ),
        row(
            "of it KV cache in use",
            0.0,
            cache,
            format!("{running:.0} requests running, {held:.0} tokens each"),
        ),
        row("in all", rule, weights + other + cache, String::new()),
    ]
}

fn table(sizing: &Sizing, best: &Deployment) -> Table {
    let rule = by_rule(sizing);
    let report = &best.memory;
    let mut table = record::table(&parts(sizing, best));
    let gpus = best.layout.replica_gpus();
    let by_memory = (rule / report.visible.as_f64().max(1.0)).ceil();
    let verdict = match by_memory.total_cmp(&f64::from(gpus)) {
        std::cmp::Ordering::Equal => "ours takes as many for a replica".to_owned(),
        std::cmp::Ordering::Less => {
            format!("ours takes {gpus} for a replica: traffic and latency decide beside memory")
        }
        std::cmp::Ordering::Greater => format!(
            "ours takes {gpus} for a replica: less than the rule adds is needed beside the weights"
        ),
    };
    let replicas = match best.layout.replicas {
        0 | 1 => String::new(),
        count => format!("; and the load needs {count} replicas, of which the rule says nothing"),
    };
    table.footnote(format!(
        "Liqid's rule: parameters × bits / 8 × 1.25. By it {by_memory:.0} × {} suffice; {verdict}{replicas}.",
        report.device
    ));
    table
}

pub(super) fn text(sizing: &Sizing, style: Style) -> String {
    match sizing.ranked.first() {
        Some(best) => table(sizing, best).to_text(style),
        None => alone(sizing),
    }
}

pub(super) fn markdown(sizing: &Sizing) -> String {
    match sizing.ranked.first() {
        Some(best) => table(sizing, best).to_markdown(),
        None => alone(sizing),
    }
}

fn alone(sizing: &Sizing) -> String {
    format!(
        "Liqid's rule: parameters × bits / 8 × 1.25 = {}\n",
        Bytes::from_f64(by_rule(sizing))
    )
}
