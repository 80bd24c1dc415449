//! Definitions of our resources, as a cluster gets them, and what is said of them to people.

use super::{
    GROUP, GpuPolicySpec, GpuPriceBookSpec, GpuQuotaSpec, GpuWorkloadSpec, Resource, VERSION,
    structural::structural,
};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// All of them, in the order of their names.
pub fn definitions() -> Vec<Value> {
    vec![
        definition::<GpuPolicySpec>(),
        definition::<GpuPriceBookSpec>(),
        definition::<GpuQuotaSpec>(),
        definition::<GpuWorkloadSpec>(),
    ]
}

fn definition<T: Resource>() -> Value {
    let mut schema = json!({
        "type": "object",
        "description": T::ABOUT,
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": structural::<T>(),
            "status": structural::<T::Status>(),
        },
    });
    conditions_by_type(&mut schema);
    for rule in T::RULES {
        hold(
            &mut schema,
            rule.at,
            json!({"rule": rule.rule, "message": rule.message}),
        );
    }
    let columns: Vec<Value> = T::COLUMNS
        .iter()
        .map(|column| json!({"name": column.name, "type": column.kind, "jsonPath": column.path}))
        .collect();
    let mut subresources = json!({"status": {}});
    if let (Some([wanted, there, selector]), Some(all)) = (T::SCALE, subresources.as_object_mut()) {
        let scale = json!({
            "specReplicasPath": wanted,
            "statusReplicasPath": there,
            "labelSelectorPath": selector,
        });
        all.insert("scale".into(), scale);
    }
    let scope = if T::NAMESPACED {
        "Namespaced"
    } else {
        "Cluster"
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{}.{GROUP}", T::PLURAL),
            "labels": {"app.kubernetes.io/name": "gpuwise"},
        },
        "spec": {
            "group": GROUP,
            "scope": scope,
            "names": {
                "kind": T::KIND,
                "listKind": format!("{}List", T::KIND),
                "plural": T::PLURAL,
                "singular": T::SINGULAR,
                "shortNames": [T::SHORT],
                "categories": ["gpuwise"],
            },
            "versions": [{
                "name": VERSION,
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": schema},
                "subresources": subresources,
                "additionalPrinterColumns": columns,
            }],
        },
    })
}

/// Conditions are a map by their type, as the API conventions have it: who writes one keeps the others.
fn conditions_by_type(schema: &mut Value) {
    let conditions = schema.pointer_mut("/properties/status/properties/conditions");
    if let Some(conditions) = conditions.and_then(Value::as_object_mut) {
        conditions.insert("x-kubernetes-list-type".into(), "map".into());
        conditions.insert("x-kubernetes-list-map-keys".into(), json!(["type"]));
    }
}

/// Adds a rule to the part of a schema that it is about.
fn hold(schema: &mut Value, at: &str, rule: Value) {
    let path: String = at
        .split('/')
        .filter(|name| !name.is_empty())
        .fold(String::new(), |path, name| {
            format!("{path}/properties/{name}")
        });
    let Some(part) = schema.pointer_mut(&path).and_then(Value::as_object_mut) else {
        return;
    };
    let rules = part
        .entry("x-kubernetes-validations")
        .or_insert_with(|| json!([]));
    if let Some(rules) = rules.as_array_mut() {
        rules.push(rule);
    }
}

/// All resources with their fields, in Markdown.
pub fn reference() -> String {
    let mut out = String::new();
    one::<GpuWorkloadSpec>(&mut out);
    one::<GpuQuotaSpec>(&mut out);
    one::<GpuPolicySpec>(&mut out);
    one::<GpuPriceBookSpec>(&mut out);
    out
}

fn one<T: Resource>(out: &mut String) {
    let scope = if T::NAMESPACED {
        "in a namespace"
    } else {
        "of the cluster"
    };
    let _ = write!(
        out,
        "## {}\n\n{} `{GROUP}/{VERSION}`, {scope}; `kubectl get {}`.\n\n| field | form | what |\n|---|---|---|\n",
        T::KIND,
        T::ABOUT,
        T::SHORT,
    );
    rows(out, "spec", &structural::<T>());
    rows(out, "status", &structural::<T::Status>());
    for rule in T::RULES {
        let _ = write!(
            out,
            "\nThe API server refuses what breaks `{}`: {}.\n",
            rule.rule, rule.message
        );
    }
    out.push('\n');
}

fn rows(out: &mut String, path: &str, schema: &Value) {
    let required = schema.get("required").and_then(Value::as_array);
    let fields = schema.get("properties").and_then(Value::as_object);
    for (name, field) in fields.into_iter().flatten() {
        let path = format!("{path}.{name}");
        if name == "conditions" {
            let about = field["description"].as_str().unwrap_or_default();
            let _ = writeln!(out, "| `{path}` | conditions | {about} |");
            continue;
        }
        let must = required.is_some_and(|all| all.iter().any(|one| one == name));
        let form = form(field);
        let must = if must && path.starts_with("spec") {
            ", required"
        } else {
            ""
        };
        let about = field["description"].as_str().unwrap_or_default();
        let _ = writeln!(
            out,
            "| `{path}` | {form}{must} | {} |",
            about.replace('|', "\\|")
        );
        rows(out, &path, field);
        if field["items"]["properties"].is_object() {
            rows(out, &format!("{path}[]"), &field["items"]);
        }
    }
}

fn form(field: &Value) -> String {
    if let Some(all) = field["enum"].as_array() {
        let names: Vec<String> = all
            .iter()
            .filter_map(Value::as_str)
            .map(|name| format!("`{name}`"))
            .collect();
        return names.join(", ");
    }
    if field["x-kubernetes-int-or-string"] == json!(true) {
        return "integer or string".into();
    }
    let kind = field["type"].as_str().unwrap_or("object");
    if kind == "array" {
        return format!("list of {}", form(&field["items"]));
    }
    kind.to_owned()
}
