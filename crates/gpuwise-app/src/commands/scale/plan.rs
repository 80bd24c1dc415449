//! `gpuwise scale plan`: how a saved deployment is to follow demand.

use super::{
    costs::{aimed, costs, hours},
    mixes::Asking,
    service::{demand, objective, said, warm_cost},
    shown::Shown,
    starts::Seen,
    variants::{each, mixed, sustained},
};
use crate::{
    commands::{Context, Exit, series},
    error::Problem,
    schemas::AnswerName,
    simulation,
    write::Pending,
};
use gpuwise_domain::{
    deployment::{Deployment, Saved},
    scale::ScalePlan,
    workload::Target,
};
use gpuwise_read::workload::target as read_target;
use gpuwise_scale::{
    compare::Policy,
    fluid::{Demand, Service},
    forecast::series::Regular,
};
use gpuwise_units::{Nanoseconds, Percentile, math};
use gpuwise_view::scale::plan as view;
use std::path::{Path, PathBuf};

/// Flags of `gpuwise scale plan`.
#[derive(Debug, clap::Args)]
pub struct Flags {
    /// A deployment that `gpuwise plan … --save` wrote
    #[arg(value_name = "DEPLOYMENT")]
    deployment: PathBuf,
    /// Rates over time, as `gpuwise forecast` reads them
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,
    /// Another saved deployment that may serve beside it, such as one on a smaller GPU; repeat
    #[arg(long, value_name = "DEPLOYMENT")]
    beside: Vec<PathBuf>,
    /// Only the series whose name holds this
    #[arg(long, value_name = "NAME")]
    series: Option<String>,
    /// Time to first token that is to be kept: p95:1s [default: the deployment's SLO]
    #[arg(long, value_name = "TARGET")]
    ttft: Option<String>,
    /// Share of requests that are to be in time [default: the percentile of the SLO]
    #[arg(long, value_name = "SHARE")]
    objective: Option<String>,
    /// From nothing until a replica serves [default: from the weights' bytes and published stages, p90]
    #[arg(long, value_name = "TIME")]
    start: Option<String>,
    /// Starts that were seen: a CSV of model, node (its class), state (what was there before) and seconds
    #[arg(long, value_name = "FILE")]
    starts: Option<PathBuf>,
    /// The class of nodes of which starts count [default: the deployment's GPU, or the only class there is]
    #[arg(long, value_name = "CLASS", requires = "starts")]
    node: Option<String>,
    /// From warm until it serves [default: from the weights' bytes and the bus, p90]
    #[arg(long, value_name = "TIME")]
    wake: Option<String>,
    /// What a warm replica costs beside one that serves, what it earns while lent taken off; `never`: none can be
    #[arg(long, value_name = "SHARE", default_value = "10%")]
    warm_cost: String,
    /// Replicas that serve at least; 0: none once nothing has come for --idle
    #[arg(long, value_name = "N", default_value_t = 1)]
    min: u32,
    /// For how long nothing must have come, waited, run or started before there are no replicas, with --min 0
    #[arg(long, value_name = "TIME", default_value = "10min")]
    idle: String,
    /// Time between two readings of the trace [default: that of its times; of a trace of requests a minute]
    #[arg(long, value_name = "TIME")]
    period: Option<String>,
    /// Write the policy by which `gpuwise serve` scales such a service (`lease request --scale FILE`)
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Write replicas over time into one self-contained HTML file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl Flags {
    /// As a plan is asked for by nothing but a deployment and rates; `start`: from nothing until a replica serves.
    pub(super) fn of(deployment: &Path, trace: &Path, start: Option<String>) -> Self {
        Self {
            deployment: deployment.to_owned(),
            trace: trace.to_owned(),
            beside: Vec::new(),
            series: None,
            ttft: None,
            objective: None,
            start,
            starts: None,
            node: None,
            wake: None,
            warm_cost: "10%".into(),
            min: 1,
            idle: "10min".into(),
            period: None,
            save: None,
            html: None,
        }
    }
}

pub(super) fn run(context: &Context, flags: &Flags) -> anyhow::Result<Exit> {
    let html = flags.html.as_deref().map(Pending::new).transpose()?;
    let save = flags.save.as_deref().map(Pending::new).transpose()?;
    let plan = planned(flags, context.app.seed)?;
    if let Some(file) = save {
        let saved = simulation::read(&flags.deployment)?;
        file.finish(&super::policy::of(&plan, &saved))?;
    }
    Shown {
        name: AnswerName::ScalePlan,
        page: view::page,
        text: view::text,
        table: view::table,
    }
    .show(context, html, &plan)?;
    let ours = plan
        .costs
        .iter()
        .find(|cost| cost.policy == Policy::Gpuwise.name());
    Ok(if ours.is_some_and(|cost| cost.keeps) {
        Exit::Yes
    } else {
        Exit::No
    })
}

/// What is known of starting a replica.
struct Start {
    cold: Nanoseconds,
    wake: Nanoseconds,
    stated: bool,
    seen: Seen,
}

fn starts(deployment: &Deployment, flags: &Flags) -> anyhow::Result<Start> {
    let stated = |flag: &str, text: &Option<String>| {
        text.as_deref()
            .map(|text| series::time(flag, text))
            .transpose()
    };
    let seen = match &flags.starts {
        Some(file) => Seen::read(file, flags.node.as_deref())?,
        None => Seen::default(),
    };
    let (cold, wake) = seen.usual(deployment)?;
    let start = stated("--start", &flags.start)?;
    Ok(Start {
        cold: start.unwrap_or(cold),
        wake: stated("--wake", &flags.wake)?.unwrap_or(wake),
        stated: start.is_some(),
        seen,
    })
}

/// The target of the time to first token, and what a request may wait of it.
fn waits(saved: &Saved, flags: &Flags) -> anyhow::Result<(Target, f64)> {
    let asked = saved
        .workload
        .as_ref()
        .and_then(|workload| workload.slo.ttft);
    let stated = flags.ttft.as_deref().map(|text| {
        read_target(text).map_err(|error| Problem::new(format!("--ttft {text:?}: {error}")))
    });
    let target = stated.transpose()?.or(asked).ok_or_else(|| {
        Problem::new("the deployment has no target of the time to first token")
            .hint("say one: --ttft p95:1s")
    })?;
    Ok((target, left_of(target, &saved.deployment)?))
}

/// Seconds of a target of the time to first token that a request may wait.
pub(super) fn left_of(target: Target, deployment: &Deployment) -> anyhow::Result<f64> {
    let alone = deployment.figures.ttft.value;
    let left = target.at_most.get() - alone;
    if left > 0.0 {
        return Ok(left);
    }
    Err(Problem::new(format!(
        "a first token takes {alone:.3} s without any queue; {} cannot be kept",
        target.at_most
    ))
    .hint("a longer --ttft, or a plan with a faster GPU")
    .into())
}

/// What is asked: a replica, and what it is to keep.
struct Asked {
    service: Service,
    objective: f64,
    start: Start,
}

fn asked(saved: &Saved, flags: &Flags) -> anyhow::Result<Asked> {
    let deployment = &saved.deployment;
    let rate = sustained(&flags.deployment, deployment)?;
    let (target, wait) = waits(saved, flags)?;
    let objective = match &flags.objective {
        Some(text) => objective(text)?,
        None => target.percentile.unwrap_or(Percentile::P50).fraction(),
    };
    let start = starts(deployment, flags)?;
    let service = Service {
        rate,
        service: deployment.figures.end_to_end.value,
        wait,
        start: start.cold.seconds().get(),
        wake: start.wake.seconds().get(),
        warm_cost: warm_cost(&flags.warm_cost)?,
        min: flags.min,
        idle: series::time("--idle", &flags.idle)?.seconds().get(),
        ..Service::default()
    };
    Ok(Asked {
        service,
        objective,
        start,
    })
}

/// The one series that is asked about.
fn only(read: &series::Read) -> anyhow::Result<&(String, Regular)> {
    if let [one] = read.series.as_slice() {
        return Ok(one);
    }
    let names: Vec<&str> = read.series.iter().map(|(name, _)| name.as_str()).collect();
    Err(Problem::new(format!("{} has several series", read.shown))
        .hint(format!("choose one by --series: {}", names.join(", ")))
        .into())
}

/// Demand in requests of the plan, where the trace says tokens: as many as its prompts, or its answers, are worth.
fn counted(
    demand: Demand,
    trace: &Path,
    saved: &Saved,
    notes: &mut Vec<String>,
) -> anyhow::Result<Demand> {
    let known = trace.as_os_str() != "-";
    let tokens = known.then(|| series::tokens(trace)).transpose()?.flatten();
    let lengths = saved.workload.as_ref().map(|workload| &workload.lengths);
    let (Some([_, prompts, answers]), Some(lengths)) = (tokens, lengths) else {
        return Ok(demand);
    };
    let (prompt, answer) = (lengths.input.mean, lengths.output.mean);
    let worth = |series: &[Option<f64>], at: usize, mean: f64| {
        let tokens = series.get(at).copied().flatten()?;
        (mean > 0.0).then(|| tokens / mean)
    };
    let each = demand.rates.iter().enumerate();
    let rates = each.map(|(at, rate)| {
        let of = worth(&prompts, at, prompt).zip(worth(&answers, at, answer));
        of.map_or(*rate, |(prompts, answers)| prompts.max(answers))
    });
    notes.push(format!(
        "requests are counted by their tokens, in those of the plan: {prompt:.0} in or {answer:.0} out, whichever is more"
    ));
    Ok(Demand {
        rates: rates.collect(),
        ..demand
    })
}

/// What a deployment is to do.
///
/// # Errors
/// When a file cannot be read, or nothing follows from it.
pub(super) fn planned(flags: &Flags, seed: u64) -> anyhow::Result<ScalePlan> {
    let saved = simulation::read(&flags.deployment)?;
    let deployment = &saved.deployment;
    let Asked {
        service,
        objective,
        start,
    } = asked(&saved, flags)?;
    let period = flags.period.as_deref();
    let period = period
        .map(|text| series::time("--period", text))
        .transpose()?;
    let read = series::read(&flags.trace, flags.series.as_deref(), period)?;
    let (name, regular) = only(&read)?;
    let (demand, mut notes) = demand(regular);
    let demand = counted(demand, &flags.trace, &saved, &mut notes)?;
    let per_hour = deployment.cost.per_hour;
    let price = per_hour.map(|price| each(price, deployment.layout.replicas));
    let (costs, samples) = costs(&demand, &service, objective, price, seed);
    let mixed = mixed(
        &saved.deployment,
        &flags.deployment,
        &flags.beside,
        &samples,
        &service,
        &start.seen,
    )?;
    let by_controller = mixed.replayed(
        &Asking {
            name,
            demand: &demand,
            service: &service,
            objective,
            guaranteed: Vec::new(),
            budget: None,
        },
        seed,
    );
    let mut warm: Vec<f64> = samples.iter().map(|one| f64::from(one.warm)).collect();
    warm.sort_by(f64::total_cmp);
    let serving = || samples.iter().map(|one| one.serving);
    Ok(ScalePlan {
        model: deployment.model.clone(),
        gpu: deployment.gpu.clone(),
        gpus: deployment.layout.replica_gpus(),
        per_hour: price,
        source: read.shown.clone(),
        series: name.clone(),
        objective,
        service: said(&service),
        start: start.cold,
        start_stated: start.stated,
        states: start.seen.states(deployment, price, service.warm_cost)?,
        least: serving().min().unwrap_or(1),
        most: serving().max().unwrap_or(1),
        target: aimed(&samples),
        warm: math::median(&warm).unwrap_or(0.0) as u32,
        warm_most: samples.iter().map(|one| one.warm).max().unwrap_or(0),
        hours: hours(&samples, regular.start_seconds),
        costs,
        variants: mixed.variants,
        mixed_per_month: mixed.per_month,
        mixes: by_controller,
        samples,
        notes,
    })
}
