//! One kind's watch: listed, followed, begun anew with growing pauses when it breaks.

use super::{Figures, Settings, Trouble, Troubles, Why};
use crate::{
    inventory::{Change, Kind},
    objects,
};
use futures_util::StreamExt as _;
use kube::{
    Api, Client, Resource,
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Config, Event, InitialListStrategy},
    },
};
use serde::de::DeserializeOwned;
use std::{fmt::Debug, sync::Arc};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::sleep,
};

/// What all kinds' watches have in common.
#[derive(Clone)]
pub(super) struct Common {
    pub(super) client: Client,
    pub(super) settings: Settings,
    pub(super) streaming: bool,
    pub(super) changes: mpsc::Sender<Change>,
    pub(super) troubles: watch::Sender<Troubles>,
    pub(super) figures: Arc<Figures>,
}

/// Follows every kind.
pub(super) fn all(common: &Common, tasks: &mut JoinSet<()>) {
    // Nodes first: of the others there may be many, and they take the server some time.
    spawn::<objects::Node>(common, tasks, Kind::Nodes, Change::Node);
    spawn::<objects::Pod>(common, tasks, Kind::Pods, Change::Pod);
    spawn::<objects::ReplicaSet>(common, tasks, Kind::ReplicaSets, Change::ReplicaSet);
    spawn::<objects::StatefulSet>(common, tasks, Kind::StatefulSets, Change::StatefulSet);
    spawn::<objects::Job>(common, tasks, Kind::Jobs, Change::Job);
    spawn::<objects::Quota>(common, tasks, Kind::Quotas, Change::Quota);
    spawn::<objects::Budget>(common, tasks, Kind::Budgets, Change::Budget);
    spawn::<objects::PodGroup>(common, tasks, Kind::PodGroups, Change::PodGroup);
    spawn::<objects::ResourceSlice>(common, tasks, Kind::Slices, Change::Slice);
    spawn::<objects::DeviceClass>(common, tasks, Kind::Classes, Change::Class);
    spawn::<objects::ResourceClaim>(common, tasks, Kind::Claims, Change::Claim);
    spawn::<objects::ClaimTemplate>(common, tasks, Kind::Templates, Change::Template);
}

fn spawn<K>(common: &Common, tasks: &mut JoinSet<()>, kind: Kind, change: fn(Event<K>) -> Change)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let common = common.clone();
    tasks.spawn(async move {
        let mut streaming = common.streaming;
        loop {
            match follow::<K>(&common, kind, change, streaming).await {
                End::Pages => streaming = false,
                End::Absent => sleep(common.settings.absent).await,
                End::Closed => return,
            }
        }
    });
}

/// Why a watch is no longer followed.
enum End {
    /// The server does not have lists as the beginning of a watch.
    Pages,
    /// The kind cannot be seen for now.
    Absent,
    /// Nobody listens any more.
    Closed,
}

async fn follow<K>(
    common: &Common,
    kind: Kind,
    change: fn(Event<K>) -> Change,
    streaming: bool,
) -> End
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut config = Config::default().timeout(common.settings.timeout);
    config.page_size = Some(common.settings.page);
    if streaming {
        config.initial_list_strategy = InitialListStrategy::StreamingList;
    }
    let api: Api<K> = Api::all(common.client.clone());
    let mut events = watcher::watcher(api, config).default_backoff().boxed();
    let mut troubled = false;
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                if troubled && !matches!(event, Event::Init) {
                    troubled = false;
                    common.troubles.send_modify(|all| {
                        all.remove(&kind);
                    });
                }
                match event {
                    Event::Init => common.figures.list(kind),
                    _ => common.figures.event(kind),
                }
                if common.changes.send(change(event)).await.is_err() {
                    return End::Closed;
                }
            }
            Err(error) => {
                let trouble = Trouble::of_watch(kind.into(), &error);
                common.figures.error(kind);
                if streaming && trouble.why == Why::Refused {
                    return End::Pages;
                }
                troubled = true;
                let absent = trouble.stays() && !kind.needed();
                let words = trouble.to_string();
                common.troubles.send_modify(|all| {
                    all.insert(kind, trouble);
                });
                if absent {
                    let said = common.changes.send(Change::Absent(kind, words)).await;
                    return if said.is_ok() {
                        End::Absent
                    } else {
                        End::Closed
                    };
                }
            }
        }
    }
    End::Closed
}
