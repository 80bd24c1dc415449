//! The trace of an object, and how the programs of its pods come to know it.

use crate::inventory::TRACEPARENT;
use crate::resources::{GpuWorkloadSpec, Object};
use gpuwise_otlp::{Context, VARIABLE, id};
use serde_json::{Value, json};

/// Where a span hangs: itself, and the one above it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::operator) struct Hangs {
    pub at: Context,
    pub parent: Option<String>,
}

/// The span of an object by its uid: in the trace that was given, or in one of its own.
pub(super) fn hangs(uid: &str, given: Option<Context>) -> Hangs {
    let span = id(&["object", uid], 16);
    let (trace, parent) = match given {
        Some(given) => (given.trace, Some(given.span)),
        None => (trace(uid), None),
    };
    Hangs {
        at: Context { trace, span },
        parent,
    }
}

/// The trace that begins with an object.
pub(super) fn trace(uid: &str) -> String {
    id(&["trace", uid], 32)
}

/// The span of a GpuWorkload.
pub(super) fn of_workload(object: &Object<GpuWorkloadSpec>) -> Hangs {
    let noted = object.metadata.annotations.get(TRACEPARENT);
    let given = noted.and_then(|text| Context::read(text));
    hangs(&object.metadata.uid, given)
}

/// Pods of an object that has a template go on with the workload's trace, and so do their programs.
///
/// What is written follows from the workload's uid and annotation alone: whoever writes it anew changes nothing.
pub(in crate::operator) fn carried(one: &mut Value, by: &Object<GpuWorkloadSpec>) {
    let Some(template) = one.pointer_mut("/spec/template") else {
        return;
    };
    let span = of_workload(by).at.to_string();
    template["metadata"]["annotations"][TRACEPARENT] = span.as_str().into();
    let containers = template
        .pointer_mut("/spec/containers")
        .and_then(Value::as_array_mut);
    for container in containers.into_iter().flatten() {
        let variable = json!({"name": VARIABLE, "value": span});
        match container["env"].as_array_mut() {
            Some(all) if all.iter().any(|known| known["name"] == VARIABLE) => {}
            Some(all) => all.push(variable),
            None => container["env"] = json!([variable]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::carried;
    use serde_json::{Value, json};

    fn written(annotations: &Value) -> Value {
        let object = json!({
            "metadata": {"name": "chat", "uid": "9f", "annotations": annotations},
            "spec": {"model": "m", "traffic": {"rate": "1/s"}},
        });
        let object = serde_json::from_value(object).expect("a GpuWorkload");
        let pod = json!({"containers": [{"env": [{"name": "A", "value": "b"}]}, {}]});
        let mut made = json!({"kind": "Deployment", "spec": {"template": {"spec": pod}}});
        carried(&mut made, &object);
        let once = made.clone();
        carried(&mut made, &object);
        assert_eq!(made, once, "what is written twice is the same");
        made["spec"]["template"].take()
    }

    #[test]
    fn every_container_goes_on_with_the_workloads_trace() {
        let template = written(&json!({}));
        let span = template["metadata"]["annotations"]["traceparent"].clone();
        let all = template["spec"]["containers"].as_array().expect("a list");
        for container in all {
            let env = container["env"].as_array().expect("a list");
            let of_it = env.iter().filter(|one| one["name"] == "TRACEPARENT");
            let values: Vec<&Value> = of_it.map(|one| &one["value"]).collect();
            assert_eq!(values, [&span]);
        }
    }

    #[test]
    fn a_trace_that_is_given_is_gone_on_with_and_one_that_is_none_is_not() {
        let given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let of = |annotations| {
            let template = written(&annotations);
            let span = template["metadata"]["annotations"]["traceparent"].clone();
            span.as_str().expect("text").to_owned()
        };
        let goes_on = of(json!({"traceparent": given}));
        assert_eq!(goes_on.split('-').nth(1), given.split('-').nth(1));
        assert_ne!(goes_on, given, "it hangs on the workload's own span");
        assert_eq!(of(json!({"traceparent": "00-x-y-01"})), of(json!({})));
    }
}
