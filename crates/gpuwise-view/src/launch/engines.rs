//! What each engine is told.

mod llamacpp;
mod lmdeploy;
mod sglang;
mod trtllm;
mod vllm;

use super::{
    EmitError, Form,
    arguments::{Arguments, Script, Server},
    containers::PREFILL_PORT,
    engine_at, host_gpus,
    hosts::{self, Hosts},
};
use gpuwise_domain::{
    deployment::Deployment,
    engine::EngineKind,
    facts::{Context, EngineFacts, PoolRole, Value, Verdict},
    layout::Layout,
};
use gpuwise_units::Bytes;
use serde_json::Value as Json;

/// How an engine's server is started.
pub(super) trait Launcher: Sync {
    /// Whether the model stands behind the command as a word, not behind a flag.
    fn model_is_a_word(&self) -> bool {
        true
    }

    /// Whether its images start the server themselves.
    fn image_starts_server(&self) -> bool {
        false
    }

    /// Its package of PyPI, whose versions are its releases.
    fn package(&self) -> Option<&'static str> {
        None
    }

    /// What hosts are told to serve together: so many, with so many GPUs each.
    fn hosts(
        &self,
        pool: &Pool<'_>,
        arguments: &Arguments<'_>,
        count: u32,
        gpus: u32,
    ) -> Result<Hosts, EmitError> {
        let _ = (pool, gpus);
        Err(arguments.unsupported(format!(
            "how {count} hosts serve together is not written here for it; vLLM and SGLang are"
        )))
    }

    /// Flags of a pool's server, and what to know about them.
    fn flags(
        &self,
        pool: &Pool<'_>,
        arguments: &mut Arguments<'_>,
        notes: &mut Vec<String>,
    ) -> Result<(), EmitError>;
}

/// The one place that lists them; `None`: its servers are not started here.
pub(super) const fn launcher(engine: EngineKind) -> Option<&'static dyn Launcher> {
    Some(match engine {
        EngineKind::Vllm => &vllm::Vllm,
        EngineKind::Sglang => &sglang::Sglang,
        EngineKind::TensorRtLlm => &trtllm::TensorRtLlm,
        EngineKind::LlamaCpp => &llamacpp::LlamaCpp,
        EngineKind::LmDeploy => &lmdeploy::LmDeploy,
        _ => return None,
    })
}

/// What is told to a server of one pool.
pub(super) struct Pool<'a> {
    deployment: &'a Deployment,
    facts: &'a EngineFacts,
    context: Context,
    layout: Layout,
    role: Option<PoolRole>,
}

impl Pool<'_> {
    /// The release's default of a setting on this GPU and layout.
    fn default(&self, setting: &str) -> Option<&Value> {
        self.facts
            .setting(setting, self.deployment.release, &self.context)
    }

    fn default_number(&self, setting: &str) -> Option<f64> {
        self.default(setting).and_then(Value::number)
    }

    /// Whether the engine has BF16 on this GPU.
    fn has_bf16(&self) -> bool {
        self.facts.has_bf16(self.deployment.release, &self.context)
    }

    /// Draft tokens are the generating pool's business.
    fn draft_tokens(&self) -> u32 {
        if self.role == Some(PoolRole::Prefill) {
            0
        } else {
            self.deployment.draft_tokens
        }
    }

    /// The model that drafts them; `None` where the model's own prediction layers do.
    fn draft_model(&self) -> Option<&str> {
        let drafts = self.draft_tokens() > 0;
        self.deployment.draft_model.as_deref().filter(|_| drafts)
    }

    /// Host memory of each GPU for prefixes, which the pool that computes prompts reuses.
    fn host_cache(&self) -> Bytes {
        if self.role == Some(PoolRole::Decode) {
            Bytes::ZERO
        } else {
            self.deployment.host_cache
        }
    }

    /// The same for so many of its GPUs.
    fn host_cache_of(&self, gpus: u32) -> Bytes {
        Bytes::new(self.host_cache().count().saturating_mul(u64::from(gpus)))
    }
}

pub(super) fn script(
    deployment: &Deployment,
    facts: &EngineFacts,
    context: &Context,
    form: Form,
) -> Result<Script, EmitError> {
    let mut pools = vec![(
        deployment.layout,
        deployment.prefill.map(|_| PoolRole::Decode),
    )];
    if let Some(prefill) = &deployment.prefill {
        pools.insert(0, (prefill.layout, Some(PoolRole::Prefill)));
    }
    let mut notes = vec![headline(deployment, facts)];
    let mut servers = Vec::new();
    for (layout, role) in pools {
        let pool = Pool {
            deployment,
            facts,
            context: context.clone().laid_out(&layout),
            layout,
            role,
        };
        servers.push(server(&pool, form, &mut notes)?);
    }
    if deployment.prefill.is_some() {
        notes.push(
            "a router in front sends each request to a prefill server, then to a decode server"
                .into(),
        );
    }
    let mut once = Vec::new();
    notes.retain(|note| {
        let new = !once.contains(note);
        once.push(note.clone());
        new
    });
    Ok(Script { servers, notes })
}

/// The flags of a pool's server.
fn server(pool: &Pool<'_>, form: Form, notes: &mut Vec<String>) -> Result<Server, EmitError> {
    let command =
        pool.facts
            .command(pool.deployment.release)
            .ok_or_else(|| EmitError::NoCommand {
                engine: engine_at(pool.deployment, pool.facts),
            })?;
    let mut arguments = Arguments::new(pool.facts, pool.deployment.release);
    let mut words = command.words.clone();
    let Some(launcher) = launcher(pool.facts.engine) else {
        let started: Vec<&str> = EngineKind::ALL
            .into_iter()
            .filter(|kind| super::starts(*kind))
            .map(EngineKind::name)
            .collect();
        return Err(
            arguments.unsupported(format!("gpuwise starts servers of {}", started.join(", ")))
        );
    };
    if launcher.model_is_a_word() {
        words.push(pool.deployment.model.clone());
    }
    launcher.flags(pool, &mut arguments, notes)?;
    let contained = form.listens_outside();
    if contained && arguments.has("host") {
        arguments.set("host", "0.0.0.0")?;
    }
    let mut port = pool.default_number("port").map_or(8000, |port| port as u16);
    if pool.role == Some(PoolRole::Prefill) && !contained {
        // Both pools may stand on one host.
        port += PREFILL_PORT;
        arguments.set("port", port)?;
    }
    let replica = pool.layout.replica_gpus();
    let hosts = if form.spans_hosts() {
        hosts::of(pool.deployment, replica)?
    } else {
        None
    };
    let hosts = hosts
        .map(|(count, gpus)| launcher.hosts(pool, &arguments, count, gpus))
        .transpose()?;
    if let Some((instance, host)) =
        host_gpus(pool.deployment).filter(|(_, host)| hosts.is_none() && replica > *host)
    {
        let count = replica.div_ceil(host);
        let how = if arguments.has("nnodes") {
            format!(" (--nnodes {count}, --node-rank 0 to {})", count - 1)
        } else {
            String::new()
        };
        notes.push(format!("a replica takes {replica} GPUs and {instance} has {host}: start it on {count} hosts together{how}"));
    }
    unsupported(pool, notes);
    let file = (!arguments.keys.is_empty()).then(|| {
        (
            "extra_llm_api_options.yaml",
            super::yaml::document(&Json::Object(arguments.keys.clone())),
        )
    });
    if let Some((name, _)) = file {
        let path = if contained {
            format!("/config/{name}")
        } else {
            name.to_string()
        };
        arguments.set("config_file", path)?;
    }
    Ok(Server {
        role: pool.role,
        replicas: pool.layout.replicas,
        gpus: replica,
        words,
        flags: arguments.flags,
        file,
        port,
        host_cache: pool.host_cache_of(replica),
        hosts,
    })
}

/// `m on 4 × H100 SXM5 80GB (TP4), vLLM 0.33.0, weights fp8, KV cache bf16`.
fn headline(deployment: &Deployment, facts: &EngineFacts) -> String {
    let device = match &deployment.slice {
        Some(slice) => format!("{} {slice}", deployment.gpu),
        None => deployment.gpu.clone(),
    };
    let devices = deployment.devices();
    format!(
        "{} on {devices} × {device} ({}), {}, weights {}, KV cache {}",
        deployment.model,
        deployment.layout,
        engine_at(deployment, facts),
        deployment.weights,
        deployment.cache_shown(),
    )
}

/// Whether the checkpoint may ask for another cache than one in 16 bits: it is published in fewer.
fn checkpoint_may_ask(pool: &Pool<'_>) -> bool {
    let sixteen = matches!(pool.deployment.weights.as_str(), "bf16" | "fp16" | "fp32");
    // Where 16 bits are FP16, they are what the engine takes by itself.
    pool.deployment.weights_published && !sixteen && pool.deployment.cache != "fp16"
}

/// What has to be told where a format cannot be made when loading.
fn quantized_elsewhere(pool: &Pool<'_>, notes: &mut Vec<String>) {
    notes.push(format!(
        "{} is not published in {} and is not quantized on loading here: put the name of a checkpoint in {} in its place",
        pool.deployment.model, pool.deployment.weights, pool.deployment.weights,
    ));
}

/// What has to be told where the release has no flag for host memory that keeps prefixes.
fn host_cache_elsewhere(pool: &Pool<'_>, how: &str, notes: &mut Vec<String>) {
    notes.push(format!(
        "the host memory for prefixes ({} a GPU) has to be configured: {how}",
        pool.host_cache()
    ));
}

/// A sentence on what the engine does by default: `engine defaults: chunked prefill on, …`.
fn defaults_note(pool: &Pool<'_>, settings: &[(&str, &str)], notes: &mut Vec<String>) {
    let said: Vec<String> = settings
        .iter()
        .filter_map(|(setting, words)| Some(format!("{words} {}", pool.default(setting)?)))
        .collect();
    if !said.is_empty() {
        notes.push(format!("by default: {}", said.join(", ")));
    }
}

/// Says what the release does not support on this GPU by what is known, though it has the flags.
fn unsupported(pool: &Pool<'_>, notes: &mut Vec<String>) {
    let (deployment, layout) = (pool.deployment, &pool.layout);
    let weights = format!("weights:{}", deployment.weights);
    let cache = format!("kv:{}", deployment.cache_key());
    let features = [
        (true, "engine:any"),
        (true, weights.as_str()),
        (true, cache.as_str()),
        (layout.tensor > 1, "mode:tp"),
        (layout.pipeline > 1, "mode:pp"),
        (layout.expert > 1, "mode:ep"),
        (layout.decode_context > 1, "mode:dcp"),
        (pool.role.is_some(), "mode:disaggregated"),
        (pool.draft_tokens() > 0, "mode:speculative"),
        (pool.draft_model().is_some(), "mode:speculative_draft_model"),
        (pool.host_cache() > Bytes::ZERO, "mode:kv_offload"),
        (deployment.adapters.is_some(), "mode:lora"),
    ];
    for (_, feature) in features.into_iter().filter(|(used, _)| *used) {
        let needs = match pool
            .facts
            .supports(feature, deployment.release, &pool.context)
        {
            Verdict::Needs(condition) => format!("needs {condition}"),
            Verdict::Since(release) => format!("came with {}", pool.facts.spelled(release)),
            Verdict::Until(release) => format!("went with {}", pool.facts.spelled(release)),
            Verdict::Supported | Verdict::Unknown => continue,
        };
        notes.push(format!(
            "beware: {feature} {needs} in {}",
            engine_at(deployment, pool.facts)
        ));
    }
}
