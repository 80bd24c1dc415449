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
        let owner = owner.map(|(owner, uid)| [&*owner.kind, &*owner.name, &**uid].map(str::to_owned));
        let above = owner
            .as_ref()
            .map(|[.., uid]| carry::hangs(uid, None).at);
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
