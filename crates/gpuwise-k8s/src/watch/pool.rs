//! Who is in an InferencePool: its ready pods, by address and port, as watches of both bring them.

use super::{ConnectError, Source, connect, objectives::Objectives};
use futures_util::{Stream, StreamExt as _};
use kube::{
    Api, Client,
    api::DynamicObject,
    core::{ApiResource, GroupVersionKind},
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Config, Event},
    },
};
use serde_json::Value;
use std::{collections::BTreeMap, pin::Pin};

/// What a pool says: which pods, and on which of their ports.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Chosen {
    /// As a selector of labels is written.
    selector: String,
    ports: Vec<u16>,
}

/// Names a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolName {
    pub namespace: String,
    pub name: String,
}

type Events = Pin<Box<dyn Stream<Item = watcher::Result<Event<DynamicObject>>> + Send>>;

/// What is told of a pool.
#[derive(Debug)]
pub enum PoolSaid<'a> {
    /// Who is in it now, by host and port.
    Members(Vec<String>),
    /// The priorities of its InferenceObjectives, by their names.
    Objectives(BTreeMap<String, i64>),
    /// Why it cannot be seen at the moment; it is tried again.
    Trouble(&'a str),
}

/// Follows a pool on a thread of its own, for as long as the process runs.
///
/// # Errors
/// When the kubeconfig cannot be used, or there is no thread.
pub fn follow_pool(
    source: &Source,
    pool: PoolName,
    tell: impl FnMut(PoolSaid<'_>) + Send + 'static,
) -> Result<(), ConnectError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(ConnectError::of_machine)?;
    let client = runtime.block_on(connect(source))?;
    std::thread::Builder::new()
        .name("pool".into())
        .spawn(move || runtime.block_on(members(client, &pool, tell)))
        .map_err(ConnectError::of_machine)?;
    Ok(())
}

async fn members(client: Client, pool: &PoolName, mut tell: impl FnMut(PoolSaid<'_>)) {
    let kind = GroupVersionKind::gvk("inference.networking.k8s.io", "v1", "InferencePool");
    let pools = Api::namespaced_with(
        client.clone(),
        &pool.namespace,
        &ApiResource::from_gvk(&kind),
    );
    let one = Config::default().fields(&format!("metadata.name={}", pool.name));
    let mut pools: Events = watcher::watcher(pools, one).default_backoff().boxed();
    let mut pods: Option<Events> = None;
    let mut chosen = Chosen::default();
    let mut there: BTreeMap<String, String> = BTreeMap::new();
    // Of a list only its end says who is there.
    let (mut listing, mut known) = (false, false);
    let mut last: Option<Vec<String>> = None;
    let mut objectives = Objectives::of(&client, pool);
    loop {
        let event = tokio::select! {
            event = pools.next() => Seen::Pool(event),
            event = next(&mut pods) => Seen::Pod(event),
            Some(said) = objectives.next() => {
                match said {
                    Ok(all) => tell(PoolSaid::Objectives(all)),
                    Err(why) => tell(PoolSaid::Trouble(&why)),
                }
                continue;
            }
        };
        match event {
            Seen::Pool(Some(Ok(event))) => {
                let now = match event {
                    Event::Apply(object) | Event::InitApply(object) => chosen_by(&object),
                    Event::Delete(_) => Chosen::default(),
                    Event::Init | Event::InitDone => continue,
                };
                if now != chosen {
                    there.clear();
                    pods = (!now.selector.is_empty())
                        .then(|| pods_of(&client, &pool.namespace, &now.selector));
                    known = pods.is_none();
                    chosen = now;
                }
            }
            Seen::Pod(Some(Ok(event))) => match event {
                Event::Init => {
                    listing = true;
                    there.clear();
                }
                Event::InitDone => (listing, known) = (false, true),
                Event::Apply(pod) | Event::InitApply(pod) => {
                    let name = pod.metadata.name.clone().unwrap_or_default();
                    match address(&pod) {
                        Some(address) => there.insert(name, address),
                        None => there.remove(&name),
                    };
                }
                Event::Delete(pod) => {
                    there.remove(&pod.metadata.name.unwrap_or_default());
                }
            },
            Seen::Pool(Some(Err(error))) | Seen::Pod(Some(Err(error))) => {
                tell(PoolSaid::Trouble(&error.to_string()));
                continue;
            }
            Seen::Pool(None) | Seen::Pod(None) => return,
        }
        if known && !listing {
            let all = there.values().flat_map(|address| {
                let at = move |port: &u16| format!("{address}:{port}");
                chosen.ports.iter().map(at)
            });
            let all: Vec<String> = all.collect();
            if last.as_ref() != Some(&all) {
                tell(PoolSaid::Members(all.clone()));
                last = Some(all);
            }
        }
    }
}

enum Seen {
    Pool(Option<watcher::Result<Event<DynamicObject>>>),
    Pod(Option<watcher::Result<Event<DynamicObject>>>),
}

async fn next(events: &mut Option<Events>) -> Option<watcher::Result<Event<DynamicObject>>> {
    match events {
        Some(events) => events.next().await,
        None => std::future::pending().await,
    }
}

fn pods_of(client: &Client, namespace: &str, selector: &str) -> Events {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Pod"));
    let api = Api::namespaced_with(client.clone(), namespace, &kind);
    let config = Config::default().labels(selector);
    watcher::watcher(api, config).default_backoff().boxed()
}

fn chosen_by(pool: &DynamicObject) -> Chosen {
    let spec = &pool.data["spec"];
    let labels = spec["selector"]["matchLabels"].as_object();
    let labels = labels.into_iter().flatten();
    let selector: Vec<String> = labels
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    let ports = spec["targetPorts"].as_array().into_iter().flatten();
    Chosen {
        selector: selector.join(","),
        ports: ports
            .filter_map(|port| u16::try_from(port["number"].as_u64()?).ok())
            .collect(),
    }
}

/// Where a pod that is ready answers; IPv6 in brackets, as it stands before a port.
fn address(pod: &DynamicObject) -> Option<String> {
    let status = &pod.data["status"];
    let ready = |one: &Value| one["type"] == "Ready" && one["status"] == "True";
    let is_ready = status["conditions"].as_array()?.iter().any(ready);
    let ip = status["podIP"].as_str().filter(|ip| !ip.is_empty())?;
    (is_ready && pod.metadata.deletion_timestamp.is_none()).then(|| {
        if ip.contains(':') {
            format!("[{ip}]")
        } else {
            ip.to_owned()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(data: Value) -> DynamicObject {
        serde_json::from_value(data).expect("an object")
    }

    #[test]
    fn a_pool_says_which_pods_and_ports() {
        let pool = object(json!({
            "metadata": {"name": "p"},
            "spec": {
                "selector": {"matchLabels": {"app": "llama", "tier": "a"}},
                "targetPorts": [{"number": 8000}, {"number": 8001}],
            },
        }));
        let chosen = chosen_by(&pool);
        assert_eq!(chosen.selector, "app=llama,tier=a");
        assert_eq!(chosen.ports, [8000, 8001]);
    }

    #[test]
    fn only_pods_that_are_ready_and_stay_have_an_address() {
        let pod = |ip: &str, ready: &str, deleted: Value| {
            object(json!({
                "metadata": {"name": "a", "deletionTimestamp": deleted},
                "status": {"podIP": ip, "conditions": [{"type": "Ready", "status": ready}]},
            }))
        };
        assert_eq!(
            address(&pod("10.0.0.7", "True", Value::Null)).as_deref(),
            Some("10.0.0.7")
        );
        assert_eq!(
            address(&pod("fd00::7", "True", Value::Null)).as_deref(),
            Some("[fd00::7]")
        );
        assert_eq!(address(&pod("10.0.0.7", "False", Value::Null)), None);
        assert_eq!(address(&pod("", "True", Value::Null)), None);
        assert_eq!(
            address(&pod("10.0.0.7", "True", json!("2026-11-26T00:00:00Z"))),
            None
        );
    }
}
