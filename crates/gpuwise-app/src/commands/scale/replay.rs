//! `gpuwise scale replay`: autoscalers beside one another.

use super::{
    decisions::{self, Log},
    engines, fleet,
    runs::{mixed, one},
    service::{demand, objective, positive, said, warm_cost},
    shown::Shown,
};
use crate::{
    commands::{Context, Exit, series},
    error::Problem,
    progress,
    schemas::AnswerName,
    write::Pending,
};
use gpuwise_domain::scale::ScaleReplay;
use gpuwise_scale::{
    compare::{POLICIES, Policy},
    fluid::{Demand, Service},
};
use gpuwise_units::Nanoseconds;
use gpuwise_view::scale::replay as view;
use std::path::{Path, PathBuf};

/// Flags of `gpuwise scale replay`.
#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Rates over time, as `gpuwise forecast` reads them, or `servegen:m-large`, `servegen:m-mid`, `servegen:m-small`
    #[arg(value_name = "FILE", required_unless_present = "again")]
    file: Option<PathBuf>,
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
    /// Replicas of ours that serve at least; 0: none once nothing has come for --idle
    #[arg(long, value_name = "N", default_value_t = 1)]
    min: u32,
    /// For how long nothing must have come, waited, run or started before ours has no replicas, with --min 0
    #[arg(long, value_name = "TIME", default_value = "10min")]
    idle: String,
    /// Time between two readings of the file [default: that of its times; of a trace of requests a minute]
    #[arg(long, value_name = "TIME")]
    period: Option<String>,
    /// Variance of the number of arrivals over its mean: 1 where requests are independent
    #[arg(long, value_name = "NUMBER", default_value_t = 3.0)]
    dispersion: f64,
    /// Scale demand to this mean, in requests a second [default: as it is; of ServeGen 100]
    #[arg(long, value_name = "REQUESTS")]
    mean: Option<f64>,
    /// Only series whose name holds this
    #[arg(long, value_name = "NAME")]
    series: Option<String>,
    /// Run requests one by one, and not as a flow
    #[arg(long)]
    step: bool,
    /// What replicas may be, in place of --rate: GPU types, spot or not, prices, pools (`gpuwise example variants.toml`)
    #[arg(long, value_name = "FILE", conflicts_with = "policy")]
    variants: Option<PathBuf>,
    /// Run replicas as the engines of their deployments: continuous batching, by the step times of their plans
    #[arg(
        long,
        requires = "step",
        requires = "variants",
        conflicts_with = "policy"
    )]
    engines: bool,
    /// What ours counts where engines are run: `tokens` of prompts and answers, or `requests`
    #[arg(
        long,
        value_name = "WHAT",
        default_value = "tokens",
        requires = "engines",
        conflicts_with = "policy"
    )]
    demand: Counted,
    /// Write each decision on variants, a line of JSON each
    #[arg(
        long,
        value_name = "FILE",
        requires = "variants",
        conflicts_with = "policy"
    )]
    log: Option<PathBuf>,
    /// Decide again what a log of --log says was decided
    #[arg(long, value_name = "LOG", conflicts_with_all = ["file", "variants", "step"])]
    again: Option<PathBuf>,
    /// Write replicas over time into one self-contained HTML file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// What a controller is told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Counted {
    Tokens,
    Requests,
}

/// Requests a second in the mean to which a published series is scaled: its own unit is a share of a fleet's.
const PUBLISHED_MEAN: f64 = 100.0;

pub(super) fn run(context: &Context, flags: &Flags) -> anyhow::Result<Exit> {
    if let Some(log) = &flags.again {
        return decisions::again(context, log);
    }
    let html = flags.html.as_deref().map(Pending::new).transpose()?;
    let replay = replayed(context, flags)?;
    Shown {
        name: AnswerName::ScaleReplay,
        page: view::page,
        text: view::text,
        table: view::table,
    }
    .show(context, html, &replay)?;
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

/// Demand of each series, and what was set right in it.
struct Demands {
    source: String,
    series: Vec<(String, Demand)>,
    notes: Vec<String>,
}

/// Demand of each series, scaled as is asked.
fn demands(flags: &Flags) -> anyhow::Result<Demands> {
    let Some(file) = &flags.file else {
        return Err(Problem::new("FILE is missing").into());
    };
    let period = flags.period.as_deref();
    let period = period
        .map(|text| series::time("--period", text))
        .transpose()?;
    let read = series::read(file, flags.series.as_deref(), period)?;
    let published = read.shown.starts_with("servegen:");
    let mean = flags
        .mean
        .map(|mean| positive("--mean", mean))
        .transpose()?;
    let mean = mean.or(published.then_some(PUBLISHED_MEAN));
    let mut notes = Vec::new();
    let each = read.series.iter().map(|(name, regular)| {
        let (demand, said) = demand(regular);
        notes.extend(said);
        let demand = mean.map_or_else(|| demand.clone(), |mean| demand.clone().scaled_to(mean));
        (name.clone(), demand)
    });
    let series = each.collect();
    Ok(Demands {
        source: read.shown,
        series,
        notes,
    })
}

/// What is run: what flags say of a service.
struct Asked {
    service: Service,
    starts: Vec<Nanoseconds>,
    objectives: Vec<f64>,
}

fn asked(flags: &Flags) -> anyhow::Result<Asked> {
    let seconds =
        |flag: &str, text: &str| series::time(flag, text).map(|time| time.seconds().get());
    let starts = flags.cold.iter().map(|text| series::time("--cold", text));
    let starts = starts.collect::<anyhow::Result<Vec<Nanoseconds>>>()?;
    let objectives = flags.objective.iter().map(|text| objective(text));
    Ok(Asked {
        service: Service {
            rate: positive("--rate", flags.rate)?,
            service: seconds("--service", &flags.service)?,
            wait: seconds("--wait", &flags.wait)?,
            wake: seconds("--wake", &flags.wake)?,
            start: starts.first().map_or(0.0, |start| start.seconds().get()),
            warm_cost: warm_cost(&flags.warm_cost)?,
            min: flags.min,
            idle: seconds("--idle", &flags.idle)?,
            dispersion: positive("--dispersion", flags.dispersion)?.max(1.0),
            ..Service::default()
        },
        starts,
        objectives: objectives.collect::<anyhow::Result<Vec<f64>>>()?,
    })
}

fn replayed(context: &Context, flags: &Flags) -> anyhow::Result<ScaleReplay> {
    let seed = context.app.seed;
    let policies = policies(&flags.policy)?;
    let asked = asked(flags)?;
    let Demands {
        source,
        series: demands,
        notes,
    } = demands(flags)?;
    let (mut runs, mut mixes) = (Vec::new(), Vec::new());
    if let Some(file) = &flags.variants {
        let filled = fleet::read(context, file, &asked.service)?;
        let built = flags.engines.then(|| {
            let one = demands.first().filter(|_| demands.len() == 1);
            let trace = flags.file.as_deref().unwrap_or(Path::new(""));
            engines::built(
                context,
                (file, &filled.file.variants),
                (trace, one.map(|(_, demand)| demand)),
                flags.demand == Counted::Tokens,
            )
        });
        let built = built.transpose()?;
        let mut log = Log::new(flags.log.as_deref())?;
        for objective in &asked.objectives {
            mixes.extend(mixed(
                &filled,
                &demands,
                &asked.service,
                *objective,
                (flags.step, seed),
                built.as_ref(),
                &mut log,
            )?);
        }
        log.finish()?;
    } else {
        for (name, demand) in &demands {
            for start in &asked.starts {
                let service = Service {
                    start: start.seconds().get(),
                    ..asked.service
                };
                for objective in &asked.objectives {
                    for policy in &policies {
                        progress::doing(&format!("{name}, start {start}: {}", policy.name()));
                        let run = one(
                            name,
                            *policy,
                            demand,
                            &service,
                            *objective,
                            (flags.step, seed),
                        );
                        runs.push(run);
                    }
                }
            }
        }
    }
    Ok(ScaleReplay {
        source,
        service: said(&asked.service),
        seed,
        by_request: flags.step,
        runs,
        mixes,
        notes,
    })
}
