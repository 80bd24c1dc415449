//! JSON Schemas from the types of the documents.

use crate::{
    DEPLOYMENT_SCHEMA, DeploymentFile, PLAN_SCHEMA, POLICY_SCHEMA, PROFILE_SCHEMA, PlanFile,
    PolicyFile, RUN_SCHEMA, RunFile,
    live::{
        EVENT_SCHEMA, EventFile, INVENTORY_SCHEMA, InventoryFile, JOB_SCHEMA, JobFile,
        NUMBERED_PLAN_SCHEMA, NumberedPlanFile, REPORT_SCHEMA, ReportFile,
    },
    profile::ProfileFile,
    scale::{
        SCALE_DECISION_SCHEMA, SCALE_MIX_DECISION_SCHEMA, ScaleDecisionFile, ScaleMixDecisionFile,
    },
    workload_file::WorkloadFile,
};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

/// The schema of workload files.
const WORKLOAD_SCHEMA: &str = "gpuwise.workload/v1";

/// The dialect that the schemas are written in.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// The JSON Schema of saved deployments, indented, with a line end.
pub fn deployment_schema() -> String {
    schema::<DeploymentFile>("A saved deployment", DEPLOYMENT_SCHEMA)
}

/// The JSON Schema of saved runs, indented, with a line end.
pub fn run_schema() -> String {
    schema::<RunFile>("Saved runs, simulated or measured", RUN_SCHEMA)
}

/// The JSON Schema of saved plans, indented, with a line end.
pub fn plan_schema() -> String {
    schema::<PlanFile>("A saved plan", PLAN_SCHEMA)
}

/// The JSON Schema of profiles, indented, with a line end.
pub fn profile_schema() -> String {
    schema::<ProfileFile>("A profile", PROFILE_SCHEMA)
}

/// The JSON Schema of workload files, indented, with a line end.
pub fn workload_schema() -> String {
    schema::<WorkloadFile>("A workload", WORKLOAD_SCHEMA)
}

/// The JSON Schema of policy files, indented, with a line end.
pub fn policy_schema() -> String {
    schema::<PolicyFile>("A policy", POLICY_SCHEMA)
}

/// The JSON Schema of resolved fleets, indented, with a line end.
pub fn inventory_schema() -> String {
    schema::<InventoryFile>("A fleet with everything resolved", INVENTORY_SCHEMA)
}

/// The JSON Schema of jobs, indented, with a line end.
pub fn job_schema() -> String {
    schema::<JobFile>("A job", JOB_SCHEMA)
}

/// The JSON Schema of events of a fleet, indented, with a line end.
pub fn event_schema() -> String {
    schema::<EventFile>("An event of a fleet", EVENT_SCHEMA)
}

/// The JSON Schema of plans by numbers, indented, with a line end.
pub fn numbered_plan_schema() -> String {
    schema::<NumberedPlanFile>("A plan by numbers", NUMBERED_PLAN_SCHEMA)
}

/// The JSON Schema of what the scheduler says beside a plan, indented, with a line end.
pub fn decisions_schema() -> String {
    schema::<ReportFile>("What was decided and why", REPORT_SCHEMA)
}

/// The JSON Schema of what was decided for KEDA, indented, with a line end.
pub fn scale_decision_schema() -> String {
    schema::<ScaleDecisionFile>("What was decided for KEDA", SCALE_DECISION_SCHEMA)
}

/// The JSON Schema of what was decided on variants, indented, with a line end.
pub fn scale_mix_decision_schema() -> String {
    schema::<ScaleMixDecisionFile>("What was decided on variants", SCALE_MIX_DECISION_SCHEMA)
}

/// A type with everything that it refers to, `version` being what its `schema` field says.
fn schema<T: ToSchema>(title: &str, version: &str) -> String {
    let mut parts = Vec::new();
    T::schemas(&mut parts);
    let mut definitions: Vec<(String, Value)> = parts
        .into_iter()
        .map(|(name, part)| (name, serde_json::to_value(part).unwrap_or_default()))
        .collect();
    definitions.sort_by(|left, right| left.0.cmp(&right.0));
    definitions.dedup_by(|left, right| left.0 == right.0);
    let mut root = Map::new();
    root.insert("$schema".into(), DIALECT.into());
    root.insert("title".into(), title.into());
    if let Value::Object(own) = serde_json::to_value(T::schema()).unwrap_or_default() {
        root.extend(own);
    }
    if let Some(field) = root.get_mut("properties").and_then(|p| p.get_mut("schema")) {
        *field = json!({"const": version});
    }
    root.insert(
        "$defs".into(),
        Value::Object(definitions.into_iter().collect()),
    );
    let mut root = Value::Object(root);
    rebase(&mut root);
    open_parts(&mut root);
    let mut text = serde_json::to_string_pretty(&root).unwrap_or_default();
    text.push('\n');
    text
}

/// The schema of an answer of the command line, which says its own in `schema` before all else.
pub(crate) fn answer<T: ToSchema>(name: &str, title: &str) -> String {
    let text = schema::<T>(title, &format!("gpuwise.{name}/v1"));
    let Ok(Value::Object(mut root)) = serde_json::from_str::<Value>(&text) else {
        return text;
    };
    if let Some(fields) = root.get_mut("properties").and_then(Value::as_object_mut) {
        let said = json!({"const": format!("gpuwise.{name}/v1")});
        fields.shift_insert(0, "schema".into(), said);
    }
    if let Some(required) = root.get_mut("required").and_then(Value::as_array_mut) {
        required.insert(0, "schema".into());
    }
    let mut text = serde_json::to_string_pretty(&Value::Object(root)).unwrap_or_default();
    text.push('\n');
    text
}

/// Parts that are put together into one object do not each close it: the whole does.
fn open_parts(root: &mut Value) {
    let mut named = Vec::new();
    join(root, &mut named);
    for name in named {
        if let Some(part) = root
            .get_mut("$defs")
            .and_then(|parts| parts.get_mut(&name))
            .and_then(Value::as_object_mut)
        {
            part.shift_remove("additionalProperties");
        }
    }
}

/// Opens the parts of every object that is put together, and names those that stand elsewhere.
fn join(value: &mut Value, named: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            if let Some(Value::Array(parts)) = object.get_mut("allOf") {
                for part in parts.iter_mut().filter_map(Value::as_object_mut) {
                    part.shift_remove("additionalProperties");
                    let target = part.get("$ref").and_then(Value::as_str);
                    named.extend(
                        target
                            .and_then(|target| target.strip_prefix("#/$defs/").map(str::to_owned)),
                    );
                }
                object.insert("unevaluatedProperties".into(), false.into());
            }
            object.values_mut().for_each(|inner| join(inner, named));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| join(item, named)),
        _ => {}
    }
}

/// References within one file instead of those of an API description; objects closed, and integers
/// without the signed formats that such descriptions give them.
fn rebase(value: &mut Value) {
    match value {
        Value::Object(object) => {
            if object.get("properties").is_some_and(Value::is_object)
                && object.get("type") == Some(&json!("object"))
            {
                object.insert("additionalProperties".into(), false.into());
            }
            let signed = |format: &Value| [json!("int32"), json!("int64")].contains(format);
            if object.get("format").is_some_and(signed) {
                object.shift_remove("format");
            }
            for (key, inner) in object.iter_mut() {
                match inner {
                    Value::String(target) if key == "$ref" => {
                        *target = target.replace("#/components/schemas/", "#/$defs/");
                    }
                    _ => rebase(inner),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(rebase),
        _ => {}
    }
}
