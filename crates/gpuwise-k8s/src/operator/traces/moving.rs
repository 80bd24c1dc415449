//! A pod that moves: from the word that it is to, until it is gone from where it was.

use super::{life::Life, nanoseconds_of};
use crate::{
    inventory::Pod,
    operator::seen::{MOVES_SINCE, MOVES_TO, PLAN, REASON},
};
use gpuwise_otlp::{Context, Outcome, Span, id};

/// A move that is under way, as the pod's annotations tell it: whoever begins to lead goes on with the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Moving {
    pub(super) namespace: String,
    pub(super) name: String,
    uid: String,
    /// The span of the pod itself.
    pod: Context,
    /// In nanoseconds since 1970.
    since: u64,
    words: Vec<(&'static str, String)>,
}

impl Moving {
    /// `None`: it does not move.
    pub(super) fn of(pod: &Pod) -> Option<Self> {
        let to = pod.annotation(MOVES_TO)?;
        let since = nanoseconds_of(pod.annotation(MOVES_SINCE)?)?;
        let noted = |key: &str| pod.annotation(key).unwrap_or_default().to_owned();
        Some(Self {
            namespace: pod.namespace.to_string(),
            name: pod.name.to_string(),
            uid: pod.uid.to_string(),
            pod: Life::new(pod, false).hangs.at,
            since,
            words: vec![
                ("k8s.namespace.name", pod.namespace.to_string()),
                ("k8s.pod.name", pod.name.to_string()),
                ("k8s.pod.uid", pod.uid.to_string()),
                (
                    "gpuwise.move.from",
                    pod.node.as_deref().unwrap_or_default().to_owned(),
                ),
                ("gpuwise.move.to", to.to_owned()),
                ("gpuwise.plan", noted(PLAN)),
                ("gpuwise.reason", noted(REASON)),
            ],
        })
    }

    /// How it went, by what is there of the pod now; `None`: it is still under way.
    pub(super) fn ended(&self, there: Option<&Pod>, now: u64) -> Option<Span> {
        let outcome = match there.filter(|pod| *pod.uid == *self.uid) {
            None => Outcome::Ok,
            Some(pod) if pod.annotation(MOVES_TO).is_some() => return None,
            Some(_) => Outcome::Failed("it stays where it is".into()),
        };
        Some(Span {
            at: Context {
                trace: self.pod.trace.clone(),
                span: id(&["move", &self.uid, &self.since.to_string()], 16),
            },
            parent: Some(self.pod.span.clone()),
            name: "move".into(),
            start: self.since,
            end: now.max(self.since),
            attributes: self.words.clone(),
            outcome,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Moving;
    use crate::inventory::{Change, Fold, Pod};
    use gpuwise_otlp::Outcome;
    use kube::runtime::watcher::Event;
    use serde_json::json;
    use std::sync::Arc;

    fn pod(uid: &str, to: Option<&str>) -> Arc<Pod> {
        let mut annotations = json!({"gpuwise.dev/plan": "1.7"});
        if let Some(to) = to {
            annotations["gpuwise.dev/moves-to"] = to.into();
            annotations["gpuwise.dev/moves-since"] = "2026-01-01T00:00:05.25Z".into();
        }
        let read = serde_json::from_value(json!({
            "metadata": {
                "name": "p", "namespace": "n", "uid": uid, "resourceVersion": "1",
                "creationTimestamp": "2026-01-01T00:00:00Z", "annotations": annotations,
            },
            "spec": {"nodeName": "a"},
        }));
        let mut fold = Fold::new();
        fold.apply(Change::Pod(Event::Apply(read.expect("a pod"))));
        let known = fold.inventory().pods.get("n", "p");
        Arc::clone(known.expect("it is there"))
    }

    #[test]
    fn a_move_ends_with_the_pod_that_leaves_or_fails_where_that_stays() {
        let moving = Moving::of(&pod("one", Some("b"))).expect("it moves");
        assert_eq!(moving.ended(Some(&pod("one", Some("b"))), u64::MAX), None);
        let gone = moving.ended(None, u64::MAX).expect("it is over");
        assert_eq!(gone.outcome, Outcome::Ok);
        // One of the same name, as a StatefulSet makes it.
        assert_eq!(moving.ended(Some(&pod("two", None)), u64::MAX), Some(gone));
        let stays = moving.ended(Some(&pod("one", None)), u64::MAX);
        let stays = stays.expect("it is over");
        assert!(matches!(stays.outcome, Outcome::Failed(_)));
        assert_eq!(Moving::of(&pod("one", None)), None);
    }
}
