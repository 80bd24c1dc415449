//! A HorizontalPodAutoscaler by the external metrics of `gpuwise scale serve`, and what makes them known to Kubernetes.
//!
//! Fields: `autoscaling/v2`, `apiregistration.k8s.io/v1` of Kubernetes 1.37.

use super::{
    super::EmitError,
    Scaling,
    objects::{TOLERANCE, Written, autoscaler, lines, metadata},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// The metric, and the label that says whose.
const METRIC: &str = "gpuwise-replicas";
const LABEL: &str = "service";

/// A Service inside the cluster: `NAME.NAMESPACE.svc:PORT`.
fn service(scaler: &str) -> Option<(&str, &str, u16)> {
    let (host, port) = scaler.rsplit_once(':')?;
    let (name, rest) = host.split_once('.')?;
    let (namespace, rest) = rest.split_once('.')?;
    let inside = rest == "svc" || rest.starts_with("svc.");
    let port = port.parse().ok()?;
    (inside && !name.is_empty() && !namespace.is_empty()).then_some((name, namespace, port))
}

pub(super) fn metrics(name: &str, scaling: &Scaling<'_>) -> Result<Written, EmitError> {
    let scaler = scaling.scaler;
    let (host, namespace, port) = service(scaler).ok_or_else(|| EmitError::NotInForm {
        form: "external-metrics",
        problem: format!(
            "are asked of a Service by the API server, and --scaler {scaler} names none"
        ),
        instead: "write NAME.NAMESPACE.svc:PORT".into(),
    })?;
    // What is said is what is wanted, and waits itself before there are fewer: nobody waits twice.
    let mut carried = autoscaler(name, scaling, METRIC, "1", 0);
    if let Some(metric) = carried.pointer_mut("/spec/metrics/0/external/metric") {
        metric["selector"] = json!({"matchLabels": {LABEL: name}});
    }
    let config = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(&format!("{name}-scaling"), scaling),
        "data": {format!("{name}.toml"): file(name, scaling)},
    });
    let mut spec = json!({
        "group": "external.metrics.k8s.io",
        "version": "v1beta1",
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "service": {"name": host, "namespace": namespace, "port": port},
    });
    match scaling.authorities {
        Some(pem) => spec["caBundle"] = STANDARD.encode(pem).into(),
        None => spec["insecureSkipTLSVerify"] = true.into(),
    }
    let api = json!({
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": "v1beta1.external.metrics.k8s.io"},
        "spec": spec,
    });
    let mut comments = lines(&[
        &format!(
            "Needs `gpuwise scale serve --prometheus URL --services FOLDER --external-metrics ADDRESS:{port} --tls-cert \
             FILE --tls-key FILE` behind the Service {host} in {namespace}; FOLDER holds the file of the ConfigMap."
        ),
        "One APIService alone answers external metrics in a cluster: KEDA and the Prometheus adapter bring another, \
         and beside KEDA its ScaledObject is the way (--as keda).",
        &format!("{TOLERANCE}."),
    ]);
    if scaling.least == 0 {
        comments.extend(lines(&[
            "minReplicas: 0 takes the feature gate HPAScaleToZero (on from Kubernetes 1.37); without it 1 is the least. \
             A Deployment that is at 0 before is taken for switched off: give it one replica first.",
        ]));
    }
    if scaling.authorities.is_none() {
        comments.extend(lines(&[
            "Nothing says by what the scaler's certificate is known (--ca FILE): it is not checked.",
        ]));
    }
    Ok((comments, vec![carried, config, api]))
}

/// A file of services, with this one.
fn file(name: &str, scaling: &Scaling<'_>) -> String {
    let mut out = String::from("[[service]]\n");
    let whose = [
        ("namespace", scaling.namespace.to_owned()),
        ("name", name.to_owned()),
    ];
    for (key, value) in whose.into_iter().chain(scaling.fields()) {
        // A string of JSON is one of TOML.
        let _ = writeln!(out, "{key} = {}", Value::from(value));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scaler_is_a_service_of_the_cluster() {
        for (scaler, expected) in [
            ("s.n.svc:6443", Some(("s", "n", 6443))),
            ("s.n.svc.cluster.local:1", Some(("s", "n", 1))),
            ("127.0.0.1:6443", None),
            ("s.n.svc", None),
            ("s.n.svc:many", None),
        ] {
            assert_eq!(service(scaler), expected, "{scaler}");
        }
    }
}
