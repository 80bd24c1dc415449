//! Sentences about a plan that every form shares.

use crate::figures::{self, bytes, count, number, percent, seconds};
use gpuwise_domain::{
    deployment::{Deployment, Figures, ModelSummary, Quality, Rental, Sizing},
    estimate::Estimate,
    price::HOURS_A_MONTH,
    workload::{LengthDistribution, Limits, Slo, Target, Traffic, Workload},
};
use gpuwise_units::{Parameters, Percentile, Tokens};
use std::fmt::Write as _;

/// `Llama 70B: 70.6B parameters, bf16 131 GiB, context 131,072`.
pub fn model(model: &ModelSummary) -> String {
    let mut parts = vec![format!("{} parameters", Parameters(model.parameters))];
    if model.active_parameters > 0 && model.active_parameters < model.parameters {
        parts.push(format!(
            "{} active a token",
            Parameters(model.active_parameters)
        ));
    }
    let weights = format!("{} {}", model.published, bytes(model.weight_bytes));
    parts.push(weights.trim_start().into());
    if let Some(context) = model.max_context {
        parts.push(format!("context {}", Tokens(context)));
    }
    format!("{}: {}", model.name, parts.join(", "))
}

/// `8 requests/s, Poisson arrivals, 2000 tokens in, 300 out`.
pub fn traffic(workload: &Workload) -> String {
    let mut parts = vec![match workload.traffic {
        Traffic::Open { rate, burstiness } if (burstiness - 1.0).abs() < 1e-9 => {
            format!("{} requests/s, Poisson arrivals", number(rate.get()))
        }
        Traffic::Open { rate, burstiness } => {
            format!(
                "{} requests/s, gaps with squared variation {}",
                number(rate.get()),
                number(burstiness)
            )
        }
        Traffic::Closed { concurrency } => format!("{} concurrent requests", count(concurrency)),
    }];
    parts.push(format!("{} in", length(&workload.lengths.input, "tokens ")));
    parts.push(format!("{} out", length(&workload.lengths.output, "")));
    if workload.prefix_hit > 0.0 {
        parts.push(format!(
            "{} of prompt tokens in the prefix cache",
            percent(workload.prefix_hit)
        ));
    }
    parts.join(", ")
}

fn length(lengths: &LengthDistribution, unit: &str) -> String {
    let mean = number(lengths.mean);
    let longest = lengths.longest.0;
    let text = if lengths.variation > 0.0 {
        let deviation = lengths.variation.sqrt() * lengths.mean;
        format!(
            "{mean} ± {} {unit}(longest {})",
            number(deviation),
            count(longest)
        )
    } else if longest as f64 > lengths.mean * 1.001 {
        format!("{mean} {unit}(longest {})", count(longest))
    } else {
        format!("{mean} {unit}")
    };
    text.trim_end().into()
}

/// `TTFT p95 ≤ 1 s, TPOT p95 ≤ 40 ms`; says so where no SLO was given.
pub fn slo(slo: &Slo) -> String {
    let target = |name: &str, target: &Target| {
        format!(
            "{name} {} ≤ {}",
            percentile(target.percentile),
            seconds(target.at_most.get())
        )
    };
    let mut parts = Vec::new();
    for (name, bound) in [
        ("TTFT", &slo.ttft),
        ("TPOT", &slo.tpot),
        ("end to end", &slo.end_to_end),
    ] {
        parts.extend(bound.as_ref().map(|bound| target(name, bound)));
    }
    if let Some(rate) = slo.throughput {
        parts.push(format!("at least {} output tokens/s", number(rate.get())));
    }
    if parts.is_empty() {
        "no latency SLO".into()
    } else {
        parts.join(", ")
    }
}

/// What a plan may use, in clauses; none where anything may be.
pub fn limits(limits: &Limits) -> Vec<String> {
    let mut parts = Vec::new();
    let mut list = |what: &str, names: &[String]| {
        if !names.is_empty() {
            parts.push(format!("{what} {}", names.join(", ")));
        }
    };
    list("only", &limits.gpus);
    list("from", &limits.providers);
    list("in", &limits.regions);
    let owned: Vec<String> = limits
        .owned
        .iter()
        .map(|(gpu, gpus)| format!("{gpus} × {gpu}"))
        .collect();
    list("owned:", &owned);
    parts.extend(limits.budget.map(|budget| format!("at most {budget}")));
    parts.extend(
        limits
            .power
            .map(|power| format!("at most {} W", number(power.get()))),
    );
    parts.extend(
        limits
            .quality_loss
            .map(|loss| format!("at most {} % of quality lost", number(loss))),
    );
    if limits.spare_replicas > 0 {
        parts.push(format!("{} spare replicas", limits.spare_replicas));
    }
    parts
}

/// What the longest context that is served holds, where lengths vary.
pub fn context(sizing: &Sizing, deployment: &Deployment) -> Option<String> {
    let (input, output) = (
        &sizing.question.workload.lengths.input,
        &sizing.question.workload.lengths.output,
    );
    let most = deployment.settings.max_context;
    let longest = input.longest.0 + output.longest.0;
    (most > 0 && input.variation + output.variation > 0.0).then(|| {
        let holds = if most >= longest {
            "the longest prompt with the longest answer fits"
        } else {
            "longer requests are refused"
        };
        format!("up to {} tokens a request: {holds}", count(most))
    })
}

/// `p95`, or `mean`.
pub fn percentile(percentile: Option<Percentile>) -> String {
    percentile.map_or_else(|| "mean".into(), |p| p.to_string())
}

/// The GPU with its slice.
pub fn device(deployment: &Deployment) -> String {
    match &deployment.slice {
        Some(slice) => format!("{} {slice}", deployment.gpu),
        None => deployment.gpu.clone(),
    }
}

/// `2 × H100 SXM5 80GB`; with a prefill pool `1 + 2 × H100 SXM5 80GB`, prefill workers first.
pub fn devices(deployment: &Deployment) -> String {
    match &deployment.prefill {
        Some(pool) => format!(
            "{} + {} × {}",
            pool.layout.gpus(),
            deployment.layout.gpus(),
            device(deployment)
        ),
        None => format!("{} × {}", deployment.devices(), device(deployment)),
    }
}

/// `2×TP4`, narrow for tables; with a prefill pool `TP2 + TP4`, prefill first.
pub fn layout(deployment: &Deployment) -> String {
    let narrow = |layout: gpuwise_domain::layout::Layout| {
        layout
            .to_string()
            .replace(" × ", "×")
            .replace("1 GPU", "TP1")
    };
    match &deployment.prefill {
        Some(pool) => format!("{} + {}", narrow(pool.layout), narrow(deployment.layout)),
        None => narrow(deployment.layout),
    }
}

/// `2 × H100 SXM5 80GB, TP2, fp8 weights`: a deployment in a clause.
pub fn deployment(deployment: &Deployment) -> String {
    format!(
        "{}, {}, {} weights",
        devices(deployment),
        layout(deployment),
        deployment.weights
    )
}

/// `vLLM 0.11.0`.
pub fn engine(deployment: &Deployment) -> String {
    match deployment.release {
        Some(release) => format!("{} {release}", deployment.engine),
        None => deployment.engine.to_string(),
    }
}

/// `2 × gpu_2x_h100 of lambda in us-east-1, on demand, list of 2026-07-20`.
pub fn rental(rental: &Rental) -> String {
    let mut text = format!(
        "{} × {} of {}",
        rental.instances, rental.instance, rental.provider
    );
    if !rental.region.is_empty() {
        let _ = write!(text, " in {}", rental.region);
    }
    let _ = write!(text, ", {}", rental.terms.name());
    text += &rental.price.map_or_else(
        || ", price unknown".into(),
        |price| {
            let month = price.0.as_f64() * f64::from(rental.instances) * HOURS_A_MONTH;
            let month = figures::count(month.round() as u64);
            let hour = figures::hourly(price);
            let currency = price.0.currency;
            if rental.instances == 1 {
                format!(", {hour} {currency}/h, {month}/month")
            } else {
                format!(", {hour} {currency}/h each, {month}/month in all")
            }
        },
    );
    text += &priced(rental);
    if rental.idle > 0 {
        let _ = write!(text, "; {} paid for and idle", rental.idle);
    }
    text
}

/// Of which day a price is: `, list of 2026-07-20`, `, price as of (unknown; about 2025H2-2026)`; nothing is said
/// where there is no price or one's own hosts are asked for.
pub fn priced(rental: &Rental) -> String {
    if let Some(day) = rental.priced_at() {
        return format!(", list of {day}");
    }
    if rental.price.is_none() || rental.is_owned() {
        return String::new();
    }
    let said = rental.date.trim();
    // Rows write `unknown (about 2025H2-2026)`: when it was collected.
    let about = match said.split_once('(') {
        Some((_, about)) => about.trim_end_matches(')').trim_start_matches("about "),
        None if said == "unknown" => "",
        None => said,
    };
    if about.is_empty() {
        ", price as of (unknown)".into()
    } else {
        format!(", price as of (unknown; about {about})")
    }
}

/// Whether a price is of a list that does not say its day.
pub(crate) fn of_unknown_day(rental: &Rental) -> bool {
    rental.price.is_some() && rental.priced_at().is_none() && !rental.is_owned()
}

/// Whether the range of an estimate reaches beyond its target.
pub(crate) fn beyond(estimate: &Estimate, target: Option<&Target>) -> bool {
    target.is_some_and(|target| estimate.high > target.at_most.get())
}

/// The SLO's figures whose range reaches beyond it: `TPOT p95 28 ms (22–51, SLO 40 ms)`.
pub(crate) fn uncertain(slo: &Slo, shown: &Figures) -> Vec<String> {
    let latencies = [
        ("TTFT", shown.ttft_at, &shown.ttft, &slo.ttft),
        ("TPOT", shown.tpot_at, &shown.tpot, &slo.tpot),
        (
            "end to end",
            shown.end_to_end_at,
            &shown.end_to_end,
            &slo.end_to_end,
        ),
    ];
    let mut out: Vec<String> = latencies
        .into_iter()
        .filter_map(|(name, at, estimate, target)| {
            let target = target
                .as_ref()
                .filter(|target| beyond(estimate, Some(target)))?;
            Some(format!(
                "{name} {} {}",
                percentile(at),
                against(
                    &figures::ranged_seconds(estimate),
                    &seconds(target.at_most.get())
                )
            ))
        })
        .collect();
    let least = slo.throughput.map(gpuwise_units::PerSecond::get);
    let given = &shown.output_throughput;
    out.extend(least.filter(|least| given.low < *least).map(|least| {
        let given = figures::ranged_unit(given, "output tokens/s");
        against(&given, &number(least))
    }));
    out
}

/// A figure with its range, and in the same brackets what it is held against: `28 ms (22–51, SLO 40 ms)`.
pub(crate) fn against(ranged: &str, target: &str) -> String {
    match ranged.strip_suffix(')') {
        Some(open) => format!("{open}, SLO {target})"),
        None => format!("{ranged} (SLO {target})"),
    }
}

/// What the weights lose; `None` where they are as published and nobody measured them.
pub fn quality(deployment: &Deployment) -> Option<String> {
    let weights = &deployment.weights;
    let lost = match &deployment.quality {
        Quality::Published => return None,
        Quality::Unknown => "loss of quality unknown, no published evaluation".into(),
        Quality::Loss {
            percent,
            evaluation,
            same_model,
            measured,
            ..
        } => {
            let whose = match (same_model, measured) {
                (_, true) => ", measured here",
                (true, false) => "",
                (false, false) => ", of the nearest relative",
            };
            let verb = if *percent < 0.0 { "gain" } else { "lose" };
            format!("{verb} {} % in {evaluation}{whose}", number(percent.abs()))
        }
    };
    Some(if deployment.weights_published {
        format!("{weights} weights of this checkpoint: {lost}")
    } else {
        format!("{weights} weights are not as published: {lost}")
    })
}

/// `11.3 requests/s, 1.41 × the asked; limited by TPOT`.
pub fn headroom(sizing: &Sizing, deployment: &Deployment) -> String {
    let headroom = &deployment.headroom;
    let closed = matches!(sizing.question.workload.traffic, Traffic::Closed { .. });
    let unit = if closed {
        "concurrent requests"
    } else {
        "requests/s"
    };
    let mut text = format!("{} × what is asked", number(headroom.factor));
    if headroom.rate > 0.0 {
        text = format!("up to {} {unit}, {text}", number(headroom.rate));
    }
    if let Some(beyond) = headroom.limited_by {
        let _ = write!(text, "; limited by {beyond}");
    }
    text
}

/// The sentence of a typed answer; nothing where there is none.
pub(crate) fn said(of: Option<&impl ToString>) -> String {
    of.map_or_else(String::new, ToString::to_string)
}

/// `80 % ranges; 1–3 calibrated, 4 extrapolated`.
pub fn basis(deployments: &[Deployment]) -> String {
    let mut groups: Vec<(&'static str, Vec<usize>)> = Vec::new();
    for (index, deployment) in deployments.iter().enumerate() {
        let name = deployment.basis.name();
        match groups.iter_mut().find(|(other, _)| *other == name) {
            Some((_, ranks)) => ranks.push(index + 1),
            None => groups.push((name, vec![index + 1])),
        }
    }
    let text: Vec<String> = match groups.as_slice() {
        [(name, _)] => vec![(*name).to_string()],
        many => many
            .iter()
            .map(|(name, ranks)| format!("{} {name}", spans(ranks)))
            .collect(),
    };
    format!("80 % ranges in brackets; {}.", text.join(", "))
}

/// `1–3, 5`.
fn spans(ranks: &[usize]) -> String {
    let mut out: Vec<(usize, usize)> = Vec::new();
    for rank in ranks {
        match out.last_mut() {
            Some((_, end)) if *end + 1 == *rank => *end = *rank,
            _ => out.push((*rank, *rank)),
        }
    }
    let one = |(start, end): &(usize, usize)| {
        if start == end {
            start.to_string()
        } else {
            format!("{start}–{end}")
        }
    };
    out.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The currency of the priced deployments, if it is one.
pub fn currency(deployments: &[Deployment]) -> Option<String> {
    let mut codes = deployments
        .iter()
        .filter_map(|d| d.cost.per_hour)
        .map(|price| price.0.currency.code().to_string());
    let first = codes.next()?;
    codes.all(|code| code == first).then_some(first)
}

/// `$/h`; `/h` where there is no price, or currencies differ.
pub fn per(currency: Option<&str>, what: &str) -> String {
    let sign = currency.map_or_else(String::new, figures::currency_sign);
    format!("{}/{what}", sign.trim_end())
}
