//! `gpuwise scale emit`: a plan as objects of autoscalers.

use super::{Context, Exit, plan, starts::Seen};
use crate::{app::App, catalogue, error::Problem, simulation};
use clap::builder::PossibleValuesParser;
use gpuwise_domain::{deployment::Deployment, facts, gpu::Device, workload::Lengths};
use gpuwise_units::Nanoseconds;
use gpuwise_view::launch::{ScalerForm, Scaling, scaled};
use std::{
    fs,
    path::{Path, PathBuf},
};

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Saved deployment, as `gpuwise plan … --save deployment.json` writes one
    #[arg(value_name = "DEPLOYMENT")]
    deployment: PathBuf,
    /// Which autoscaler
    #[arg(long = "as", value_name = "FORM", value_parser = PossibleValuesParser::new(ScalerForm::ALL.map(ScalerForm::name)))]
    form: String,
    /// Rates over time, as `gpuwise forecast` reads them: bounds and spares that are not said are those that `gpuwise
    /// scale plan` finds by them
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Replicas at least; 0: none where nothing comes [default: 0]
    #[arg(long, value_name = "N")]
    min: Option<u32>,
    /// Replicas at most [default: with --trace those of its highest and the spares; else twice those of the plan]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    max: Option<u32>,
    /// PromQL of requests a second that come for the model, of all its replicas; it must be there while there are
    /// none, such as a gateway's
    #[arg(long, value_name = "PROMQL")]
    query: Option<String>,
    /// PromQL of replicas that are ready: so that more are not started where none gets ready, and starts are learned;
    /// 0 where there is none, such as 'sum(…) or vector(0)'
    #[arg(long, value_name = "PROMQL")]
    ready_query: Option<String>,
    /// PromQL of requests that wait, of all its replicas; 0 where there is none
    #[arg(long, value_name = "PROMQL")]
    queue_query: Option<String>,
    /// PromQL of tokens of prompts that come a second, of all its replicas: with --decode-query demand is counted in
    /// tokens, and longer requests take more replicas
    #[arg(long, value_name = "PROMQL", requires = "decode_query")]
    prefill_query: Option<String>,
    /// PromQL of tokens of answers that are decoded a second, of all its replicas
    #[arg(long, value_name = "PROMQL", requires = "prefill_query")]
    decode_query: Option<String>,
    /// PromQL of requests that run, of all its replicas
    #[arg(long, value_name = "PROMQL")]
    running_query: Option<String>,
    /// PromQL of the share of the key-value cache that is used, 0 to 1: as good as full, what runs beyond it counts as
    /// waiting
    #[arg(long, value_name = "PROMQL", requires = "running_query")]
    cache_query: Option<String>,
    /// PromQL of the share of requests that are within the SLO, 0 to 1: what is covered follows what is missed
    #[arg(long, value_name = "PROMQL")]
    attainment_query: Option<String>,
    /// Requests a second that a replica serves [default: the most that the plan sustains within its SLO]
    #[arg(long, value_name = "RATE")]
    rate: Option<f64>,
    /// Where KEDA, or for external-metrics the API server, reaches `gpuwise scale serve` [default:
    /// gpuwise-scaler.gpuwise-system.svc, port 6000, or 6443 for external-metrics]
    #[arg(long, value_name = "ADDRESS:PORT")]
    scaler: Option<String>,
    /// Authorities in PEM by which the scaler's certificate is known (keda, dynamo, external-metrics)
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Secret of type kubernetes.io/tls, in the same namespace, with the certificate that KEDA shows where `gpuwise scale
    /// serve --client-ca` asks for one (keda, dynamo)
    #[arg(long, value_name = "NAME")]
    client_secret: Option<String>,
    #[arg(long, value_name = "NAME", default_value = "default")]
    namespace: String,
    /// How long nothing must have come before there are no replicas
    #[arg(long, value_name = "TIME", default_value = "5min")]
    idle: String,
    /// How long fewer must be enough before there are fewer
    #[arg(long, value_name = "TIME", default_value = "5min")]
    hold: String,
    /// From nothing until a replica serves [default: from the weights' bytes and published stages, p90]
    #[arg(long, value_name = "TIME")]
    start: Option<String>,
    /// By what `gpuwise scale serve` decides: by what comes now and until a start is over, or by the rate alone
    #[arg(long, value_name = "NAME", default_value = "gpuwise", value_parser = ["gpuwise", "rate"])]
    controller: String,
    /// What a replica that somebody keeps warm costs beside one that serves, 0 to 1: those that serve are then as many as
    /// comes now needs, and what may come is for the warm ones [default: none are kept warm]
    #[arg(long, value_name = "SHARE")]
    warm_cost: Option<f64>,
    /// Replicas for which nodes are kept warm (capacitybuffer) [default: with --trace the most that are; else 1]
    #[arg(long, value_name = "N")]
    spare: Option<u32>,
    /// The graph of Dynamo and its service, such as llm/decode (dynamo)
    #[arg(long, value_name = "GRAPH/SERVICE")]
    graph: Option<String>,
}

fn seconds(flag: &str, text: &str) -> anyhow::Result<u64> {
    let time: Nanoseconds = text.parse().map_err(|error| {
        Problem::new(format!("{flag} {text}")).because(anyhow::Error::new(error))
    })?;
    Ok(time.0.div_ceil(1_000_000_000))
}

/// From nothing until a replica of it serves, in seconds: nine of ten starts take no longer.
///
/// # Errors
/// When a start of it cannot be told.
pub(crate) fn start(deployment: &Deployment) -> anyhow::Result<u64> {
    let (start, _) = Seen::default().usual(deployment)?;
    Ok(start.0.div_ceil(1_000_000_000))
}

/// No replica serves more requests a second.
const MOST_RATE: f64 = 1e9;

/// Requests a second that a replica serves within its SLO.
///
/// # Errors
/// When nobody says it.
pub(crate) fn rate(given: Option<f64>, deployment: &Deployment) -> anyhow::Result<f64> {
    if let Some(rate) = given {
        return if (0.001..=MOST_RATE).contains(&rate) {
            Ok(rate)
        } else {
            let what = format!(
                "--rate {rate}: expected requests a second, 0.001 or more, {MOST_RATE} at most"
            );
            Err(Problem::new(what)
                .hint("what one replica serves; left out, it is what the plan sustains")
                .into())
        };
    }
    let all = deployment.headroom.rate;
    let each = all / f64::from(deployment.layout.replicas.max(1));
    if each.is_finite() && each >= 0.001 {
        return Ok(each);
    }
    Err(
        Problem::new("the plan does not say how many requests a second a replica serves")
            .hint("--rate says it; a plan of a rate (--rate 8/s) has it")
            .into(),
    )
}

fn graph(flags: &Flags) -> anyhow::Result<Option<(&str, &str)>> {
    let Some(text) = &flags.graph else {
        return Ok(None);
    };
    let parts = text.split_once('/');
    let parts = parts.filter(|(graph, service)| !graph.is_empty() && !service.is_empty());
    let wrong = || {
        Problem::new(format!("--graph {text}: expected a graph and its service"))
            .hint("such as --graph llm/decode")
    };
    Ok(Some(parts.ok_or_else(wrong)?))
}

/// How many replicas there may be, and for how many nodes are kept warm.
struct Bounds {
    least: u32,
    most: u32,
    spare: u32,
}

fn bounds(app: &App, flags: &Flags, deployment: &Deployment) -> anyhow::Result<Bounds> {
    let planned = deployment.layout.replicas.max(1);
    let (usual, spare) = match &flags.trace {
        Some(trace) => {
            let asked = plan::Flags::of(&flags.deployment, trace, flags.start.clone());
            let found = plan::planned(&asked, app.seed)?;
            (found.most.saturating_add(found.warm_most), found.warm_most)
        }
        None => (planned.saturating_mul(2), 1),
    };
    let bounds = Bounds {
        least: flags.min.unwrap_or(0),
        most: flags.max.unwrap_or(usual),
        spare: flags.spare.unwrap_or(spare),
    };
    if bounds.least > bounds.most {
        let what = format!("--min {} is more than --max {}", bounds.least, bounds.most);
        return Err(Problem::new(what).into());
    }
    Ok(bounds)
}

/// Refuses what is said and would not be heard in such a form.
fn heard(form: ScalerForm, flags: &Flags) -> anyhow::Result<()> {
    use ScalerForm::{CapacityBuffer, Dynamo, ExternalMetrics, Hpa, Keda};
    let scaled_by_us: &[ScalerForm] = &[Keda, Dynamo, ExternalMetrics];
    let said: [(&str, bool, &[ScalerForm]); 14] = [
        (
            "--query",
            flags.query.is_some(),
            &[Keda, Dynamo, ExternalMetrics, Hpa],
        ),
        ("--ready-query", flags.ready_query.is_some(), scaled_by_us),
        ("--queue-query", flags.queue_query.is_some(), scaled_by_us),
        (
            "--prefill-query",
            flags.prefill_query.is_some(),
            scaled_by_us,
        ),
        ("--decode-query", flags.decode_query.is_some(), scaled_by_us),
        (
            "--running-query",
            flags.running_query.is_some(),
            scaled_by_us,
        ),
        ("--cache-query", flags.cache_query.is_some(), scaled_by_us),
        (
            "--attainment-query",
            flags.attainment_query.is_some(),
            scaled_by_us,
        ),
        ("--warm-cost", flags.warm_cost.is_some(), scaled_by_us),
        ("--scaler", flags.scaler.is_some(), scaled_by_us),
        ("--ca", flags.ca.is_some(), scaled_by_us),
        (
            "--client-secret",
            flags.client_secret.is_some(),
            &[Keda, Dynamo],
        ),
        ("--spare", flags.spare.is_some(), &[CapacityBuffer]),
        ("--graph", flags.graph.is_some(), &[Dynamo]),
    ];
    let unheard = (said.iter()).find(|(_, given, forms)| *given && !forms.contains(&form));
    let Some((flag, _, forms)) = unheard else {
        return Ok(());
    };
    let forms: Vec<&str> = forms.iter().map(|form| form.name()).collect();
    Err(
        Problem::new(format!("{flag} means nothing to --as {}", form.name()))
            .hint(format!("leave it out; it is for {}", forms.join(", ")))
            .into(),
    )
}

/// Certificates in PEM, as they stand in a file.
fn authorities(path: &Path) -> anyhow::Result<String> {
    let shown = path.display();
    let text = fs::read_to_string(path)
        .map_err(|error| Problem::new(format!("--ca: cannot read {shown}")).because(error))?;
    if text.contains("-----BEGIN CERTIFICATE-----") {
        return Ok(text);
    }
    Err(Problem::new(format!("--ca: {shown} holds no certificate in PEM")).into())
}

/// Queries beside those of requests, and what a replica serves in tokens.
fn more(
    flags: &Flags,
    deployment: &Deployment,
    lengths: Option<&Lengths>,
) -> anyhow::Result<Vec<(&'static str, String)>> {
    let queries = [
        ("prefillQuery", &flags.prefill_query),
        ("decodeQuery", &flags.decode_query),
        ("runningQuery", &flags.running_query),
        ("cacheQuery", &flags.cache_query),
        ("attainmentQuery", &flags.attainment_query),
    ];
    let said = queries.into_iter();
    let mut more: Vec<(&'static str, String)> = said
        .filter_map(|(key, query)| Some((key, query.clone()?)))
        .collect();
    if let Some(cost) = flags.warm_cost {
        if !(0.0..=1.0).contains(&cost) {
            let what = format!("--warm-cost {cost}: expected a share from 0 to 1");
            return Err(Problem::new(what).into());
        }
        more.push(("warmCost", cost.to_string()));
    }
    if flags.prefill_query.is_some() {
        let lengths = lengths.ok_or_else(|| {
            Problem::new("--prefill-query: the deployment was saved without its traffic")
                .hint("plan and save it anew")
        })?;
        let rate = rate(flags.rate, deployment)?;
        more.push(("prefillTokens", (rate * lengths.input.mean).to_string()));
        more.push(("decodeTokens", (rate * lengths.output.mean).to_string()));
    }
    Ok(more)
}

pub(super) fn run(context: &Context, flags: &Flags) -> anyhow::Result<Exit> {
    let saved = simulation::read(&flags.deployment)?;
    let lengths = saved.workload.as_ref().map(|workload| &workload.lengths);
    context.data(&text(&context.app, &saved.deployment, lengths, flags)?)?;
    Ok(Exit::Yes)
}

/// The objects of a deployment, with what is to be known of them in comments; that which the flags name is not read.
/// `lengths`: of the requests that it was planned for, where they are known.
///
/// # Errors
/// When a flag is wrong, or the deployment cannot be scaled so.
pub(crate) fn text(
    app: &App,
    deployment: &Deployment,
    lengths: Option<&Lengths>,
    flags: &Flags,
) -> anyhow::Result<String> {
    let form = ScalerForm::ALL
        .into_iter()
        .find(|form| form.name() == flags.form)
        .ok_or_else(|| Problem::new(format!("--as {}: no such form", flags.form)))?;
    heard(form, flags)?;
    let bounds = bounds(app, flags, deployment)?;
    let query = flags.query.as_deref().unwrap_or_default().trim();
    if form.asks() && query.is_empty() {
        return Err(Problem::new(format!("--as {}: --query is missing", form.name()))
            .hint("PromQL of requests a second that come for this model, such as 'sum(rate(http_requests_total{service=\"llm\"}[1m]))'; an engine's own metrics are gone when it has no replica")
            .into());
    }
    let loaded = catalogue::load(&app.overrides)?;
    let known = &loaded.catalogue;
    let gpu = known
        .gpu(&deployment.gpu)
        .ok_or_else(|| Problem::new(format!("GPU {:?} is not in the catalogue", deployment.gpu)))?;
    let slice = deployment.slice.as_deref();
    let slice = slice.and_then(|name| known.mig_profiles(gpu).find(|one| one.profile == name));
    let of = facts::Context::of(&Device { gpu, slice }, &deployment.layout);
    let engine = catalogue::engine_facts(&loaded, deployment.engine)?;
    let usual = match form {
        ScalerForm::ExternalMetrics => "gpuwise-scaler.gpuwise-system.svc:6443",
        _ => "gpuwise-scaler.gpuwise-system.svc:6000",
    };
    let authorities = flags.ca.as_deref().map(authorities).transpose()?;
    let scaling = Scaling {
        namespace: &flags.namespace,
        least: bounds.least,
        most: bounds.most,
        rate: rate(flags.rate, deployment)?,
        query,
        ready: flags.ready_query.as_deref(),
        queued: flags.queue_query.as_deref(),
        more: more(flags, deployment, lengths)?,
        scaler: flags.scaler.as_deref().unwrap_or(usual),
        authorities: authorities.as_deref(),
        client: flags.client_secret.as_deref(),
        idle_s: seconds("--idle", &flags.idle)?,
        hold_s: seconds("--hold", &flags.hold)?,
        start_s: match &flags.start {
            Some(text) => seconds("--start", text)?,
            None => start(deployment)?,
        },
        controller: &flags.controller,
        spare: bounds.spare,
        graph: graph(flags)?,
    };
    scaled(form, deployment, &engine, &of, &scaling).map_err(|error| {
        let what = format!("--as {}", form.name());
        Problem::new(what).because(error).into()
    })
}
