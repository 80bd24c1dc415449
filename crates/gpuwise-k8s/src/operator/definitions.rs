//! Whether the cluster's definitions of our kinds are those of this version: what an older one does not know the API
//! server drops without a word, also from a status.

use super::{Journal, metrics::Metrics};
use crate::resources::{GROUP, GpuWorkloadSpec, Resource as _, VERSION, definitions, lacks::lacks};
use http::Request;
use kube::Client;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use tokio::{sync::watch, time::timeout};

/// For so long nobody waits for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks: while something is lacking, and else, as somebody may put an older definition back.
const LACKING: Duration = Duration::from_secs(30);
const WHOLE: Duration = Duration::from_mins(10);
/// Fields that are named, at most.
const NAMED: usize = 6;

/// What definitions lack, by the kind that they are of; kinds that are not there are not in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Lacking(BTreeMap<&'static str, Vec<String>>);

impl Lacking {
    /// By what the API server publishes of our group.
    fn of(published: &Value) -> Self {
        let schemas = published["components"]["schemas"].as_object();
        let mut all = BTreeMap::new();
        for ours in definitions() {
            let Some(kind) = KINDS
                .into_iter()
                .find(|kind| ours["spec"]["names"]["kind"] == *kind)
            else {
                continue;
            };
            let is_its = |schema: &&Value| {
                let names = &schema["x-kubernetes-group-version-kind"][0];
                names["kind"] == kind && names["group"] == GROUP && names["version"] == VERSION
            };
            let Some(theirs) = schemas.and_then(|all| all.values().find(is_its)) else {
                continue;
            };
            let ours = &ours["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
            let found = lacks(ours, theirs);
            if !found.is_empty() {
                all.insert(kind, found);
            }
        }
        Self(all)
    }

    /// In words; `None`: nothing.
    pub(super) fn words(&self) -> Option<String> {
        let kinds: Vec<String> = self.0.iter().map(|(kind, all)| named(kind, all)).collect();
        (!kinds.is_empty()).then(|| format!("{}; {CURE}", kinds.join("; ")))
    }

    /// Why GpuWorkloads are left as they are: what is to be remembered of a change would be dropped.
    pub(super) fn freezes(&self) -> Option<String> {
        let kind = GpuWorkloadSpec::KIND;
        let all = self.0.get(kind)?.iter();
        let status: Vec<String> = all
            .filter(|one| one.starts_with("status."))
            .cloned()
            .collect();
        (!status.is_empty())
            .then(|| format!("nothing is changed while {}; {CURE}", named(kind, &status)))
    }

    /// Kinds of which something would be dropped by any write.
    pub(super) fn kinds(&self) -> BTreeSet<&'static str> {
        self.0.keys().copied().collect()
    }

    pub(super) fn counts(&self) -> BTreeMap<&'static str, u64> {
        let count = |kind| self.0.get(kind).map_or(0, |all| all.len() as u64);
        KINDS.into_iter().map(|kind| (kind, count(kind))).collect()
    }
}

const CURE: &str = "apply the definitions of this version: gpuwise operator manifests | kubectl apply --server-side -f -";
const KINDS: [&str; 4] = ["GpuPolicy", "GpuPriceBook", "GpuQuota", "GpuWorkload"];

fn named(kind: &str, all: &[String]) -> String {
    let first = all.get(..NAMED).unwrap_or(all).join(", ");
    let more = match all.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("the cluster's definition of {kind} is an older one and does not keep {first}{more}")
}

/// Keeps what definitions lack up to date.
pub(super) struct Definitions {
    pub(super) client: Client,
    pub(super) journal: Arc<Journal>,
    pub(super) metrics: Arc<Metrics>,
}

impl Definitions {
    /// Looks once, and then again and again for as long as somebody listens.
    pub(super) async fn follow(self) -> watch::Receiver<Arc<Lacking>> {
        let (tell, told) = watch::channel(Arc::default());
        self.look(&tell).await;
        tokio::spawn(async move {
            while !tell.is_closed() {
                let lacking = tell.borrow().words().is_some();
                tokio::time::sleep(if lacking { LACKING } else { WHOLE }).await;
                self.look(&tell).await;
            }
        });
        told
    }

    async fn look(&self, tell: &watch::Sender<Arc<Lacking>>) {
        let what = "definitions";
        match timeout(PATIENCE, self.read()).await {
            Ok(Ok(lacking)) => {
                self.metrics.lacking(lacking.counts());
                match lacking.words() {
                    Some(words) => self.journal.say(what, &words),
                    None => self.journal.over(what, "all are of this version"),
                }
                tell.send_if_modified(|old| {
                    let another = **old != lacking;
                    if another {
                        *old = Arc::new(lacking);
                    }
                    another
                });
            }
            // What was known last holds.
            Ok(Err(why)) => self.journal.say("definitions cannot be looked at", &why),
            Err(_) => self
                .journal
                .say("definitions cannot be looked at", "no answer"),
        }
    }

    async fn read(&self) -> Result<Lacking, String> {
        let path = format!("/openapi/v3/apis/{GROUP}/{VERSION}");
        let request = Request::get(path).body(Vec::new());
        let request = request.map_err(|error| error.to_string())?;
        match self.client.request::<Value>(request).await {
            Ok(published) => Ok(Lacking::of(&published)),
            // Nothing of ours is there, as its watches say.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Lacking::default()),
            Err(error) => Err(error.to_string()),
        }
    }
}
