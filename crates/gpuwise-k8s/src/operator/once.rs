//! What is asked of a cluster once, by whoever may read it.

use super::{
    Connection, OperatorError, PriceBook, WorkloadAsk, clock,
    seen::State,
    watches::{Change, Own, api_resource, subject_of},
};
use crate::{
    inventory::{self, Kind},
    objects,
    resources::{Decided, GpuPriceBookSpec, GpuWorkloadSpec, GpuWorkloadStatus, Object, Resource},
    watch::{Subject, Trouble, Why},
};
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams},
    runtime::watcher::Event,
};
use serde::de::DeserializeOwned;
use std::{fmt::Debug, time::Duration};

/// Objects of a page.
const PAGE: u32 = 500;

/// Which workload is to be sized.
#[derive(Debug, Clone)]
pub enum Which {
    Named {
        namespace: String,
        name: String,
    },
    /// As it is written in a file.
    Given(Box<Object<GpuWorkloadSpec>>),
}

/// A workload as the operator would size it now.
#[derive(Debug, Clone)]
pub struct Asked {
    pub ask: WorkloadAsk,
    /// What was decided for it last.
    pub decided: Option<Decided>,
}

/// Asks, and waits for the answer.
pub(super) fn once<T, F: Future<Output = Result<T, OperatorError>>>(
    connection: &Connection,
    ask: impl FnOnce(Client) -> F,
) -> Result<T, OperatorError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(OperatorError::Runtime)?;
    let answer = runtime.block_on(async {
        let client = connection.client().await?;
        ask(client).await
    });
    runtime.shutdown_timeout(Duration::from_millis(100));
    answer
}

/// The cluster's price book; `None`: it has none, or we may not read it.
///
/// # Errors
/// When the cluster cannot be asked.
pub fn price_book(connection: &Connection) -> Result<Option<PriceBook>, OperatorError> {
    once(connection, |client| async move {
        let mut state = State::default();
        prices(&client, &mut state).await?;
        Ok(state.prices())
    })
}

/// What the operator would size a workload by: its spec, the GPUs and prices of the cluster, and where its SLO was
/// missed of late. Reads nodes, the price book, and the workload where that is named.
///
/// # Errors
/// When the cluster cannot be read, or there is no such workload.
pub fn workload(connection: &Connection, which: Which) -> Result<Asked, OperatorError> {
    once(connection, |client| async move {
        let object = match which {
            Which::Named { namespace, name } => named(&client, &namespace, &name).await?,
            Which::Given(object) => *object,
        };
        let mut state = State::default();
        let nodes = listed(&Api::all(client.clone()), Kind::Nodes.into()).await;
        let nodes: Vec<objects::Node> = nodes.map_err(OperatorError::Trouble)?;
        for node in nodes {
            let node = inventory::Change::Node(Event::Apply(node));
            state.take(Change::Cluster(Box::new(node)));
        }
        prices(&client, &mut state).await?;
        state.refresh();
        Ok(asked(object, &state))
    })
}

fn asked(object: Object<GpuWorkloadSpec>, state: &State) -> Asked {
    let status = object
        .status
        .and_then(|status| serde_json::from_value(status).ok());
    let status: GpuWorkloadStatus = status.unwrap_or_default();
    let now = clock::now();
    let mut avoided = status.avoided;
    avoided.retain(|one| one.holds(now));
    Asked {
        ask: WorkloadAsk {
            namespace: object.metadata.namespace.unwrap_or_default(),
            name: object.metadata.name,
            spec: object.spec,
            products: (*state.products()).clone(),
            slices: state.has_slices(),
            prices: state.prices(),
            avoided,
            ..WorkloadAsk::default()
        },
        decided: status.decision,
    }
}

async fn named(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<Object<GpuWorkloadSpec>, OperatorError> {
    let resource = api_resource::<GpuWorkloadSpec>();
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let found = api.get_opt(name).await;
    let found = found.map_err(|error| refused(subject_of::<GpuWorkloadSpec>(), &error))?;
    let found = found.ok_or_else(|| OperatorError::NoWorkload(format!("{namespace}/{name}")))?;
    let read = serde_json::to_value(found).and_then(serde_json::from_value);
    read.map_err(|why| OperatorError::Rules(format!("GpuWorkload {namespace}/{name}: {why}")))
}

/// Takes the price book in, where there is one that we may read.
async fn prices(client: &Client, state: &mut State) -> Result<(), OperatorError> {
    let api = Api::all_with(client.clone(), &api_resource::<GpuPriceBookSpec>());
    let books: Vec<DynamicObject> = match listed(&api, subject_of::<GpuPriceBookSpec>()).await {
        Ok(books) => books,
        Err(trouble) if matches!(trouble.why, Why::Missing | Why::Forbidden) => Vec::new(),
        Err(trouble) => return Err(OperatorError::Trouble(trouble)),
    };
    for book in books {
        state.take(Change::Own(Own::Prices, Box::new(Event::Apply(book))));
    }
    Ok(())
}

fn refused(of: Subject, error: &kube::Error) -> OperatorError {
    let mut trouble = Trouble::of_client(Some(of), error);
    if trouble.why == Why::Forbidden {
        trouble.hint = Some(of.rule("\"get\""));
    }
    OperatorError::Trouble(trouble)
}

/// All of a kind, page by page.
async fn listed<K: Clone + DeserializeOwned + Debug>(
    api: &Api<K>,
    of: Subject,
) -> Result<Vec<K>, Trouble> {
    let mut params = ListParams::default().limit(PAGE);
    let mut all = Vec::new();
    loop {
        let page = api.list(&params).await;
        let page = page.map_err(|error| Trouble::of_client(Some(of), &error))?;
        all.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(all),
        }
    }
}

/// Reads a GpuWorkload as it is written for `kubectl apply`.
///
/// # Errors
/// What is wrong with it, in words.
pub fn read_workload(object: serde_json::Value) -> Result<Object<GpuWorkloadSpec>, String> {
    let kind = object["kind"].as_str().unwrap_or_default();
    if kind != GpuWorkloadSpec::KIND {
        return Err(format!(
            "its kind is {kind:?}, and not {}",
            GpuWorkloadSpec::KIND
        ));
    }
    serde_json::from_value(object).map_err(|why| why.to_string())
}
