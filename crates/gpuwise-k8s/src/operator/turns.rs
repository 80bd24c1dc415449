//! StatefulSets of which a pod has its turn to move: read from them, and written to them.

use super::{
    lead::Term,
    now_text,
    seen::{MOVES_SINCE, MOVES_TO, PLAN},
    writes::{Writer, Wrote},
};
use crate::{
    manifests::NAME,
    steer::{Pod, Turn},
};
use gpuwise_units::Nanoseconds;
use jiff::Timestamp;
use kube::{
    Api,
    api::{DynamicObject, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::json;

/// The label of a StatefulSet of which a pod moves: that pod's uid.
pub(super) const TURN: &str = "gpuwise.dev/turn";
/// That pod's name.
const TURN_POD: &str = "gpuwise.dev/turn-pod";

/// Turns as StatefulSets say them; one that does not say all is none.
pub(super) fn read<'a>(all: impl Iterator<Item = &'a DynamicObject>) -> Vec<Turn> {
    all.filter_map(|one| {
        let meta = &one.metadata;
        let notes = meta.annotations.as_ref()?;
        let since: Timestamp = notes.get(MOVES_SINCE)?.parse().ok()?;
        Some(Turn {
            namespace: meta.namespace.clone()?,
            set: meta.name.clone()?,
            pod: notes.get(TURN_POD)?.clone(),
            uid: meta.labels.as_ref()?.get(TURN)?.clone(),
            to: notes.get(MOVES_TO)?.clone(),
            since: Nanoseconds(u64::try_from(since.as_nanosecond()).unwrap_or_default()),
        })
    })
    .collect()
}

impl Writer {
    fn sets(&self, namespace: &str) -> Api<DynamicObject> {
        let sets = ApiResource::from_gvk(&GroupVersionKind::gvk("apps", "v1", "StatefulSet"));
        Api::namespaced_with(self.client.clone(), namespace, &sets)
    }

    /// It is a pod's turn of its StatefulSet to move, unless it is another's.
    pub(super) async fn turn(&self, term: &Term, pod: &Pod, plan: &str) -> Wrote {
        let (Some((set, _)), Some((to, _))) = (&pod.standing.set, &pod.standing.moves) else {
            return Wrote::Changed;
        };
        let mut anothers = false;
        let api = self.sets(&pod.namespace);
        let write = async {
            let there = api.get(set).await?;
            let known = there.metadata.labels.as_ref();
            if let Some(uid) = known.and_then(|labels| labels.get(TURN)) {
                anothers = *uid != pod.uid;
                return Ok(());
            }
            let patch = json!({"metadata": {
                "resourceVersion": there.metadata.resource_version,
                "labels": {TURN: pod.uid},
                "annotations": {
                    TURN_POD: pod.name, MOVES_TO: to, MOVES_SINCE: now_text(), PLAN: plan,
                },
            }});
            let patch = Patch::Merge(&patch);
            api.patch(set, &ours(), &patch).await.map(drop)
        };
        match self.fenced(term, "PATCH", write).await {
            Wrote::Done if anothers => Wrote::Changed,
            other => other,
        }
    }

    /// A turn is over.
    pub(super) async fn over(&self, term: &Term, turn: &Turn) -> Wrote {
        let api = self.sets(&turn.namespace);
        let write = async {
            let there = api.get(&turn.set).await?;
            let known = there.metadata.labels.as_ref();
            if known.and_then(|labels| labels.get(TURN)) != Some(&turn.uid) {
                return Ok(());
            }
            let patch = json!({"metadata": {
                "resourceVersion": there.metadata.resource_version,
                "labels": {TURN: null},
                "annotations": {TURN_POD: null, MOVES_TO: null, MOVES_SINCE: null},
            }});
            let patch = Patch::Merge(&patch);
            api.patch(&turn.set, &ours(), &patch).await.map(drop)
        };
        self.fenced(term, "PATCH", write).await
    }
}

fn ours() -> PatchParams {
    PatchParams {
        field_manager: Some(NAME.into()),
        ..PatchParams::default()
    }
}
