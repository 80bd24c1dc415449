//! Why a pod waits, or is where it is: asked once, from the function that decides.

use super::{
    Connection, OperatorError, clock,
    once::once,
    seen::State,
    watches::{self, Change, KINDS, Troubles},
};
use crate::{
    manifests::Mode,
    steer::{Place, decide, to_scheduler},
    watch::{Subject, Trouble, Why as Cause},
};
use kube::Client;
use std::time::Duration;
use tokio::sync::mpsc;

/// After so long without anything new the API server counts as silent.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is to be explained.
#[derive(Debug, Clone)]
pub struct Why {
    pub namespace: String,
    pub pod: String,
}

/// Why a pod waits, or is where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// `Bound`, `Sent`, `Placed` (a decision would place it now), `LeftToScheduler`, `NoGpu`, or a reason of waiting.
    pub reason: String,
    /// The node, where there is one.
    pub node: Option<String>,
    pub words: String,
    /// Whether our gate holds it.
    pub gated: bool,
}

/// Reads the cluster once and explains one pod.
///
/// # Errors
/// When the cluster cannot be read, or there is no such pod.
pub fn why(connection: &Connection, asked: &Why) -> Result<Answer, OperatorError> {
    once(connection, |client| async move {
        let mut state = read(&client, PATIENCE).await?;
        state.refresh();
        explained(&state, asked)
    })
}

/// All that a decision is made of, once.
async fn read(client: &Client, patience: Duration) -> Result<State, OperatorError> {
    // Who cannot be reached is told at once, and not after many tries of each watch.
    let asked = client.apiserver_version().await;
    asked.map_err(|error| OperatorError::Trouble(Trouble::of_client(None, &error)))?;
    let (send, mut changes) = mpsc::channel(4096);
    let mut troubles = watches::start(client, &send, true).await;
    let mut state = State::default();
    while !state.is_read() {
        let change: Option<Change> = tokio::select! {
            change = changes.recv() => change,
            _ = troubles.changed() => {
                if let Some(trouble) = hopeless(&troubles.borrow_and_update()) {
                    return Err(OperatorError::Trouble(trouble));
                }
                continue;
            }
            () = tokio::time::sleep(patience) => None,
        };
        let Some(change) = change else {
            let first = troubles.borrow().values().next().cloned();
            return Err(first.map_or(OperatorError::Silent(patience), OperatorError::Trouble));
        };
        state.take(change);
    }
    Ok(state)
}

/// Why waiting would not help: there is no answer without nodes and pods, and none for who is not known.
fn hopeless(troubles: &Troubles) -> Option<Trouble> {
    let needed = |subject: Subject| {
        let mut kinds = KINDS.into_iter().filter(|kind| kind.needed());
        kinds.any(|kind| Subject::from(kind) == subject)
    };
    let stays = troubles.iter().find(|((subject, _), trouble)| {
        trouble.why == Cause::Unauthorized || (needed(*subject) && trouble.stays())
    });
    stays.map(|(_, trouble)| trouble.clone())
}

fn explained(state: &State, asked: &Why) -> Result<Answer, OperatorError> {
    let missing = || OperatorError::NoPod(format!("{}/{}", asked.namespace, asked.pod));
    // Everybody who waits is looked at as the operator would, whether it acts or proposes.
    let seen = state.seen(Mode::Propose, &|_| false);
    let found = seen
        .pods
        .iter()
        .position(|pod| pod.namespace == asked.namespace && pod.name == asked.pod);
    let at = found.ok_or_else(missing)?;
    let pod = seen.pods.get(at).ok_or_else(missing)?;
    let answer = |reason: &str, node: Option<&str>, words: String| Answer {
        reason: reason.to_owned(),
        node: node.map(str::to_owned),
        words,
        gated: pod.place == Place::Gated,
    };
    match &pod.place {
        Place::Bound(node) => {
            return Ok(answer(
                "Bound",
                Some(node),
                format!("it is bound to node {node}"),
            ));
        }
        Place::Sent(node) => {
            let words = format!("its gate is off, and kube-scheduler is to bind it to node {node}");
            return Ok(answer("Sent", Some(node), words));
        }
        Place::Gated | Place::Free => {}
    }
    if let Some(why) = to_scheduler(pod) {
        let words = format!("kube-scheduler has it: {why}");
        return Ok(answer("LeftToScheduler", None, words));
    }
    if pod.ask.is_none() {
        return Ok(answer(
            "NoGpu",
            None,
            "it asks for no GPU, or not to be steered: kube-scheduler has it".into(),
        ));
    }
    let decision = decide(&seen, clock::now_since_1970()).map_err(OperatorError::Rules)?;
    if let Some(placed) = decision.placed.iter().find(|placed| placed.pod == at) {
        let words = format!("there is room: {}", placed.words);
        return Ok(answer("Placed", Some(&placed.node), words));
    }
    let of_it = |room: &&crate::steer::Room| room.pods.iter().any(|(pod, _)| *pod == at);
    if let Some(room) = decision.rooms.iter().find(of_it) {
        return Ok(answer(
            "MakingRoom",
            None,
            format!("it has no place yet; {}", room.words),
        ));
    }
    let waits = decision.waits.iter().find(|waits| waits.pod == at);
    Ok(waits.map_or_else(
        || answer("Waits", None, "it was not looked at".into()),
        |waits| answer(waits.reason, None, waits.words.clone()),
    ))
}
