//! `gpuwise memory`: what fills a GPU's memory, and whether a model fits.

mod answer;
mod fit;
mod fixes;
mod network;
mod show;

use super::{App, Context, Exit};
use crate::schemas::AnswerName;
use crate::{
    catalogue::{self, Loaded},
    engine,
    error::Problem,
    layout, media,
    model::ResolvedModel,
    names, settings,
};
pub use answer::{DeviceMemory, Remembered};
use anyhow::Context as _;
use fit::{Demand, Fit};
pub use fixes::Fix;
use gpuwise_domain::{
    catalogue::Catalogue,
    deployment::Settings,
    engine::Engine,
    facts::{self, EngineFacts},
    gpu::Device,
    layout::Layout,
    media::MediaUnit,
    precision::CacheFormat,
};
use gpuwise_read::workload as quantities;
use gpuwise_size::{
    engines,
    knowledge::Corrections,
    search::model_summary,
    setup::{Draft, Setup, Weights},
    sweep,
};
use gpuwise_view::record;
pub use network::{NetworkFit, NetworkMemory};

/// The longest context where neither flag nor model says one.
const CONTEXT: u64 = 8192;
/// Share of drafted tokens that are usually accepted; memory does not depend on it.
const ACCEPTANCE: f64 = 0.7;

/// What fills the memory of GPUs, and whether a model fits.
///
/// # Errors
/// When a setting is wrong, or the model cannot be found. That nothing fits is an answer.
pub fn memory(app: &App, flags: &settings::Memory) -> anyhow::Result<Remembered> {
    language(app, flags, &catalogue::load(&app.overrides)?)
}

/// What a diffusion, vision or embedding model holds of the memory of GPUs; `None` where the model is none.
///
/// # Errors
/// When a setting is wrong, or the network cannot take such an input. That nothing fits is an answer.
pub fn media_memory(app: &App, flags: &settings::Memory) -> anyhow::Result<Option<NetworkMemory>> {
    network::answer(flags, &catalogue::load(&app.overrides)?)
}

fn language(app: &App, flags: &settings::Memory, loaded: &Loaded) -> anyhow::Result<Remembered> {
    let model = super::any_model(&flags.model, None, loaded, app)?;
    if let Some(flag) = flags.input.given() {
        return Err(Problem::new(format!(
            "{flag} is of diffusion, vision and embedding models; {} is a language model",
            model.name
        ))
        .hint("--context says how long a request is, --concurrency how many there are at once")
        .into());
    }
    let mut notes = model.architecture.assumptions.clone();
    if model.architecture.takes_audio() {
        notes.push(format!(
            "a request is a window of audio and the tokens written for it: `gpuwise plan {} {}` sizes a service of it",
            model.name,
            media::usage(MediaUnit::AudioHours)
        ));
    }
    let wanted = wanted(flags, &model, &mut notes)?;
    let draft = super::draft_model(
        flags.engine.draft_model.as_deref(),
        flags.engine.draft_tokens.unwrap_or(0),
        loaded,
        app,
    )?;
    let build = Build::new(flags, (&model, draft.as_ref()), wanted, loaded)?;
    let tokens = flags.engine.draft_tokens.unwrap_or(0);
    super::can_draft(&model, draft.as_ref(), tokens, build.engine.kind)?;
    let devices = devices(flags, &loaded.catalogue)?;
    let gpus = build.layout.map_or(1, |layout| layout.replica_gpus());
    if let Some(slice) = devices
        .iter()
        .find(|device| device.slice.is_some() && gpus > 1)
    {
        return Err(Problem::new(format!(
            "--gpu '{}' is a slice, and slices have no peers: a model stays on one",
            slice.name()
        ))
        .hint("leave the layout out, or name the whole GPU")
        .into());
    }
    let fits: Vec<Fit<'_>> = devices
        .into_iter()
        .map(|device| build.fit(device, flags))
        .collect();
    notes.extend(obstacles(&fits));
    let summary = model_summary(&model.name, &model.origin, &model.architecture);
    let catalogue = &loaded.catalogue;
    Ok(Remembered::of(summary, wanted, &fits, notes, catalogue))
}

pub(crate) fn schema(answer: &str) -> String {
    record::document_schema::<Remembered>(
        answer,
        "What fills a GPU's memory, and whether a model fits",
    )
}

/// The schema of the memory of a diffusion, vision or embedding model.
pub(crate) fn media_schema(answer: &str) -> String {
    record::document_schema::<NetworkMemory>(
        answer,
        "What a diffusion, vision or embedding model holds of a GPU's memory, and whether it fits",
    )
}

pub fn run(context: &Context, flags: &settings::Memory) -> anyhow::Result<Exit> {
    let loaded = catalogue::load(&context.app.overrides)?;
    if let Some(found) = network::answer(flags, &loaded)? {
        network::show(&context.answering(AnswerName::MediaMemory), flags, &found)?;
        return Ok(if found.fits() { Exit::Yes } else { Exit::No });
    }
    let found = language(&context.app, flags, &loaded)?;
    show::show(context, flags, &found)?;
    Ok(if found.fits() { Exit::Yes } else { Exit::No })
}

fn wanted(
    flags: &settings::Memory,
    model: &ResolvedModel,
    notes: &mut Vec<String>,
) -> anyhow::Result<Demand> {
    let most = model.architecture.max_context.map(|tokens| tokens.0);
    let context = if let Some(text) = &flags.context {
        quantities::tokens(text).context("--context")?.0
    } else {
        let context = most.map_or(CONTEXT, |most| most.min(CONTEXT));
        notes.push(format!(
            "assumed because it was not said: --context {context}"
        ));
        context
    };
    let concurrency = if let Some(text) = &flags.concurrency {
        quantities::concurrency(text).context("--concurrency")?
    } else {
        notes.push("assumed because it was not said: --concurrency 1".into());
        1
    };
    Ok(Demand {
        context,
        concurrency,
    })
}

/// The GPUs named; without a name those that are rented out.
fn devices<'a>(
    flags: &settings::Memory,
    catalogue: &'a Catalogue,
) -> anyhow::Result<Vec<Device<'a>>> {
    if !flags.gpu.is_empty() {
        return flags
            .gpu
            .iter()
            .map(|text| names::device(catalogue, "--gpu", text))
            .collect();
    }
    let rented = |name: &str| catalogue.offers.iter().any(|offer| offer.gpu == name);
    let gpus = catalogue
        .gpus
        .iter()
        .filter(|gpu| !gpu.announced && rented(&gpu.name));
    Ok(gpus.map(Device::whole).collect())
}

/// Why setups do not start: the memory is what it would be.
fn obstacles(fits: &[Fit<'_>]) -> Vec<String> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for fit in fits {
        let Some(obstacle) = &fit.obstacle else {
            continue;
        };
        let device = fit.setup.device.name();
        match found.iter_mut().find(|(what, _)| *what == obstacle.what) {
            Some((_, devices)) => devices.push(device),
            None => found.push((obstacle.what.clone(), vec![device])),
        }
    }
    let said = found.into_iter().map(|(what, devices)| {
        let on = if devices.len() == fits.len() && devices.len() > 1 {
            "any of these GPUs".into()
        } else {
            devices.join(", ")
        };
        format!("does not start on {on}: {what}")
    });
    said.collect()
}

struct Build<'a> {
    model: &'a ResolvedModel,
    wanted: Demand,
    engine: Engine,
    weights: Weights,
    /// The cache's format, where one is asked for.
    cache: Option<CacheFormat>,
    draft: Option<Draft<'a>>,
    adapters: Option<gpuwise_domain::deployment::Adapters>,
    memory_fraction: Option<f64>,
    layout: Option<Layout>,
    /// What its release supports on which hardware, where that is known.
    facts: Option<EngineFacts>,
    /// Whether BF16 may be cast where there is none: it was not asked for.
    castable: bool,
}

impl<'a> Build<'a> {
    fn new(
        flags: &settings::Memory,
        (model, draft): (&'a ResolvedModel, Option<&'a ResolvedModel>),
        wanted: Demand,
        loaded: &Loaded,
    ) -> anyhow::Result<Self> {
        let engine_flags = &flags.engine;
        let architecture = &model.architecture;
        let fraction = engine_flags.memory_fraction.as_deref();
        let memory_fraction = fraction
            .map(quantities::share)
            .transpose()
            .context("--memory-fraction")?;
        if memory_fraction == Some(0.0) {
            return Err(
                Problem::new("--memory-fraction is 0: the engine may use no memory").into(),
            );
        }
        let mut engine = match &engine_flags.engine {
            Some(text) => engine::engine(text)?,
            None => Engine::newest(model.usual_engine()),
        };
        let facts = catalogue::engine_facts(loaded, engine.kind).ok();
        if let (None, Some(facts)) = (engine.release, &facts) {
            engine.release = Some(facts.resolve(None));
        }
        let weights = match &engine_flags.precision {
            Some(format) => engine::weights(architecture, format)?,
            None => Weights::published(architecture),
        };
        let cache = engine_flags.kv.as_deref().map(engine::cache).transpose()?;
        Ok(Self {
            model,
            wanted,
            engine,
            weights,
            cache,
            draft: engine_flags
                .draft_tokens
                .filter(|tokens| *tokens > 0)
                .map(|tokens| Draft {
                    tokens,
                    acceptance: ACCEPTANCE,
                    model: draft.map(|model| &model.architecture),
                }),
            adapters: engine_flags
                .lora
                .as_deref()
                .map(engine::adapters)
                .transpose()?,
            memory_fraction,
            layout: layout::stated(&flags.layout, architecture)?,
            facts,
            castable: engine_flags.precision.is_none(),
        })
    }

    /// The setup on a device in the layout that was asked for; where none was, and many devices are
    /// compared, in the smallest one that fits, else in the largest.
    fn fit<'d>(&'d self, device: Device<'d>, flags: &settings::Memory) -> Fit<'d> {
        let asked = self.layout;
        let fit = |layout| {
            let setup = self.setup(device, layout, flags);
            let stored = self.castable.then_some(self.weights.native);
            Fit::new(setup, self.wanted, self.facts.as_ref(), stored)
        };
        let stated = fit(asked.unwrap_or(Layout::SINGLE));
        if asked.is_some() || !flags.gpu.is_empty() || stated.fits() {
            return stated;
        }
        let host = sweep::layouts(&device, &self.model.architecture);
        let mut largest = stated;
        for layout in host.into_iter().filter(|one| one.pipeline == 1).skip(1) {
            largest = fit(layout);
            if largest.fits() {
                break;
            }
        }
        largest
    }

    fn setup<'d>(
        &'d self,
        device: Device<'d>,
        layout: Layout,
        flags: &settings::Memory,
    ) -> Setup<'d> {
        let stated = flags.engine.max_batched_tokens;
        let usual = match &self.facts {
            Some(facts) => facts::default_settings(
                facts,
                self.engine.release,
                &facts::Context {
                    max_context: Some(self.wanted.context),
                    batched_tokens: stated,
                    ..facts::Context::of(&device, &layout)
                },
            ),
            None => {
                engines::model(self.engine.kind).settings(&self.engine, &device, layout, stated)
            }
        };
        let settings = Settings {
            batched_tokens: stated.unwrap_or(usual.batched_tokens),
            sequences: flags.engine.max_seqs.unwrap_or(usual.sequences),
            max_context: self.wanted.context,
            memory_fraction: self.memory_fraction.unwrap_or(usual.memory_fraction),
            eager: flags.engine.eager || usual.eager,
            ..usual
        };
        Setup {
            architecture: &self.model.architecture,
            device,
            bucket: engines::model(self.engine.kind).bucket(&self.engine, device.gpu),
            engine: self.engine.clone(),
            layout,
            cache: self.cache.unwrap_or_else(|| {
                let architecture = &self.model.architecture;
                self.weights.cache(&self.engine, architecture, device.gpu)
            }),
            weights: self.weights.clone(),
            settings,
            draft: self.draft,
            adapters: self.adapters,
            corrections: Corrections::default(),
        }
    }
}
