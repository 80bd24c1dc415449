//! A saved deployment as what is simulated: its setups, its engines, its price.

use super::traffic::Sent;
use crate::{catalogue::Loaded, error::Problem, model};
use gpuwise_domain::{
    deployment::{Deployment, Saved},
    model::Architecture,
    run::Subject,
};
use gpuwise_sim::{
    deployed::{Deployed, deployed},
    engine::Role,
};
use gpuwise_size::{constants::Parameter, knowledge::Knowledge, memory, search, setup::Setup};
use gpuwise_units::Nanoseconds;
use std::{fs, path::Path};

/// Reads a saved deployment.
///
/// # Errors
/// When the file cannot be read, or is no saved deployment.
pub fn read(path: &Path) -> anyhow::Result<Saved> {
    let shown = path.display();
    let text = fs::read_to_string(path).map_err(|error| {
        Problem::new(format!("cannot read deployment {shown}"))
            .because(error)
            .hint("`gpuwise plan … --save deployment.json` writes one")
    })?;
    let wrong = |error: anyhow::Error| {
        Problem::new(format!("{shown} is no saved deployment"))
            .because(error)
            .hint("`gpuwise plan … --save deployment.json` writes one")
    };
    let saved = gpuwise_wire::from_json(&text).map_err(|error| wrong(error.into()))?;
    let layout = saved.deployment.layout;
    let nothing = [
        ("replicas", layout.replicas),
        ("tensor", layout.tensor),
        ("pipeline", layout.pipeline),
    ]
    .into_iter()
    .find(|(_, count)| *count == 0);
    match nothing {
        Some((name, _)) => Err(wrong(anyhow::anyhow!(
            "`deployment.layout.{name}` is 0: nothing would run"
        ))
        .into()),
        None => Ok(saved),
    }
}

/// The shapes of the models that a deployment names.
#[derive(Debug)]
pub struct Shapes {
    model: Architecture,
    drafter: Option<Architecture>,
}

impl Shapes {
    pub fn model(&self) -> &Architecture {
        &self.model
    }

    pub fn drafter(&self) -> Option<&Architecture> {
        self.drafter.as_ref()
    }

    /// Finds them.
    ///
    /// # Errors
    /// When a model cannot be found or read.
    pub fn of(deployment: &Deployment, loaded: &Loaded, offline: bool) -> anyhow::Result<Self> {
        let find = |name: &str| -> anyhow::Result<Architecture> {
            Ok(model::resolve(name, loaded, offline)?.architecture)
        };
        Ok(Self {
            model: find(&deployment.model)?,
            drafter: deployment.draft_model.as_deref().map(find).transpose()?,
        })
    }
}

/// A saved deployment that stands beside another, with its shapes.
#[derive(Debug)]
pub struct Neighbour {
    saved: Saved,
    shapes: Shapes,
}

impl Neighbour {
    /// Reads it.
    ///
    /// # Errors
    /// When it cannot be read, or a model cannot be found.
    pub fn read(path: &Path, loaded: &Loaded, offline: bool) -> anyhow::Result<Self> {
        let saved = read(path)?;
        let shapes = Shapes::of(&saved.deployment, loaded, offline)?;
        Ok(Self { saved, shapes })
    }

    /// As it is simulated, under the traffic that it was saved with.
    ///
    /// # Errors
    /// When it cannot be simulated, or was saved without its traffic.
    pub fn simulated<'a>(
        &'a self,
        loaded: &'a Loaded,
        knowledge: &Knowledge,
        seed: u64,
    ) -> anyhow::Result<(Simulated<'a>, Sent)> {
        let deployment = &self.saved.deployment;
        let simulated = Simulated::new(deployment, &self.shapes, loaded, knowledge, seed)?;
        Ok((simulated, Sent::of_saved(&self.saved)?))
    }
}

#[derive(Debug, Clone)]
pub struct Simulated<'a> {
    pub deployment: Deployment,
    pub setup: Setup<'a>,
    /// One replica of the pool that serves, or decodes.
    pub engine: Deployed,
    /// One replica of the pool that computes prompts, where it is another.
    pub prefill: Option<Deployed>,
    /// Time of a request from one to the other beside the bytes of its cache.
    pub hand_over: Nanoseconds,
    /// What the simulation assumes, in sentences.
    pub notes: Vec<String>,
}

impl<'a> Simulated<'a> {
    /// The engines of a deployment, with what the user's own measurements say of its steps.
    ///
    /// # Errors
    /// When the catalogue lacks what it names, or its engine is not simulated.
    pub fn new(
        deployment: &Deployment,
        shapes: &'a Shapes,
        loaded: &'a Loaded,
        knowledge: &Knowledge,
        seed: u64,
    ) -> anyhow::Result<Self> {
        let (setup, prefill) = search::setups(
            deployment,
            &shapes.model,
            shapes.drafter.as_ref(),
            &loaded.catalogue,
        )
        .map_err(|error| Problem::new("the deployment cannot be simulated").because(error))?;
        let corrected = |setup| knowledge.corrected(setup, &deployment.model);
        let (setup, prefill) = (corrected(setup), prefill.map(corrected));
        let constants = knowledge.constants(deployment.engine);
        let build = |setup: &Setup<'_>, tokens: u64, role: Role| {
            deployed(setup, tokens, role, constants, seed)
                .map_err(|error| Problem::new("the deployment cannot be simulated").because(error))
        };
        let tokens = deployment.memory.cache_tokens;
        let role = if prefill.is_some() {
            Role::Decode
        } else {
            Role::Whole
        };
        let engine = build(&setup, tokens, role)?;
        let prefill = match &prefill {
            Some(setup) => {
                let tokens = memory::plan(setup).cache_tokens().max(0.0) as u64;
                Some(build(setup, tokens, Role::Prefill)?)
            }
            None => None,
        };
        let place = constants.place(&setup.silicon(), setup.bucket.key);
        let hand_over = constants.get(Parameter::HandOver, place) * 1e6;
        let mut notes = engine.notes.clone();
        let percent = |factor: f64| (factor - 1.0) * 100.0;
        if setup.corrections.has_steps() {
            let (steps, prompts) = setup.corrections.usual();
            notes.push(format!(
                "steps are {:+.0} % and prompts {:+.0} % longer than our constants say, as your own measurements show",
                percent(steps),
                percent(prompts)
            ));
        }
        if let Some(waits) = setup.corrections.usual_waits() {
            notes.push(format!(
                "first tokens are simulated as steps and queues make them; your own measurements of them lie {:+.0} % off that, which plan and predict take into account and a simulation of steps cannot",
                percent(waits)
            ));
        }
        Ok(Self {
            deployment: deployment.clone(),
            setup,
            engine,
            prefill,
            hand_over: Nanoseconds(hand_over as u64),
            notes,
        })
    }

    pub fn subject(&self) -> Subject {
        let deployment = &self.deployment;
        Subject {
            model: deployment.model.clone(),
            deployment: Some(words(deployment)),
            engine: Some(deployment.engine.name().into()),
            release: deployment.release.map(|release| release.to_string()),
            gpu: Some(deployment.gpu.clone()),
            gpus: Some(u64::from(deployment.devices())),
            replicas: Some(u64::from(deployment.layout.replicas)),
            server: None,
        }
    }
}

/// A deployment in words: `2 × H100 SXM5 80GB, TP2, fp8 weights`.
pub fn words(deployment: &Deployment) -> String {
    let slice = deployment
        .slice
        .as_ref()
        .map_or_else(String::new, |slice| format!(" {slice}"));
    let prompts = deployment
        .prefill
        .as_ref()
        .map_or_else(String::new, |pool| format!(", prompts on {}", pool.layout));
    format!(
        "{} × {}{slice}, {}, {} weights{prompts}",
        deployment.devices(),
        deployment.gpu,
        deployment.layout,
        deployment.weights
    )
}
