//! JSON Schemas of records.

use super::{Field, Kind, Record, described};
use serde_json::{Map, Value, json};

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

type Definitions = Map<String, Value>;

/// The schema of an answer that is one noun; `answer` is the name of `gpuwise.ANSWER/v1`.
pub fn document_schema<T: Record>(answer: &str, title: &str) -> String {
    let mut definitions = Definitions::new();
    let own = of_fields(&described::<T>(), &mut definitions);
    root(answer, title, &own, definitions)
}

pub fn rows_schema<T: Record>(answer: &str, title: &str) -> String {
    let mut definitions = Definitions::new();
    let rows = json!({"type": "array", "items": of(&Kind::of::<T>(), &mut definitions)});
    let own = json!({"type": "object", "properties": {"rows": rows}, "required": ["rows"]});
    root(answer, title, &own, definitions)
}

fn root(answer: &str, title: &str, own: &Value, mut definitions: Definitions) -> String {
    let mut root = Map::new();
    root.insert("$schema".into(), DIALECT.into());
    root.insert("title".into(), title.into());
    root.insert("type".into(), "object".into());
    let mut properties = Map::new();
    let version = format!("gpuwise.{answer}/v1");
    properties.insert("schema".into(), json!({"const": version}));
    let mut required = vec![Value::from("schema")];
    if let Some(Value::Object(fields)) = own.get("properties") {
        required.extend(fields.keys().map(|key| Value::from(key.as_str())));
        properties.extend(fields.clone());
    }
    root.insert("properties".into(), Value::Object(properties));
    root.insert("required".into(), Value::Array(required));
    root.insert("additionalProperties".into(), false.into());
    definitions.sort_keys();
    root.insert("$defs".into(), Value::Object(definitions));
    format!("{:#}\n", Value::Object(root))
}

fn of_fields(fields: &[Field], definitions: &mut Definitions) -> Value {
    let data: Vec<&Field> = fields
        .iter()
        .filter(|field| !matches!(field.kind, Kind::People))
        .collect();
    let properties: Map<String, Value> = data
        .iter()
        .map(|field| (field.key.to_owned(), of(&field.kind, definitions)))
        .collect();
    let required: Vec<&str> = data.iter().map(|field| field.key).collect();
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn of(kind: &Kind, definitions: &mut Definitions) -> Value {
    match kind {
        Kind::Text => json!({"type": "string"}),
        Kind::Flag => json!({"type": "boolean"}),
        Kind::Count => json!({"type": "integer", "minimum": 0}),
        Kind::Whole => json!({"type": "integer"}),
        Kind::Real => json!({"type": ["number", "null"]}),
        Kind::Estimate => named("Estimate", definitions, |_| range(&[])),
        Kind::Latency => named("Latency", definitions, |_| {
            range(&[("at", json!({"type": "string"}))])
        }),
        Kind::Price => named("Price", definitions, |_| price(&[])),
        Kind::PriceRange => named("PriceRange", definitions, |_| price(&["low", "high"])),
        Kind::Maybe(inner) => maybe(of(inner, definitions)),
        Kind::List(inner) => json!({"type": "array", "items": of(inner, definitions)}),
        Kind::Named(inner) => {
            json!({"type": "object", "additionalProperties": of(inner, definitions)})
        }
        Kind::Record(name, fields) => named(name, definitions, |definitions| {
            of_fields(&fields(), definitions)
        }),
        Kind::People => Value::Bool(false),
    }
}

fn maybe(schema: Value) -> Value {
    match schema.get("type") {
        Some(Value::Array(_)) => schema,
        Some(Value::String(kind)) => {
            let mut open = schema.clone();
            open["type"] = json!([kind, "null"]);
            open
        }
        _ => json!({"oneOf": [{"type": "null"}, schema]}),
    }
}

/// A reference to a definition, which is made once.
fn named(
    name: &str,
    definitions: &mut Definitions,
    make: impl FnOnce(&mut Definitions) -> Value,
) -> Value {
    if !definitions.contains_key(name) {
        // Its place is taken first, because it may hold others of its kind.
        definitions.insert(name.into(), Value::Null);
        let schema = make(definitions);
        definitions.insert(name.into(), schema);
    }
    json!({"$ref": format!("#/$defs/{name}")})
}

/// A figure with its 80 % range; what JSON has no number for is null.
fn range(also: &[(&str, Value)]) -> Value {
    let mut properties = Map::new();
    properties.extend(
        also.iter()
            .map(|(key, schema)| ((*key).to_owned(), schema.clone())),
    );
    for key in ["value", "low", "high"] {
        properties.insert(key.into(), json!({"type": ["number", "null"]}));
    }
    closed(&properties)
}

fn price(also: &[&str]) -> Value {
    let mut properties = Map::new();
    properties.insert("amount".into(), json!({"type": "number"}));
    properties.insert(
        "currency".into(),
        json!({"type": "string", "pattern": "^[A-Z]{3}$"}),
    );
    let every: Vec<&str> = gpuwise_domain::price::Per::ALL
        .iter()
        .map(|per| per.name())
        .collect();
    properties.insert("per".into(), json!({"type": "string", "enum": every}));
    properties.insert("priced_at".into(), json!({"type": ["string", "null"]}));
    for key in also {
        properties.insert((*key).into(), json!({"type": "number"}));
    }
    closed(&properties)
}

fn closed(properties: &Map<String, Value>) -> Value {
    let required: Vec<&String> = properties.keys().collect();
    json!({
        "type": "object",
        "required": required,
        "properties": properties,
        "additionalProperties": false,
    })
}
