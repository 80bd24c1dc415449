//! A pod that is steered: from its gate to its processes.

use super::{carry, carry::Hangs};
use crate::inventory::{Came, Phase, Pod};
use gpuwise_otlp::{Context, Outcome, Span, id};

const SECOND: u64 = 1_000_000_000;

/// Where a pod was when it was last looked at.
#[derive(Debug)]
pub(super) struct Life {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    /// Its controller, where that begins the trace: kind, name and uid.
    pub(super) owner: Option<[String; 3]>,
    /// The workload that it serves by its label.
    pub(super) serves: Option<String>,
    pub(super) hangs: Hangs,
    /// Since 1970, in nanoseconds.
    pub(super) created: u64,
    /// When the last thing that is known of it happened.
    last: u64,
    gated: bool,
    scheduled: bool,
    started: bool,
}

/// Whether a pod's start is over, and when that was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Over {
    No,
    /// It is ready, or has done its work.
    At(u64),
    Failed,
}

fn nanoseconds(seconds: i64) -> u64 {
    u64::try_from(seconds)
        .unwrap_or_default()
        .saturating_mul(SECOND)
}

impl Life {
    pub(super) fn new(pod: &Pod, gated: bool) -> Self {
        let given = pod.traceparent.as_deref().and_then(Context::read);
        let own = given.is_none();
        let owner = pod.owner.as_ref().zip(pod.owner_uid.as_ref());
        let owner = owner.filter(|_| own);
        let owner =
            owner.map(|(owner, uid)| [&*owner.kind, &*owner.name, &**uid].map(str::to_owned));
        let above = owner.as_ref().map(|[.., uid]| carry::hangs(uid, None).at);
        let created = nanoseconds(pod.created);
        let gated_at = pod.annotation(crate::admission::GATED_AT);
        let gated_at = gated_at.and_then(|text| text.parse::<jiff::Timestamp>().ok());
        let gated_at = gated_at.and_then(|at| u64::try_from(at.as_nanosecond()).ok());
        let began = gated_at.unwrap_or(created);
        Self {
            namespace: pod.namespace.to_string(),
            name: pod.name.to_string(),
            uid: pod.uid.to_string(),
            owner,
            serves: pod
                .label(crate::operator::watches::SERVED)
                .map(str::to_owned),
            hangs: carry::hangs(&pod.uid, given.or(above)),
            // The webhook sees it before it is written, and Kubernetes tells its time to the second.
            created: created.min(began),
            last: began,
            gated,
            scheduled: false,
            started: false,
        }
    }

    /// Something of it that took until then from the last thing that is known.
    fn step(&mut self, name: &str, end: u64, more: &[(&'static str, String)]) -> Span {
        let start = self.last;
        self.last = end.max(start);
        let mut span = self.span(name, start, self.last);
        span.attributes.extend(more.iter().cloned());
        span
    }

    fn span(&self, name: &str, start: u64, end: u64) -> Span {
        Span {
            at: Context {
                trace: self.hangs.at.trace.clone(),
                span: id(&[name, &self.uid], 16),
            },
            parent: Some(self.hangs.at.span.clone()),
            name: name.to_owned(),
            start,
            end,
            attributes: self.attributes(),
            outcome: Outcome::Unset,
        }
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        vec![
            ("k8s.namespace.name", self.namespace.clone()),
            ("k8s.pod.name", self.name.clone()),
            ("k8s.pod.uid", self.uid.clone()),
        ]
    }

    /// Its gate is off: it waited until a decision began, that was made, and then it was written.
    pub(super) fn released(
        &mut self,
        (began, decided): (u64, u64),
        written: u64,
        words: &[(&'static str, String)],
    ) -> [Span; 3] {
        self.gated = false;
        [
            self.step("waiting", began, &[]),
            self.step("decided", decided, words),
            self.step("gate removed", written, words),
        ]
    }

    /// What has happened since it was last looked at, `now` in nanoseconds, and whether that is all there will be.
    pub(super) fn goes_on(&mut self, pod: &Pod, now: u64) -> (Vec<Span>, Over) {
        let came: Came = pod.came;
        let mut spans = Vec::new();
        // Kubernetes tells the second, and what a watch tells has happened.
        let at = |seconds: i64| now.min(nanoseconds(seconds).saturating_add(SECOND - 1));
        let node = [(
            "k8s.node.name",
            pod.node.as_deref().unwrap_or_default().to_owned(),
        )];
        if let Some(seconds) = came.scheduled.filter(|_| !self.scheduled) {
            self.scheduled = true;
            spans.push(self.step("scheduled", at(seconds), &node));
        }
        if let Some(seconds) = came.started.filter(|_| self.scheduled && !self.started) {
            self.started = true;
            spans.push(self.step("containers started", at(seconds), &node));
        }
        let mut over = Over::No;
        if let Some(seconds) = came.ready.filter(|_| self.scheduled) {
            spans.push(self.step("ready", at(seconds), &node));
            over = Over::At(self.last);
        } else if pod.phase.ended() {
            let ended = came.ended.map_or(now, at);
            spans.push(self.step("run", ended, &node));
            over = match pod.phase {
                Phase::Failed => Over::Failed,
                _ => Over::At(self.last),
            };
        }
        match over {
            Over::No => {}
            Over::At(end) => spans.push(self.whole(end, Outcome::Ok)),
            Over::Failed => spans.push(self.whole(self.last, failed("it failed"))),
        }
        (spans, over)
    }

    /// It is gone before it was ready.
    pub(super) fn gone(&mut self, now: u64) -> Vec<Span> {
        let mut spans = Vec::new();
        if self.gated {
            spans.push(self.step("waiting", now, &[]));
        }
        let end = now.max(self.last);
        spans.push(self.whole(end, failed("it was deleted before it was ready")));
        spans
    }

    /// All of it.
    fn whole(&self, end: u64, outcome: Outcome) -> Span {
        Span {
            at: self.hangs.at.clone(),
            parent: self.hangs.parent.clone(),
            outcome,
            ..self.span("pod", self.created, end)
        }
    }
}

fn failed(why: &str) -> Outcome {
    Outcome::Failed(why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{Life, Over, SECOND};
    use crate::inventory::{Change, Fold, Pod};
    use gpuwise_otlp::Span;
    use kube::runtime::watcher::Event;
    use serde_json::{Value, json};
    use std::sync::Arc;

    const CREATED: u64 = 1_767_225_600;

    /// A pod with this status, as a watch brings it.
    fn pod(status: &Value, traceparent: Option<&str>) -> Arc<Pod> {
        let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u-j", "controller": true});
        let read = serde_json::from_value(json!({
            "metadata": {
                "name": "p", "namespace": "n", "uid": "u-p", "resourceVersion": "1",
                "creationTimestamp": "2026-01-01T00:00:00Z", "ownerReferences": [owner],
                "annotations": traceparent.map(|text| json!({"traceparent": text})),
            },
            "status": status,
        }));
        let mut fold = Fold::new();
        fold.apply(Change::Pod(Event::Apply(read.expect("a pod"))));
        let known = fold.inventory().pods.get("n", "p");
        Arc::clone(known.expect("it is there"))
    }

    fn ready() -> Value {
        let since = |second: u32| format!("2026-01-01T00:00:{second:02}Z");
        let holds = |kind: &str, second| json!({"type": kind, "status": "True", "lastTransitionTime": since(second)});
        json!({
            "phase": "Running",
            "conditions": [holds("PodScheduled", 3), holds("Ready", 9)],
            "containerStatuses": [
                {"state": {"running": {"startedAt": since(6)}}},
                {"state": {"running": {"startedAt": since(5)}}},
            ],
        })
    }

    fn names(spans: &[Span]) -> Vec<&str> {
        spans.iter().map(|span| span.name.as_str()).collect()
    }

    #[test]
    fn a_life_is_told_in_the_order_in_which_it_went_and_within_its_pod() {
        let at = |seconds: u64| (CREATED + seconds) * SECOND;
        let mut life = Life::new(&pod(&json!({}), None), true);
        let mut spans = life.released((at(1), at(2)), at(2) + 5, &[]).to_vec();
        let (more, over) = life.goes_on(&pod(&ready(), None), at(60));
        spans.extend(more);
        let told = [
            "waiting",
            "decided",
            "gate removed",
            "scheduled",
            "containers started",
            "ready",
            "pod",
        ];
        assert_eq!(names(&spans), told);
        let (root, parts) = spans.split_last().expect("the pod's");
        for (one, next) in parts.iter().zip(&parts[1..]) {
            assert_eq!(one.end, next.start, "{} and {}", one.name, next.name);
        }
        assert!(
            parts
                .iter()
                .all(|part| part.parent.as_ref() == Some(&root.at.span))
        );
        assert!(root.start <= parts[0].start);
        assert_eq!(Over::At(root.end), over);
        assert_eq!(root.end, at(10) - 1, "the second in which it was ready");
    }

    #[test]
    fn who_is_started_anew_goes_on_with_the_same_trace() {
        let now = (CREATED + 60) * SECOND;
        let told = || {
            Life::new(&pod(&json!({}), None), false)
                .goes_on(&pod(&ready(), None), now)
                .0
        };
        assert_eq!(told(), told());
        assert_eq!(
            names(&told()),
            ["scheduled", "containers started", "ready", "pod"]
        );
    }

    #[test]
    fn a_trace_is_that_which_is_given_else_that_of_the_controller() {
        let given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let life = Life::new(&pod(&json!({}), Some(given)), true);
        assert_eq!(life.hangs.at.trace, "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(life.hangs.parent.as_deref(), Some("00f067aa0ba902b7"));
        let own = Life::new(&pod(&json!({}), Some("00-x")), true);
        assert_eq!(own.hangs.at.trace, super::carry::trace("u-j"));
    }

    #[test]
    fn what_is_gone_before_it_was_ready_has_failed() {
        let mut life = Life::new(&pod(&json!({}), None), true);
        let spans = life.gone((CREATED + 5) * SECOND);
        assert_eq!(names(&spans), ["waiting", "pod"]);
    }
}
