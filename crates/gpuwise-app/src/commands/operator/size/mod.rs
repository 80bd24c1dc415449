//! GpuWorkloads are sized by the function of `gpuwise plan`, and served by what `--emit k8s` writes.

mod objects;
mod prices;

use crate::commands::scale::emit;
use crate::{app::App, catalogue, commands::plan, names, settings};
use gpuwise_domain::{catalogue::Catalogue, deployment::Deployment};
use gpuwise_k8s::{
    manifests,
    operator::{Sized, Sizer, WorkloadAsk},
    resources::{Decided, ScaledBy, WorkloadScaling, WorkloadTraffic},
};
use gpuwise_units::significant;
use prices::Prices;
use serde_json::Value;
use std::collections::BTreeMap;

pub(super) use prices::book;

/// Plans with the catalogue of this machine.
pub(super) struct Planner {
    app: App,
    /// Where `gpuwise scale serve` is reached by KEDA or the API server.
    scaler: Option<String>,
}

impl Planner {
    pub(super) fn new(app: &App, scaler: Option<String>) -> Self {
        Self {
            app: app.clone(),
            scaler,
        }
    }
}

impl Sizer for Planner {
    fn size(&self, ask: &WorkloadAsk) -> Result<Sized, String> {
        self.sized(ask).map_err(|error| format!("{error:#}"))
    }
}

/// The label of pods by which a workload finds its own.
const LABEL: &str = "gpuwise.dev/workload";
/// Which GPUs will do for a pod.
const GPU: &str = "gpuwise.dev/gpu";

/// A plan that keeps the SLO on one GPU, and what it costs.
struct Found {
    planned: plan::Planned,
    /// Which of its deployments, counted from 1.
    pick: u16,
    micros: Option<i64>,
}

impl Planner {
    fn sized(&self, ask: &WorkloadAsk) -> anyhow::Result<Sized> {
        let loaded = catalogue::load(&self.app.overrides)?;
        let products = by_name(&ask.products, &loaded.catalogue);
        let gpus = candidates(ask, &products, &loaded.catalogue)?;
        let prices = Prices::new(&loaded.catalogue, ask.prices.as_ref(), &products);
        let mut best: Option<Found> = None;
        for gpu in &gpus {
            let settings: settings::Plan = settings::parse(flags(ask, gpu))?;
            let planned = plan::plan(&self.app, &settings)?;
            if let Some(found) = cheapest(planned, ask, &prices) {
                let rank = |one: &Found| one.micros.unwrap_or(i64::MAX);
                if best.as_ref().is_none_or(|known| rank(&found) < rank(known)) {
                    best = Some(found);
                }
            }
        }
        let best = best.ok_or_else(|| {
            anyhow::anyhow!(
                "no GPU of {} keeps the SLO; `gpuwise plan` with the same model and traffic says what is short",
                gpus.join(", ")
            )
        })?;
        let deployment = best.planned.picked(best.pick)?;
        let replicas = replicas(ask, deployment);
        let mut objects = manifests::read(&best.planned.launch("k8s", best.pick)?)?;
        let scaling = ask.spec.scaling.as_ref();
        let fixed = scaling.is_none().then_some(replicas);
        objects::own(
            &mut objects,
            &ask.name,
            fixed,
            products.get(&deployment.gpu),
        );
        if let Some(scaling) = scaling {
            let warm = scaling
                .warm
                .map(|pods| objects::warm(&objects, &ask.name, pods));
            objects.extend(warm.flatten());
            objects.extend(self.scalers(ask, deployment, scaling)?);
        }
        let micros = prices.of(deployment, replicas);
        Ok(Sized {
            decided: decided(ask, deployment, (replicas, micros, &prices), &products)?,
            micros,
            money: prices.currency.to_string(),
            objects,
        })
    }

    /// What another autoscaler goes by, as `gpuwise scale emit` writes it; nothing where the operator is it.
    fn scalers(
        &self,
        ask: &WorkloadAsk,
        deployment: &Deployment,
        scaling: &WorkloadScaling,
    ) -> anyhow::Result<Vec<Value>> {
        let form = match scaling.by.unwrap_or_default() {
            ScaledBy::Operator => return Ok(Vec::new()),
            ScaledBy::Keda => "keda",
            ScaledBy::ExternalMetrics => "external-metrics",
        };
        let mut words = vec![
            "-".to_owned(),
            format!("--as={form}"),
            format!("--namespace={}", ask.namespace),
            format!("--min={}", scaling.min_replicas.unwrap_or(0)),
            format!("--max={}", scaling.max_replicas),
            format!("--query={}", scaling.query),
            format!("--idle={}s", scaling.idle_seconds.unwrap_or(300)),
            format!("--hold={}s", scaling.hold_seconds.unwrap_or(300)),
        ];
        words.extend(self.scaler.iter().map(|at| format!("--scaler={at}")));
        let flags: emit::Flags = settings::parse(words)?;
        // The objects are named after the model that is deployed.
        let named = Deployment {
            model: ask.name.clone(),
            ..deployment.clone()
        };
        let mut objects = manifests::read(&emit::text(&self.app, &named, None, &flags)?)?;
        // One APIService is for the whole cluster: whoever installs `gpuwise scale serve` makes it.
        objects.retain(|object| object["kind"] != "APIService");
        for object in &mut objects {
            object["metadata"]["labels"][LABEL] = ask.name.as_str().into();
        }
        Ok(objects)
    }
}

/// Products of the cluster by the names that the catalogue has for them.
pub(super) fn by_name(
    products: &std::collections::BTreeSet<String>,
    catalogue: &Catalogue,
) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for product in products {
        if let Ok(gpu) = names::gpu(catalogue, "GPU", product) {
            found
                .entry(gpu.name.clone())
                .or_default()
                .push(product.clone());
        }
    }
    found
}

/// GPUs that it may be sized for.
fn candidates(
    ask: &WorkloadAsk,
    products: &BTreeMap<String, Vec<String>>,
    catalogue: &Catalogue,
) -> anyhow::Result<Vec<String>> {
    if let Some(pinned) = &ask.pinned {
        return Ok(vec![pinned.gpu.clone()]);
    }
    let gpus: Vec<String> = if ask.spec.gpus.is_empty() {
        products.keys().cloned().collect()
    } else {
        ask.spec.gpus.clone()
    };
    if gpus.is_empty() {
        anyhow::bail!(
            "no GPU of the cluster is in the catalogue: {}; name some in spec.gpus",
            ask.products.iter().cloned().collect::<Vec<_>>().join(", ")
        );
    }
    let same = |name: &str, gpu: &str| catalogue.gpu(name).is_some_and(|known| known.name == gpu);
    let avoided = |name: &String| {
        let mut whole = ask.avoided.iter().filter(|one| one.slice.is_none());
        whole.any(|one| same(name, &one.gpu))
    };
    let left: Vec<String> = gpus.iter().filter(|name| !avoided(name)).cloned().collect();
    if left.is_empty() {
        anyhow::bail!(
            "its SLO was missed on {}, the only GPUs that it may have; status.avoided says until when they are not tried again",
            gpus.join(", ")
        );
    }
    Ok(left)
}

/// The workload as flags of `gpuwise plan`, on one GPU.
fn flags(ask: &WorkloadAsk, gpu: &str) -> Vec<String> {
    let spec = &ask.spec;
    let traffic = traffic(ask);
    let mut all = vec![
        spec.model.clone(),
        format!("--rate={}", traffic.rate),
        format!("--gpu={gpu}"),
        "--top=20".to_owned(),
    ];
    if !ask.slices {
        all.push("--no-slices".into());
    }
    let mut flag = |name: &str, value: Option<String>| {
        all.extend(value.map(|value| format!("--{name}={value}")));
    };
    flag("isl", traffic.input_tokens.map(|tokens| tokens.to_string()));
    flag(
        "osl",
        traffic.output_tokens.map(|tokens| tokens.to_string()),
    );
    flag("ttft", spec.slo.ttft.clone());
    flag("tpot", spec.slo.tpot.clone());
    flag("engine", spec.engine.clone());
    all
}

/// For what it is sized: what was measured, what a decision was made for, or what its spec says.
fn traffic(ask: &WorkloadAsk) -> &WorkloadTraffic {
    let pinned = ask.pinned.as_ref().map(|pinned| &pinned.traffic);
    let known = ask.traffic.as_ref().or(pinned);
    known
        .filter(|traffic| !traffic.rate.is_empty())
        .unwrap_or(&ask.spec.traffic)
}

fn replicas(ask: &WorkloadAsk, deployment: &Deployment) -> i32 {
    let planned = || i32::try_from(deployment.layout.replicas).unwrap_or(i32::MAX);
    let pinned = ask.pinned.as_ref().map(|pinned| pinned.replicas);
    ask.spec.replicas.or(pinned).unwrap_or_else(planned)
}

/// The cheapest deployment of a plan that may be taken; of a pinned one that which it was.
fn cheapest(planned: plan::Planned, ask: &WorkloadAsk, prices: &Prices) -> Option<Found> {
    if !planned.feasible() {
        return None;
    }
    let avoided = |one: &Deployment| {
        let mut all = ask.avoided.iter();
        all.any(|other| other.gpu == one.gpu && other.slice == one.slice)
    };
    let pinned = |one: &Deployment| {
        ask.pinned.as_ref().is_none_or(|pinned| {
            pinned.slice == one.slice
                && pinned.gpus_per_replica == i64::from(one.layout.replica_gpus())
        })
    };
    let mut best: Option<(u16, Option<i64>)> = None;
    for (pick, one) in (1_u16..).zip(&planned.sizing.ranked) {
        if avoided(one) || !pinned(one) {
            continue;
        }
        let micros = prices.of(one, replicas(ask, one));
        let rank = |micros: Option<i64>| micros.unwrap_or(i64::MAX);
        if best.is_none_or(|(_, known)| rank(micros) < rank(known)) {
            best = Some((pick, micros));
        }
    }
    let (pick, micros) = best?;
    Some(Found {
        planned,
        pick,
        micros,
    })
}

fn decided(
    ask: &WorkloadAsk,
    best: &Deployment,
    (replicas, micros, prices): (i32, Option<i64>, &Prices),
    products: &BTreeMap<String, Vec<String>>,
) -> anyhow::Result<Decided> {
    let gpus = best.layout.replica_gpus();
    let traffic = traffic(ask).clone();
    let measured = if ask.traffic.is_some() {
        format!("; for {} as measured in the busiest hour", traffic.rate)
    } else {
        String::new()
    };
    Ok(Decided {
        gpu: best.gpu.clone(),
        product: products
            .get(&best.gpu)
            .map_or_else(String::new, |all| all.join(",")),
        slice: best.slice.clone(),
        gpus_per_replica: i64::from(gpus),
        replicas,
        engine: best.engine.name().to_owned(),
        why: format!(
            "{replicas} × {gpus} GPU {} with {} weights, {}; they sustain {:.1} requests/s within the SLO{measured}",
            best.gpu,
            best.weights,
            best.engine.name(),
            best.headroom.rate
        ),
        cost_per_hour: micros.map(|micros| prices.money(micros).to_string()),
        slo: format!(
            "kept at the stated traffic, and up to {:.2} times as much",
            best.headroom.factor
        ),
        traffic,
        rate_per_replica: emit::rate(None, best).ok().map(|rate| significant(rate, 4)),
        start_seconds: i64::try_from(emit::start(best)?).ok(),
        plan: ask
            .pinned
            .as_ref()
            .map_or_else(String::new, |pinned| pinned.plan.clone()),
    })
}
