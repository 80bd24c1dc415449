//! Sentences about a run that every form shares.

use crate::{
    figures::{MISSING, TimeUnit, count, number, percent, seconds},
    plan::words::{percentile, slo},
    style::State,
};
use gpuwise_domain::{
    request::Outcome,
    run::{
        EngineUse, Gauge, Method, Metric, Origin, Reason, RunReport, SloMetric, Spent, Throughput,
        Verdict,
    },
};
use gpuwise_units::{PerSecond, Percentile, group_thousands};
use std::fmt::Write as _;

/// `Llama 70B on 2 × H100 SXM5 80GB, simulated`: for titles.
pub fn title(report: &RunReport) -> String {
    let how = match report.origin {
        Origin::Simulated => "simulated",
        Origin::Measured { .. } => "measured",
    };
    let subject = &report.subject;
    let place = subject.deployment.as_ref().or(subject.server.as_ref());
    match place {
        Some(place) => format!("{} on {place}, {how}", subject.model),
        None => format!("{}, {how}", subject.model),
    }
}

/// One sentence that answers: whether the SLO is kept, and by what.
pub fn answer(report: &RunReport) -> String {
    let attainment = &report.attainment;
    let clauses = |kept: Option<bool>| -> Vec<String> {
        let verdicts = attainment.verdicts.iter();
        verdicts
            .filter(|verdict| verdict.kept == kept)
            .map(verdict)
            .collect()
    };
    let mut out = match attainment.kept {
        Some(true) => format!(
            "{} SLO attained: {}",
            State::Good.mark(),
            clauses(Some(true)).join(", ")
        ),
        Some(false) => {
            let missed = clauses(Some(false)).join(", ");
            let kept = clauses(Some(true));
            let rest = if kept.is_empty() {
                String::new()
            } else {
                format!("; attained: {}", kept.join(", "))
            };
            format!("{} SLO missed: {missed}{rest}", State::Bad.mark())
        }
        None if !attainment.slo.is_empty() => format!(
            "{} The SLO cannot be judged ({}): no request that was due in the steady window ended",
            State::Warning.mark(),
            slo(&attainment.slo)
        ),
        None => return without_slo(report),
    };
    if let Some(share) = attainment.share {
        let _ = write!(out, "; {} of requests met every target", precise(share));
    }
    out + "."
}

/// A share that is told with one digit more where it is near to all.
pub(super) fn precise(share: f64) -> String {
    if (0.9..1.0).contains(&share) {
        let tenths = (share * 1000.0).floor() / 10.0;
        format!("{tenths:.1} %")
    } else {
        percent(share)
    }
}

fn without_slo(report: &RunReport) -> String {
    let all = report.all();
    let outcomes = all.map(|group| group.outcomes).unwrap_or_default();
    let mut out = format!(
        "{} of {} requests served; no latency SLO",
        count(outcomes.completed),
        count(outcomes.total())
    );
    for metric in [Metric::Ttft, Metric::Tpot] {
        let found = report.distribution(metric).and_then(|values| {
            let value = values.at(Percentile::P95)?;
            Some(format!("; {} p95 {}", metric.name(), seconds(value)))
        });
        out += &found.unwrap_or_default();
    }
    out + "."
}

/// `TTFT p95 640 ms ≤ 1 s`.
pub fn verdict(verdict: &Verdict) -> String {
    let amount = |value: f64| match verdict.about {
        SloMetric::Throughput => number(value),
        _ => seconds(value),
    };
    let name = match verdict.about {
        SloMetric::Throughput => verdict.about.name().into(),
        _ => format!("{} {}", verdict.about.name(), percentile(verdict.at)),
    };
    let least = verdict.about == SloMetric::Throughput;
    let bound = amount(verdict.bound);
    let within = verdict.attained.unwrap_or(0.0);
    match verdict.found {
        // What was served was fast enough, but too much was not served.
        Some(found) if verdict.kept == Some(false) && !least && found <= verdict.bound => {
            let unserved = percent(1.0 - within);
            format!(
                "{name} {} ≤ {bound}, but {unserved} were late or not served",
                amount(found)
            )
        }
        Some(found) => {
            let sign = match (found >= verdict.bound, least) {
                (true, true) => "≥",
                (false, true) => "<",
                (_, false) if found <= verdict.bound => "≤",
                (_, false) => ">",
            };
            format!("{name} {} {sign} {bound}", amount(found))
        }
        None if verdict.kept == Some(true) => format!("{name} has no value above {bound}"),
        None => format!("{name} > {bound} ({} were served in time)", percent(within)),
    }
}

/// What was run, by label.
pub fn question(report: &RunReport) -> Vec<(&'static str, String)> {
    let mut lines = vec![("Served", subject(report)), ("Traffic", traffic(report))];
    // Otherwise the answer tells it.
    if report.attainment.verdicts.is_empty() && !report.attainment.slo.is_empty() {
        lines.push(("SLO", slo(&report.attainment.slo)));
    }
    lines
}

/// `Llama 70B on 2 × H100 SXM5 80GB TP2, vllm 0.15.1; simulated, seed 7`.
pub fn subject(report: &RunReport) -> String {
    let subject = &report.subject;
    let mut out = subject.model.clone();
    if let Some(deployment) = &subject.deployment {
        let _ = write!(out, " on {deployment}");
    } else if let (Some(gpus), Some(gpu)) = (subject.gpus, &subject.gpu) {
        let _ = write!(out, " on {gpus} × {gpu}");
    }
    if let Some(server) = &subject.server {
        let _ = write!(out, " at {server}");
    }
    if let Some(engine) = &subject.engine {
        let _ = write!(out, ", {engine}");
        if let Some(release) = &subject.release {
            let _ = write!(out, " {release}");
        }
    }
    if let Some(replicas) = subject.replicas.filter(|replicas| *replicas > 1) {
        let _ = write!(out, ", {replicas} replicas");
    }
    out + &match &report.origin {
        Origin::Simulated => format!("; simulated, seed {}", report.repeat.seed),
        Origin::Measured { started, .. } => format!("; measured, {started}"),
    }
}

/// `Poisson, 8 requests/s: 4000 requests, 1160 tokens in, 211 out`.
pub fn traffic(report: &RunReport) -> String {
    let traffic = &report.traffic;
    let mut out = format!("{}: {} requests", traffic.words, count(traffic.requests));
    if let (Some(offered), Some(delivered)) = (traffic.offered, traffic.delivered)
        && number(offered.get()) != number(delivered.get())
    {
        let _ = write!(out, ", delivered at {}/s", number(delivered.get()));
    }
    if let Some(input) = traffic.input {
        let _ = write!(out, ", {} tokens in", number(input));
    }
    if let Some(output) = traffic.output {
        let _ = write!(out, ", {} out", number(output));
    }
    if let Some(most) = traffic.concurrent {
        let _ = write!(out, ", at most {} concurrent", count(most));
    }
    out
}

/// The label of requests by outcome; their reasons follow it.
pub(super) const REQUESTS: &str = "Requests";

/// What came of it, by label.
pub fn figures(report: &RunReport) -> Vec<(&'static str, String)> {
    let mut lines = vec![("Through", throughput(&report.steady, report))];
    if let Some(goodput) = report.attainment.goodput
        && !report.attainment.slo.is_empty()
    {
        lines.push(("Goodput", goodput_line(goodput, report)));
    }
    if let Some(limit) = &report.limited_by {
        lines.push(("Limit", limit.clone()));
    }
    if let Some(line) = saturation(report) {
        lines.push(("Load", line));
    }
    let engine = engine(&report.engine);
    if !engine.is_empty() {
        lines.push(("Engine", engine));
    }
    lines.push((REQUESTS, outcomes(report)));
    if let Some(line) = spent(&report.spent) {
        lines.push(("Spent", line));
    }
    if let Some(line) = tokens(report) {
        lines.push(("Tokens", line));
    }
    lines.push(("Window", window(report)));
    lines
}

/// Why requests were not served, a line each.
pub fn reasons(report: &RunReport) -> Vec<String> {
    let line = |reason: &Reason| {
        let first = if reason.first.is_empty() {
            String::new()
        } else {
            format!(" (first: {})", reason.first)
        };
        format!(
            "{} {}: {}{first}",
            count(reason.count),
            reason.outcome.name(),
            reason.text
        )
    };
    report.reasons.iter().map(line).collect()
}

/// Requests a second that met every target, of those that were judged over the same time: the share that is said of
/// them is the one over the other. Where more were due a second than ended, that is said beside it.
fn goodput_line(goodput: PerSecond, report: &RunReport) -> String {
    let traffic = &report.traffic;
    let (good, due) = (goodput.get(), traffic.delivered.or(traffic.offered));
    let due = due.map(PerSecond::get);
    let share = report.attainment.share.filter(|share| *share > 0.0);
    let Some(judged) = share.map(|share| good / share).filter(|_| good > 0.0) else {
        let of = due.map(|due| format!(" of {} requests/s that were due", number(due)));
        let of = of.unwrap_or_else(|| " requests/s".into());
        return format!("{}{of} met every target", number(good));
    };
    let mut line = format!(
        "{} of {} requests/s that were judged met every target",
        number(good),
        number(judged)
    );
    if let Some(due) = due.filter(|due| number(*due) != number(judged)) {
        let _ = write!(
            line,
            "; {} were due a second{}",
            number(due),
            if due > judged {
                ", and took longer to end than to come"
            } else {
                ""
            }
        );
    }
    line
}

/// `7.98 requests/s, 1680 output tokens/s, 41 in flight`.
pub fn throughput(found: &Throughput, report: &RunReport) -> String {
    let rate = |value: Option<PerSecond>| value.map_or(MISSING.into(), |v| number(v.get()));
    let mut out = format!(
        "{} requests/s, {} output tokens/s, {} input tokens/s",
        rate(found.requests),
        rate(found.output_tokens),
        rate(found.input_tokens)
    );
    if let Some(concurrent) = found.concurrent {
        let _ = write!(out, ", {} concurrent", number(concurrent));
    }
    if let Some(gpus) = report.subject.gpus.filter(|gpus| *gpus > 1)
        && let Some(tokens) = found.output_tokens
    {
        let _ = write!(
            out,
            "; {} output tokens/s a GPU",
            number(tokens.get() / gpus as f64)
        );
    }
    out
}

fn gauge(found: Option<&Gauge>, name: &str, value: fn(f64) -> String) -> Option<String> {
    found.map(|gauge| {
        format!(
            "{name} {} (highest {})",
            value(gauge.mean),
            value(gauge.highest)
        )
    })
}

/// What the engine did, as far as it is known; empty where nothing is.
pub fn engine(found: &EngineUse) -> String {
    let mut parts = Vec::new();
    parts.extend(found.busy.map(|busy| format!("busy {}", percent(busy))));
    parts.extend(gauge(found.batch.as_ref(), "batch", number));
    parts.extend(gauge(found.waiting.as_ref(), "waiting", number));
    parts.extend(gauge(found.cache_use.as_ref(), "KV cache", percent));
    parts.extend(
        found
            .cache_hit
            .map(|hit| format!("{} of prompt tokens cached", percent(hit))),
    );
    parts.extend(found.preemptions.map(|times| match times {
        0 => "no preemption".into(),
        1 => "1 preemption".into(),
        many => format!("{} preemptions", count(many)),
    }));
    parts.extend(found.steps.map(|steps| format!("{} steps", count(steps))));
    parts.join(", ")
}

/// `3988 completed, 12 rejected`.
pub fn outcomes(report: &RunReport) -> String {
    let found = report.all().map(|group| group.outcomes).unwrap_or_default();
    let parts: Vec<String> = Outcome::ALL
        .into_iter()
        .filter(|outcome| *outcome == Outcome::Completed || found.of(*outcome) > 0)
        .map(|outcome| format!("{} {}", count(found.of(outcome)), outcome.name()))
        .collect();
    parts.join(", ")
}

fn saturation(report: &RunReport) -> Option<String> {
    let signs = report.saturation.as_ref()?;
    signs.saturated.then(|| {
        format!(
            "{} more came than was served: TTFT rose by {} a minute, concurrent requests by {}; the longer the run, the slower",
            State::Warning.mark(),
            seconds(signs.ttft.per_second * 60.0),
            number(signs.concurrent.per_second * 60.0)
        )
    })
}

/// GPU time, energy and money, in all and for a million tokens; `None` where none is known.
pub fn spent(found: &Spent) -> Option<String> {
    let mut parts = Vec::new();
    if let Some(time) = found.gpu_seconds {
        parts.push((
            format!("{} GPU-hours", number(time / 3600.0)),
            found
                .per_million(time)
                .map(|each| format!("{} GPU-seconds", number(each))),
        ));
    }
    if let Some(energy) = found.energy {
        let kilowatt_hours = |joules: f64| format!("{} kWh", number(joules / 3.6e6));
        parts.push((
            kilowatt_hours(energy.get()),
            found.per_million(energy.get()).map(kilowatt_hours),
        ));
    }
    if let Some(money) = found.money {
        let sign = crate::figures::currency_sign(money.currency.code());
        let amount = |value: f64| format!("{sign}{}", crate::figures::amount(value));
        parts.push((
            amount(money.as_f64()),
            found.per_million(money.as_f64()).map(amount),
        ));
    }
    let whole: Vec<&str> = parts.iter().map(|(whole, _)| whole.as_str()).collect();
    let each: Vec<&str> = parts
        .iter()
        .filter_map(|(_, each)| each.as_deref())
        .collect();
    if whole.is_empty() {
        return None;
    }
    let each = if each.is_empty() {
        String::new()
    } else {
        format!("; a million tokens in and out: {}", each.join(", "))
    };
    Some(format!("{}{each}", whole.join(", ")))
}

/// How tokens were counted, where there is a difference to know.
fn tokens(report: &RunReport) -> Option<String> {
    let found = &report.tokens;
    let mut parts = Vec::new();
    let differ = |asked: Option<u64>, served: Option<u64>, what: &str| {
        let (asked, served) = (asked?, served?);
        (asked != served).then(|| {
            format!(
                "{what}: {} asked for, {} by the server's count",
                group_thousands(&asked.to_string()),
                group_thousands(&served.to_string())
            )
        })
    };
    parts.extend(differ(found.requested_input, found.served_input, "input"));
    parts.extend(differ(
        found.requested_output,
        found.served_output,
        "output",
    ));
    if let (Some(served), Some(chunks)) = (found.served_output, found.chunks)
        && served != chunks
    {
        parts.push(format!(
            "{} output tokens came in {} chunks",
            group_thousands(&served.to_string()),
            group_thousands(&chunks.to_string())
        ));
    }
    if found.uncounted > 0 {
        parts.push(format!(
            "{} requests without a count by the server: chunks are counted as tokens",
            count(found.uncounted)
        ));
    }
    if found.unknown > 0 {
        parts.push(format!(
            "{} requests without a count by the server and without a stream: output tokens are not known",
            count(found.unknown)
        ));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

pub fn window(report: &RunReport) -> String {
    let span = &report.span;
    let mut left_out = Vec::new();
    for (time, name) in [(span.warm_up(), "warm-up"), (span.drain(), "drain")] {
        if time.get() > 0.0 {
            left_out.push(format!("{name} of {time}"));
        }
    }
    let rest = if left_out.is_empty() {
        "nothing is left out".into()
    } else {
        format!("{} left out", left_out.join(" and "))
    };
    let whole = report.whole.output_tokens.map(|rate| {
        format!(
            "; over the whole run {} output tokens/s",
            number(rate.get())
        )
    });
    format!(
        "{} of {}: {rest}{}",
        span.steady(),
        span.whole(),
        whole.unwrap_or_default()
    )
}

/// What is to be known: percentiles that rest on few values, histograms, and the run's own notes.
pub fn notes(report: &RunReport) -> Vec<String> {
    let mut out = Vec::new();
    for verdict in &report.attainment.verdicts {
        let (Some(at), Some(metric)) = (verdict.at, metric(verdict.about)) else {
            continue;
        };
        if let Some(values) = report.distribution(metric)
            && !values.supports(at)
        {
            out.push(format!(
                "{} {at} rests on {} requests: fewer than one is expected beyond it.",
                metric.name(),
                count(values.count)
            ));
        }
    }
    let all = report.all().map(|group| &group.distributions);
    let counted = all
        .into_iter()
        .flatten()
        .find_map(|(_, values)| match values.method {
            Method::Histogram { digits } => Some(digits),
            Method::Exact => None,
        });
    if let Some(digits) = counted {
        out.push(format!(
            "Metrics of more than a million values are from histograms of {digits} digits."
        ));
    }
    out.extend(report.notes.iter().cloned());
    out
}

pub fn metric(about: SloMetric) -> Option<Metric> {
    match about {
        SloMetric::Ttft => Some(Metric::Ttft),
        SloMetric::Tpot => Some(Metric::Tpot),
        SloMetric::EndToEnd => Some(Metric::EndToEnd),
        SloMetric::Throughput => None,
    }
}

/// A unit in which all of these seconds can be told in three digits.
pub(super) fn unit(values: impl IntoIterator<Item = f64>) -> TimeUnit {
    let most = values.into_iter().fold(0.0, f64::max);
    TimeUnit::of([most])
}
