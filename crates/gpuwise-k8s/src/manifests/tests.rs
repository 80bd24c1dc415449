//! What is installed, held against the files that are shipped, and rights against modes.

use super::*;
use std::{fs, path::Path};

fn installation(mode: Mode) -> Installation {
    Installation {
        namespace: "gpuwise-system".into(),
        mode,
        image: "ghcr.io/gpuwise/gpuwise:latest".into(),
        replicas: 2,
        webhook_url: None,
        prometheus: None,
        otlp: None,
    }
}

/// `GPUWISE_UPDATE_DOCS=1` writes them anew.
#[test]
fn shipped_manifests_are_those_of_the_program() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/kubernetes");
    for mode in Mode::ALL {
        let path = folder.join(format!("{}.yaml", mode.name()));
        let made = installation(mode).yaml();
        assert_eq!(made, installation(mode).yaml());
        if std::env::var_os("GPUWISE_UPDATE_DOCS").is_some() {
            fs::create_dir_all(&folder).expect("a folder");
            fs::write(&path, &made).expect("a file");
        }
        let kept = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            kept == made,
            "{} is not what is made: GPUWISE_UPDATE_DOCS=1 cargo test -p gpuwise-k8s",
            path.display()
        );
        let read = read(&made).expect("it is YAML");
        assert_eq!(read, installation(mode).objects());
    }
}

#[test]
fn no_mode_may_write_more_than_it_needs() {
    let writes = |mode: Mode| -> Vec<String> {
        let given = rights()
            .iter()
            .filter(|right| right.from <= mode && right.scope == Scope::Cluster);
        given
            .filter(|right| {
                right
                    .verbs
                    .iter()
                    .any(|verb| !["get", "list", "watch"].contains(verb))
            })
            .flat_map(|right| right.resources.iter().map(|one| (*one).to_owned()))
            .filter(|one| !one.starts_with("gpu"))
            .collect()
    };
    assert!(writes(Mode::Observe).is_empty());
    assert_eq!(writes(Mode::Propose), ["pods/status", "events"]);
    assert!(writes(Mode::Act).contains(&"pods".to_owned()));
    // Nobody may delete, or do everything.
    let verbs = rights().iter().flat_map(|right| right.verbs);
    assert!(
        verbs
            .clone()
            .all(|verb| *verb != "*" && !verb.starts_with("delete"))
    );
    assert!(
        rights()
            .iter()
            .all(|right| !right.resources.contains(&"*") && !right.why.is_empty())
    );
}

#[test]
fn definitions_are_structural() {
    fn look(schema: &Value, at: &str) {
        let either = schema.get("x-kubernetes-int-or-string").is_some();
        assert!(
            schema.get("type").is_some() != either,
            "{at} has no type, or two: {schema}"
        );
        for key in ["$ref", "oneOf", "anyOf", "allOf", "default"] {
            assert!(schema.get(key).is_none(), "{at} has {key}");
        }
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            look(field, &format!("{at}.{name}"));
        }
        if let Some(items) = schema.get("items") {
            look(items, &format!("{at}[]"));
        }
    }
    for one in definitions() {
        let name = one["metadata"]["name"].as_str().unwrap_or_default();
        let version = &one["spec"]["versions"][0];
        look(&version["schema"]["openAPIV3Schema"], name);
        assert!(version["subresources"]["status"].is_object());
        assert!(
            !version["additionalPrinterColumns"]
                .as_array()
                .is_none_or(Vec::is_empty)
        );
        let conditions = &version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
            ["conditions"];
        assert_eq!(
            conditions["x-kubernetes-list-map-keys"][0], "type",
            "{name}"
        );
    }
}
