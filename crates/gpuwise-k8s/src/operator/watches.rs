//! Watches of all that a look is made from, into one channel.

mod follow;

use super::{meter::Measured, seen::SURGE, turns::TURN, workloads::Audited};
use crate::{
    inventory::{self, Kind},
    objects,
    resources::{
        GROUP, GpuPolicySpec, GpuPriceBookSpec, GpuQuotaSpec, GpuWorkloadSpec, Resource, VERSION,
    },
    watch::{Subject, Trouble},
};
use follow::{Told, What, follow};
use kube::{
    Api, Client,
    api::DynamicObject,
    core::{ApiResource, GroupVersionKind},
    runtime::watcher::{self, Event},
};
use serde::de::DeserializeOwned;
use std::{collections::BTreeMap, fmt::Debug};
use tokio::sync::{mpsc, watch};

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

/// The same as roles call it.
pub(super) const fn subject_of<T: Resource>() -> Subject {
    Subject {
        group: GROUP,
        resource: T::PLURAL,
    }
}

/// What is wrong with watches now, by what they are of; of one kind there may be several, by their labels.
pub(super) type Troubles = BTreeMap<(Subject, &'static str), Trouble>;

/// Starts all of them; what goes wrong with one is told until it goes again.
///
/// `moves`: Deployments that have one pod more too, and StatefulSets of which one moves.
/// Lists come as the beginning of watches where the server has that.
pub(super) async fn start(
    client: &Client,
    send: &mpsc::Sender<Change>,
    moves: bool,
) -> watch::Receiver<Troubles> {
    // Who cannot be reached now is asked again by each watch.
    let streaming = crate::watch::streams(client).await.unwrap_or(false);
    let (tell, troubles) = watch::channel(Troubles::new());
    let all = Starter {
        client,
        send,
        tell: &tell,
        streaming,
    };
    all.cluster(Kind::Nodes, inventory::Change::Node);
    all.cluster(Kind::Pods, inventory::Change::Pod);
    all.cluster(Kind::PodGroups, inventory::Change::PodGroup);
    all.cluster(Kind::Budgets, inventory::Change::Budget);
    all.cluster(Kind::Slices, inventory::Change::Slice);
    all.cluster(Kind::Classes, inventory::Change::Class);
    all.cluster(Kind::Claims, inventory::Change::Claim);
    all.cluster(Kind::Templates, inventory::Change::Template);
    if moves {
        all.surging();
        all.apps(("StatefulSet", "statefulsets"), TURN, Own::Turns);
    } else {
        let _ = send.try_send(Change::Surge(Box::new(Event::InitDone)));
        let _ = send.try_send(Change::Absent(Own::Turns));
    }
    all.own::<GpuPolicySpec>(Own::Policy);
    all.own::<GpuPriceBookSpec>(Own::Prices);
    all.own::<GpuQuotaSpec>(Own::Quota);
    all.own::<GpuWorkloadSpec>(Own::Workload);
    all.apps(DEPLOYMENTS, SERVED, Own::Served);
    all.apps(DEPLOYMENTS, TIERED, Own::Tiered);
    troubles
}

/// A kind, and how paths have it.
const DEPLOYMENTS: (&str, &str) = ("Deployment", "deployments");

/// What all watches have in common.
struct Starter<'a> {
    client: &'a Client,
    send: &'a mpsc::Sender<Change>,
    tell: &'a watch::Sender<Troubles>,
    streaming: bool,
}

impl Starter<'_> {
    /// Objects of a kind of the cluster.
    fn cluster<K>(&self, kind: Kind, change: fn(Event<K>) -> inventory::Change)
    where
        K: kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        let what = What {
            subject: kind.into(),
            label: "",
        };
        let cluster = |change| Change::Cluster(Box::new(change));
        self.one(
            Api::<K>::all(self.client.clone()),
            what,
            move |event| cluster(change(event)),
            move |why| cluster(inventory::Change::Absent(kind, why)),
        );
    }

    /// Deployments that have one pod more, for a move.
    fn surging(&self) {
        let (_, resource) = DEPLOYMENTS;
        let what = What {
            subject: Subject {
                group: "apps",
                resource,
            },
            label: SURGE,
        };
        self.one(
            Api::all(self.client.clone()),
            what,
            |event| Change::Surge(Box::new(event)),
            // Who may not be read does not surge.
            |_| Change::Surge(Box::new(Event::InitDone)),
        );
    }

    /// Objects of the group `apps` with a label.
    fn apps(
        &self,
        (kind, resource): (&'static str, &'static str),
        label: &'static str,
        which: Own,
    ) {
        let what = What {
            subject: Subject {
                group: "apps",
                resource,
            },
            label,
        };
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("apps", "v1", kind));
        self.kept(&kind, what, which);
    }

    /// Objects of a kind of ours.
    fn own<T: Resource>(&self, which: Own) {
        let what = What {
            subject: subject_of::<T>(),
            label: "",
        };
        self.kept(&api_resource::<T>(), what, which);
    }

    fn kept(&self, kind: &ApiResource, what: What, which: Own) {
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), kind);
        self.one(
            api,
            what,
            move |event| Change::Own(which, Box::new(event)),
            move |_| Change::Absent(which),
        );
    }

    fn one<K>(
        &self,
        api: Api<K>,
        what: What,
        change: impl Fn(Event<K>) -> Change + Send + 'static,
        absent: impl Fn(String) -> Change + Send + 'static,
    ) where
        K: kube::Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        let mut config = watcher::Config::default();
        if self.streaming {
            config = config.streaming_lists();
        }
        if !what.label.is_empty() {
            config = config.labels(what.label);
        }
        let told = Told {
            what,
            send: self.send.clone(),
            troubles: self.tell.clone(),
        };
        tokio::spawn(follow((api, config), told, change, absent));
    }
}
