//! The committed JSON Schemas are those of the code, and describe what is written.

use crate::nouns;
use gpuwise_read::workload::read_fields;
use gpuwise_wire::{
    decisions_schema, deployment_schema, event_schema, inventory_schema, job_schema,
    numbered_plan_schema, plan_schema, policy_schema, profile_schema, run_schema,
    scale_decision_schema, scale_mix_decision_schema, to_json, workload_schema,
};
use serde_json::Value;
use std::{collections::BTreeSet, env, fs, path::PathBuf};

#[test]
fn committed_schemas_are_those_of_the_code() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/schema");
    for (name, schema) in [
        ("deployment.v1.json", deployment_schema()),
        ("run.v1.json", run_schema()),
        ("plan.v1.json", plan_schema()),
        ("profile.v1.json", profile_schema()),
        ("workload.v1.json", workload_schema()),
        ("policy.v1.json", policy_schema()),
        ("inventory.v1.json", inventory_schema()),
        ("job.v1.json", job_schema()),
        ("event.v1.json", event_schema()),
        ("numbered-plan.v1.json", numbered_plan_schema()),
        ("decisions.v1.json", decisions_schema()),
        ("scale-decision.v1.json", scale_decision_schema()),
        ("scale-mix-decision.v1.json", scale_mix_decision_schema()),
    ] {
        let path = folder.join(name);
        if env::var_os("GPUWISE_UPDATE_DOCS").is_some() {
            fs::create_dir_all(&folder).unwrap();
            fs::write(&path, &schema).unwrap();
        }
        let committed = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == schema,
            "{name} is not that of the code: run the tests with GPUWISE_UPDATE_DOCS=1 and commit it"
        );
    }
}

/// Whether a value is as a schema says, as far as the schemas here go.
pub(crate) fn fits(value: &Value, schema: &Value, root: &Value, path: &str) -> Result<(), String> {
    if let Some(target) = schema["$ref"].as_str() {
        let name = target
            .strip_prefix("#/$defs/")
            .ok_or_else(|| format!("{path}: odd reference {target}"))?;
        let found = &root["$defs"][name];
        return if found.is_null() {
            Err(format!("{path}: {target} leads nowhere"))
        } else {
            fits(value, found, root, path)
        };
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        let fitting = choices
            .iter()
            .filter(|choice| fits(value, choice, root, path).is_ok())
            .count();
        return if fitting == 1 {
            Ok(())
        } else {
            Err(format!("{path}: {fitting} of oneOf fit {value}"))
        };
    }
    if let Some(expected) = schema.get("const") {
        return if value == expected {
            Ok(())
        } else {
            Err(format!("{path}: {value} is not {expected}"))
        };
    }
    if let Some(words) = schema["enum"].as_array()
        && !words.contains(value)
    {
        return Err(format!("{path}: {value} is none of {words:?}"));
    }
    let kinds: Vec<&str> = match &schema["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => return Err(format!("{path}: no type in {schema}")),
    };
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    if !(kinds.contains(&kind) || kind == "integer" && kinds.contains(&"number")) {
        return Err(format!("{path}: {kind} where {kinds:?} is"));
    }
    if let Value::Array(items) = value {
        for (at, item) in items.iter().enumerate() {
            fits(item, &schema["items"], root, &format!("{path}[{at}]"))?;
        }
    }
    let Value::Object(object) = value else {
        return Ok(());
    };
    for (key, inner) in object {
        let path = format!("{path}.{key}");
        match schema["properties"].get(key) {
            Some(property) => fits(inner, property, root, &path)?,
            None => return Err(format!("{path}: not in the schema")),
        }
    }
    for key in schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        if !object.contains_key(key) {
            return Err(format!("{path}: {key} is required"));
        }
    }
    Ok(())
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(32))]

    #[test]
    fn documents_are_as_their_schema_says(saved in nouns::saved()) {
        let schema: Value = serde_json::from_str(&deployment_schema()).unwrap();
        let document: Value = serde_json::from_str(&to_json(&saved)).unwrap();
        proptest::prop_assert_eq!(fits(&document, &schema, &schema, ""), Ok(()));
    }
}

/// Objects that do not say that they are closed, by their place.
fn open_objects(value: &Value, path: &str, found: &mut Vec<String>) {
    if value["type"] == "object" && value["additionalProperties"] != Value::Bool(false) {
        found.push(path.into());
    }
    match value {
        Value::Object(object) => {
            for (key, inner) in object {
                open_objects(inner, &format!("{path}.{key}"), found);
            }
        }
        Value::Array(items) => items
            .iter()
            .for_each(|item| open_objects(item, path, found)),
        _ => {}
    }
}

#[test]
fn objects_refuse_what_they_do_not_know() {
    for schema in [deployment_schema(), run_schema(), workload_schema()] {
        let schema: Value = serde_json::from_str(&schema).unwrap();
        let mut found = Vec::new();
        open_objects(&schema, "", &mut found);
        assert_eq!(found, Vec::<String>::new());
    }
}

/// The reader names the fields that it knows when it refuses one.
#[test]
fn workload_fields_are_those_of_the_reader() {
    let refusal = read_fields("w.json", "{\"\": 1}").unwrap_err().to_string();
    let (_, list) = refusal.split_once("expected one of ").unwrap();
    let known: BTreeSet<&str> = list
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|name| !name.contains('-'))
        .collect();
    let schema: Value = serde_json::from_str(&workload_schema()).unwrap();
    let described: BTreeSet<&str> = schema["properties"]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(described, known);
}
