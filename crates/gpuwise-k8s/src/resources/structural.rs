//! From the schema of a type to one that definitions of custom resources may have: structural, without
//! references, alternatives and what only newer OpenAPI knows.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// The structural schema of a type.
pub(super) fn structural<T: ToSchema>() -> Value {
    let mut parts = Vec::new();
    T::schemas(&mut parts);
    let parts: BTreeMap<String, Value> = parts
        .into_iter()
        .map(|(name, part)| (name, serde_json::to_value(part).unwrap_or_default()))
        .collect();
    let own = serde_json::to_value(T::schema()).unwrap_or_default();
    plain(&own, &parts)
}

/// Formats that definitions know.
const FORMATS: [&str; 4] = ["int32", "int64", "double", "date-time"];

fn plain(schema: &Value, parts: &BTreeMap<String, Value>) -> Value {
    let Value::Object(schema) = schema else {
        return schema.clone();
    };
    let mut out = Map::new();
    if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
        let name = target.rsplit('/').next().unwrap_or_default();
        merge(
            &mut out,
            plain(parts.get(name).unwrap_or(&Value::Null), parts),
        );
    }
    for several in ["oneOf", "anyOf", "allOf"] {
        let all = schema.get(several).and_then(Value::as_array);
        for one in all.into_iter().flatten() {
            if one.get("type") != Some(&json!("null")) {
                merge(&mut out, plain(one, parts));
            }
        }
    }
    for (key, value) in schema {
        match (key.as_str(), value) {
            ("$ref" | "oneOf" | "anyOf" | "allOf" | "propertyNames" | "default", _) => {}
            ("type", Value::Array(all)) => {
                let known = all.iter().find(|one| **one != json!("null"));
                out.extend(known.map(|known| ("type".to_owned(), known.clone())));
            }
            ("format", format) => {
                if format.as_str().is_some_and(|name| FORMATS.contains(&name)) {
                    out.insert(key.clone(), format.clone());
                }
            }
            ("properties", Value::Object(fields)) => {
                let fields = fields
                    .iter()
                    .map(|(name, of)| (name.clone(), plain(of, parts)));
                out.insert(key.clone(), Value::Object(fields.collect()));
            }
            ("items" | "additionalProperties", of) => {
                out.insert(key.clone(), plain(of, parts));
            }
            // Lines that were broken for the source are one text.
            ("description", Value::String(text)) => {
                let text = text.split("\n\n").map(|part| part.replace('\n', " "));
                let text: Vec<String> = text.collect();
                out.insert(key.clone(), text.join("\n\n").into());
            }
            _ => {
                out.insert(key.clone(), value.clone());
            }
        }
    }
    Value::Object(out)
}

fn merge(out: &mut Map<String, Value>, other: Value) {
    if let Value::Object(other) = other {
        out.extend(other);
    }
}
