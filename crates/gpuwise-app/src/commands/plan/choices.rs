//! What a plan may choose, by flags and by what runs already.

use crate::{
    App,
    catalogue::{self, Loaded},
    engine,
    error::Problem,
    layout,
    model::ResolvedModel,
    names, settings,
    workload::StatedWorkload,
};
use anyhow::Context as _;
use gpuwise_domain::{
    catalogue::Catalogue,
    deployment::{Deployment, Sizing},
    engine::{Engine, EngineKind},
    facts::{Launch, PoolRole},
    model::Architecture,
    note::CommandNote,
    workload::Limits,
};
use gpuwise_read::{
    launch::{self, LaunchedPool},
    workload as quantities,
};
use gpuwise_size::search::{Choices, Fixed};
use gpuwise_units::Bytes;
use gpuwise_view::{launch::Form, plan::words};
use std::{fs, path::Path};

/// What runs already, as its launch command or its manifest says.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) launch: Launch,
    /// The pools of a manifest.
    pools: Vec<LaunchedPool>,
}

/// A manifest at most, in bytes.
const MANIFEST: u64 = 1 << 20;

impl Running {
    /// Reads a launch command or a manifest, or the file that holds one.
    ///
    /// # Errors
    /// When it starts no engine that is known, or a value of it cannot be read.
    pub(crate) fn read(from: &str, loaded: &Loaded) -> anyhow::Result<Self> {
        let facts = catalogue::all_engine_facts(loaded)?;
        let held = file(from)?;
        let text = held.as_deref().unwrap_or(from);
        let pools = launch::pools(text, &facts).context("--from")?;
        let pools = pools.unwrap_or_default();
        // Who decodes, or does both, is what is sized.
        let serves = pools
            .iter()
            .find(|pool| pool.role != Some(PoolRole::Prefill))
            .or_else(|| pools.first());
        let mut launch = match serves {
            Some(pool) => pool.launch.clone(),
            None => launch::parse(text, &facts, None).context("--from")?,
        };
        // llama.cpp names a file of a repository by its format: `org/name:Q4_K_M`.
        if launch.engine == EngineKind::LlamaCpp
            && let Some((model, format)) = launch
                .model
                .as_deref()
                .and_then(|model| model.rsplit_once(':'))
        {
            launch.quantization = Some(format.into());
            launch.model = Some(model.into());
        }
        Ok(Self { launch, pools })
    }

    /// Whether prefill and decode run in pools of their own.
    fn is_split(&self) -> bool {
        let prefills = |pool: &LaunchedPool| pool.role == Some(PoolRole::Prefill);
        self.pools.iter().any(prefills)
    }

    fn pool_notes(&self, has_experts: bool) -> impl Iterator<Item = CommandNote> {
        let gpus = move |pool: &LaunchedPool| pool.launch.layout(has_experts).gpus();
        let note = move |pool: &LaunchedPool| CommandNote::Runs {
            what: pool.what.clone(),
            role: pool.role,
            replicas: pool.replicas,
            gpus: gpus(pool),
        };
        let all = self.pools.iter().map(|pool| pool.replicas * gpus(pool));
        let apart = self
            .is_split()
            .then(|| CommandNote::Apart { gpus: all.sum() });
        self.pools.iter().map(note).chain(apart)
    }

    fn engine(&self) -> Engine {
        let mut engine = Engine::newest(self.launch.engine);
        engine.release = self.launch.release;
        engine
    }

    /// The model that drafts, where it is a whole model and no head on the model itself.
    fn draft_model(&self) -> Option<&str> {
        let launch = &self.launch;
        let whole = match launch.draft_method.as_deref() {
            Some(method) => {
                let method = method.to_ascii_lowercase().replace(['_', '-'], "");
                matches!(method.as_str(), "draftmodel" | "drafttarget" | "standalone")
            }
            None => launch.engine == EngineKind::LlamaCpp,
        };
        launch.draft_model.as_deref().filter(|_| whole)
    }

    fn fixed(&self, architecture: &Architecture) -> Fixed {
        let launch = &self.launch;
        let mut layout = launch.layout(architecture.has_experts());
        if let [pool] = self.pools.as_slice() {
            layout.replicas *= pool.replicas.max(1);
        }
        Fixed {
            // Of two pools each has a layout of its own.
            layout: (!self.is_split()).then_some(layout),
            memory_fraction: launch.memory_fraction,
            batched_tokens: launch.max_num_batched_tokens,
            sequences: launch.max_num_seqs,
            max_context: launch.max_model_len,
            block: launch.block_size,
            eager: launch.eager.then_some(true),
        }
    }
}

/// What a file of this name holds; `None`: there is none, so that the text itself is meant.
fn file(name: &str) -> anyhow::Result<Option<String>> {
    let path = Path::new(name);
    if name.contains('\n') || !path.is_file() {
        return Ok(None);
    }
    let large = fs::metadata(path).is_ok_and(|data| data.len() > MANIFEST);
    if large {
        return Err(Problem::new(format!(
            "--from: {name} has more than {} MiB",
            MANIFEST >> 20
        ))
        .into());
    }
    let text = fs::read_to_string(path)
        .map_err(|error| Problem::new(format!("--from: cannot read {name}")).because(error))?;
    Ok(Some(text))
}

/// The choices, and what was assumed or left aside.
pub(crate) fn choices(
    flags: &settings::Plan,
    asked: &StatedWorkload,
    running: Option<&Running>,
    model: &ResolvedModel,
    catalogue: &Catalogue,
) -> anyhow::Result<(Choices, Vec<CommandNote>)> {
    let architecture = &model.architecture;
    let mut notes = Vec::new();
    let (engine, result) = (&flags.engine, &flags.result);
    let mut choices = Choices::usual(chosen_engine(flags, asked, running, model)?);
    choices.objective = result.objective.into();
    choices.terms = flags.limits.market.terms.into();
    choices.top = usize::from(result.top.max(result.pick));
    choices.slices = !result.no_slices;
    choices.hosts = result.multi_host;
    choices.disaggregated = result.disaggregated;
    choices.draft_tokens = engine.draft_tokens.unwrap_or(0);
    choices.offload = offload(engine.kv_offload.as_deref())?;
    choices.adapters = engine.lora.as_deref().map(engine::adapters).transpose()?;
    let context = engine
        .context
        .as_deref()
        .map(quantities::tokens)
        .transpose()
        .context("--context")?;
    choices.max_context = context.map(|tokens| tokens.0);
    choices.weights.clone_from(&engine.precision);
    if choices.weights.is_empty() {
        choices.weights.extend(asked.precision.clone());
    }
    choices.cache.clone_from(&engine.kv);
    choices.acceptance = engine
        .acceptance
        .as_deref()
        .map(quantities::share)
        .transpose()
        .context("--acceptance")?;
    if let Some(running) = running {
        apply(running, architecture, &mut choices, &mut notes);
    }
    choices.layout = layout::wish(&flags.layout, architecture, running.is_some())?;
    for format in &mut choices.weights {
        engine::weights(architecture, format)?;
        *format = format.to_ascii_lowercase();
    }
    for format in &mut choices.cache {
        *format = engine::cache(format)?.name.into();
    }
    for name in &result.why_not {
        choices
            .why_not
            .push(names::device(catalogue, "--why-not", name)?.name());
    }
    Ok((choices, notes))
}

/// The model that drafts: by its flag, or as what runs names it.
pub(crate) fn draft_model(
    flags: &settings::EngineFlags,
    (running, saved): (Option<&Running>, Option<&Deployment>),
    choices: &Choices,
    loaded: &Loaded,
    app: &App,
    notes: &mut Vec<CommandNote>,
) -> anyhow::Result<Option<ResolvedModel>> {
    let tokens = choices.draft_tokens;
    if let (Some(share), 0) = (&flags.acceptance, tokens) {
        return Err(
            Problem::new(format!("--acceptance {share}: nothing is drafted"))
                .hint("add --draft-tokens 4, and --draft-model NAME where a model drafts")
                .into(),
        );
    }
    if let Some(name) = flags.draft_model.as_deref() {
        return super::super::draft_model(Some(name), tokens, loaded, app);
    }
    if let Some(name) = saved.and_then(|saved| saved.draft_model.as_deref()) {
        return super::super::draft_model(Some(name), tokens, loaded, app);
    }
    let Some(name) = running
        .and_then(Running::draft_model)
        .filter(|_| tokens > 0)
    else {
        return Ok(None);
    };
    let model = super::super::draft_model(Some(name), tokens, loaded, app);
    if model.is_err() {
        notes.push(CommandNote::UnknownDraftModel { name: name.into() });
    }
    Ok(model.unwrap_or_default())
}

/// Reads `64GiB`; nothing is 0.
fn offload(text: Option<&str>) -> anyhow::Result<u64> {
    let bytes = text
        .map(str::parse::<Bytes>)
        .transpose()
        .context("--kv-offload")?;
    Ok(bytes.unwrap_or(Bytes::ZERO).count())
}

/// The engine of a flag, of what runs, of the workload file, or of the form to emit; else the
/// model's usual one.
fn chosen_engine(
    flags: &settings::Plan,
    asked: &StatedWorkload,
    running: Option<&Running>,
    model: &ResolvedModel,
) -> anyhow::Result<Engine> {
    let form = flags
        .result
        .emit
        .as_deref()
        .and_then(Form::by_name)
        .and_then(Form::engine);
    let stated = match (&flags.engine.engine, running, &asked.engine) {
        (None, Some(running), _) => Some(running.engine()),
        (Some(text), ..) | (None, None, Some(text)) => Some(engine::engine(text)?),
        (None, None, None) => None,
    };
    match (stated, form) {
        (Some(engine), Some(form)) if engine.kind != form => Err(Problem::new(format!(
            "--emit is of {form}, the plan is for {}",
            engine.kind
        ))
        .hint(format!(
            "--emit docker, k8s, inference-pool and kserve work for every engine, lws and skypilot for vLLM and SGLang; or plan for {form} with --engine {}",
            form.name()
        ))
        .into()),
        (Some(engine), _) => Ok(engine),
        (None, form) => Ok(Engine::newest(form.unwrap_or(model.usual_engine()))),
    }
}

/// What a launch command fixes.
fn apply(
    running: &Running,
    architecture: &Architecture,
    choices: &mut Choices,
    notes: &mut Vec<CommandNote>,
) {
    let launch = &running.launch;
    choices.fixed = Some(running.fixed(architecture));
    choices.disaggregated |= running.is_split();
    notes.extend(running.pool_notes(architecture.has_experts()));
    if choices.weights.is_empty() {
        choices.weights.push(format(launch, architecture, notes));
    }
    if choices.cache.is_empty()
        && let Some(format) = launch
            .kv_cache_dtype
            .as_deref()
            .filter(|format| *format != "auto")
    {
        match engine::cache(format) {
            Ok(format) => choices.cache.push(format.name.into()),
            Err(_) => notes.push(CommandNote::UnknownCache {
                format: format.into(),
            }),
        }
    }
    choices.draft_tokens = choices.draft_tokens.max(launch.draft_tokens.unwrap_or(0));
    choices.adapters = choices.adapters.or(launch.adapters);
    notes.extend(launch.unknown.iter().cloned().map(CommandNote::LeftAside));
}

/// The weight format of a launch command, where it changes that of the checkpoint.
fn format(launch: &Launch, architecture: &Architecture, notes: &mut Vec<CommandNote>) -> String {
    let published = String::from("published");
    match launch.quantization.as_deref() {
        // A quantized checkpoint states its own scheme.
        Some(stated) if architecture.quantization.is_none() => {
            if engine::weights(architecture, stated).is_ok() {
                return stated.into();
            }
            notes.push(CommandNote::UnknownQuantization {
                name: stated.into(),
            });
            published
        }
        _ => published,
    }
}

/// Whether what runs sustains the load that is asked of it.
pub(crate) fn sustains(running: &Sizing) -> bool {
    running
        .ranked
        .first()
        .is_some_and(|best| best.headroom.factor >= 0.999)
}

/// The GPU on which what runs does is said: no command says it, and none is assumed.
pub(super) fn one_gpu(limits: &Limits) -> anyhow::Result<()> {
    let owned = limits.owned.iter().map(|(name, _)| name.as_str());
    let named: Vec<&str> = limits
        .gpus
        .iter()
        .map(String::as_str)
        .chain(owned)
        .collect();
    let problem = match named.as_slice() {
        [_] => return Ok(()),
        [] => Problem::new(
            "--from: a command does not say on which GPU it runs, and --gpu is missing",
        )
        .hint("add --gpu H100, or the one that it runs on"),
        many => Problem::new(format!(
            "--from: it runs on one kind of GPU, and {} are named",
            many.len()
        ))
        .hint("name with --gpu only the one that it runs on"),
    };
    Err(problem
        .hint("`gpuwise check --current 4xH100 --from '…'` holds it against every other GPU")
        .into())
}

/// What runs beside the best that could.
pub(crate) fn compared(running: &Sizing, free: &Sizing) -> String {
    let price = |sizing: &Sizing| sizing.ranked.first().and_then(|best| best.cost.per_hour);
    let Some(best) = free.ranked.first() else {
        return "Nothing else keeps the SLO either.".into();
    };
    let name = words::deployment(best);
    let cost = price(free).map_or_else(String::new, |price| format!(" at {price}"));
    let Some(own) = running.ranked.first() else {
        return format!("What runs does not keep the SLO. What does: {name}{cost}.");
    };
    if !sustains(running) {
        let most = gpuwise_units::significant(own.headroom.factor * 100.0, 2);
        return format!(
            "What runs sustains {most} % of the load. What sustains all of it: {name}{cost}."
        );
    }
    if words::deployment(own) == name {
        return "What runs is the right size.".into();
    }
    match (price(running), price(free)) {
        (Some(own), Some(other)) if other.0.currency == own.0.currency => {
            let share = other.0.as_f64() / own.0.as_f64().max(1e-9);
            if share > 0.97 {
                format!("What runs is about the right size: the best other is {name}{cost}.")
            } else {
                format!(
                    "Cheaper than what runs: {name}{cost}, {:.0} % of its price.",
                    share * 100.0
                )
            }
        }
        _ => format!("The best other than what runs is {name}{cost}."),
    }
}
