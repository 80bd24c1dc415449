//! A saved deployment over its own links and composed over a fabric.

use super::{Context, Exit, show};
use crate::{
    catalogue::{self, Loaded},
    error::Problem,
    fabric::Joined,
    knowledge, names,
    simulation::{self, Shapes},
};
use gpuwise_domain::{
    deployment::{Deployment, Saved, Sizing},
    engine::Engine,
    estimate::Derivation,
    gpu::{Device, Gpu, ScaleUp},
};
use gpuwise_size::{
    composed::{self, LayoutStep, Load},
    knowledge::Knowledge,
    search::{self, Choices, DraftModel, Request},
    setup::Setup,
};
use std::path::Path;

/// A request where the deployment was saved without its traffic: tokens of its prompt, of its answer,
/// and of both when it is done.
const PROMPT: f64 = 1536.0;
const ANSWER: f64 = 512.0;
const CONTEXT: f64 = PROMPT + ANSWER;

pub(super) struct Compared {
    pub(super) deployment: Deployment,
    pub(super) joined: Joined,
    /// The GPU that is composed; another than the deployment's where the fabric has none of those.
    pub(super) gpu: String,
    pub(super) gpus: u32,
    pub(super) load: Load,
    pub(super) layouts: Vec<LayoutStep>,
    pub(super) own_link: Option<ScaleUp>,
    /// What is short where the deployment's own number of GPUs cannot be composed.
    pub(super) short: Option<String>,
    /// The best under the saved traffic on the deployment's GPU with its own links, and composed.
    pub(super) sizings: Option<(Sizing, Sizing)>,
    /// Bytes of weights on one GPU.
    pub(super) weights: f64,
    pub(super) derivations: Vec<Derivation>,
    pub(super) notes: Vec<String>,
}

pub(super) fn run(
    context: &Context,
    deployment: &Path,
    fabric: &Path,
    explain: bool,
) -> anyhow::Result<Exit> {
    let mut loaded = catalogue::load(&context.app.overrides)?;
    let knowledge = knowledge::load(&loaded)?;
    let joined = Joined::read(fabric, &loaded)?;
    let names = joined.join(&mut loaded.catalogue);
    let saved = simulation::read(deployment)?;
    let shapes = Shapes::of(&saved.deployment, &loaded, context.app.offline)?;
    let compared = compared(&saved, &shapes, &loaded, &knowledge, joined, &names)?;
    show::compared(context, &compared, explain)?;
    let composable = compared.short.is_none()
        || compared
            .sizings
            .as_ref()
            .is_some_and(|(_, sizing)| !sizing.ranked.is_empty());
    Ok(if composable { Exit::Yes } else { Exit::No })
}

fn compared(
    saved: &Saved,
    shapes: &Shapes,
    loaded: &Loaded,
    knowledge: &Knowledge,
    joined: Joined,
    names: &[(String, u32)],
) -> anyhow::Result<Compared> {
    let deployment = &saved.deployment;
    let (setup, _) = search::setups(
        deployment,
        shapes.model(),
        shapes.drafter(),
        &loaded.catalogue,
    )
    .map_err(|error| Problem::new("the deployment cannot be composed").because(error))?;
    let mut notes = notes(saved);
    let own = setup.device.gpu.name.clone();
    let position = joined.gpus().iter().position(|name| *name == own);
    if position.is_none() {
        notes.push(format!(
            "the fabric has no {own}: {} is composed in its place",
            joined.gpus().first().unwrap_or(&"nothing")
        ));
    }
    let (composed, pooled) = names
        .get(position.unwrap_or(0))
        .ok_or_else(|| Problem::new("the fabric has no GPU of the catalogue"))?;
    let gpu = names::gpu(&loaded.catalogue, "fabric:", composed)?;
    let base = joined.gpus().get(position.unwrap_or(0)).copied();
    let setup = Setup {
        device: Device::whole(names::gpu(
            &loaded.catalogue,
            "fabric:",
            base.unwrap_or(&own),
        )?),
        ..setup
    };
    let gpus = deployment.layout.replica_gpus();
    let load = load(saved);
    let constants = knowledge.constants(deployment.engine);
    let layouts = composed::layouts(&setup, gpu, gpus, load, constants);
    let short = short(deployment, &joined, *pooled);
    let sizings = sizings(saved, shapes, loaded, knowledge, &setup, composed, *pooled)?;
    let base = base.unwrap_or(&own).to_owned();
    Ok(Compared {
        deployment: deployment.clone(),
        own_link: setup.device.gpu.scale_up.clone(),
        gpu: base,
        gpus,
        load,
        layouts,
        short,
        sizings,
        weights: gpuwise_size::memory::weights_per_rank(&setup),
        derivations: derivations(gpu, gpus, load, shapes.model().hidden),
        notes,
        joined,
    })
}

/// What was assumed and left aside.
fn notes(saved: &Saved) -> Vec<String> {
    let mut notes = Vec::new();
    if saved.workload.is_none() {
        notes.push(format!(
            "the deployment was saved without its traffic: requests of {PROMPT} and {ANSWER} tokens are assumed"
        ));
    }
    if saved.deployment.prefill.is_some() {
        notes.push("of pools for prompts and answers apart only the latter is looked at".into());
    }
    if saved.deployment.slice.is_some() {
        notes.push("a slice stays within its GPU: whole GPUs are composed".into());
    }
    notes
}

fn load(saved: &Saved) -> Load {
    let lengths = saved.workload.as_ref().map(|workload| &workload.lengths);
    let hit = saved.workload.as_ref().map_or(0.0, |w| w.prefix_hit);
    let running = saved.deployment.figures.running.max(1.0);
    Load {
        requests: running * f64::from(saved.deployment.layout.attention_data.max(1)),
        context: lengths.map_or(CONTEXT, |l| l.input.mean + l.output.mean / 2.0),
        longest: lengths.map_or(CONTEXT, |l| l.input.mean + l.output.mean),
        prompt: lengths.map_or(PROMPT, |l| l.input.mean * (1.0 - hit)),
        answer: lengths.map_or(ANSWER, |l| l.output.mean),
    }
}

/// What the fabric lacks for the deployment as it is.
fn short(deployment: &Deployment, joined: &Joined, pooled: u32) -> Option<String> {
    let fabric = &joined.fabric;
    let (each, all) = (deployment.layout.replica_gpus(), deployment.layout.gpus());
    if all > pooled {
        return Some(format!(
            "the deployment has {all} GPUs, the pools have {pooled}"
        ));
    }
    if each > fabric.largest_host() {
        return Some(format!(
            "a replica has {each} GPUs, a host of the fabric at most {}",
            fabric.largest_host()
        ));
    }
    let held: u32 = fabric
        .hosts
        .iter()
        .map(|host| host.count.saturating_mul(host.gpus_per_host / each.max(1)))
        .fold(0, u32::saturating_add);
    (held < deployment.layout.replicas).then(|| {
        format!(
            "the hosts hold {held} replicas of {each} GPUs, the deployment has {}",
            deployment.layout.replicas
        )
    })
}

/// The best deployments under the saved traffic: on the GPU with its own links, and composed.
fn sizings(
    saved: &Saved,
    shapes: &Shapes,
    loaded: &Loaded,
    knowledge: &Knowledge,
    setup: &Setup<'_>,
    composed: &str,
    pooled: u32,
) -> anyhow::Result<Option<(Sizing, Sizing)>> {
    let Some(workload) = &saved.workload else {
        return Ok(None);
    };
    let deployment = &saved.deployment;
    let facts = catalogue::engine_facts(loaded, deployment.engine)?;
    let mut choices = Choices::usual(Engine::newest(deployment.engine));
    choices.keep(deployment);
    choices
        .engine
        .release
        .get_or_insert_with(|| facts.resolve(None));
    choices.slices = false;
    choices.top = 1;
    let size = |gpus: Vec<String>, owned: Vec<(String, u32)>| {
        let mut workload = workload.clone();
        workload.limits.gpus = gpus;
        workload.limits.owned = owned;
        workload.limits.budget = None;
        search::plan(&Request {
            name: deployment.model.clone(),
            origin: String::new(),
            architecture: shapes.model(),
            workload: &workload,
            catalogue: &loaded.catalogue,
            knowledge,
            facts: Some(&facts),
            engines: &[],
            draft: deployment
                .draft_model
                .clone()
                .zip(shapes.drafter())
                .map(|(name, architecture)| DraftModel { name, architecture }),
            choices: choices.clone(),
        })
    };
    Ok(Some((
        size(vec![setup.device.gpu.name.clone()], Vec::new()),
        size(Vec::new(), vec![(composed.to_owned(), pooled)]),
    )))
}

/// How an all-reduce of the load's activations comes about.
fn derivations(gpu: &Gpu, gpus: u32, load: Load, hidden: u64) -> Vec<Derivation> {
    let link = gpu.scale_up.as_ref().and_then(|link| link.fabric);
    link.map(|link| composed::explain(&link, gpus.max(2), load.requests * hidden as f64 * 2.0))
        .into_iter()
        .collect()
}
