//! Whether the cluster's definitions of our kinds are those of this version: what an older one does not know the API
//! server drops without a word, also from a status.

use super::{Journal, metrics::Metrics};
use crate::{
    resources::{GROUP, GpuWorkloadSpec, Resource as _, VERSION, definitions, lacks::lacks},
    watch::{Subject, Trouble, Why},
};
use futures_util::{StreamExt as _, stream::select_all};
use http::Request;
use kube::{
    Api, Client,
    api::DynamicObject,
    core::{ApiResource, GroupVersionKind},
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Event, watcher},
    },
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use tokio::{sync::watch, time::timeout};

/// Fields that are named, at most.
const NAMED: usize = 6;

/// What definitions lack, by the kind that they are of; kinds that are not there are not in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Lacking(BTreeMap<&'static str, Vec<String>>);

/// Schemas of our version by kind, of definitions that are there.
type Schemas = BTreeMap<&'static str, Value>;

impl Lacking {
    fn of(schemas: &Schemas) -> Self {
        let mut all = BTreeMap::new();
        for ours in definitions() {
            let kind = KINDS.into_iter().find(|kind| kind_of(&ours) == *kind);
            let Some((kind, theirs)) = kind.and_then(|kind| Some((kind, schemas.get(kind)?)))
            else {
                continue;
            };
            let found = lacks(schema_of(&ours).unwrap_or(&Value::Null), theirs);
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
/// How long a start waits for definitions.
const PATIENCE: Duration = Duration::from_secs(5);
const KINDS: [&str; 4] = ["GpuPolicy", "GpuPriceBook", "GpuQuota", "GpuWorkload"];

fn named(kind: &str, all: &[String]) -> String {
    let first = all.get(..NAMED).unwrap_or(all).join(", ");
    let more = match all.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("the cluster's definition of {kind} is an older one and does not keep {first}{more}")
}

fn kind_of(definition: &Value) -> &str {
    definition["spec"]["names"]["kind"]
        .as_str()
        .unwrap_or_default()
}

/// The schema that a definition has of our version, where it serves that.
fn schema_of(definition: &Value) -> Option<&Value> {
    let versions = definition["spec"]["versions"].as_array()?;
    let ours = |one: &&Value| one["name"] == VERSION && one["served"] == true;
    Some(&versions.iter().find(ours)?["schema"]["openAPIV3Schema"])
}

/// The same of what the API server publishes of our group.
fn published(all: &Value) -> Schemas {
    let schemas = all["components"]["schemas"].as_object();
    let of = |kind: &'static str| {
        let is_its = |schema: &&Value| {
            let names = &schema["x-kubernetes-group-version-kind"][0];
            names["kind"] == kind && names["group"] == GROUP && names["version"] == VERSION
        };
        let found = schemas.and_then(|all| all.values().find(is_its))?;
        Some((kind, found.clone()))
    };
    KINDS.into_iter().filter_map(of).collect()
}

/// Keeps what definitions lack up to date.
pub(super) struct Definitions {
    pub(super) client: Client,
    pub(super) journal: Arc<Journal>,
    pub(super) metrics: Arc<Metrics>,
}

/// Definitions as their watches bring them.
#[derive(Default)]
struct Known {
    schemas: Schemas,
    /// Kinds whose watch has told of one since it began.
    told: BTreeSet<&'static str>,
    /// Kinds that were read once, or may not be.
    read: BTreeSet<&'static str>,
}

impl Known {
    /// Takes an event in; whether all are known now.
    fn take(&mut self, kind: &'static str, event: Event<DynamicObject>) -> bool {
        match event {
            Event::Init => {
                self.told.remove(kind);
                return false;
            }
            Event::Apply(object) | Event::InitApply(object) => {
                self.told.insert(kind);
                match schema_of(&object.data) {
                    Some(schema) => drop(self.schemas.insert(kind, schema.clone())),
                    None => drop(self.schemas.remove(kind)),
                }
            }
            Event::Delete(_) => drop(self.schemas.remove(kind)),
            Event::InitDone => {
                self.read.insert(kind);
                if !self.told.contains(kind) {
                    self.schemas.remove(kind);
                }
            }
        }
        self.read.len() == KINDS.len()
    }
}

impl Definitions {
    /// Follows them for as long as somebody listens; begins when all were read, or nobody answers.
    pub(super) async fn follow(self) -> watch::Receiver<Arc<Lacking>> {
        let (tell, told) = watch::channel(Arc::default());
        let (first, begins) = watch::channel(false);
        tokio::spawn(self.watch(tell, first));
        let mut begins = begins;
        let _ = timeout(PATIENCE, begins.wait_for(|read| *read)).await;
        told
    }

    async fn watch(self, tell: watch::Sender<Arc<Lacking>>, first: watch::Sender<bool>) {
        let gvk = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        let api: Api<DynamicObject> =
            Api::all_with(self.client.clone(), &ApiResource::from_gvk(&gvk));
        let names = definitions().into_iter().filter_map(|ours| {
            let kind = KINDS.into_iter().find(|kind| kind_of(&ours) == *kind)?;
            Some((kind, ours["metadata"]["name"].as_str()?.to_owned()))
        });
        // One by one, by their names: of other definitions nothing may be read.
        let each = names.map(|(kind, name)| {
            let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
            let events = watcher(api.clone(), config).default_backoff();
            events.map(move |event| (kind, event)).boxed()
        });
        let mut all = select_all(each);
        let mut known = Known::default();
        while let Some((kind, event)) = all.next().await {
            let read = match event {
                Ok(event) => known.take(kind, event),
                Err(error) => self.refused(kind, &error, &mut known).await,
            };
            if tell.is_closed() {
                return;
            }
            if read {
                self.say(&tell, Lacking::of(&known.schemas));
                first.send_replace(true);
            }
        }
    }

    /// A watch does not go. Who has not got the right to it, by manifests of an older version, reads what is published.
    async fn refused(&self, kind: &'static str, error: &watcher::Error, known: &mut Known) -> bool {
        let subject = Subject {
            group: "apiextensions.k8s.io",
            resource: "customresourcedefinitions",
        };
        let trouble = Trouble::of_watch(subject, error);
        let words = trouble.to_string();
        self.journal.say("definitions cannot be watched", &words);
        if trouble.why != Why::Forbidden {
            return false;
        }
        match timeout(PATIENCE, self.read()).await {
            Ok(Ok(schemas)) => {
                known.schemas.remove(kind);
                known
                    .schemas
                    .extend(schemas.into_iter().filter(|one| one.0 == kind));
                known.read.insert(kind);
            }
            // What was known last holds.
            Ok(Err(why)) => self.journal.say("definitions cannot be looked at", &why),
            Err(_) => self
                .journal
                .say("definitions cannot be looked at", "no answer"),
        }
        known.read.len() == KINDS.len()
    }

    fn say(&self, tell: &watch::Sender<Arc<Lacking>>, lacking: Lacking) {
        let what = "definitions";
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

    async fn read(&self) -> Result<Schemas, String> {
        let path = format!("/openapi/v3/apis/{GROUP}/{VERSION}");
        let request = Request::get(path).body(Vec::new());
        let request = request.map_err(|error| error.to_string())?;
        match self.client.request::<Value>(request).await {
            Ok(all) => Ok(published(&all)),
            // Nothing of ours is there, as its watches say.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Schemas::default()),
            Err(error) => Err(error.to_string()),
        }
    }
}
