//! `gpuwise scale plan`: how a saved deployment is to follow demand.

use super::{
    service::{demand, objective, said, warm_cost},
    variants::{each, mixed, monthly, sustained},
};
use crate::{
    commands::{Context, Exit, series},
    error::Problem,
    made::made,
    progress,
    schemas::AnswerName,
    settings::Format,
    simulation,
    write::Pending,
};
use gpuwise_domain::{
    deployment::{Deployment, Saved},
    scale::{ColdState, ScaleCost, ScaleHour, ScalePlan, ScaleSample},
    workload::Target,
};
use gpuwise_read::workload::target as read_target;
use gpuwise_scale::{
    cold::{ColdStart, Level, Machine, STATES, State},
    compare::{Policy, compare, sampled},
    fluid::{Demand, Outcome, Service},
    forecast::series::Regular,
};
use gpuwise_units::{Bytes, HourlyPrice, Nanoseconds, Percentile, math};
use gpuwise_view::scale::plan as view;
use std::path::PathBuf;

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
    /// From warm until it serves [default: from the weights' bytes and the bus, p90]
    #[arg(long, value_name = "TIME")]
    wake: Option<String>,
    /// What a warm replica costs beside one that serves, what it earns while lent taken off; `never`: none can be
    #[arg(long, value_name = "SHARE", default_value = "10%")]
    warm_cost: String,
    /// Write the policy by which `gpuwise serve` scales such a service (`lease request --scale FILE`)
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Write replicas over time into one self-contained HTML file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Policies that the plan stands beside.
const BESIDE: [Policy; 3] = [Policy::Static, Policy::Hpa, Policy::Gpuwise];

pub(super) fn run(context: &Context, flags: &Flags) -> anyhow::Result<Exit> {
    let html = flags.html.as_deref().map(Pending::new).transpose()?;
    let save = flags.save.as_deref().map(Pending::new).transpose()?;
    let plan = planned(flags, context.app.seed)?;
    if let Some(file) = save {
        file.finish(&super::policy::of(&plan))?;
    }
    let context = context.answering(AnswerName::ScalePlan);
    if let Some(file) = html {
        file.finish(&view::page(&plan, &made()))?;
    }
    match context.form.format {
        Format::Table => context.data(&view::text(&plan, context.form.style))?,
        Format::Json => context.json(&gpuwise_view::record::json(&plan))?,
        _ => context.table(&view::table(&plan))?,
    }
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
    states: Vec<ColdState>,
}

fn starts(deployment: &Deployment, flags: &Flags) -> anyhow::Result<Start> {
    let device: u64 = deployment
        .memory
        .weights
        .iter()
        .map(|part| part.bytes.count())
        .sum();
    let weights = Bytes::new(device * u64::from(deployment.layout.replica_gpus()));
    let machine = Machine::default();
    let each = STATES.into_iter().map(|state| {
        let cold = ColdStart::prior(weights, state, &machine);
        ColdState {
            state: state.name(),
            median: cold.at(Level::Median),
            p90: cold.at(Level::P90),
            p99: cold.at(Level::P99),
        }
    });
    let stated = |flag: &str, text: &Option<String>| {
        text.as_deref()
            .map(|text| series::time(flag, text))
            .transpose()
    };
    let prior = |state| ColdStart::prior(weights, state, &machine).at(Level::P90);
    let start = stated("--start", &flags.start)?;
    Ok(Start {
        cold: start.unwrap_or_else(|| prior(State::Nothing)),
        wake: stated("--wake", &flags.wake)?.unwrap_or_else(|| prior(State::Asleep)),
        stated: start.is_some(),
        states: each.collect(),
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
    let alone = saved.deployment.figures.ttft.value;
    let left = target.at_most.get() - alone;
    if left <= 0.0 {
        return Err(Problem::new(format!(
            "a first token takes {alone:.3} s without any queue; {} cannot be kept",
            target.at_most
        ))
        .hint("a longer --ttft, or a plan with a faster GPU")
        .into());
    }
    Ok((target, left))
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

fn planned(flags: &Flags, seed: u64) -> anyhow::Result<ScalePlan> {
    let saved = simulation::read(&flags.deployment)?;
    let deployment = &saved.deployment;
    let Asked {
        service,
        objective,
        start,
    } = asked(&saved, flags)?;
    let read = series::read(&flags.trace, flags.series.as_deref(), None)?;
    let (name, regular) = only(&read)?;
    let (demand, notes) = demand(regular);
    let per_hour = deployment.cost.per_hour;
    let price = per_hour.map(|price| each(price, deployment.layout.replicas));
    let (costs, samples) = costs(&demand, &service, objective, price, seed);
    let mixed = mixed(
        &saved.deployment,
        &flags.deployment,
        &flags.beside,
        &samples,
    )?;
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
        states: start.states,
        least: serving().min().unwrap_or(1),
        most: serving().max().unwrap_or(1),
        target: aimed(&samples),
        warm: math::median(&warm).unwrap_or(0.0) as u32,
        warm_most: samples.iter().map(|one| one.warm).max().unwrap_or(0),
        hours: hours(&samples, regular.start_seconds),
        costs,
        variants: mixed.variants,
        mixed_per_month: mixed.per_month,
        samples,
        notes,
    })
}

/// What each way costs, and what ours had at each time.
fn costs(
    demand: &Demand,
    service: &Service,
    objective: f64,
    price: Option<HourlyPrice>,
    seed: u64,
) -> (Vec<ScaleCost>, Vec<ScaleSample>) {
    let mut costs = Vec::new();
    let mut samples = Vec::new();
    for policy in BESIDE {
        progress::doing(&format!("replaying {}", policy.name()));
        let found = compare(policy, demand, service, objective, seed);
        costs.push(cost(
            policy.name(),
            &found.outcome,
            objective,
            price,
            demand,
        ));
        if policy == Policy::Gpuwise {
            costs.push(bound(&found.outcome, price, demand));
            samples = sampled(
                policy,
                demand,
                service,
                objective,
                &found,
                demand.period,
                seed,
            );
        }
    }
    (costs, samples)
}

/// Requests a second over replicas that serve, in the mean.
fn aimed(samples: &[ScaleSample]) -> Option<f64> {
    let serving: f64 = samples.iter().map(|one| f64::from(one.serving)).sum();
    let rate: f64 = samples.iter().map(|one| one.rate).sum();
    (serving > 0.0).then(|| rate / serving)
}

fn cost(
    policy: &'static str,
    out: &Outcome,
    objective: f64,
    price: Option<HourlyPrice>,
    demand: &Demand,
) -> ScaleCost {
    let replicas = out.cost / demand.length();
    ScaleCost {
        policy,
        kept: out.kept(),
        keeps: out.kept() >= objective,
        replicas,
        ratio: out.ratio(),
        changes: out.changes,
        per_month: price.map(|price| monthly(price, replicas)),
    }
}

/// As many as the rate needs at every moment: nobody can be cheaper, and nobody can know it.
fn bound(out: &Outcome, price: Option<HourlyPrice>, demand: &Demand) -> ScaleCost {
    let replicas = out.bound / demand.length();
    ScaleCost {
        policy: "bound",
        kept: 1.0,
        keeps: true,
        replicas,
        ratio: 1.0,
        changes: 0,
        per_month: price.map(|price| monthly(price, replicas)),
    }
}

/// What each hour of the day came to.
fn hours(samples: &[ScaleSample], start_seconds: f64) -> Vec<ScaleHour> {
    let hour_of = |one: &ScaleSample| {
        let second = start_seconds + one.at.seconds().get();
        (second / 3600.0).rem_euclid(24.0) as u8
    };
    let each = (0..24_u8).filter_map(|hour| {
        let of: Vec<&ScaleSample> = samples.iter().filter(|one| hour_of(one) == hour).collect();
        let count = of.len() as f64;
        let mean = |value: &dyn Fn(&ScaleSample) -> f64| {
            of.iter().map(|one| value(one)).sum::<f64>() / count
        };
        (!of.is_empty()).then(|| ScaleHour {
            hour,
            rate: mean(&|one| one.rate),
            serving: mean(&|one| f64::from(one.serving)),
            serving_most: of.iter().map(|one| one.serving).max().unwrap_or(0),
            warm: mean(&|one| f64::from(one.warm)),
        })
    });
    each.collect()
}
