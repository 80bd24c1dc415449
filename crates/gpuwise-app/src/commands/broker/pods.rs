//! Flags of a broker whose leases are pods of a Kubernetes cluster.

use crate::error::Problem;
use clap::Args;
use gpuwise_units::Nanoseconds;
use std::path::PathBuf;

const PATIENCE: Nanoseconds = Nanoseconds(300_000_000_000);
const PORT: u16 = 8000;
const NAMESPACE: &str = "gpuwise";

#[derive(Debug, Args)]
pub(super) struct PodFlags {
    /// The kubeconfig [default: $KUBECONFIG, ~/.kube/config, or the account of the pod it runs in]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Which of its contexts [default: the current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Namespace in which pods of leases are made
    #[arg(long, value_name = "NAME", default_value = NAMESPACE)]
    namespace: String,
    /// Container image of leases that name none, such as `nvcr.io/nvidia/pytorch:25.10-py3`
    #[arg(long = "kubernetes-image", value_name = "IMAGE")]
    pod_image: Option<String>,
    /// Secret of the namespace with which images are pulled from a registry that asks who comes; repeat
    #[arg(long = "kubernetes-pull-secret", value_name = "NAME")]
    pod_secrets: Vec<String>,
    /// Service account of pods [default: the namespace's, without a token]
    #[arg(long = "kubernetes-account", value_name = "NAME")]
    pod_account: Option<String>,
    /// Whole GPUs are claimed as devices of this DeviceClass, such as `gpu.nvidia.com` [default: asked of device plugins]
    #[arg(long = "kubernetes-device-class", value_name = "NAME")]
    pod_class: Option<String>,
    /// Port on which workers of services listen; each pod has an address of its own
    #[arg(long = "kubernetes-port", value_name = "PORT", default_value_t = PORT)]
    pod_port: u16,
    /// How long pods of a lease may wait for their nodes and image before it is tried elsewhere
    #[arg(
        long = "kubernetes-patience",
        value_name = "TIME",
        default_value = "5min"
    )]
    pod_patience: Nanoseconds,
}

impl PodFlags {
    /// Whether any of them was said.
    pub(super) fn said(&self) -> bool {
        self.kubeconfig.is_some()
            || self.context.is_some()
            || self.namespace != NAMESPACE
            || self.pod_image.is_some()
            || self.pod_account.is_some()
            || !self.pod_secrets.is_empty()
            || self.pod_class.is_some()
            || self.pod_port != PORT
            || self.pod_patience != PATIENCE
    }

    /// What cannot be together; `chosen`: whether leases are pods.
    pub(super) fn checked(&self, chosen: bool, named: bool, warm: bool) -> anyhow::Result<()> {
        if !chosen && self.said() {
            let what =
                "--kubeconfig, --context, --namespace and --kubernetes-…: no cluster is asked";
            return Err(Problem::new(what)
                .hint("leave them out, or use --executor kubernetes")
                .into());
        }
        if chosen && warm {
            let what = "--warm-memory: nodes of a cluster read no weights ahead";
            return Err(Problem::new(what)
                .hint("leave it out, or use --executor local")
                .into());
        }
        if chosen && !named {
            return Err(Problem::new("--executor kubernetes: no fleet is named")
                .hint(
                    "gpuwise fleet import --kubeconfig FILE -o fleet.toml; then --fleet fleet.toml",
                )
                .into());
        }
        Ok(())
    }

    #[cfg(feature = "kubernetes")]
    pub(super) fn executor(&self) -> anyhow::Result<gpuwise_server::ExecutorKind> {
        use gpuwise_k8s::{executor::Settings, watch::Source};
        use std::{sync::Arc, time::Duration};

        let image = self.pod_image.clone().ok_or_else(|| {
            Problem::new("--executor kubernetes: no image is named")
                .hint("--kubernetes-image names what the containers of leases are made of")
        })?;
        if self.pod_port == 0 {
            return Err(Problem::new("--kubernetes-port: expected 1 to 65535").into());
        }
        let in_pod = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some()
            && std::env::var_os("KUBECONFIG").is_none();
        let source = if in_pod && self.kubeconfig.is_none() && self.context.is_none() {
            Source::InCluster
        } else {
            Source::Kubeconfig {
                file: self.kubeconfig.clone(),
                context: self.context.clone(),
            }
        };
        let settings = Settings {
            source,
            namespace: self.namespace.clone(),
            image,
            pull_secrets: self.pod_secrets.clone(),
            service_account: self.pod_account.clone(),
            device_class: self.pod_class.clone(),
            port: self.pod_port,
            patience: Duration::from_nanos(self.pod_patience.0),
        };
        settings
            .checked()
            .map_err(|error| Problem::of_cluster(&error))?;
        Ok(gpuwise_server::ExecutorKind::Made(Arc::new(settings)))
    }

    #[cfg(not(feature = "kubernetes"))]
    #[allow(clippy::unused_self, reason = "as with the feature")]
    pub(super) fn executor(&self) -> anyhow::Result<gpuwise_server::ExecutorKind> {
        Err(
            Problem::new("--executor kubernetes: this program was built without Kubernetes")
                .hint("build it with --features kubernetes")
                .into(),
        )
    }
}
