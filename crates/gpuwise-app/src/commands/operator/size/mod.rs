//! GpuWorkloads are sized by the function of `gpuwise plan`, and served by what `--emit k8s` writes.

mod objects;
mod prices;
mod question;

use crate::commands::scale::emit;
use crate::{
    app::App,
    catalogue::{self, Loaded},
    commands::plan,
    error::Problem,
    names, settings,
};
use gpuwise_domain::{catalogue::Catalogue, deployment::Deployment, engine::EngineKind};
use gpuwise_k8s::{
    manifests,
    operator::{Sized, Sizer, WorkloadAsk},
    resources::{Decided, ScaledBy, WorkloadScaling},
};
use gpuwise_units::significant;
use prices::Prices;
use question::{candidates, flags, replicas, traffic};
use serde_json::Value;
use std::{collections::BTreeMap, error::Error, fmt};

#[cfg(feature = "bench")]
pub(super) use prices::book;

/// Why a workload that could be read has no plan: no GPU that it may have keeps its SLO.
#[derive(Debug)]
pub(super) struct Infeasible(String);

impl fmt::Display for Infeasible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Infeasible {}

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

/// What a warm pod costs beside one that serves: it holds the same GPUs of the cluster, asleep or not, and is lent only
/// by ending.
pub(super) const WARM_COST: f64 = 1.0;

/// The label of pods by which a workload finds its own.
const LABEL: &str = "gpuwise.dev/workload";
/// Which GPUs will do for a pod.
const GPU: &str = "gpuwise.dev/gpu";

/// A plan that keeps the SLO on one GPU, and what it costs.
pub(super) struct Found {
    pub(super) planned: plan::Planned,
    /// Which of its deployments, counted from 1.
    pub(super) pick: u16,
    micros: Option<i64>,
    /// As the plan was asked for it.
    gpu: String,
}

impl Found {
    pub(super) fn gpu(&self) -> &str {
        &self.gpu
    }
}

impl Planner {
    /// What `gpuwise plan` is asked for a workload on one GPU.
    pub(super) fn settings(
        ask: &WorkloadAsk,
        gpu: &str,
        pick: u16,
        explain: bool,
    ) -> anyhow::Result<settings::Plan> {
        let mut words = flags(ask, gpu);
        words.push(format!("--pick={pick}"));
        words.extend(explain.then(|| "--explain".to_owned()));
        settings::parse(words)
    }

    /// The plan of the GPU that is cheapest of those that keep the SLO.
    ///
    /// # Errors
    /// [`Infeasible`] where none does; else what of the workload, or of the cluster's GPUs, cannot be read.
    pub(super) fn best(&self, ask: &WorkloadAsk, loaded: &Loaded) -> anyhow::Result<Found> {
        let products = by_name(&ask.products, &loaded.catalogue);
        let gpus = candidates(ask, &products, &loaded.catalogue)?;
        let prices = Prices::new(&loaded.catalogue, ask.prices.as_ref(), &products);
        let mut best: Option<Found> = None;
        for gpu in &gpus {
            let planned = plan::plan(&self.app, &Self::settings(ask, gpu, 1, false)?)?;
            if let Some(found) = cheapest(planned, ask, (&prices, gpu)) {
                let rank = |one: &Found| one.micros.unwrap_or(i64::MAX);
                if best.as_ref().is_none_or(|known| rank(&found) < rank(known)) {
                    best = Some(found);
                }
            }
        }
        best.ok_or_else(|| {
            let what = format!(
                "no GPU of {} keeps the SLO; `gpuwise plan` with the same model and traffic says what is short",
                gpus.join(", ")
            );
            Infeasible(what).into()
        })
    }

    fn sized(&self, ask: &WorkloadAsk) -> anyhow::Result<Sized> {
        let loaded = catalogue::load(&self.app.overrides)?;
        self.sized_of(ask, &self.best(ask, &loaded)?, &loaded)
    }

    /// What a plan makes of a workload.
    pub(super) fn sized_of(
        &self,
        ask: &WorkloadAsk,
        best: &Found,
        loaded: &Loaded,
    ) -> anyhow::Result<Sized> {
        let products = by_name(&ask.products, &loaded.catalogue);
        let prices = Prices::new(&loaded.catalogue, ask.prices.as_ref(), &products);
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
            let lend = scaling.lend.unwrap_or(true);
            let warm = scaling
                .warm
                .map(|pods| objects::warm(&objects, &ask.name, pods.count(), lend));
            let mut warm = warm.flatten();
            if let Some(warm) = warm.as_mut().filter(|_| scaling.sleep == Some(true)) {
                if deployment.engine != EngineKind::Vllm {
                    let name = deployment.engine.name();
                    let what = format!(
                        "spec.scaling.sleep: {name} cannot be put to sleep; set `engine: vllm`, or leave `sleep` out"
                    );
                    return Err(Problem::new(what).into());
                }
                objects::sleeps(warm);
            }
            objects.extend(warm);
            objects.extend(self.scalers(ask, deployment, scaling)?);
            objects.extend(self.spare_nodes(ask, deployment, scaling)?);
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
        if scaling.warm.is_some_and(|pods| pods.count().is_none()) {
            words.push(format!("--warm-cost={WARM_COST}"));
        }
        let mut objects = self.emitted(ask, deployment, words)?;
        // One APIService is for the whole cluster: whoever installs `gpuwise scale serve` makes it.
        objects.retain(|object| object["kind"] != "APIService");
        Ok(objects)
    }

    /// For how many replicas more an autoscaler of nodes keeps room, as `gpuwise scale emit` writes it.
    fn spare_nodes(
        &self,
        ask: &WorkloadAsk,
        deployment: &Deployment,
        scaling: &WorkloadScaling,
    ) -> anyhow::Result<Vec<Value>> {
        let Some(spares) = scaling.spare_nodes else {
            return Ok(Vec::new());
        };
        let forecast = i32::try_from(ask.spare_nodes).unwrap_or(i32::MAX);
        let words = vec![
            "-".to_owned(),
            "--as=capacitybuffer".to_owned(),
            format!("--namespace={}", ask.namespace),
            format!("--spare={}", spares.count().unwrap_or(forecast)),
        ];
        let mut objects = self.emitted(ask, deployment, words)?;
        // A class of priority is for the whole cluster: its users make it.
        objects.retain(|object| object["kind"] == "CapacityBuffer");
        Ok(objects)
    }

    /// What `gpuwise scale emit` writes for these words, under the workload's name.
    fn emitted(
        &self,
        ask: &WorkloadAsk,
        deployment: &Deployment,
        words: Vec<String>,
    ) -> anyhow::Result<Vec<Value>> {
        let flags: emit::Flags = settings::parse(words)?;
        // The objects are named after the model that is deployed.
        let named = Deployment {
            model: ask.name.clone(),
            ..deployment.clone()
        };
        let mut objects = manifests::read(&emit::text(&self.app, &named, None, &flags)?)?;
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

/// The cheapest deployment of a plan that may be taken; of a pinned one that which it was.
fn cheapest(
    planned: plan::Planned,
    ask: &WorkloadAsk,
    (prices, gpu): (&Prices, &str),
) -> Option<Found> {
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
        gpu: gpu.to_owned(),
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
