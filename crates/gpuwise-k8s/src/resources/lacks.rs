//! What a cluster's definition does not have of ours: an API server drops such fields without a word, and refuses
//! such values.

use serde_json::{Value, json};

/// Fields of a schema that another one does not keep, and values that it does not take, by their paths; of a field that
/// is not kept none of those within.
pub(crate) fn lacks(ours: &Value, theirs: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare("", (ours, theirs), &mut found);
    found
}

fn compare(path: &str, (ours, theirs): (&Value, &Value), found: &mut Vec<String>) {
    if theirs["x-kubernetes-preserve-unknown-fields"] == json!(true) {
        return;
    }
    let fields = ours["properties"].as_object();
    for (name, field) in fields.into_iter().flatten() {
        let path = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        match theirs["properties"].get(name) {
            None => found.push(path),
            Some(there) => compare(&path, (field, there), found),
        }
    }
    if let (Some(own), Some(there)) = (ours["enum"].as_array(), theirs["enum"].as_array()) {
        let lost = own.iter().filter(|one| !there.contains(one));
        found.extend(lost.map(|one| format!("{path}={}", one.as_str().unwrap_or_default())));
    }
    for within in ["items", "additionalProperties"] {
        if ours[within].is_object() && theirs[within].is_object() {
            compare(
                &format!("{path}[]"),
                (&ours[within], &theirs[within]),
                found,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::lacks;
    use crate::resources::definitions;
    use serde_json::{Value, json};

    fn workload() -> Value {
        let mut all = definitions();
        all.retain(|one| one["spec"]["names"]["kind"] == "GpuWorkload");
        all[0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"].take()
    }

    #[test]
    fn nothing_is_lacking_in_our_own() {
        assert_eq!(lacks(&workload(), &workload()), Vec::<String>::new());
    }

    #[test]
    fn what_an_older_one_drops_or_refuses_is_named_by_its_path() {
        let mut old = workload();
        let spec = old["properties"]["spec"]["properties"].as_object_mut();
        spec.expect("fields").remove("scaling");
        let status = &mut old["properties"]["status"]["properties"];
        let avoided = status["avoided"]["items"]["properties"].as_object_mut();
        avoided.expect("fields").remove("until");
        status["change"]["properties"]["phase"]["enum"] = json!(["RollingOut", "Verifying"]);
        assert_eq!(
            lacks(&workload(), &old),
            [
                "spec.scaling",
                "status.avoided[].until",
                "status.change.phase=RollingBack"
            ]
        );
        old["properties"]["status"] = json!({"x-kubernetes-preserve-unknown-fields": true});
        assert_eq!(lacks(&workload(), &old), ["spec.scaling"]);
    }
}
