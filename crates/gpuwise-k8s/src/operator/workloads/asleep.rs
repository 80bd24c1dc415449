//! Warm pods whose engines sleep: put to sleep once they are ready, and woken before they become replicas.
//!
//! What is asked of an engine is written on its pod before it is asked, and what came of it afterwards, so that whoever
//! leads next knows which pods may sleep, and asks again where nobody waits for the answer.

use super::{Hands, Sleeper, one::One};
use crate::{
    inventory::Pod,
    manifests::NAME,
    objects,
    operator::{
        lead::Term,
        writes::{Writer, Wrote},
    },
    steer::SLEEPS_AT,
};
use kube::{
    Api,
    api::{DynamicObject, EvictParams, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::json;
use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
};
use tokio::time::Instant;

/// What the engine of a warm pod does; not there: it is awake.
pub(super) const STATE: &str = "gpuwise.dev/sleep-state";
/// What came of it, for people.
pub(super) const SAID: &str = "gpuwise.dev/sleep-reason";

gpuwise_units::named! {
    /// What the engine of a warm pod does.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub(in crate::operator) enum Sleep: name {
        #[default]
        Awake = "awake",
        FallsAsleep = "falls-asleep",
        Asleep = "asleep",
        Wakes = "wakes",
        /// It was asked to sleep and does not: it is not asked again.
        Sleepless = "sleepless",
    }
}

impl Sleep {
    pub(in crate::operator) fn of(pod: &Pod) -> Self {
        let said = pod.annotation(STATE);
        let known = said.and_then(|said| Self::ALL.into_iter().find(|one| one.name() == said));
        known.unwrap_or_default()
    }

    /// Whether it can serve as it is.
    pub(super) const fn serves(self) -> bool {
        matches!(self, Self::Awake | Self::Sleepless)
    }
}

/// Pods of which somebody waits for an engine's answer, by uid.
pub(super) type Asked = Arc<Mutex<BTreeSet<String>>>;

/// What is asked of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ask {
    Sleep,
    Wake,
}

impl One {
    /// Wakes those that are to be replicas, and puts to sleep those that are not; those of the first that can serve.
    pub(super) async fn rest(
        &self,
        hands: &Hands<'_>,
        warm: &[Arc<Pod>],
        wanted: Vec<Arc<Pod>>,
    ) -> Vec<Arc<Pod>> {
        let Some(sleeper) = hands.sleeper else {
            return wanted;
        };
        let is_wanted = |pod: &Arc<Pod>| wanted.iter().any(|one| one.uid == pod.uid);
        for pod in warm.iter().filter(|pod| pod.ready && !pod.leaves) {
            let ask = match (Sleep::of(pod), is_wanted(pod)) {
                (Sleep::Awake | Sleep::FallsAsleep, false) | (Sleep::FallsAsleep, true) => {
                    Ask::Sleep
                }
                (Sleep::Asleep | Sleep::Wakes, true) | (Sleep::Wakes, false) => Ask::Wake,
                (Sleep::Awake | Sleep::Sleepless, true)
                | (Sleep::Asleep | Sleep::Sleepless, false) => continue,
            };
            if let Some(port) = pod.annotation(SLEEPS_AT).and_then(|text| text.parse().ok()) {
                self.ask(hands, (sleeper, ask), pod, port).await;
            }
        }
        wanted
            .into_iter()
            .filter(|pod| Sleep::of(pod).serves())
            .collect()
    }

    /// Writes what is asked of a pod's engine, and asks it beside the loop, unless somebody does already.
    async fn ask(
        &self,
        hands: &Hands<'_>,
        (sleeper, ask): (&Arc<dyn Sleeper>, Ask),
        pod: &Arc<Pod>,
        port: u16,
    ) {
        let uid = pod.uid.to_string();
        let new = self
            .asked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(uid.clone());
        if !new {
            return;
        }
        let begun = match ask {
            Ask::Sleep => Sleep::FallsAsleep,
            Ask::Wake => Sleep::Wakes,
        };
        let errand = Errand {
            writer: hands.writer.clone(),
            term: hands.term.clone(),
            asked: Arc::clone(&self.asked),
            sleeper: Arc::clone(sleeper),
            pod: Arc::clone(pod),
            port,
            ask,
        };
        if Sleep::of(pod) != begun {
            let version = Some(&*pod.version);
            if errand.note(begun, "", version).await != Wrote::Done {
                errand.over();
                return;
            }
        }
        tokio::spawn(errand.run());
    }
}

/// One question to one engine.
struct Errand {
    writer: Writer,
    term: Term,
    asked: Asked,
    sleeper: Arc<dyn Sleeper>,
    pod: Arc<Pod>,
    port: u16,
    ask: Ask,
}

impl Errand {
    async fn run(self) {
        let began = Instant::now();
        let done = self.answer().await;
        let took = began.elapsed().as_secs_f64();
        match (self.ask, done) {
            (Ask::Sleep, Ok(())) => {
                self.note(Sleep::Asleep, &format!("asleep after {took:.1} s"), None)
                    .await;
            }
            (Ask::Sleep, Err(why)) => {
                self.note(Sleep::Sleepless, &why, None).await;
            }
            (Ask::Wake, Ok(())) => {
                self.writer.metrics.woken(took);
                self.note(Sleep::Awake, &format!("awake after {took:.1} s"), None)
                    .await;
            }
            (Ask::Wake, Err(why)) => {
                // It may never serve again: its Deployment makes another.
                self.note(Sleep::Wakes, &why, None).await;
                self.evict().await;
            }
        }
        self.over();
    }

    async fn answer(&self) -> Result<(), String> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Pod"));
        let client = self.writer.client.clone();
        let api: Api<DynamicObject> = Api::namespaced_with(client, &self.pod.namespace, &resource);
        let there = api
            .get(&self.pod.name)
            .await
            .map_err(|why| why.to_string())?;
        let address = there
            .data
            .pointer("/status/podIP")
            .and_then(serde_json::Value::as_str);
        let address: Option<IpAddr> = address.and_then(|text| text.parse().ok());
        let at = SocketAddr::new(address.ok_or("it has no address")?, self.port);
        let (sleeper, ask) = (Arc::clone(&self.sleeper), self.ask);
        let asked = tokio::task::spawn_blocking(move || match ask {
            Ask::Sleep => sleeper.sleep(at),
            Ask::Wake => sleeper.wake(at),
        });
        asked.await.map_err(|why| why.to_string())?
    }

    async fn note(&self, state: Sleep, said: &str, version: Option<&str>) -> Wrote {
        let api: Api<objects::Pod> =
            Api::namespaced(self.writer.client.clone(), &self.pod.namespace);
        let mut patch = json!({"metadata": {
            "uid": &*self.pod.uid,
            "annotations": {STATE: state.name(), SAID: said},
        }});
        if let Some(version) = version {
            patch["metadata"]["resourceVersion"] = version.into();
        }
        let params = PatchParams {
            field_manager: Some(NAME.into()),
            ..PatchParams::default()
        };
        let write = async {
            api.patch(&self.pod.name, &params, &Patch::Merge(patch))
                .await
                .map(drop)
        };
        self.writer.fenced(&self.term, "PATCH", write).await
    }

    async fn evict(&self) {
        let api: Api<k8s_openapi::api::core::v1::Pod> =
            Api::namespaced(self.writer.client.clone(), &self.pod.namespace);
        let write = async {
            api.evict(&self.pod.name, &EvictParams::default())
                .await
                .map(drop)
        };
        // Who is kept by a budget is tried again when somebody wakes it again.
        let _ = self.writer.fenced(&self.term, "POST", write).await;
    }

    fn over(&self) {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.remove(&*self.pod.uid);
    }
}
