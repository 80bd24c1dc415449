//! The description of the API (OpenAPI 3.1), from the table of routes and the types of the documents.

use super::routes::{Access, ROUTES, Route};
use gpuwise_wire::broker::{self, Role};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// As served at `/openapi.json`, indented, with a line end.
pub fn openapi() -> String {
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for route in ROUTES {
        let method = route.method().as_str().to_ascii_lowercase();
        paths
            .entry(route.path)
            .or_default()
            .insert(method, operation(route));
    }
    let document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "gpuwise",
            "version": "1",
            "description": "Leases of GPUs: asked for, placed, metered, billed.",
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": broker::schemas(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    });
    format!("{document:#}\n")
}

fn operation(route: &Route) -> Value {
    let mut parameters: Vec<Value> = route
        .path
        .split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
        .collect();
    parameters.extend(route.query.iter().map(|(name, meaning)| {
        json!({"name": name, "in": "query", "description": meaning, "schema": {"type": "string"}})
    }));
    let headers: &[(&str, &str)] = match route.method().as_str() {
        "POST" if route.access != Access::Anybody => &[(
            "Idempotency-Key",
            "what is asked again under the same key is done once; at most 200 characters",
        )],
        "PATCH" | "PUT" => &[(
            "If-Match",
            "the `ETag` of what was seen: refused where it changed since",
        )],
        _ => &[],
    };
    parameters.extend(headers.iter().map(|(name, meaning)| {
        json!({"name": name, "in": "header", "description": meaning, "schema": {"type": "string"}})
    }));
    let roles: Vec<&str> = Role::ALL
        .into_iter()
        .filter(|role| route.access.allows(*role))
        .map(Role::name)
        .collect();
    let mut operation = json!({
        "operationId": route.id,
        "summary": route.summary,
        "parameters": parameters,
        "responses": responses(route),
    });
    if let Some(object) = operation.as_object_mut() {
        if let Some(taken) = route.takes {
            let content = json!({"application/json": {"schema": reference(taken)}});
            object.insert(
                "requestBody".into(),
                json!({"required": true, "content": content}),
            );
        }
        if route.access != Access::Anybody {
            object.insert("security".into(), json!([{"token": []}]));
            object.insert("x-roles".into(), json!(roles));
            object.insert(
                "description".into(),
                format!("By role: {}.", route.access.words()).into(),
            );
        }
    }
    operation
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn responses(route: &Route) -> Value {
    let content = match route.gives {
        "nothing" => None,
        "text" => Some(json!({"text/plain": {"schema": {"type": "string"}}})),
        "html" => Some(json!({"text/html": {"schema": {"type": "string"}}})),
        "events" => Some(json!({"text/event-stream": {"schema": {"type": "string"}}})),
        "yaml" => Some(json!({"application/yaml": {"schema": {"type": "object"}}})),
        "cloudevents" => Some(json!({
            "application/cloudevents-batch+json": {"schema": {"type": "array"}}
        })),
        "json" => Some(json!({"application/json": {"schema": {"type": "object"}}})),
        name => Some(json!({"application/json": {"schema": reference(name)}})),
    };
    let mut good = json!({"description": "Done"});
    if let (Some(content), Some(object)) = (content, good.as_object_mut()) {
        object.insert("content".into(), content);
    }
    let problem = json!({
        "description": "Not done; why and what to do",
        "content": {"application/problem+json": {"schema": reference("ProblemAnswer")}},
    });
    let mut problem = problem;
    if route.gives == "html"
        && let Some(content) = problem["content"].as_object_mut()
    {
        content.insert("text/html".into(), json!({"schema": {"type": "string"}}));
    }
    let mut all = json!({route.status.to_string(): good, "default": problem});
    // What was asked for before under the same key is answered as it is.
    if route.status == 201 {
        all["200"] = all["201"].clone();
    }
    all
}
