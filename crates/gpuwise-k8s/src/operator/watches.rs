//! Watches of all that a look is made from, into one channel.

use crate::{
    objects::{Node, Pod, PodGroup},
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
        watcher::{self, Event, watcher},
    },
};
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use tokio::sync::mpsc;

/// What has changed.
#[derive(Debug)]
pub(super) enum Change {
    Node(Event<Node>),
    Pod(Event<Pod>),
    Group(Event<PodGroup>),
    Own(Own, Event<DynamicObject>),
    /// Of this there is nothing here, or it may not be read.
    Absent(What),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    Nodes,
    Pods,
    Groups,
    Own(Own),
}

/// Kinds of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Own {
    Policy,
    Prices,
    Quota,
    Workload,
}

/// A kind of ours as the API calls it.
pub(super) fn api_resource<T: Resource>() -> ApiResource {
    let kind = GroupVersionKind::gvk(GROUP, VERSION, T::KIND);
    ApiResource::from_gvk_with_plural(&kind, T::PLURAL)
}

/// Starts all of them.
pub(super) fn start(client: &Client, send: &mpsc::Sender<Change>) {
    one(Api::all(client.clone()), send, What::Nodes, Change::Node);
    one(Api::all(client.clone()), send, What::Pods, Change::Pod);
    one(Api::all(client.clone()), send, What::Groups, Change::Group);
    own::<GpuPolicySpec>(client, send, Own::Policy);
    own::<GpuPriceBookSpec>(client, send, Own::Prices);
    own::<GpuQuotaSpec>(client, send, Own::Quota);
    own::<GpuWorkloadSpec>(client, send, Own::Workload);
}

fn own<T: Resource>(client: &Client, send: &mpsc::Sender<Change>, which: Own) {
    let api = Api::all_with(client.clone(), &api_resource::<T>());
    one(api, send, What::Own(which), move |event| Change::Own(which, event));
}

fn one<K>(
    api: Api<K>,
    send: &mpsc::Sender<Change>,
    what: What,
    change: impl Fn(Event<K>) -> Change + Send + 'static,
) where
    K: kube::Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let send = send.clone();
    tokio::spawn(async move {
        let stream = watcher(api, watcher::Config::default()).default_backoff();
        let mut stream = std::pin::pin!(stream);
        while let Some(event) = stream.next().await {
            let sent = match event {
                Ok(event) => send.send(change(event)).await,
                Err(error) if absent(&error) => send.send(Change::Absent(what)).await,
                // It is tried again, with longer and longer breaks.
                Err(_) => Ok(()),
            };
            if sent.is_err() {
                return;
            }
        }
    });
}

/// Whether the API does not have such objects, or keeps them from us.
fn absent(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => {
            status.code == 404 || status.code == 403
        }
        _ => false,
    }
}
