//! One watch: followed, begun anew where it breaks, and what goes wrong with it told.

use super::{Change, Troubles};
use crate::watch::{Subject, Trouble, Why};
use futures_util::StreamExt as _;
use kube::{
    Api,
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Event, InitialListStrategy, watcher},
    },
};
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use tokio::sync::{mpsc, watch};

/// What is watched: objects of a kind, all or those with a label.
#[derive(Clone, Copy)]
pub(super) struct What {
    pub(super) subject: Subject,
    /// Empty: all of them.
    pub(super) label: &'static str,
}

/// Who is told of it.
pub(super) struct Told {
    pub(super) what: What,
    pub(super) send: mpsc::Sender<Change>,
    pub(super) troubles: watch::Sender<Troubles>,
}

impl Told {
    /// It goes, or goes again.
    fn goes(&self) {
        let key = (self.what.subject, self.what.label);
        self.troubles
            .send_if_modified(|all| all.remove(&key).is_some());
    }

    /// Something is wrong with it; the words, where such objects are not there or are kept from us.
    fn fails(&self, error: &watcher::Error) -> Option<String> {
        let trouble = Trouble::of_watch(self.what.subject, error);
        // Both are no trouble: it is asked for in another way.
        if matches!(trouble.why, Why::Gone | Why::Refused) {
            return None;
        }
        let absent = matches!(trouble.why, Why::Missing | Why::Forbidden);
        let words = absent.then(|| trouble.said.clone());
        let key = (self.what.subject, self.what.label);
        self.troubles.send_if_modified(|all| {
            let known = all.get(&key) == Some(&trouble);
            if !known {
                all.insert(key, trouble);
            }
            !known
        });
        words
    }
}

/// Follows one kind for as long as somebody takes what comes. What fails is tried again, with longer and longer
/// breaks.
pub(super) async fn follow<K>(
    (api, mut config): (Api<K>, watcher::Config),
    told: Told,
    change: impl Fn(Event<K>) -> Change,
    absent: impl Fn(String) -> Change,
) where
    K: kube::Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    loop {
        let stream = watcher(api.clone(), config.clone()).default_backoff();
        let mut stream = std::pin::pin!(stream);
        let mut refused = false;
        while let Some(event) = stream.next().await {
            let change = match event {
                Ok(event) => {
                    // At its beginning it has only been asked for.
                    if !matches!(event, Event::Init) {
                        told.goes();
                    }
                    Some(change(event))
                }
                Err(error) => {
                    refused = config.initial_list_strategy != InitialListStrategy::ListWatch
                        && is_refused(&error);
                    told.fails(&error).map(&absent)
                }
            };
            if let Some(change) = change
                && told.send.send(change).await.is_err()
            {
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
