//! What is asked of the API server: pods made, deleted, looked up.

use super::{held::Held, work::Worker};
use crate::watch::Trouble;
use futures_util::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, Error,
    api::{ApiResource, DeleteParams, DynamicObject, PostParams},
    core::GroupVersionKind,
    runtime::watcher::Event,
};
use serde_json::Value;
use std::{
    future::Future,
    time::{Duration, Instant},
};

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(10);

/// Between two tries.
const PAUSE: Duration = Duration::from_secs(1);

/// Requests at once.
const AT_ONCE: usize = 16;

/// Why something was not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refused {
    /// The API server said no, and will say it again.
    No(String),
    /// Whether it was done is not known, or it is to be tried again.
    Again,
}

fn refused(error: &Error) -> Refused {
    match error {
        // A namespace that is ending, a quota, a pod that is not valid, an account without rights.
        Error::Api(status) if (400..500).contains(&status.code) && status.code != 429 => {
            Refused::No(Trouble::of_client(None, error).said)
        }
        _ => Refused::Again,
    }
}

async fn within<T>(asked: impl Future<Output = kube::Result<T>>) -> Result<T, Option<Error>> {
    match tokio::time::timeout(ANSWER, asked).await {
        Ok(answer) => answer.map_err(Some),
        Err(_) => Err(None),
    }
}

impl Worker {
    /// Makes the pods of a lease that are not made; one that is there already is it.
    pub(super) async fn make(&mut self, held: &mut Held) -> Result<(), String> {
        if !self.templates(held).await? {
            Self::later(held);
            return Ok(());
        }
        let (log, api, settings) = (&self.log, &self.pods_api, &self.settings);
        let missing = held.parts.iter().enumerate().filter(|(_, part)| !part.made);
        let asked = missing.map(|(at, part)| {
            let gives = self.nodes.gives(&part.ask.node);
            let pod = part.ask.pod(log, gives, settings).and_then(|pod| {
                let pod = serde_json::from_value::<Pod>(pod);
                pod.map_err(|_| "it cannot be said as a pod".to_owned())
            });
            async move {
                let pod = match pod {
                    Ok(pod) => pod,
                    Err(why) => return (at, Err(Refused::No(why))),
                };
                let params = PostParams::default();
                let made = match within(api.create(&params, &pod)).await {
                    Ok(pod) => Ok(Some(pod)),
                    // Its watch says more of it.
                    Err(Some(Error::Api(status))) if status.reason == "AlreadyExists" => Ok(None),
                    Err(Some(error)) => Err(refused(&error)),
                    Err(None) => Err(Refused::Again),
                };
                (at, made)
            }
        });
        let asked: Vec<_> = asked.collect();
        let answers: Vec<_> = stream::iter(asked)
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        let mut no = None;
        for (at, answer) in answers {
            match answer {
                Ok(pod) => {
                    held.parts[at].made = true;
                    if let Some(pod) = pod {
                        self.saw(&pod);
                    }
                }
                Err(Refused::No(why)) => no = Some(why),
                Err(Refused::Again) => held.again = Some(Instant::now() + PAUSE),
            }
        }
        no.map_or(Ok(()), Err)
    }

    /// Makes what claims of the pods that are not made are made of; whether all is there.
    async fn templates(&self, held: &Held) -> Result<bool, String> {
        let missing = held.parts.iter().filter(|part| !part.made);
        let needed = missing.filter_map(|part| part.ask.template(&self.settings));
        let mut needed: Vec<Value> = needed.collect();
        needed.dedup();
        let kind = GroupVersionKind::gvk("resource.k8s.io", "v1", "ResourceClaimTemplate");
        let kind = ApiResource::from_gvk(&kind);
        let api = Api::namespaced_with(self.client.clone(), &self.settings.namespace, &kind);
        for template in needed {
            let Ok(template) = serde_json::from_value::<DynamicObject>(template) else {
                return Err("its claim cannot be said".into());
            };
            match within(api.create(&PostParams::default(), &template)).await {
                Ok(_) => {}
                Err(Some(Error::Api(status))) if status.reason == "AlreadyExists" => {}
                Err(Some(error)) => match refused(&error) {
                    Refused::No(why) => return Err(why),
                    Refused::Again => return Ok(false),
                },
                Err(None) => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Tells pods to end, with the grace of their own where none is said; whether all were told.
    pub(super) async fn delete(&self, names: &[String], grace: Option<Duration>) -> bool {
        let params = DeleteParams {
            // 0 would take them off the list before they have ended.
            grace_period_seconds: grace
                .map(|grace| u32::try_from(grace.as_secs_f64().ceil() as u64).unwrap_or(u32::MAX))
                .map(|seconds| seconds.max(1)),
            ..DeleteParams::default()
        };
        let asked = names.iter().map(|name| {
            let (api, params) = (&self.pods_api, &params);
            async move {
                match within(api.delete(name, params)).await {
                    Ok(_) => true,
                    Err(Some(Error::Api(status))) => status.code == 404,
                    Err(_) => false,
                }
            }
        });
        let asked: Vec<_> = asked.collect();
        let answers: Vec<bool> = stream::iter(asked)
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        answers.into_iter().all(|done| done)
    }

    pub(super) fn later(held: &mut Held) {
        held.again = Some(Instant::now() + PAUSE);
    }

    /// Whether a pod is there.
    pub(super) async fn look_up(&mut self, name: &str) -> Result<bool, Refused> {
        match within(self.pods_api.get_opt(name)).await {
            Ok(Some(pod)) => {
                self.saw(&pod);
                Ok(true)
            }
            Ok(None) => Ok(false),
            Err(error) => Err(error.map_or(Refused::Again, |error| refused(&error))),
        }
    }

    /// How a node is, now: watches of pods and of nodes are not of one moment.
    pub(super) async fn look_at_node(&mut self, name: &str) {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let event = match within(nodes.get_opt(name)).await {
            Ok(Some(node)) => Event::Apply(node),
            Ok(None) => {
                let mut node = Node::default();
                node.metadata.name = Some(name.to_owned());
                Event::Delete(node)
            }
            // Its watch will say it.
            Err(_) => return,
        };
        for change in self.nodes.happen(event) {
            self.tell(change);
        }
    }
}
