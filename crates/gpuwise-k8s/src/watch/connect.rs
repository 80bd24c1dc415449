//! From a kubeconfig, or from within a pod, to a client.

use super::pace::Pace;
use kube::{
    Client, Config,
    client::ClientBuilder,
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use std::{path::PathBuf, time::Duration};

/// Which cluster, and as whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A kubeconfig, or those of KUBECONFIG and the home directory, and which of its contexts.
    Kubeconfig {
        file: Option<PathBuf>,
        context: Option<String>,
    },
    /// The service account of the pod that this runs in.
    InCluster,
}

#[derive(Debug, thiserror::Error)]
#[error("{problem}")]
pub struct ConnectError {
    pub problem: String,
    pub hint: Option<String>,
    #[source]
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl ConnectError {
    /// This machine has no room for what watches.
    pub(crate) fn of_machine(error: std::io::Error) -> Self {
        failed("a cluster cannot be watched from here", None, error)
    }
}

/// So long a connection may take to come about; then the server counts as out of reach.
const PATIENCE: Duration = Duration::from_secs(10);

/// A client of the cluster; nothing is asked of it yet.
///
/// # Errors
/// When the kubeconfig cannot be read or used, or this is no pod.
pub async fn connect(source: &Source) -> Result<Client, ConnectError> {
    let mut config = config(source).await?;
    config.connect_timeout = Some(PATIENCE);
    client(config).map_err(unusable)
}

/// Where the cluster is, and as whom it is asked.
pub(crate) async fn config(source: &Source) -> Result<Config, ConnectError> {
    match source {
        Source::InCluster => Config::incluster().map_err(|error| {
            let hint =
                "--in-cluster is for pods with a service account; elsewhere name a --kubeconfig";
            failed("this does not run in a pod of a cluster", Some(hint), error)
        }),
        Source::Kubeconfig { file, context } => {
            let options = KubeConfigOptions {
                context: context.clone(),
                ..KubeConfigOptions::default()
            };
            match file {
                None => Config::from_kubeconfig(&options).await,
                Some(path) => match Kubeconfig::read_from(path) {
                    Ok(read) => Config::from_custom_kubeconfig(read, &options).await,
                    Err(error) => Err(error),
                },
            }
            .map_err(|error| of_kubeconfig(file.as_ref(), context.as_deref(), error))
        }
    }
}

/// The same as kubectl would find it, else as a pod of the cluster.
pub(crate) async fn found() -> Result<Config, ConnectError> {
    Config::infer().await.map_err(|error| {
        let problem = "there is no cluster: no kubeconfig, and this is no pod of one";
        let hint = "name a file by --kubeconfig or KUBECONFIG";
        failed(problem, Some(hint), error)
    })
}

/// What cannot be made a client of.
pub(crate) fn unusable(error: kube::Error) -> ConnectError {
    let hint = "see its server, certificates and keys";
    failed("the kubeconfig cannot be used", Some(hint), error)
}

/// A client whose watches do not follow each other faster than the server can bear.
///
/// # Errors
/// When the configuration's certificates or keys cannot be used.
pub fn client(config: Config) -> kube::Result<Client> {
    let builder = ClientBuilder::try_from(config)?;
    Ok(builder.with_layer(&Pace::default()).build())
}

fn failed(
    problem: &str,
    hint: Option<&str>,
    error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> ConnectError {
    ConnectError {
        problem: problem.to_owned(),
        hint: hint.map(Into::into),
        source: Some(error.into()),
    }
}

fn of_kubeconfig(
    file: Option<&PathBuf>,
    context: Option<&str>,
    error: KubeconfigError,
) -> ConnectError {
    let shown = file.map_or_else(
        || "the kubeconfig".to_owned(),
        |path| path.display().to_string(),
    );
    let (problem, hint) = match &error {
        KubeconfigError::ReadConfig(..) | KubeconfigError::FindPath => (
            format!("cannot read {shown}"),
            "name a file by --kubeconfig or KUBECONFIG; `kubectl config view --raw` prints the one that kubectl uses",
        ),
        KubeconfigError::LoadContext(name) => (
            format!("{shown} has no context {name:?}"),
            "`kubectl config get-contexts` lists them; --context names one",
        ),
        KubeconfigError::CurrentContextNotSet => (
            format!("{shown} says no current context"),
            "--context names one; `kubectl config get-contexts` lists them",
        ),
        KubeconfigError::LoadClusterOfContext(name) => (
            format!("{shown} has no cluster {name:?}, which its context names"),
            "complete it by `kubectl config set-cluster`",
        ),
        KubeconfigError::Parse(_) => (
            format!("{shown} is no kubeconfig"),
            "expected YAML with clusters, users and contexts",
        ),
        _ => (
            match context {
                Some(context) => format!("context {context:?} of {shown} cannot be used"),
                None => format!("{shown} cannot be used"),
            },
            "see its server, certificates and keys",
        ),
    };
    match error {
        KubeconfigError::ReadConfig(error, _) => failed(&problem, Some(hint), error),
        KubeconfigError::Parse(error) => failed(&problem, Some(hint), first_line(&error)),
        error => failed(&problem, Some(hint), error),
    }
}

/// Where a text stopped to be YAML and why, without a picture of it.
fn first_line(error: &impl ToString) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    line.trim_start_matches("error: ").to_owned()
}
