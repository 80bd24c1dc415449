//! What makes autoscalers of Kubernetes do what a plan says: from none or a few replicas to as many as are allowed,
//! each for so many requests a second as it serves within its SLO.

mod external;
mod knative;
mod objects;

use super::{EmitError, Form, engine_at, engines, kubernetes::name, yaml};
use gpuwise_domain::{
    deployment::Deployment,
    facts::{Context, EngineFacts},
};
use serde_json::Value;

gpuwise_units::named! {
    /// Which autoscaler is told.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum ScalerForm:
        name
    {
        /// A ScaledObject of KEDA that asks `gpuwise scale serve`.
        Keda = "keda",
        /// A HorizontalPodAutoscaler by an external metric, and the rule of the Prometheus adapter for it.
        Hpa = "hpa",
        /// A HorizontalPodAutoscaler by external metrics of `gpuwise scale serve`, and what makes them known.
        ExternalMetrics = "external-metrics",
        /// A Service of Knative with the annotations of its autoscaler.
        Knative = "knative",
        /// A CapacityBuffer, for autoscalers of nodes, and a priority for what is lent meanwhile.
        CapacityBuffer = "capacitybuffer",
        /// A ScaledObject for a service of a Dynamo graph.
        Dynamo = "dynamo",
        /// A VariantAutoscaling of llm-d, and the HorizontalPodAutoscaler that carries it out.
        Wva = "wva",
    }
}

impl ScalerForm {
    /// Whether it goes by a query of requests a second.
    pub const fn asks(self) -> bool {
        matches!(
            self,
            Self::Keda | Self::Hpa | Self::ExternalMetrics | Self::Dynamo
        )
    }
}

/// How a deployment is scaled.
#[derive(Debug, Clone, PartialEq)]
pub struct Scaling<'a> {
    pub namespace: &'a str,
    /// Replicas at least and at most.
    pub least: u32,
    pub most: u32,
    /// Requests a second that a replica serves within its SLO.
    pub rate: f64,
    /// PromQL of requests a second; empty where nobody asks.
    pub query: &'a str,
    /// PromQL of replicas that are ready, and of requests that wait.
    pub ready: Option<&'a str>,
    pub queued: Option<&'a str>,
    /// Fields beside these that `gpuwise scale serve` is told.
    pub more: Vec<(&'static str, String)>,
    /// Where `gpuwise scale serve` listens.
    pub scaler: &'a str,
    /// Authorities in PEM by which its certificate is known; `None`: KEDA asks without TLS.
    pub authorities: Option<&'a str>,
    /// The Secret (`kubernetes.io/tls`) with the certificate by which KEDA is known to it.
    pub client: Option<&'a str>,
    /// For how long nothing must have come before there are none, and fewer be enough before there are fewer, in
    /// seconds.
    pub idle_s: u64,
    pub hold_s: u64,
    /// From nothing until a replica serves, in seconds.
    pub start_s: u64,
    /// Who decides in `gpuwise scale serve`: `gpuwise` or `rate`.
    pub controller: &'a str,
    /// Replicas for which nodes are kept warm.
    pub spare: u32,
    /// The Dynamo graph, and its service that is scaled.
    pub graph: Option<(&'a str, &'a str)>,
}

impl Scaling<'_> {
    /// What `gpuwise scale serve` is told of a service: in a trigger of KEDA, or in a file.
    fn fields(&self) -> Vec<(&'static str, String)> {
        let mut fields = vec![("query", self.query.to_owned()), ("rate", self.rate_text())];
        let more = [("readyQuery", self.ready), ("queueQuery", self.queued)];
        let more = more.into_iter();
        fields.extend(more.filter_map(|(key, query)| Some((key, query?.to_owned()))));
        fields.extend(self.more.iter().cloned());
        fields.extend([
            ("maxReplicas", self.most.to_string()),
            ("holdSeconds", self.hold_s.to_string()),
            ("idleSeconds", self.idle_s.to_string()),
            ("startSeconds", self.start_s.to_string()),
            ("controller", self.controller.to_owned()),
        ]);
        fields
    }

    /// Requests a second, never more than a replica serves: to three places, below.
    fn rate_text(&self) -> String {
        format!("{}", (self.rate * 1000.0).floor() / 1000.0)
    }
}

/// The objects, with what is to be known of them in comments.
///
/// # Errors
/// When the deployment cannot be scaled so.
pub fn scaled(
    form: ScalerForm,
    deployment: &Deployment,
    facts: &EngineFacts,
    context: &Context,
    scaling: &Scaling<'_>,
) -> Result<String, EmitError> {
    let script = engines::script(deployment, facts, context, Form::Kubernetes)?;
    let [server] = script.servers.as_slice() else {
        return Err(EmitError::Unsupported {
            engine: engine_at(deployment, facts),
            problem: "pools of prefill and decode are scaled apart, and this plan does not say how"
                .into(),
        });
    };
    let name = name(deployment, server);
    let (comments, objects) = match form {
        ScalerForm::Keda => objects::keda(&name, scaling),
        ScalerForm::Dynamo => objects::dynamo(&name, scaling),
        ScalerForm::Hpa => objects::hpa(&name, scaling)?,
        ScalerForm::ExternalMetrics => external::metrics(&name, scaling)?,
        ScalerForm::CapacityBuffer => objects::buffer(&name, scaling),
        ScalerForm::Wva => objects::variant(&name, deployment, scaling),
        ScalerForm::Knative => {
            knative::service(&name, deployment, facts, context, server, scaling)?
        }
    };
    Ok(text(&comments, &objects))
}

fn text(comments: &[String], objects: &[Value]) -> String {
    let mut out = String::new();
    for line in comments {
        out.push_str("# ");
        out.push_str(line);
        out.push('\n');
    }
    for (index, object) in objects.iter().enumerate() {
        if index > 0 {
            out.push_str("---\n");
        }
        out.push_str(&yaml::document(object));
    }
    out
}
