//! What takes a patch back.

use serde_json::{Map, Value};

/// The strategic-merge patch that undoes another on an object as it is now: what is there where the patch says
/// something, `null` where there is nothing. Containers are told by their names.
pub fn undo(patch: &Value, live: &Value) -> Value {
    let Value::Object(fields) = patch else {
        return live.clone();
    };
    let mut out = Map::new();
    for (name, said) in fields {
        let there = live.get(name).unwrap_or(&Value::Null);
        let value = match (said, there) {
            (Value::Object(_), Value::Object(_)) => undo(said, there),
            (Value::Array(all), Value::Array(known)) if name == "containers" => {
                Value::Array(all.iter().map(|one| container(one, known)).collect())
            }
            _ => there.clone(),
        };
        out.insert(name.clone(), value);
    }
    Value::Object(out)
}

fn container(said: &Value, known: &[Value]) -> Value {
    let name = said.get("name");
    let there = known.iter().find(|one| one.get("name") == name);
    undo(said, there.unwrap_or(&Value::Null))
}

#[cfg(test)]
mod tests {
    use super::undo;
    use serde_json::json;

    #[test]
    fn what_was_there_comes_back() {
        let live = json!({"spec": {"replicas": 2, "template": {"spec": {
            "nodeSelector": {"nvidia.com/gpu.product": "H100", "zone": "a"},
            "containers": [
                {"name": "log"},
                {"name": "server", "resources": {"limits": {"nvidia.com/gpu": "1"}}},
            ],
        }}}});
        let patch = json!({"spec": {"template": {"spec": {
            "nodeSelector": {"nvidia.com/gpu.product": "L4"},
            "containers": [{"name": "server", "resources": {
                "limits": {"nvidia.com/gpu": null, "nvidia.com/mig-1g.10gb": 1},
                "requests": {"nvidia.com/gpu": null, "nvidia.com/mig-1g.10gb": 1},
            }}],
        }}}});
        let back = json!({"spec": {"template": {"spec": {
            "nodeSelector": {"nvidia.com/gpu.product": "H100"},
            "containers": [{"name": "server", "resources": {
                "limits": {"nvidia.com/gpu": "1", "nvidia.com/mig-1g.10gb": null},
                "requests": null,
            }}],
        }}}});
        assert_eq!(undo(&patch, &live), back);
    }
}
