//! The workload of a plan: flags over a file, a trace, and what is assumed where neither says.

mod lengths;

use crate::{
    error::Problem,
    names,
    settings::{LimitFlags, Plan, SloFlags, TrafficFlags},
};
use anyhow::Context as _;
use gpuwise_domain::{
    catalogue::Catalogue,
    note::TrafficNote,
    workload::{LengthDistribution, Target, Traffic, TrafficDetail, Workload},
};
use gpuwise_read::{
    traffic::{self, Trace},
    workload::{FieldError, WorkloadError, WorkloadFields, read_fields, read_workload},
};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Where nothing is said of the traffic.
const RATE: &str = "1/s";
const ISL: &str = "1000";
const OSL: &str = "200";

/// Tokens of a prompt or an answer beyond which no model serves it.
const LONGEST_PART: u64 = 5_000_000;

/// A trace is some gigabytes at most, unpacked.
const LARGEST_TRACE: u64 = 4 << 30;

/// A workload with what else its file says, and what was assumed.
#[derive(Debug)]
pub struct StatedWorkload {
    pub model: Option<String>,
    pub engine: Option<String>,
    pub precision: Option<String>,
    pub workload: Workload,
    /// What was measured of the traffic beyond its means.
    pub detail: TrafficDetail,
    /// Whether the longest prompt or answer follows from a law, and was not said.
    derived: bool,
    pub notes: Vec<TrafficNote>,
}

/// Reads the workload of a plan.
///
/// # Errors
/// When a file cannot be read, or a quantity is missing, cannot be, or contradicts another.
pub fn read(flags: &Plan, catalogue: &Catalogue) -> anyhow::Result<StatedWorkload> {
    read_within(&flags.traffic, &flags.slo, &flags.limits, None, catalogue)
}

/// Reads a workload with its limits: flags over files, over what was saved.
///
/// # Errors
/// As [`read`].
pub fn read_within(
    traffic: &TrafficFlags,
    slo: &SloFlags,
    limits: &LimitFlags,
    saved: Option<&Workload>,
    catalogue: &Catalogue,
) -> anyhow::Result<StatedWorkload> {
    let slo = slo.unfolded()?;
    let given = fields(traffic, &slo, Some(limits));
    let mut asked = asked(traffic, &given, saved, None)?;
    canonical(&mut asked.workload, catalogue, &given)?;
    if let (Traffic::Open { rate, .. }, Some(peak)) = (&asked.workload.traffic, asked.detail.peak)
        && peak > *rate
    {
        let peak = peak.get();
        asked.notes.push(TrafficNote::BusiestHour { peak });
    }
    Ok(asked)
}

/// Reads the workload that something is tried under: flags over a trace, over a workload file, over
/// what was saved. `trace` is the trace of the flags where it was read already.
///
/// # Errors
/// As [`read`].
pub fn read_over(
    traffic: &TrafficFlags,
    slo: &SloFlags,
    saved: Option<&Workload>,
    trace: Option<&Trace>,
) -> anyhow::Result<StatedWorkload> {
    let given = fields(traffic, &slo.unfolded()?, None);
    asked(traffic, &given, saved, trace)
}

fn asked(
    traffic: &TrafficFlags,
    given: &WorkloadFields,
    saved: Option<&Workload>,
    read: Option<&Trace>,
) -> anyhow::Result<StatedWorkload> {
    let mut notes = Vec::new();
    let mut file = None;
    let mut base = saved.map(of_saved).unwrap_or_default();
    if let Some(path) = &traffic.workload {
        let text = fs::read_to_string(path).map_err(|error| {
            Problem::new(format!("cannot read workload file {}", path.display())).because(error)
        })?;
        base = base.overridden_by(read_fields(&path.display().to_string(), &text)?);
        file = Some((path.clone(), text));
    }
    if let Some(path) = &traffic.trace {
        let own;
        let trace = if let Some(trace) = read {
            trace
        } else {
            own = trace(path)?;
            &own
        };
        let fields = of_trace(path, trace, read.is_some(), &mut notes);
        base = base.overridden_by(fields);
    }
    let merged = assumed(base.overridden_by(given.clone()), &mut notes);
    notes.extend(lengths::spread(&merged));
    let derived = merged.isl_longest.is_none() || merged.osl_longest.is_none();
    let read = merged.read().map_err(|wrong| {
        let traced = matches!(wrong.field, "isl" | "osl" | "rate");
        match &traffic.trace {
            Some(path) if traced && !is_given(given, wrong.field) => Problem::new(format!(
                "{}: its {} {}",
                path.display(),
                wrong.field,
                wrong.problem
            ))
            .into(),
            _ => blamed(&wrong, given, file.as_ref()),
        }
    })?;
    Ok(StatedWorkload {
        model: read.model,
        engine: read.engine,
        precision: read.precision,
        workload: read.workload,
        detail: read.detail,
        derived,
        notes,
    })
}

/// Traffic and SLO of a saved workload as fields, for others to override.
fn of_saved(workload: &Workload) -> WorkloadFields {
    let (input, output) = (&workload.lengths.input, &workload.lengths.output);
    let (rate, burstiness, concurrency) = match workload.traffic {
        Traffic::Open { rate, burstiness } => (
            Some(format!("{}/s", rate.get())),
            Some(burstiness.to_string()),
            None,
        ),
        Traffic::Closed { concurrency } => (None, None, Some(concurrency.to_string())),
    };
    let target = |target: Option<Target>| {
        let target = target?;
        let at = target.percentile.map_or("mean".into(), |p| p.to_string());
        Some(format!("{at}:{}s", target.at_most.get()))
    };
    WorkloadFields {
        rate,
        burstiness,
        concurrency,
        isl: Some(input.mean.to_string()),
        osl: Some(output.mean.to_string()),
        isl_variation: Some(input.variation.to_string()),
        osl_variation: Some(output.variation.to_string()),
        isl_longest: Some(input.longest.0.to_string()),
        osl_longest: Some(output.longest.0.to_string()),
        prefix_hit: Some(workload.prefix_hit.to_string()),
        ttft: target(workload.slo.ttft),
        tpot: target(workload.slo.tpot),
        e2e: target(workload.slo.end_to_end),
        throughput: workload
            .slo
            .throughput
            .map(|rate| format!("{}/s", rate.get())),
        ..WorkloadFields::default()
    }
}

fn fields(traffic: &TrafficFlags, slo: &SloFlags, limits: Option<&LimitFlags>) -> WorkloadFields {
    // A budget is an amount an hour, which the flag's name may leave unsaid.
    let hourly = |text: &String| {
        if text.contains('/') {
            text.clone()
        } else {
            format!("{text}/h")
        }
    };
    let given = WorkloadFields {
        rate: traffic.rate.clone(),
        burstiness: traffic.burstiness.clone(),
        concurrency: traffic.concurrency.clone(),
        isl: traffic.isl.clone(),
        osl: traffic.osl.clone(),
        prefix_hit: traffic.prefix_hit.clone(),
        ttft: slo.ttft.clone(),
        tpot: slo.tpot.clone(),
        e2e: slo.e2e.clone(),
        throughput: slo.throughput.clone(),
        ..WorkloadFields::default()
    };
    let Some(limits) = limits else { return given };
    WorkloadFields {
        gpus: limits.market.gpu.clone(),
        providers: limits.market.provider.clone(),
        regions: limits.market.region.clone(),
        budget: limits.budget.as_ref().map(hourly),
        power: limits.power.clone(),
        spare_replicas: limits.spare.clone(),
        quality_loss: limits.max_quality_loss.clone(),
        owned: limits.market.owned.clone(),
        ..given
    }
}

impl SloFlags {
    /// With what `--slo` says in flags of their own.
    ///
    /// # Errors
    /// When a target is none, or is given twice.
    pub fn unfolded(&self) -> anyhow::Result<Self> {
        let mut out = Self {
            slo: Vec::new(),
            ..self.clone()
        };
        for target in &self.slo {
            let (name, bound) = target.split_once('=').unwrap_or((target, ""));
            let slot = match name.trim().to_ascii_lowercase().as_str() {
                "ttft" => &mut out.ttft,
                "tpot" => &mut out.tpot,
                "e2e" => &mut out.e2e,
                "throughput" => &mut out.throughput,
                _ => {
                    return Err(Problem::new(format!("--slo {target}: no target is named {name:?}"))
                        .hint("write ttft=p95:1s, tpot=p95:40ms, e2e=p99:30s or throughput=5000/s, with commas between")
                        .into());
                }
            };
            if bound.is_empty() {
                return Err(
                    Problem::new(format!("--slo {target}: nothing stands after {name}="))
                        .hint("write a bound, such as ttft=p95:1s")
                        .into(),
                );
            }
            if let Some(other) = slot.replace(bound.trim().into()) {
                return Err(Problem::new(format!(
                    "--slo {target}: {name} is given twice, {other} before"
                ))
                .into());
            }
        }
        Ok(out)
    }
}

/// Traffic and lengths where nothing says them.
fn assumed(mut fields: WorkloadFields, notes: &mut Vec<TrafficNote>) -> WorkloadFields {
    let (mut rate, mut input, mut output) = (None, None, None);
    if fields.rate.is_none() && fields.concurrency.is_none() {
        fields.rate = Some(RATE.into());
        rate = Some(RATE);
    }
    if fields.isl.is_none() {
        fields.isl = Some(ISL.into());
        input = Some(ISL);
    }
    if fields.osl.is_none() {
        fields.osl = Some(OSL.into());
        output = Some(OSL);
    }
    if rate.or(input).or(output).is_some() {
        notes.push(TrafficNote::Assumed {
            rate,
            input,
            output,
        });
    }
    fields
}

/// The error with the place of the field: its flag, or its line in the file.
fn blamed(
    wrong: &FieldError,
    given: &WorkloadFields,
    file: Option<&(PathBuf, String)>,
) -> anyhow::Error {
    let by_flag = file.is_none() || is_given(given, wrong.field);
    if !by_flag
        && let Some((path, text)) = file
        && let Err(error @ WorkloadError::Field { .. }) =
            read_workload(&path.display().to_string(), text)
    {
        return error.into();
    }
    Problem::new(format!("{}: {}", flag_of(wrong.field), wrong.problem)).into()
}

fn is_given(fields: &WorkloadFields, field: &str) -> bool {
    match field {
        "rate" => fields.rate.is_some(),
        "burstiness" => fields.burstiness.is_some(),
        "concurrency" => fields.concurrency.is_some(),
        "isl" => fields.isl.is_some(),
        "osl" => fields.osl.is_some(),
        "prefix_hit" => fields.prefix_hit.is_some(),
        "ttft" => fields.ttft.is_some(),
        "tpot" => fields.tpot.is_some(),
        "e2e" => fields.e2e.is_some(),
        "throughput" => fields.throughput.is_some(),
        "gpus" => !fields.gpus.is_empty(),
        "providers" => !fields.providers.is_empty(),
        "regions" => !fields.regions.is_empty(),
        "budget" => fields.budget.is_some(),
        "power" => fields.power.is_some(),
        "spare_replicas" => fields.spare_replicas.is_some(),
        "quality_loss" => fields.quality_loss.is_some(),
        "owned" => !fields.owned.is_empty(),
        _ => false,
    }
}

fn flag_of(field: &str) -> String {
    match field {
        "gpus" => "--gpu".into(),
        "providers" => "--provider".into(),
        "regions" => "--region".into(),
        "spare_replicas" => "--spare".into(),
        "quality_loss" => "--max-quality-loss".into(),
        // Files and saved deployments alone say these.
        field @ ("isl_longest" | "osl_longest" | "isl_variation" | "osl_variation"
        | "peak_rate" | "rates" | "rates_from" | "isl_quantiles" | "osl_quantiles") => {
            format!("the workload's {field}")
        }
        other => format!("--{}", other.replace('_', "-")),
    }
}

/// The fields that a trace makes; `each`: its requests are sent one by one, and these are only their
/// summary, which a request that nobody can serve does not spoil.
fn of_trace(
    path: &Path,
    trace: &Trace,
    each: bool,
    notes: &mut Vec<TrafficNote>,
) -> WorkloadFields {
    let shown = path.display().to_string();
    let own = trace.notes.iter().map(|what| TrafficNote::OfTrace {
        path: shown.clone(),
        what: what.clone(),
    });
    notes.extend(own);
    let summary = trace.summary();
    let lengths = summary.lengths();
    let most = if each { LONGEST_PART } else { u64::MAX };
    let mean = |law: &LengthDistribution| format!("{:.0}", law.mean.clamp(1.0, (most / 2) as f64));
    let longest = |law: &LengthDistribution| {
        let mean = law.mean.round() as u64;
        law.longest.0.max(mean).clamp(1, most).to_string()
    };
    let mut fields = WorkloadFields {
        isl: Some(mean(&lengths.input)),
        osl: Some(mean(&lengths.output)),
        isl_longest: Some(longest(&lengths.input)),
        osl_longest: Some(longest(&lengths.output)),
        isl_variation: Some(lengths.input.variation.to_string()),
        osl_variation: Some(lengths.output.variation.to_string()),
        prefix_hit: summary.prefix_hit.map(|share| share.to_string()),
        ..WorkloadFields::default()
    };
    if let Some(Traffic::Open { rate, burstiness }) = summary.traffic() {
        fields.rate = Some(format!("{}/s", rate.get()));
        fields.burstiness = Some(burstiness.to_string());
    }
    notes.push(TrafficNote::Trace {
        path: shown,
        requests: summary.requests,
        kind: trace.kind.name(),
    });
    fields
}

/// Reads a trace of requests.
///
/// # Errors
/// When the file cannot be read, or is no trace.
pub fn trace(path: &Path) -> anyhow::Result<Trace> {
    let shown = path.display().to_string();
    let bytes = bytes_of(path)?;
    let text = traffic::text(&bytes).with_context(|| shown.clone())?;
    traffic::read_trace(text).with_context(|| shown)
}

/// Reads a file of traffic of any kind.
///
/// # Errors
/// When the file cannot be read, or is of no known kind.
pub fn traffic_file(path: &Path) -> anyhow::Result<traffic::TrafficFile> {
    let shown = path.display().to_string();
    let bytes = bytes_of(path)?;
    let text = traffic::text(&bytes).with_context(|| shown.clone())?;
    traffic::read_traffic(text).with_context(|| shown)
}

fn bytes_of(path: &Path) -> anyhow::Result<Vec<u8>> {
    let shown = path.display().to_string();
    let bytes = fs::read(path)
        .map_err(|error| Problem::new(format!("cannot read trace {shown}")).because(error))?;
    Ok(traffic::decompress(&bytes, LARGEST_TRACE)
        .with_context(|| shown)?
        .into_owned())
}

/// Names as the catalogue writes them, and a budget in the currency of offers.
fn canonical(
    workload: &mut Workload,
    catalogue: &Catalogue,
    given: &WorkloadFields,
) -> anyhow::Result<()> {
    // What no flag gave stands in the workload file.
    let from = |field: &str| {
        if is_given(given, field) {
            flag_of(field)
        } else {
            format!("--workload: `{field}`")
        }
    };
    let limits = &mut workload.limits;
    for name in &mut limits.gpus {
        *name = names::device(catalogue, &from("gpus"), name)?.name();
    }
    for (name, _) in &mut limits.owned {
        *name = names::gpu(catalogue, &from("owned"), name)?.name.clone();
    }
    limits.providers = names::providers(catalogue, &from("providers"), &limits.providers)?;
    names::regions(catalogue, &from("regions"), &limits.regions)?;
    let priced = catalogue
        .offers
        .iter()
        .find_map(|offer| offer.on_demand.or(offer.reserved).or(offer.spot));
    if let (Some(budget), Some(price)) = (limits.budget, priced)
        && budget.0.currency != price.0.currency
    {
        let (asked, known) = (budget.0.currency, price.0.currency);
        return Err(Problem::new(format!(
            "{} is in {asked}, prices are in {known}",
            from("budget")
        ))
        .hint(format!(
            "convert the budget to {known} at a rate of your choice"
        ))
        .into());
    }
    Ok(())
}
