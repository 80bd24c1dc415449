//! What becomes of GpuWorkloads.

use super::{Traces, carry::of_workload, nanoseconds_of};
use crate::resources::{Decided, GpuWorkloadSpec, Object, Resource as _};
use gpuwise_otlp::{Context, Outcome, Span, id};

/// From when until when, in nanoseconds since 1970.
pub(super) type Took = (u64, u64);

impl Traces {
    /// It was sized, or could not be: by which plan, and for what.
    pub(in crate::operator) fn sized(
        &self,
        object: &Object<GpuWorkloadSpec>,
        took: Took,
        decided: Result<&Decided, &str>,
    ) {
        let mut span = of(object, "sized", took);
        match decided {
            Ok(decided) => span.attributes.extend([
                ("gpuwise.plan", decided.plan.clone()),
                ("gpuwise.gpu", decided.gpu.clone()),
                ("gpuwise.replicas", decided.replicas.to_string()),
                ("gpuwise.reason", decided.why.clone()),
            ]),
            Err(why) => span.outcome = Outcome::Failed(why.to_owned()),
        }
        self.queue.put(span);
    }

    /// Its objects were written, or could not be.
    pub(in crate::operator) fn applied(
        &self,
        object: &Object<GpuWorkloadSpec>,
        took: Took,
        (plan, result): (&str, &Result<String, String>),
    ) {
        let mut span = of(object, "applied", took);
        span.attributes.push(("gpuwise.plan", plan.to_owned()));
        match result {
            Ok(names) => span.attributes.push(("gpuwise.objects", names.clone())),
            Err(why) => span.outcome = Outcome::Failed(why.clone()),
        }
        self.queue.put(span);
    }
}

/// A part of what becomes of it; each time that happens is another.
pub(super) fn of(object: &Object<GpuWorkloadSpec>, name: &str, (start, end): Took) -> Span {
    let hangs = of_workload(object);
    let parts = [name, &object.metadata.uid, &start.to_string()];
    Span {
        at: Context {
            trace: hangs.at.trace,
            span: id(&parts, 16),
        },
        parent: Some(hangs.at.span),
        name: name.to_owned(),
        start,
        end,
        attributes: attributes(object),
        outcome: Outcome::Unset,
    }
}

/// From its making until the first of its pods is ready.
pub(super) fn whole(object: &Object<GpuWorkloadSpec>, ready: u64) -> Span {
    let hangs = of_workload(object);
    let created = object.metadata.creation_timestamp.as_deref();
    Span {
        at: hangs.at,
        parent: hangs.parent,
        name: GpuWorkloadSpec::KIND.to_owned(),
        start: created.and_then(nanoseconds_of).unwrap_or(ready),
        end: ready,
        attributes: attributes(object),
        outcome: Outcome::Ok,
    }
}

fn attributes(object: &Object<GpuWorkloadSpec>) -> Vec<(&'static str, String)> {
    let meta = &object.metadata;
    vec![
        (
            "k8s.namespace.name",
            meta.namespace.clone().unwrap_or_default(),
        ),
        ("gpuwise.workload", meta.name.clone()),
        ("gpuwise.model", object.spec.model.clone()),
    ]
}
