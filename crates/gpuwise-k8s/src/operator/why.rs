//! Why a pod waits, or is where it is: asked once, from the function that decides.

use super::{
    Connection, OperatorError,
    once::once,
    seen::State,
    watches::{self, Change},
};
use crate::{
    manifests::Mode,
    steer::{Place, decide},
};
use gpuwise_units::Nanoseconds;
use jiff::Timestamp;
use tokio::sync::mpsc;

/// What is to be explained.
#[derive(Debug, Clone)]
pub struct Why {
    pub namespace: String,
    pub pod: String,
}

/// Why a pod waits, or is where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// `Bound`, `Sent`, `Placed` (a decision would place it now), or a reason of waiting.
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
        // Who cannot be reached is told at once, and not after many tries of each watch.
        client
            .apiserver_version()
            .await
            .map_err(OperatorError::Client)?;
        let (send, mut changes) = mpsc::channel(4096);
        watches::start(&client, &send, true).await;
        let mut state = State::default();
        while !state.is_read() {
            let Some(change): Option<Change> = changes.recv().await else {
                break;
            };
            state.take(change);
        }
        state.refresh();
        explained(&state, asked)
    })
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
    if pod.ask.is_none() {
        return Ok(answer(
            "NoGpu",
            None,
            "it asks for no GPU, or not to be steered: kube-scheduler has it".into(),
        ));
    }
    let now = Nanoseconds(u64::try_from(Timestamp::now().as_nanosecond()).unwrap_or_default());
    let decision = decide(&seen, now).map_err(OperatorError::Rules)?;
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
