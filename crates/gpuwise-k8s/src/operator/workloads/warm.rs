//! Pods that are kept warm beside the replicas of a workload: `NAME-warm`, a Deployment of its own, makes and refills
//! them; one becomes a replica by other labels and another owner, in a write.

use super::{
    Following, Hands,
    apply::scale,
    asleep::{SAID, STATE, Sleep},
    make::known,
    one::One,
    say::condition,
};
use crate::steer::{PREEMPTIBLE, WARM};
use crate::{
    inventory::Pod,
    manifests::NAME,
    objects,
    operator::writes::Wrote,
    resources::{Spares, Status, WarmStatus, WorkloadScaling},
    tiers::Rollout,
};
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
    core::PartialObjectMeta,
};
use serde_json::json;
use std::sync::Arc;
use tokio::time::Instant;

const HASH: &str = "pod-template-hash";
const REVISION: &str = "deployment.kubernetes.io/revision";

/// The Deployment of pods that are kept warm beside a workload.
pub(super) fn kept_warm(name: &str) -> String {
    format!("{name}-warm")
}

impl One {
    /// Makes warm pods replicas, as many as are wanted and not there; how many are. What it cannot do the Deployment
    /// does by pods of its own.
    pub(super) async fn adopt(&mut self, hands: &Hands<'_>, began: Instant) -> u32 {
        let (namespace, name) = (&self.ask.namespace, &self.ask.name);
        let stands = hands.state.stands(namespace, name);
        let shown = |uid: &String| stands.warm.iter().any(|pod| *pod.uid == **uid);
        self.scaled.adopted.retain(shown);
        let Some((_, wanted)) = known(hands, namespace, name, self.scaled.own.as_ref()) else {
            return 0;
        };
        let pods = stands.adoptable(wanted, &self.scaled.adopted);
        // While pods become others warm ones may be of either kind.
        let settled = self.status.change.is_none() || self.rollout(hands) == Rollout::Done;
        let wanted = if settled { pods } else { Vec::new() };
        let pods = self.rest(hands, &stands.warm, wanted).await;
        if pods.is_empty() {
            return 0;
        }
        let mut adopted = 0;
        for pod in self.given(hands, pods).await {
            hands.writer.metrics.adopted(began.elapsed().as_secs_f64());
            self.scaled.adopted.insert(pod.uid.to_string());
            adopted += 1;
        }
        adopted
    }

    /// Gives warm pods to the Deployment of replicas; those that it has now.
    async fn given(&self, hands: &Hands<'_>, mut pods: Vec<Arc<Pod>>) -> Vec<Arc<Pod>> {
        let ask = &self.ask;
        let warm = newest(hands, &ask.namespace, &kept_warm(&ask.name)).await;
        let own = newest(hands, &ask.namespace, &ask.name).await;
        let (Some((replica_set, uid, hash)), Some((_, _, warm))) = (own, warm) else {
            return Vec::new();
        };
        // Those that a change has not reached yet are not what its pods are now.
        pods.retain(|pod| pod.label(HASH) == Some(warm.as_str()));
        let api: Api<objects::Pod> = Api::namespaced(hands.writer.client.clone(), &ask.namespace);
        let params = PatchParams {
            field_manager: Some(NAME.into()),
            ..PatchParams::default()
        };
        let mut given = Vec::new();
        for pod in pods {
            let patch = json!({"metadata": {
                "uid": &*pod.uid,
                "resourceVersion": &*pod.version,
                "labels": {WARM: null, "app": ask.name, HASH: hash},
                // Whom warm pods make way for is nothing to replicas.
                "annotations": {PREEMPTIBLE: null, STATE: null, SAID: null},
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": replica_set, "uid": uid,
                    "controller": true, "blockOwnerDeletion": false,
                }],
            }});
            let write = async {
                api.patch(&pod.name, &params, &Patch::Merge(patch))
                    .await
                    .map(drop)
            };
            if hands.writer.fenced(hands.term, "PATCH", write).await == Wrote::Done {
                given.push(pod);
            }
        }
        given
    }

    /// Keeps as many pods warm as are wanted, and says how many are; whether all was written.
    pub(super) async fn keep_warm(
        &mut self,
        hands: &Hands<'_>,
        scaling: &WorkloadScaling,
        following: Option<&Following>,
    ) -> bool {
        let Some(spares) = scaling.warm else {
            self.status.warm = None;
            return true;
        };
        let before = self.status.warm.clone().unwrap_or_default();
        let known_before = (!before.why.is_empty()).then_some(before.wanted);
        let fresh = scaling.warm_of(following.and_then(|one| one.warm));
        let (wanted, why) = match (spares, fresh, following) {
            (Spares::Count(count), ..) => (count, "`scaling.warm` says so".to_owned()),
            (Spares::Auto(_), Some(wanted), Some(following)) => {
                let wanted = i32::try_from(wanted).unwrap_or(i32::MAX);
                // Figures change at each look: they are said where the number does.
                let why = if known_before == Some(wanted) {
                    before.why.clone()
                } else {
                    following.why.clone()
                };
                (wanted, why)
            }
            _ if known_before.is_some() => (before.wanted, before.why.clone()),
            (Spares::Auto(_), Some(wanted), None) => {
                let least = "`minWarm`; what comes is not known yet".to_owned();
                (i32::try_from(wanted).unwrap_or(i32::MAX), least)
            }
            (Spares::Auto(_), None, _) => (0, "what comes is not known yet".to_owned()),
        };
        let mut whole = true;
        if spares.count().is_none() {
            let wanted = u32::try_from(wanted).unwrap_or_default();
            whole = self.reach_warm(hands, wanted).await;
        }
        let stands = hands.state.stands(&self.ask.namespace, &self.ask.name);
        let ready = stands
            .ready()
            .saturating_sub(self.scaled.adopted.len() as u32);
        let lent = stands.lent(hands.waits);
        let number = |count: u32| i32::try_from(count).unwrap_or(i32::MAX);
        let status = WarmStatus {
            wanted,
            ready: number(ready),
            asleep: number(stands.warm.iter().filter(|pod| is_asleep(pod)).count() as u32),
            lent: number(lent),
            why,
        };
        self.say_warm(&status);
        self.status.warm = Some(status);
        whole
    }

    /// Writes how many pods are to be warm, where there are others; whether that was written.
    async fn reach_warm(&mut self, hands: &Hands<'_>, wanted: u32) -> bool {
        let (namespace, name) = (&self.ask.namespace, kept_warm(&self.ask.name));
        let known = known(hands, namespace, &name, self.scaled.warm.as_ref());
        let Some((version, _)) = known.filter(|(_, there)| *there != wanted) else {
            return true;
        };
        if scale(hands.term, hands.writer, namespace, &name, wanted).await != Wrote::Done {
            return false;
        }
        self.scaled.warm = Some((version, wanted));
        true
    }

    fn say_warm(&mut self, warm: &WarmStatus) {
        let WarmStatus {
            wanted,
            ready,
            lent,
            why,
            ..
        } = warm;
        let (holds, reason, words) = if *wanted == 0 {
            (Status::True, "NoneWanted", format!("none: {why}"))
        } else if ready >= wanted {
            (Status::True, "Ready", format!("{wanted}: {why}"))
        } else if *lent > 0 {
            let words = format!(
                "{lent} of {wanted} have no GPU, which others use: replicas that come instead start from nothing; {wanted}: {why}"
            );
            (Status::False, "Lent", words)
        } else {
            let words = format!("{ready} of {wanted} are ready; {wanted}: {why}");
            (Status::False, "Starting", words)
        };
        condition(&mut self.status, ("Warm", holds), reason, &words);
    }
}

fn is_asleep(pod: &Pod) -> bool {
    Sleep::of(pod) == Sleep::Asleep
}

/// The ReplicaSet that a Deployment makes pods by: name, uid, and the hash of its template.
async fn newest(hands: &Hands<'_>, namespace: &str, app: &str) -> Option<(String, String, String)> {
    let api: Api<objects::ReplicaSet> = Api::namespaced(hands.writer.client.clone(), namespace);
    let mine = ListParams::default().labels(&format!("app={app}"));
    let all = api.list_metadata(&mine).await.ok()?;
    let revision = |one: &PartialObjectMeta<objects::ReplicaSet>| {
        let notes = one.metadata.annotations.as_ref();
        let text = notes.and_then(|all| all.get(REVISION));
        text.and_then(|text| text.parse::<u64>().ok())
    };
    let one = all.items.into_iter().max_by_key(revision)?;
    let hash = one.metadata.labels.as_ref()?.get(HASH)?.clone();
    Some((one.metadata.name?, one.metadata.uid?, hash))
}
