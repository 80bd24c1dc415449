//! Watches of all that a look is made from, into one channel.

use super::{meter::Measured, seen::SURGE, turns::TURN, workloads::Audited};
use crate::{
    inventory::{self, Kind},
    objects,
    resources::{
        GROUP, GpuPolicySpec, GpuPriceBookSpec, GpuQuotaSpec, GpuWorkloadSpec, Resource, VERSION,
    },
};
use futures_util::StreamExt as _;
use kube::{
    Api, Client,
    api::DynamicObject,
    core::{ApiResource, GroupVersionKind},
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Event, InitialListStrategy, watcher},
    },
};
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use tokio::sync::mpsc;

/// What has changed.
#[derive(Debug)]
pub(super) enum Change {
    Cluster(Box<inventory::Change>),
    Own(Own, Box<Event<DynamicObject>>),
    /// Deployments that have one pod more, for a move.
    Surge(Box<Event<objects::Deployment>>),
    /// Of this kind of ours there is nothing here, or it may not be read.
    Absent(Own),
    Measured(Box<Measured>),
    /// An audit, by its number.
    Audited(Box<(u64, Result<Vec<Audited>, String>)>),
}

/// Kinds of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Own {
    Policy,
    Prices,
    Quota,
    Workload,
    /// Deployments by which workloads are served.
    Served,
    /// Deployments of others that ask to be moved to the GPU that they need.
    Tiered,
    /// StatefulSets of which a pod has its turn to move.
    Turns,
}

/// Kinds of the cluster that are watched.
pub(super) const KINDS: [Kind; 8] = [
    Kind::Nodes,
    Kind::Pods,
    Kind::PodGroups,
    Kind::Budgets,
    Kind::Slices,
    Kind::Classes,
    Kind::Claims,
    Kind::Templates,
];

/// The label by which a Deployment of somebody's asks for that: `propose` or `auto`.
pub(super) const TIERED: &str = "gpuwise.dev/tier";
/// The label of all that a workload is served by.
pub(super) const SERVED: &str = "gpuwise.dev/workload";

/// A kind of ours as the API calls it.
pub(super) fn api_resource<T: Resource>() -> ApiResource {
    let kind = GroupVersionKind::gvk(GROUP, VERSION, T::KIND);
    ApiResource::from_gvk_with_plural(&kind, T::PLURAL)
}

/// Starts all of them.
///
/// `moves`: Deployments that have one pod more too, and StatefulSets of which one moves.
/// Lists come as the beginning of watches where the server has that.
pub(super) async fn start(client: &Client, send: &mpsc::Sender<Change>, moves: bool) {
    let any: fn() -> watcher::Config = match crate::watch::streams(client).await {
        Ok(true) => || watcher::Config::default().streaming_lists(),
        // Who cannot be reached now is asked again by each watch.
        Ok(false) | Err(_) => watcher::Config::default,
    };
    let absent =
        |kind: Kind| move |why| Change::Cluster(Box::new(inventory::Change::Absent(kind, why)));
    let all = || client.clone();
    let node = |event| Change::Cluster(Box::new(inventory::Change::Node(event)));
    let pod = |event| Change::Cluster(Box::new(inventory::Change::Pod(event)));
    let group = |event| Change::Cluster(Box::new(inventory::Change::PodGroup(event)));
    let budget = |event| Change::Cluster(Box::new(inventory::Change::Budget(event)));
    one((Api::all(all()), any()), send, node, absent(Kind::Nodes));
    one((Api::all(all()), any()), send, pod, absent(Kind::Pods));
    one(
        (Api::all(all()), any()),
        send,
        group,
        absent(Kind::PodGroups),
    );
    one(
        (Api::all(all()), any()),
        send,
        budget,
        absent(Kind::Budgets),
    );
    let slice = |event| Change::Cluster(Box::new(inventory::Change::Slice(event)));
    let class = |event| Change::Cluster(Box::new(inventory::Change::Class(event)));
    let claim = |event| Change::Cluster(Box::new(inventory::Change::Claim(event)));
    let template = |event| Change::Cluster(Box::new(inventory::Change::Template(event)));
    one((Api::all(all()), any()), send, slice, absent(Kind::Slices));
    one((Api::all(all()), any()), send, class, absent(Kind::Classes));
    one((Api::all(all()), any()), send, claim, absent(Kind::Claims));
    one(
        (Api::all(all()), any()),
        send,
        template,
        absent(Kind::Templates),
    );
    if moves {
        let surging = any().labels(SURGE);
        let surge = |event| Change::Surge(Box::new(event));
        // Who may not be read does not surge.
        let unread = |_| Change::Surge(Box::new(Event::InitDone));
        one((Api::all(all()), surging), send, surge, unread);
        let sets = ApiResource::from_gvk(&GroupVersionKind::gvk("apps", "v1", "StatefulSet"));
        let turning = any().labels(TURN);
        kept((Api::all_with(all(), &sets), turning), send, Own::Turns);
    } else {
        let _ = send.try_send(Change::Surge(Box::new(Event::InitDone)));
        let _ = send.try_send(Change::Absent(Own::Turns));
    }
    own::<GpuPolicySpec>(client, send, any(), Own::Policy);
    own::<GpuPriceBookSpec>(client, send, any(), Own::Prices);
    own::<GpuQuotaSpec>(client, send, any(), Own::Quota);
    own::<GpuWorkloadSpec>(client, send, any(), Own::Workload);
    let deployments = ApiResource::from_gvk(&GroupVersionKind::gvk("apps", "v1", "Deployment"));
    kept(
        (Api::all_with(all(), &deployments), any().labels(SERVED)),
        send,
        Own::Served,
    );
    kept(
        (Api::all_with(all(), &deployments), any().labels(TIERED)),
        send,
        Own::Tiered,
    );
}

fn own<T: Resource>(
    client: &Client,
    send: &mpsc::Sender<Change>,
    config: watcher::Config,
    which: Own,
) {
    let api = Api::all_with(client.clone(), &api_resource::<T>());
    kept((api, config), send, which);
}

fn kept(watched: (Api<DynamicObject>, watcher::Config), send: &mpsc::Sender<Change>, which: Own) {
    one(
        watched,
        send,
        move |event| Change::Own(which, Box::new(event)),
        move |_| Change::Absent(which),
    );
}

fn one<K>(
    (api, config): (Api<K>, watcher::Config),
    send: &mpsc::Sender<Change>,
    change: impl Fn(Event<K>) -> Change + Send + 'static,
    absent: impl Fn(String) -> Change + Send + 'static,
) where
    K: kube::Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let send = send.clone();
    tokio::spawn(async move {
        let mut config = config;
        loop {
            let stream = watcher(api.clone(), config.clone()).default_backoff();
            let mut stream = std::pin::pin!(stream);
            let mut refused = false;
            while let Some(event) = stream.next().await {
                let taken = match event {
                    Ok(event) => send.send(change(event)).await,
                    Err(error) => {
                        refused = config.initial_list_strategy != InitialListStrategy::ListWatch
                            && is_refused(&error);
                        match missing(&error) {
                            Some(why) => send.send(absent(why)).await,
                            // It is tried again, with longer and longer breaks.
                            None => Ok(()),
                        }
                    }
                };
                if taken.is_err() {
                    return;
                }
                if refused {
                    break;
                }
            }
            if !refused {
                return;
            }
            // The server is older than that: in pages, then.
            config.initial_list_strategy = InitialListStrategy::ListWatch;
        }
    });
}

/// That the server does not know how to begin a watch with a list.
fn is_refused(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::InitialListFailed(kube::Error::Api(status)) => {
            matches!(status.code, 400 | 422)
        }
        _ => false,
    }
}

/// That the API does not have such objects, or keeps them from us, in words.
fn missing(error: &watcher::Error) -> Option<String> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
            if status.code == 404 || status.code == 403 =>
        {
            Some(status.message.clone())
        }
        _ => None,
    }
}
