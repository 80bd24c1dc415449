//! GpuWorkloads are sized by the function of `gpuwise plan`, and served by what `--emit k8s` writes.

use crate::{app::App, catalogue, commands::plan, names, settings};
use gpuwise_domain::{catalogue::Catalogue, deployment::Deployment};
use gpuwise_k8s::{
    manifests,
    operator::{Sized, Sizer, WorkloadAsk},
    resources::Decided,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Plans with the catalogue of this machine.
pub(super) struct Planner {
    app: App,
}

impl Planner {
    pub(super) fn new(app: &App) -> Self {
        Self { app: app.clone() }
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

impl Planner {
    fn sized(&self, ask: &WorkloadAsk) -> anyhow::Result<Sized> {
        let loaded = catalogue::load(&self.app.overrides)?;
        let products = by_name(ask, &loaded.catalogue);
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
        let settings: settings::Plan = settings::parse(flags(ask, &gpus))?;
        let planned = plan::plan(&self.app, &settings)?;
        if !planned.feasible() {
            anyhow::bail!(
                "no GPU of {} keeps the SLO; `gpuwise plan` with the same model and traffic says what is short",
                gpus.join(", ")
            );
        }
        let best = planned.picked(1)?;
        let text = planned.launch("k8s", 1)?;
        let replicas = ask
            .spec
            .replicas
            .unwrap_or_else(|| i32::try_from(best.layout.replicas).unwrap_or(i32::MAX));
        let mut objects = manifests::read(&text)?;
        own(&mut objects, &ask.name, replicas, products.get(&best.gpu));
        Ok(Sized {
            decided: decided(best, replicas),
            objects,
        })
    }
}

/// Products of the cluster by the names that the catalogue has for them.
fn by_name(ask: &WorkloadAsk, catalogue: &Catalogue) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for product in &ask.products {
        if let Ok(gpu) = names::gpu(catalogue, "GPU", product) {
            found
                .entry(gpu.name.clone())
                .or_default()
                .push(product.clone());
        }
    }
    found
}

/// The workload as flags of `gpuwise plan`.
fn flags(ask: &WorkloadAsk, gpus: &[String]) -> Vec<String> {
    let spec = &ask.spec;
    let mut all = vec![
        spec.model.clone(),
        format!("--rate={}", spec.traffic.rate),
        format!("--gpu={}", gpus.join(",")),
    ];
    let mut flag = |name: &str, value: Option<String>| {
        all.extend(value.map(|value| format!("--{name}={value}")));
    };
    flag(
        "isl",
        spec.traffic.input_tokens.map(|tokens| tokens.to_string()),
    );
    flag(
        "osl",
        spec.traffic.output_tokens.map(|tokens| tokens.to_string()),
    );
    flag("ttft", spec.slo.ttft.clone());
    flag("tpot", spec.slo.tpot.clone());
    flag("engine", spec.engine.clone());
    all
}

fn decided(best: &Deployment, replicas: i32) -> Decided {
    let gpus = best.layout.replica_gpus();
    // The price is that of the plan's replicas; others cost in proportion.
    let planned = i64::from(best.layout.replicas.max(1));
    let cost = best
        .cost
        .per_hour
        .map(|price| price.0.times(i64::from(replicas), planned).to_string());
    Decided {
        gpu: best
            .slice
            .as_ref()
            .map_or_else(|| best.gpu.clone(), |slice| format!("{} {slice}", best.gpu)),
        gpus_per_replica: i64::from(gpus),
        replicas,
        engine: best.engine.name().to_owned(),
        why: format!(
            "{replicas} × {gpus} GPU {} with {} weights, {}; they sustain {:.1} requests/s within the SLO",
            best.gpu,
            best.weights,
            best.engine.name(),
            best.headroom.rate
        ),
        cost_per_hour: cost,
        slo: format!(
            "kept at the stated traffic, and up to {:.2} times as much",
            best.headroom.factor
        ),
    }
}

/// Objects under the workload's name, with its label, on GPUs of the plan's kind.
fn own(objects: &mut [Value], name: &str, replicas: i32, products: Option<&Vec<String>>) {
    let names: Vec<String> = objects
        .iter()
        .filter_map(|object| object["metadata"]["name"].as_str().map(str::to_owned))
        .collect();
    let shortest = names.iter().map(String::len).min().unwrap_or_default();
    let base = names
        .iter()
        .find(|name| name.len() == shortest)
        .cloned()
        .unwrap_or_default();
    // Pools of prefill and decode are told apart by an ending.
    let pools = names.iter().any(|other| *other != base);
    let base = if pools {
        base.rsplit_once('-')
            .map_or(base.clone(), |(base, _)| base.to_owned())
    } else {
        base
    };
    let renamed: BTreeMap<&str, String> = names
        .iter()
        .map(|old| {
            (
                old.as_str(),
                format!("{name}{}", old.strip_prefix(&base).unwrap_or_default()),
            )
        })
        .collect();
    for object in objects {
        rename(object, &renamed);
        object["metadata"]["labels"][LABEL] = name.into();
        if object["kind"] != "Deployment" {
            continue;
        }
        if !pools {
            object["spec"]["replicas"] = replicas.into();
        }
        let template = &mut object["spec"]["template"]["metadata"];
        template["labels"][LABEL] = name.into();
        if let Some(products) = products {
            template["annotations"] = json!({GPU: products.join(",")});
        }
    }
}

fn rename(value: &mut Value, names: &BTreeMap<&str, String>) {
    match value {
        Value::String(text) => {
            if let Some(new) = names.get(text.as_str()) {
                text.clone_from(new);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rename(item, names)),
        Value::Object(fields) => fields.values_mut().for_each(|field| rename(field, names)),
        _ => {}
    }
}
