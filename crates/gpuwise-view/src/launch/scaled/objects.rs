//! Objects of KEDA, of Kubernetes' own autoscaler, of node autoscalers, of Dynamo and of llm-d.
//!
//! Fields: KEDA v2.21.0 (`config/crd/bases/keda.sh_scaledobjects.yaml`); `autoscaling/v2` of Kubernetes 1.37, where
//! `tolerance` is of 1.33; `autoscaling.x-k8s.io/v1beta1` of Cluster Autoscaler's capacity buffers; Dynamo's
//! `docs/kubernetes/autoscaling.md` (adapters are made by its operator, one for each service); llm-d's
//! workload-variant-autoscaler at b08b1c7 (`config/crd/bases/llmd.ai_variantautoscalings.yaml`, and its chart for the
//! label and the metric).

use super::{super::EmitError, Scaling};
use gpuwise_domain::deployment::Deployment;
use serde_json::{Map, Value, json};

pub(super) type Written = (Vec<String>, Vec<Value>);

/// By which share of 1 the default tolerance of the autoscaler swallows changes, in words.
pub(super) const TOLERANCE: &str = "The autoscaler ignores changes of up to 10 % unless told otherwise: 11 replicas would not become 12, nor 20 become 19. `tolerance: 0` below turns that off; it takes Kubernetes 1.33 or newer (in 1.33 and 1.34 the feature gate HPAConfigurableTolerance)";

pub(super) fn lines(texts: &[&str]) -> Vec<String> {
    let mut out = Vec::new();
    for text in texts {
        let mut line = String::new();
        for word in text.split_whitespace() {
            if !line.is_empty() && line.len() + word.len() + 1 > 98 {
                out.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        out.push(line);
    }
    out
}

pub(super) fn metadata(name: &str, scaling: &Scaling<'_>) -> Value {
    json!({"name": name, "namespace": scaling.namespace})
}

fn behavior(scaling: &Scaling<'_>, hold_s: u64) -> Value {
    let most = scaling.most.max(1);
    json!({
        "scaleUp": {
            "stabilizationWindowSeconds": 0,
            "tolerance": "0",
            "policies": [{"type": "Pods", "value": most, "periodSeconds": 15}],
        },
        "scaleDown": {
            "stabilizationWindowSeconds": hold_s.min(LONGEST_S),
            "tolerance": "0",
            "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
        },
    })
}

pub(super) fn keda(name: &str, scaling: &Scaling<'_>) -> Written {
    let target = json!({"name": name});
    let (mut comments, objects) = scaled_object(name, &target, scaling);
    comments.extend(lines(&[
        "Kubernetes' own autoscaler, which KEDA makes, never goes to zero: KEDA itself moves between 0 and 1, when it \
         is told by the stream.",
    ]));
    (comments, objects)
}

pub(super) fn dynamo(name: &str, scaling: &Scaling<'_>) -> Written {
    let (graph, service) = scaling.graph.unwrap_or((name, "decode"));
    let adapter = format!("{graph}-{}", service.to_ascii_lowercase());
    let target = json!({
        "apiVersion": "nvidia.com/v1alpha1",
        "kind": "DynamoGraphDeploymentScalingAdapter",
        "name": adapter,
    });
    let (mut comments, objects) = scaled_object(&adapter, &target, scaling);
    comments.extend(lines(&[
        "The adapter of the service is made by Dynamo's operator where the graph has one. Dynamo's own planner must \
         not scale the same service.",
    ]));
    (comments, objects)
}

fn scaled_object(name: &str, target: &Value, scaling: &Scaling<'_>) -> Written {
    let serve = format!(
        "Needs `gpuwise scale serve --listen ADDRESS:PORT --prometheus URL`, which KEDA reaches at {}.",
        scaling.scaler
    );
    let comments = lines(&[
        &serve,
        "It asks for so many replicas, of which each is to have one: what it says is what is wanted, and it waits \
         itself before there are fewer, so that nobody waits twice.",
        &format!("{TOLERANCE}; KEDA 2.18 or newer passes it on."),
        "Where KEDA cannot ask, what there is stays (`fallback`).",
    ]);
    let mut metadata: Map<String, Value> = (scaling.fields().into_iter())
        .map(|(key, value)| (key.to_owned(), value.into()))
        .collect();
    metadata.insert("scalerAddress".into(), scaling.scaler.into());
    let mut trigger = json!({"type": "external-push"});
    let mut objects = Vec::new();
    if scaling.authorities.is_some() || scaling.client.is_some() {
        metadata.insert("enableTLS".into(), "true".into());
        trigger["authenticationRef"] = json!({"name": format!("{name}-scaler")});
        objects = trusts(name, scaling);
    }
    trigger["metadata"] = metadata.into();
    objects.insert(
        0,
        json!({
            "apiVersion": "keda.sh/v1alpha1",
            "kind": "ScaledObject",
            "metadata": self::metadata(name, scaling),
            "spec": {
                "scaleTargetRef": target,
                "minReplicaCount": scaling.least,
                "maxReplicaCount": scaling.most,
                "pollingInterval": 15,
                "cooldownPeriod": 5,
                "fallback": {
                    "failureThreshold": 3,
                    "replicas": scaling.least.max(1),
                    "behavior": "currentReplicas",
                },
                "advanced": {
                    "horizontalPodAutoscalerConfig": {"behavior": behavior(scaling, 0)},
                },
                "triggers": [trigger],
            },
        }),
    );
    (comments, objects)
}

/// By what KEDA knows the scaler, and the scaler KEDA.
fn trusts(name: &str, scaling: &Scaling<'_>) -> Vec<Value> {
    let name = format!("{name}-scaler");
    let reference = |parameter: &str, secret: &str, key: &str| json!({"parameter": parameter, "name": secret, "key": key});
    let (mut objects, mut references) = (Vec::new(), Vec::new());
    if let Some(authorities) = scaling.authorities {
        objects.push(json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": metadata(&name, scaling),
            "stringData": {"ca.crt": authorities},
        }));
        references.push(reference("caCert", &name, "ca.crt"));
    }
    if let Some(secret) = scaling.client {
        references.push(reference("tlsClientCert", secret, "tls.crt"));
        references.push(reference("tlsClientKey", secret, "tls.key"));
    }
    objects.push(json!({
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "TriggerAuthentication",
        "metadata": metadata(&name, scaling),
        "spec": {"secretTargetRef": references},
    }));
    objects
}

/// The longest that Kubernetes' own autoscaler waits before there are fewer, in seconds.
const LONGEST_S: u64 = 3600;

/// How long fewer must be enough where the scaler is told neither what starts nor what waits for it: before there are
/// none, for a start and the idle time after it.
fn blind_hold(scaling: &Scaling<'_>) -> Result<u64, EmitError> {
    if scaling.least > 0 {
        return Ok(scaling.hold_s);
    }
    let zero = scaling.start_s.saturating_add(scaling.idle_s);
    if zero > LONGEST_S {
        return Err(EmitError::NotInForm {
            form: "hpa",
            problem: format!(
                "waits {LONGEST_S} s at most before there are none, and a replica takes {} s until it serves, idle for \
                 {} s after that",
                scaling.start_s, scaling.idle_s
            ),
            instead: "say --min 1 or a shorter --idle, or emit keda".into(),
        });
    }
    Ok(scaling.hold_s.max(zero))
}

pub(super) fn hpa(name: &str, scaling: &Scaling<'_>) -> Result<Written, EmitError> {
    let metric = format!("{}_requests_per_second", name.replace('-', "_"));
    // Thousandths of a request a second, as Kubernetes writes them.
    let each = format!("{}m", (scaling.rate * 1000.0).floor().max(1.0));
    let hold_s = blind_hold(scaling)?;
    let object = autoscaler(name, scaling, &metric, &each, hold_s);
    let rule = format!(
        "externalRules:\n  - seriesQuery: '{{__name__=\"up\"}}'\n    resources:\n      namespaced: false\n    name:\n      as: {metric}\n    metricsQuery: {}\n",
        Value::from(scaling.query)
    );
    let config = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(&format!("{name}-adapter-rule"), scaling),
        "data": {"rules.yaml": rule},
    });
    let mut comments = lines(&[
        &format!("{TOLERANCE}."),
        "The rule in the ConfigMap belongs into the configuration of the Prometheus adapter, which serves the metric \
         (external.metrics.k8s.io).",
    ]);
    if scaling.least == 0 {
        comments.extend(lines(&[
            "minReplicas: 0 takes the feature gate HPAScaleToZero (on from Kubernetes 1.37); without it 1 is the least.",
            &format!(
                "It sees the rate alone, not what starts: fewer must be enough for {hold_s} s, so that a replica that \
                 takes {} s until it serves is not taken away before.",
                scaling.start_s
            ),
        ]));
    }
    Ok((comments, vec![object, config]))
}

pub(super) fn autoscaler(
    name: &str,
    scaling: &Scaling<'_>,
    metric: &str,
    each: &str,
    hold_s: u64,
) -> Value {
    json!({
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": metadata(name, scaling),
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": scaling.least,
            "maxReplicas": scaling.most,
            "metrics": [{
                "type": "External",
                "external": {
                    "metric": {"name": metric},
                    "target": {"type": "AverageValue", "averageValue": each},
                },
            }],
            "behavior": behavior(scaling, hold_s),
        },
    })
}

pub(super) fn buffer(name: &str, scaling: &Scaling<'_>) -> Written {
    let buffer = json!({
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": "CapacityBuffer",
        "metadata": metadata(&format!("{name}-spare"), scaling),
        "spec": {
            "provisioningStrategy": "buffer.x-k8s.io/active-capacity",
            "scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": name},
            "replicas": scaling.spare,
        },
    });
    let lent = json!({
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "gpuwise-lent"},
        "value": -1000,
        "globalDefault": false,
        "preemptionPolicy": "Never",
        "description": "Work on GPUs that are kept warm for services: it leaves when they come",
    });
    let comments = lines(&[
        "Node autoscalers keep room for so many replicas more, as if they were there: Cluster Autoscaler of Kubernetes \
         1.35 or newer with capacity buffers, GKE, Karpenter where it has them. Status says ReadyForProvisioning, \
         Provisioning or LimitedByQuotas.",
        "Batch work of the priority gpuwise-lent may use the GPUs meanwhile; a replica that comes takes its place.",
    ]);
    (comments, vec![buffer, lent])
}

pub(super) fn variant(name: &str, deployment: &Deployment, scaling: &Scaling<'_>) -> Written {
    // Letters, digits, dashes and underscores.
    let gpu: String = deployment
        .gpu
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    let mut spec = json!({
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        "modelID": deployment.model,
    });
    let replicas = f64::from(deployment.layout.replicas.max(1));
    let hourly = deployment.cost.per_hour.as_ref();
    let each = hourly.map(|price| price.0.as_f64() / replicas);
    let mut comments = lines(&[
        "Fields of llm-d's workload-variant-autoscaler at b08b1c7 (February 2026); older releases want more of them.",
        "It adds a replica of the cheapest variant where the cache of keys and values or the queue is full, by its own \
         thresholds: rate and hold of the plan are not asked for.",
        &format!("{TOLERANCE}."),
    ]);
    match each.filter(|each| each.is_finite() && *each >= 0.0) {
        Some(each) => {
            if let Value::Object(spec) = &mut spec {
                spec.insert("variantCost".into(), format!("{each:.4}").into());
            }
        }
        None => comments.extend(lines(&[
            "What a replica costs is not known: variantCost is left out, which counts as 10.",
        ])),
    }
    let object = json!({
        "apiVersion": "llmd.ai/v1alpha1",
        "kind": "VariantAutoscaling",
        "metadata": {
            "name": name,
            "namespace": scaling.namespace,
            "labels": {"inference.optimization/acceleratorName": gpu},
        },
        "spec": spec,
    });
    let mut carried = autoscaler(name, scaling, "wva_desired_replicas", "1", 0);
    let selector = json!({
        "matchLabels": {"variant_name": name, "exported_namespace": scaling.namespace},
    });
    if let Some(metric) = carried.pointer_mut("/spec/metrics/0/external/metric") {
        metric["selector"] = selector;
    }
    (comments, vec![object, carried])
}
