//! Changes of workloads, phase by phase: of GpuWorkloads under their own span, of Deployments of somebody's under one
//! for the change as a whole.

use super::{Traces, carry, made, nanoseconds_of};
use crate::inventory::TRACEPARENT;
use crate::resources::{GpuWorkloadSpec, Object};
use gpuwise_otlp::{Context, Outcome, Span, id};
use kube::core::ObjectMeta;

/// A phase of a change that is over.
#[derive(Debug, Clone)]
pub(in crate::operator) struct Stepped {
    /// `rolling out`, `verifying` or `rolling back`.
    pub phase: &'static str,
    /// Since when (RFC 3339), and until when.
    pub since: String,
    pub until: u64,
    /// The plan that began it.
    pub plan: String,
    /// What the workload is to be, or to be again.
    pub to: String,
    pub outcome: Outcome,
}

impl Traces {
    /// A phase of a workload's change is over.
    pub(in crate::operator) fn stepped(&self, object: &Object<GpuWorkloadSpec>, step: Stepped) {
        let mut span = made::of(object, step.phase, step.took());
        step.told(&mut span);
        self.queue.put(span);
    }

    /// The same of a Deployment that is moved to the GPU that it needs, and was begun with at `began` (RFC 3339); with
    /// the whole of the change, where that is over.
    pub(in crate::operator) fn moved(
        &self,
        deployment: &ObjectMeta,
        began: &str,
        step: Stepped,
        over: bool,
    ) {
        let uid = deployment.uid.as_deref().unwrap_or_default();
        let given = deployment.annotations.as_ref();
        let given = given.and_then(|all| Context::read(all.get(TRACEPARENT)?));
        let hangs = carry::hangs(uid, given);
        let whole = id(&["change", uid, began], 16);
        let name = |text: &Option<String>| text.clone().unwrap_or_default();
        let attributes = vec![
            ("k8s.namespace.name", name(&deployment.namespace)),
            ("k8s.deployment.name", name(&deployment.name)),
        ];
        let (start, end) = step.took();
        let at = |span| Context {
            trace: hangs.at.trace.clone(),
            span,
        };
        let mut span = Span {
            at: at(id(&[step.phase, uid, &start.to_string()], 16)),
            parent: Some(whole.clone()),
            name: step.phase.to_owned(),
            start,
            end,
            attributes: attributes.clone(),
            outcome: Outcome::Unset,
        };
        let back = step.phase == "rolling back";
        let to = step.to.clone();
        step.told(&mut span);
        self.queue.put(span);
        if !over {
            return;
        }
        self.queue.put(Span {
            at: at(whole),
            parent: hangs.parent,
            name: "Deployment".into(),
            start: nanoseconds_of(began).unwrap_or(start).min(start),
            end,
            attributes,
            outcome: if back {
                Outcome::Failed(format!("it is as before: {to}"))
            } else {
                Outcome::Ok
            },
        });
    }
}

impl Stepped {
    /// From when until when, in nanoseconds since 1970.
    fn took(&self) -> made::Took {
        let start = nanoseconds_of(&self.since).unwrap_or(self.until);
        (start, self.until.max(start))
    }

    /// What is said of it.
    fn told(self, span: &mut Span) {
        span.attributes.push(("gpuwise.plan", self.plan));
        span.attributes.push(("gpuwise.gpu", self.to));
        span.outcome = self.outcome;
    }
}
