//! How a model is sized for a lease: by `plan`, corrected by what was measured here, and tried.

use super::desk::{AppDesk, invalid, owned};
use crate::{
    app::App,
    catalogue::{self, Overrides},
    commands::plan,
    knowledge, settings,
    simulation::{self, Cluster, Run, Sent, Shapes, Simulated},
};
use gpuwise_broker::{Broker, Refusal};
use gpuwise_domain::{
    deployment::{Deployment, Saved},
    run::RunReport,
};
use gpuwise_wire::broker::LeaseAsk;

/// Requests that a deployment is tried with.
const TRIED: u64 = 2_000;
/// What is promised must hold at so many times its load.
const PROMISED: f64 = 1.1;
/// By how much the load is taken to be larger where a deployment breaks when it is tried.
const MORE: f64 = 1.1;
/// How often it is taken to be larger: 1.1¹⁶ is 4.6 times.
const MOST: u32 = 16;

/// A model that was sized.
#[derive(Debug, Clone)]
pub(super) struct Planned {
    pub(super) saved: Saved,
    /// What gives the same answer on the command line.
    pub(super) command: String,
    /// How many times longer steps take than our constants say, as was measured here.
    pub(super) steps: f64,
    /// What came of trying it, where it was tried.
    pub(super) tried: Option<Tried>,
}

/// What the simulator says of a deployment.
#[derive(Debug, Clone)]
pub(super) struct Tried {
    pub(super) kept: bool,
    /// What is found of each target, in words.
    pub(super) words: String,
}

/// A lease's traffic and SLO as flags of `gpuwise plan`.
pub(super) fn flags(ask: &LeaseAsk) -> Vec<String> {
    let mut flags = vec![ask.model.clone().unwrap_or_default()];
    let said = [
        ("--rate", &ask.rate),
        ("--concurrency", &ask.concurrency),
        ("--isl", &ask.isl),
        ("--osl", &ask.osl),
        ("--ttft", &ask.ttft),
        ("--tpot", &ask.tpot),
    ];
    for (flag, value) in said {
        if let Some(value) = value {
            flags.extend([flag.to_owned(), value.clone()]);
        }
    }
    flags
}

fn shown(flags: &[String]) -> String {
    let words: Vec<String> = flags
        .iter()
        .map(|word| gpuwise_view::launch::quoted(word))
        .collect();
    format!("gpuwise plan {}", words.join(" "))
}

/// `8xH100`: so many GPUs of a kind, in place of as many as are needed.
pub(super) fn fixed(gpu: Option<&str>) -> Option<(u32, &str)> {
    let (count, kind) = gpu?.split_once(['x', 'X'])?;
    let count = count.trim().parse().ok().filter(|count| *count > 0)?;
    Some((count, kind.trim()))
}

impl AppDesk {
    /// What every plan for a broker stands on: what was measured here is known.
    pub(super) fn knowing(&self, broker: &Broker) -> App {
        let learned: Vec<String> = broker.learned().map(str::to_owned).collect();
        App {
            overrides: Overrides {
                measured: learned,
                ..self.app.overrides.clone()
            },
            ..self.app.clone()
        }
    }

    /// The deployment that a model and an SLO need, on what the fleet has; of `8xH100`, on these.
    ///
    /// Where something was measured of such a deployment, what was found is tried request by request: until
    /// it holds, the load is taken to be larger.
    pub(super) fn planned(
        &self,
        broker: &Broker,
        ask: &LeaseAsk,
        promised: bool,
    ) -> Result<Planned, Refusal> {
        let app = self.knowing(broker);
        if let Some((count, kind)) = fixed(ask.gpu.as_deref()) {
            return Self::fixed(broker, &app, ask, (count, kind), promised);
        }
        let first = Self::once(broker, &app, ask, 1.0)?;
        let measured = (first.steps - 1.0).abs() > 0.01;
        if ask.rate.is_none() || !(measured || promised) {
            return Ok(first);
        }
        let load = if promised { PROMISED } else { 1.0 };
        let mut more = 1.0;
        let mut last = None;
        for _ in 0..MOST {
            let found = Self::once(broker, &app, ask, more)?;
            let tried = tried(&app, &found.saved, ask, load)?;
            let held = tried.kept;
            let found = Planned {
                tried: Some(tried),
                ..found
            };
            if held {
                return Ok(found);
            }
            last = Some(found);
            more *= MORE;
        }
        let words = last.and_then(|one| one.tried).map(|tried| tried.words);
        if promised {
            return Err(Refusal::NotPromised(words.unwrap_or_default()));
        }
        Err(Refusal::Infeasible(format!(
            "no deployment on this fleet's GPUs keeps the SLO when it is tried: {}",
            words.unwrap_or_default()
        )))
    }

    /// A plan at so many times the rate.
    fn once(broker: &Broker, app: &App, ask: &LeaseAsk, times: f64) -> Result<Planned, Refusal> {
        let rated = LeaseAsk {
            rate: ask
                .rate
                .as_deref()
                .map(|rate| scaled(rate, times))
                .transpose()?,
            ..ask.clone()
        };
        let mut words = flags(&rated);
        let owned = owned(broker, ask.gpu.as_deref());
        if owned.is_empty() {
            return Err(invalid("gpu", "the fleet has no such GPU"));
        }
        words.extend(["--owned".to_owned(), owned.join(",")]);
        let command = shown(&words);
        let wrong = |error: anyhow::Error| invalid("model", format!("{error:#}"));
        let parsed: settings::Plan = settings::parse(words).map_err(wrong)?;
        let planned = plan::plan(app, &parsed).map_err(wrong)?;
        let fits = |one: &&Deployment| {
            let kinds = broker.world().kinds();
            kinds.iter().any(|kind| kind.name == one.gpu)
        };
        let Some(found) = planned.sizing.ranked.iter().find(fits) else {
            return Err(Refusal::Infeasible(format!(
                "no deployment on this fleet's GPUs keeps the SLO; `{command}` says what is short"
            )));
        };
        let mut workload = planned.sizing.question.workload.clone();
        if let Some(rate) = &ask.rate {
            set_rate(&mut workload, rate)?;
        }
        let mut found = found.clone();
        found.headroom.rate /= times;
        Ok(with_steps(app, found, workload, command))
    }

    /// A model on so many GPUs, in the layout that a plan would choose for one replica.
    fn fixed(
        broker: &Broker,
        app: &App,
        ask: &LeaseAsk,
        (count, kind): (u32, &str),
        promised: bool,
    ) -> Result<Planned, Refusal> {
        let any = LeaseAsk {
            gpu: Some(kind.to_owned()),
            ..ask.clone()
        };
        let one = Self::once(broker, app, &any, 1.0)?.saved.deployment;
        let whole = LayoutWords::of(&one, count)?;
        let mut words = flags(ask);
        let model = words.remove(0);
        let command = format!(
            "vllm serve {model} --tensor-parallel-size {} --pipeline-parallel-size {} --data-parallel-size {}",
            whole.tensor, whole.pipeline, whole.replicas
        );
        words.extend([
            "--from".to_owned(),
            command,
            "--gpu".to_owned(),
            one.gpu.clone(),
            "--no-slices".to_owned(),
        ]);
        let command = shown(&words);
        let wrong = |error: anyhow::Error| invalid("model", format!("{error:#}"));
        let parsed: settings::Plan = settings::parse(words).map_err(wrong)?;
        let planned = plan::plan(app, &parsed).map_err(wrong)?;
        let Some(found) = planned.sizing.ranked.first() else {
            return Err(Refusal::Infeasible(format!(
                "{count} × {} do not keep the SLO; `{command}` says what is short",
                one.gpu
            )));
        };
        let mut found = found.clone();
        found.model.clone_from(&one.model);
        let workload = planned.sizing.question.workload.clone();
        let mut planned = with_steps(app, found, workload, command);
        if promised {
            let tried = tried(app, &planned.saved, ask, PROMISED)?;
            if !tried.kept {
                return Err(Refusal::NotPromised(tried.words));
            }
            planned.tried = Some(tried);
        }
        Ok(planned)
    }
}

/// A deployment as it is leased, and how many times longer its steps take, as was measured here.
fn with_steps(
    app: &App,
    mut deployment: Deployment,
    workload: gpuwise_domain::workload::Workload,
    command: String,
) -> Planned {
    // How every figure came about is asked for on the command line.
    deployment.derivations.clear();
    let saved = Saved {
        deployment,
        workload: Some(workload),
    };
    let steps = if app.overrides.measured.is_empty() {
        1.0
    } else {
        steps(app, &saved).unwrap_or(1.0)
    };
    Planned {
        saved,
        command,
        steps,
        tried: None,
    }
}

fn steps(app: &App, saved: &Saved) -> anyhow::Result<f64> {
    let loaded = catalogue::load(&app.overrides)?;
    let knowledge = knowledge::load(&loaded)?;
    let shapes = Shapes::of(&saved.deployment, &loaded, app.offline)?;
    let simulated = Simulated::new(&saved.deployment, &shapes, &loaded, &knowledge, app.seed)?;
    Ok(simulated.setup.corrections.usual().0)
}

/// A deployment under so many times its traffic, request by request, with what was measured here.
fn tried(app: &App, saved: &Saved, ask: &LeaseAsk, load: f64) -> Result<Tried, Refusal> {
    let wrong = |error: anyhow::Error| invalid("model", format!("{error:#}"));
    let report = run(app, saved, ask, load).map_err(wrong)?;
    let saturated = report.saturation.is_some_and(|sign| sign.saturated);
    let verdicts = report.attainment.verdicts.iter().filter_map(|one| {
        let found = one.found?;
        let at = one.at.map_or("mean".into(), |at| at.to_string());
        Some(format!(
            "{} {at} {} of {} s",
            one.about.name(),
            gpuwise_units::significant(found, 3),
            gpuwise_units::significant(one.bound, 3)
        ))
    });
    let mut words: Vec<String> = verdicts.collect();
    if saturated {
        words.push("more comes than is served".into());
    }
    Ok(Tried {
        kept: report.attainment.kept != Some(false) && !saturated,
        words: words.join(", "),
    })
}

fn run(app: &App, saved: &Saved, ask: &LeaseAsk, load: f64) -> anyhow::Result<RunReport> {
    let loaded = catalogue::load(&app.overrides)?;
    let knowledge = knowledge::load(&loaded)?;
    let shapes = Shapes::of(&saved.deployment, &loaded, app.offline)?;
    let simulated = Simulated::new(&saved.deployment, &shapes, &loaded, &knowledge, app.seed)?;
    let sent = sent(ask, saved, TRIED)?;
    let one = Run {
        simulated: &simulated,
        beside: None,
        cluster: Cluster::usual(),
        slo: sent.workload.slo.clone(),
        sent,
        load,
        seed: app.seed,
    };
    let constants = knowledge.constants(saved.deployment.engine);
    simulation::run(&one, constants, &mut gpuwise_sim::cluster::NullObserver)
}

/// The traffic of a lease, so many requests of it.
pub(super) fn sent(ask: &LeaseAsk, saved: &Saved, requests: u64) -> anyhow::Result<Sent> {
    let flags: settings::Plan = settings::parse(flags(ask))?;
    let changes = settings::ChangeFlags::of_requests(Some(requests));
    Sent::new(
        &flags.traffic,
        &changes,
        &flags.slo,
        saved.workload.as_ref(),
    )
}

struct LayoutWords {
    tensor: u32,
    pipeline: u32,
    replicas: u32,
}

impl LayoutWords {
    fn of(one: &Deployment, count: u32) -> Result<Self, Refusal> {
        let (tensor, pipeline) = (one.layout.tensor.max(1), one.layout.pipeline.max(1));
        let each = if one.slice.is_some() {
            1
        } else {
            tensor * pipeline
        };
        if !count.is_multiple_of(each) {
            let what = format!("a replica takes {each} GPUs, and {count} are no multiple of it");
            return Err(invalid("gpu", what));
        }
        Ok(Self {
            tensor: if one.slice.is_some() { 1 } else { tensor },
            pipeline: if one.slice.is_some() { 1 } else { pipeline },
            replicas: count / each,
        })
    }
}

/// A rate so many times as large, as `plan` takes it.
fn scaled(rate: &str, times: f64) -> Result<String, Refusal> {
    if (times - 1.0).abs() < 1e-9 {
        return Ok(rate.to_owned());
    }
    let read = gpuwise_read::workload::rate(rate);
    let read = read.map_err(|error| invalid("rate", error.to_string()))?;
    Ok(format!(
        "{}/s",
        gpuwise_units::significant(read.get() * times, 4)
    ))
}

fn set_rate(workload: &mut gpuwise_domain::workload::Workload, rate: &str) -> Result<(), Refusal> {
    let read = gpuwise_read::workload::rate(rate);
    let read = read.map_err(|error| invalid("rate", error.to_string()))?;
    if let gpuwise_domain::workload::Traffic::Open { rate, .. } = &mut workload.traffic {
        *rate = read;
    }
    Ok(())
}
