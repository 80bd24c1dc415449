//! From a deployment to what starts it: a command line, a container or a manifest, with exactly the
//! settings that were assumed, every flag held against the engine's release.

mod arguments;
mod containers;
mod engines;
mod hosts;
mod inference;
mod kubernetes;
mod llmd;
mod lws;
mod ollama;
mod pods;
mod scaled;
pub(crate) mod shell;
mod skypilot;
pub(crate) mod yaml;

pub use scaled::{ScalerForm, Scaling, scaled};
pub use shell::quoted;

use gpuwise_domain::{
    deployment::Deployment,
    engine::EngineKind,
    facts::{Context, EngineFacts, Vendor},
};

/// In what form a deployment is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The command of an engine's own server.
    Engine(EngineKind),
    /// `docker run` of the engine's image.
    Docker,
    Kubernetes,
    /// An InferencePool of the Gateway API's inference extension, with its endpoint picker and a route.
    Inference,
    /// Inference services of KServe.
    KServe,
    /// Values for the Helm chart of llm-d's model service.
    LlmD,
    /// LeaderWorkerSets of Kubernetes, for replicas that span hosts.
    Lws,
    SkyPilot,
    /// A Modelfile of Ollama, and the environment of its server.
    Ollama,
}

impl Form {
    /// Every form: engines whose servers are started here first.
    pub fn all() -> impl Iterator<Item = Self> {
        let own = EngineKind::ALL.into_iter().filter(|kind| starts(*kind));
        own.map(Self::Engine).chain([
            Self::Docker,
            Self::Kubernetes,
            Self::Inference,
            Self::KServe,
            Self::LlmD,
            Self::Lws,
            Self::SkyPilot,
            Self::Ollama,
        ])
    }

    /// The word for flags.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Engine(kind) => kind.name(),
            Self::Docker => "docker",
            Self::Kubernetes => "k8s",
            Self::Inference => "inference-pool",
            Self::KServe => "kserve",
            Self::LlmD => "llm-d",
            Self::Lws => "lws",
            Self::SkyPilot => "skypilot",
            Self::Ollama => "ollama",
        }
    }

    pub fn by_name(name: &str) -> Option<Self> {
        Self::all().find(|form| form.name() == name)
    }

    /// The engine that it starts; the others start more than one.
    pub const fn engine(self) -> Option<EngineKind> {
        match self {
            Self::Engine(kind) => Some(kind),
            Self::LlmD => Some(EngineKind::Vllm),
            // It runs llama.cpp's server.
            Self::Ollama => Some(EngineKind::LlamaCpp),
            Self::Docker
            | Self::Kubernetes
            | Self::Inference
            | Self::KServe
            | Self::Lws
            | Self::SkyPilot => None,
        }
    }

    /// Whether the server is asked from outside the machine or container that it alone has.
    const fn listens_outside(self) -> bool {
        !matches!(self, Self::Engine(_) | Self::Ollama)
    }

    /// Whether it starts servers on several hosts together.
    const fn spans_hosts(self) -> bool {
        matches!(self, Self::Lws | Self::SkyPilot)
    }
}

/// Whether an engine's server is started by commands written here.
pub fn starts(engine: EngineKind) -> bool {
    engines::launcher(engine).is_some()
}

/// Why a deployment cannot be started in a form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EmitError {
    /// It was sized for another engine, whose memory and speed differ.
    #[error(
        "this deployment was sized for {engine}; {form} starts another engine, with other memory and speed: \
         plan again for it, or emit {own}"
    )]
    OtherEngine {
        form: &'static str,
        engine: EngineKind,
        /// The form of that engine.
        own: &'static str,
    },
    /// The engine has no server that we can write a command of.
    #[error("{engine}: no server command of this release is known; name a newer release")]
    NoCommand { engine: String },
    /// A setting that the release has no flag for.
    #[error("{engine} has no flag for {setting}, which this deployment needs ({value}){releases}")]
    NoFlag {
        engine: String,
        setting: String,
        value: String,
        /// `: --x came with 0.10.0`, where a release has it.
        releases: String,
    },
    /// A value that the flag does not take in this release.
    #[error("{engine} does not take `{flag} {value}`; it takes {choices}")]
    NoChoice {
        engine: String,
        flag: String,
        value: String,
        choices: String,
    },
    /// Something that the engine cannot do.
    #[error("{engine} cannot be started so: {problem}")]
    Unsupported {
        engine: String,
        /// What, and what can be.
        problem: String,
    },
    #[error("no container image of {engine} for {vendor} GPUs is known; emit {own} and build one")]
    NoImage {
        engine: String,
        vendor: &'static str,
        /// The form that needs none.
        own: &'static str,
    },
    /// A replica takes a part of a host.
    #[error(
        "a replica takes {gpus} GPUs and {instance} has {host}: it does not fill its hosts, which are started \
         alike here; emit {own} and start it on every host"
    )]
    UnevenHosts {
        gpus: u32,
        instance: String,
        host: u32,
        /// The form that leaves hosts to the user.
        own: &'static str,
    },
    /// The form has no words for it.
    #[error("{form} {problem}; {instead}")]
    NotInForm {
        form: &'static str,
        /// What it has not.
        problem: String,
        instead: String,
    },
    /// A replica spans hosts.
    #[error(
        "a replica takes {gpus} GPUs and {instance} has {host}: one container cannot hold it; emit {own} and \
         start it on every host"
    )]
    SpansHosts {
        gpus: u32,
        instance: String,
        host: u32,
        /// The form that spans hosts.
        own: &'static str,
    },
}

/// Writes what starts a deployment. `context` is that of its GPU (or slice) and layout.
///
/// The text ends with a line end; what the engine does by default, and what is left to do, stands
/// in comments before the command.
///
/// # Errors
/// When the form is of another engine, or the release lacks a flag or value that is needed.
pub fn emit(
    form: Form,
    deployment: &Deployment,
    facts: &EngineFacts,
    context: &Context,
) -> Result<String, EmitError> {
    let other = form
        .engine()
        .is_some_and(|engine| engine != deployment.engine);
    if other || facts.engine != deployment.engine {
        return Err(EmitError::OtherEngine {
            form: form.name(),
            engine: deployment.engine,
            own: own_form(deployment.engine),
        });
    }
    let script = engines::script(deployment, facts, context, form)?;
    match form {
        Form::Docker => containers::docker(&script, deployment, facts, context),
        Form::Kubernetes => {
            kubernetes::manifests(&script, deployment, facts, context, kubernetes::Kind::Pods)
        }
        Form::Inference => inference::manifests(&script, deployment, facts, context),
        Form::KServe => kubernetes::manifests(
            &script,
            deployment,
            facts,
            context,
            kubernetes::Kind::InferenceService,
        ),
        Form::LlmD => llmd::values(&script, deployment, facts, context),
        Form::Lws => lws::manifests(&script, deployment, facts, context),
        Form::SkyPilot => skypilot::service(&script, deployment, facts, context),
        Form::Ollama => ollama::modelfile(&script, deployment),
        Form::Engine(_) => Ok(shell::commands(&script)),
    }
}

/// The form that is the engine's own command.
fn own_form(engine: EngineKind) -> &'static str {
    if starts(engine) {
        engine.name()
    } else {
        "table"
    }
}

/// Engine and release in words.
fn engine_at(deployment: &Deployment, facts: &EngineFacts) -> String {
    let release = facts.resolve(deployment.release);
    format!("{} {}", facts.title, facts.spelled(release))
}

/// Whose GPUs a context is of; unstated ones are taken for NVIDIA's.
fn vendor(context: &Context) -> Vendor {
    context.vendor.unwrap_or(Vendor::Nvidia)
}

/// GPUs of one host, where the deployment is rented as whole ones.
fn host_gpus(deployment: &Deployment) -> Option<(&str, u32)> {
    let rental = deployment.rental.as_ref()?;
    let gpus = rental.gpu_thousandths / 1000;
    (gpus > 0).then_some((rental.instance.as_str(), gpus))
}

/// Refuses a server that one container cannot hold.
fn within_host(deployment: &Deployment, gpus: u32) -> Result<(), EmitError> {
    match host_gpus(deployment) {
        Some((instance, host)) if gpus > host => Err(EmitError::SpansHosts {
            gpus,
            instance: instance.into(),
            host,
            own: own_form(deployment.engine),
        }),
        _ => Ok(()),
    }
}
