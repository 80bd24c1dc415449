//! `gpuwise scale replay`: autoscalers beside one another.

use super::service::{demand, objective, positive, said, warm_cost};
use crate::{
    commands::{Context, Exit, series},
    error::Problem,
    made::made,
    progress,
    schemas::AnswerName,
    settings::Format,
    write::Pending,
};
use gpuwise_domain::scale::{ScaleReplay, ScaleRun};
use gpuwise_scale::{
    compare::{POLICIES, Policy, compare, sampled},
    fluid::{Demand, Service},
};
use gpuwise_units::Nanoseconds;
use gpuwise_view::scale::replay as view;
use std::path::PathBuf;

/// Flags of `gpuwise scale replay`.
#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Rates over time, as `gpuwise forecast` reads them, or `servegen:m-large`, `servegen:m-mid`, `servegen:m-small`
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Which autoscalers; repeat, or with commas
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        default_value = "static,hpa,keda,kpa,dynamo,wva,trend,gpuwise,perfect"
    )]
    policy: Vec<String>,
    /// From nothing until a replica serves; repeat, or with commas
    #[arg(
        long,
        value_name = "TIME",
        value_delimiter = ',',
        default_value = "180s"
    )]
    cold: Vec<String>,
    /// Share of requests that are to be in time; repeat, or with commas
    #[arg(
        long,
        value_name = "SHARE",
        value_delimiter = ',',
        default_value = "99%"
    )]
    objective: Vec<String>,
    /// Requests a second that a replica serves within the SLO
    #[arg(long, value_name = "REQUESTS", default_value_t = 5.0)]
    rate: f64,
    /// How long a request runs
    #[arg(long, value_name = "TIME", default_value = "4s")]
    service: String,
    /// How long a request may wait
    #[arg(long, value_name = "TIME", default_value = "2s")]
    wait: String,
    /// From warm until a replica serves
    #[arg(long, value_name = "TIME", default_value = "5s")]
    wake: String,
    /// What a warm replica costs beside one that serves, what it earns while lent taken off; `never`: none can be
    #[arg(long, value_name = "SHARE", default_value = "10%")]
    warm_cost: String,
    /// Variance of the number of arrivals over its mean: 1 where requests are independent
    #[arg(long, value_name = "NUMBER", default_value_t = 3.0)]
    dispersion: f64,
    /// Scale demand to this mean, in requests a second [default: as it is; of ServeGen 100]
    #[arg(long, value_name = "REQUESTS")]
    mean: Option<f64>,
    /// Only series whose name holds this
    #[arg(long, value_name = "NAME")]
    series: Option<String>,
    /// Write replicas over time into one self-contained HTML file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Requests a second in the mean to which a published series is scaled: its own unit is a share of a fleet's.
const PUBLISHED_MEAN: f64 = 100.0;

pub(super) fn run(context: &Context, flags: &Flags) -> anyhow::Result<Exit> {
    let html = flags.html.as_deref().map(Pending::new).transpose()?;
    let replay = replayed(flags, context.app.seed)?;
    let context = context.answering(AnswerName::ScaleReplay);
    if let Some(file) = html {
        file.finish(&view::page(&replay, &made()))?;
    }
    match context.form.format {
        Format::Table => context.data(&view::text(&replay, context.form.style))?,
        Format::Json => context.json(&gpuwise_view::record::json(&replay))?,
        _ => context.table(&view::table(&replay))?,
    }
    Ok(Exit::Yes)
}

/// Policies by name, each once.
fn policies(names: &[String]) -> anyhow::Result<Vec<Policy>> {
    let mut all = Vec::new();
    for name in names {
        let found = POLICIES
            .into_iter()
            .find(|policy| policy.name() == name.trim());
        let Some(policy) = found else {
            let known: Vec<&str> = POLICIES.iter().map(|policy| policy.name()).collect();
            return Err(
                Problem::new(format!("--policy {name:?}: there is none of this name"))
                    .hint(format!("there are {}", known.join(", ")))
                    .into(),
            );
        };
        if !all.contains(&policy) {
            all.push(policy);
        }
    }
    Ok(all)
}

fn replayed(flags: &Flags, seed: u64) -> anyhow::Result<ScaleReplay> {
    let policies = policies(&flags.policy)?;
    let seconds =
        |flag: &str, text: &str| series::time(flag, text).map(|time| time.seconds().get());
    let starts = flags.cold.iter().map(|text| series::time("--cold", text));
    let starts = starts.collect::<anyhow::Result<Vec<Nanoseconds>>>()?;
    let objectives = flags.objective.iter().map(|text| objective(text));
    let objectives = objectives.collect::<anyhow::Result<Vec<f64>>>()?;
    let service = Service {
        rate: positive("--rate", flags.rate)?,
        service: seconds("--service", &flags.service)?,
        wait: seconds("--wait", &flags.wait)?,
        wake: seconds("--wake", &flags.wake)?,
        warm_cost: warm_cost(&flags.warm_cost)?,
        dispersion: positive("--dispersion", flags.dispersion)?.max(1.0),
        ..Service::default()
    };
    let read = series::read(&flags.file, flags.series.as_deref(), None)?;
    let published = read.shown.starts_with("servegen:");
    let mean = flags
        .mean
        .map(|mean| positive("--mean", mean))
        .transpose()?;
    let mean = mean.or(published.then_some(PUBLISHED_MEAN));
    let mut runs = Vec::new();
    let mut notes = Vec::new();
    for (name, regular) in &read.series {
        let (demand, said) = demand(regular);
        notes.extend(said);
        let demand = mean.map_or_else(|| demand.clone(), |mean| demand.clone().scaled_to(mean));
        for start in &starts {
            let service = Service {
                start: start.seconds().get(),
                ..service
            };
            for objective in &objectives {
                for policy in &policies {
                    progress::doing(&format!("{name}, start {start}: {}", policy.name()));
                    runs.push(one(name, *policy, &demand, &service, *objective, seed));
                }
            }
        }
    }
    Ok(ScaleReplay {
        source: read.shown,
        service: said(&service),
        seed,
        runs,
        notes,
    })
}

fn one(
    name: &str,
    policy: Policy,
    demand: &Demand,
    service: &Service,
    objective: f64,
    seed: u64,
) -> ScaleRun {
    let found = compare(policy, demand, service, objective, seed);
    let out = found.outcome;
    ScaleRun {
        series: name.to_owned(),
        policy: policy.name(),
        start: Nanoseconds((service.start * 1e9) as u64),
        objective,
        kept: out.kept(),
        target: found.target,
        requests: out.requests,
        serving_hours: out.busy / 3600.0,
        warm_hours: out.warm / 3600.0,
        bound_hours: out.bound / 3600.0,
        ratio: out.ratio(),
        changes: out.changes,
        samples: sampled(
            policy,
            demand,
            service,
            objective,
            &found,
            demand.period,
            seed,
        ),
    }
}
