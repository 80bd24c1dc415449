//! The least that an executor's account may do, as it is installed.

use serde_json::{Value, json};

const NAME: &str = "gpuwise-executor";

/// An account for the broker in `namespace`, whose pods it makes there.
fn objects(namespace: &str) -> Vec<Value> {
    let of_group = |group: &str, resources: &[&str], verbs: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    let rule = |resources: &[&str], verbs: &[&str]| of_group("", resources, verbs);
    let subjects = json!([{"kind": "ServiceAccount", "name": NAME, "namespace": namespace}]);
    let of =
        |kind: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": NAME});
    let here = json!({"name": NAME, "namespace": namespace});
    let (rbac, everywhere) = ("rbac.authorization.k8s.io/v1", json!({"name": NAME}));
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": here}),
        json!({"apiVersion": rbac, "kind": "Role", "metadata": here, "rules": [
            rule(&["pods"], &["get", "list", "watch", "create", "delete"]),
            rule(&["pods/log"], &["get"]),
            of_group("resource.k8s.io", &["resourceclaimtemplates"], &["create"]),
        ]}),
        json!({"apiVersion": rbac, "kind": "RoleBinding", "metadata": here, "roleRef": of("Role"), "subjects": subjects}),
        json!({"apiVersion": rbac, "kind": "ClusterRole", "metadata": everywhere, "rules": [
            rule(&["nodes"], &["get", "list", "watch"]),
        ]}),
        json!({"apiVersion": rbac, "kind": "ClusterRoleBinding", "metadata": everywhere, "roleRef": of("ClusterRole"), "subjects": subjects}),
    ]
}

/// What is to be applied before a broker carries leases out as pods, in YAML.
pub fn manifest(namespace: &str) -> String {
    crate::manifests::documents(&objects(namespace))
}
