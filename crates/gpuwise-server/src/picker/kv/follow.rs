//! Follows the events of one engine: in the order of their numbers, those that were missed asked for again.

use super::{
    Ports,
    events::batch,
    index::Belief,
    zmtp::{Peer, PeerError, Role},
};
use crate::picker::pool::Pool;
use std::{sync::Arc, time::Duration};
use tokio::time::{sleep, timeout};

/// Between two tries to connect.
const AGAIN: Duration = Duration::from_secs(1);
/// Between two messages of a replay.
const IDLE: Duration = Duration::from_secs(2);
/// Messages of a replay, at most: ten times what engines keep unless told otherwise.
const REPLAYED: usize = 100_000;

/// Which number comes next. Numbers are those of one connection: one that broke was perhaps another engine's.
#[derive(Debug, Default)]
pub(super) struct Sequence {
    next: Option<u64>,
    live: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Came {
    /// The one that is due.
    Next,
    /// Of which is known all that it says.
    Again,
    /// Numbers begin anew: so does the engine.
    Restarted,
    /// Others come before it, from this one on.
    Missing(u64),
}

impl Sequence {
    /// A message came by subscription.
    pub(super) fn came(&mut self, number: u64) -> Came {
        let last = self.live.replace(number);
        match self.next {
            _ if last.is_some_and(|last| number < last) => Came::Restarted,
            Some(next) if number < next => Came::Again,
            Some(next) if number > next => Came::Missing(next),
            _ => Came::Next,
        }
    }

    pub(super) fn took(&mut self, number: u64) {
        self.next = Some(number.saturating_add(1));
    }
}

/// A message: a topic, a number, events; of anything else nothing.
pub(super) fn parts(mut frames: Vec<Vec<u8>>) -> Option<(u64, Vec<u8>)> {
    let [_, number, _] = frames.as_slice() else {
        return None;
    };
    let number = u64::from_be_bytes(number.as_slice().try_into().ok()?);
    Some((number, frames.pop()?))
}

pub(super) struct Follower {
    pub(super) pool: Arc<Pool>,
    pub(super) address: String,
    pub(super) events: String,
    pub(super) replay: Option<String>,
}

impl Follower {
    pub(super) fn of(pool: &Arc<Pool>, address: &str, ports: Ports) -> Option<Self> {
        Some(Self {
            pool: Arc::clone(pool),
            address: address.to_owned(),
            events: ports.events.of(address)?,
            replay: match ports.replay {
                None => None,
                Some(port) => Some(port.of(address)?),
            },
        })
    }

    /// For as long as the runtime runs.
    pub(super) async fn run(self) {
        loop {
            // What is read after a while without it is of an engine that nothing is known of.
            let _ = self.connected().await;
            self.note(|shown| shown.follows = false);
            self.forget();
            sleep(AGAIN).await;
        }
    }

    fn note(&self, note: impl FnOnce(&mut super::index::Shown)) {
        if let Some(index) = self.pool.index() {
            index.note(&self.address, note);
        }
    }

    fn forget(&self) {
        self.pool.forget(&self.address);
    }

    async fn connected(&self) -> Result<(), PeerError> {
        let mut peer = Peer::connect(&self.events, Role::Subscriber).await?;
        peer.subscribe().await?;
        self.forget();
        self.note(|shown| shown.follows = true);
        let mut sequence = Sequence::default();
        self.replayed(&mut sequence, 0).await;
        loop {
            let Some((number, payload)) = parts(peer.message().await?) else {
                self.note(|shown| shown.malformed += 1);
                continue;
            };
            match sequence.came(number) {
                Came::Again => continue,
                Came::Next => {}
                Came::Restarted => {
                    self.forget();
                    sequence = Sequence::default();
                    self.replayed(&mut sequence, 0).await;
                }
                Came::Missing(from) => {
                    if !self.replayed(&mut sequence, from).await {
                        self.note(|shown| shown.lost += 1);
                        self.forget();
                    }
                }
            }
            // A replay has perhaps brought it.
            if sequence.next.is_none_or(|next| next <= number) {
                self.take(&payload);
                sequence.took(number);
            }
        }
    }

    fn take(&self, payload: &[u8]) {
        let Some(index) = self.pool.index() else {
            return;
        };
        let Ok(events) = batch(payload) else {
            // It said something, and it is not known what.
            self.note(|shown| shown.malformed += 1);
            return self.forget();
        };
        if index.take(&self.address, events) == Belief::Falls {
            self.pool.forget_sent(&self.address);
        }
    }

    /// Asks for what was said from a number on. Whether all of it came, up to what is being said now.
    async fn replayed(&self, sequence: &mut Sequence, from: u64) -> bool {
        let Some(replay) = &self.replay else {
            return false;
        };
        let asked = async {
            let mut peer = Peer::connect(replay, Role::Dealer).await?;
            peer.send(&[b"", &from.to_be_bytes()]).await?;
            Ok::<_, PeerError>(peer)
        };
        let Ok(mut peer) = asked.await else {
            return false;
        };
        let mut due = from;
        for _ in 0..REPLAYED {
            let Ok(Ok(frames)) = timeout(IDLE, peer.message()).await else {
                return false;
            };
            match parts(frames) {
                // The end is number -1.
                Some((u64::MAX, _)) => return sequence.live.is_none_or(|live| due >= live),
                Some((number, payload)) if number >= due => {
                    // Who asks for all gets what is still kept, from wherever that begins.
                    if number > due && due > 0 {
                        return false;
                    }
                    self.take(&payload);
                    sequence.took(number);
                    due = number.saturating_add(1);
                }
                _ => return false,
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_is_due_or_known_or_after_a_gap_or_of_a_new_life() {
        let mut sequence = Sequence::default();
        // Joined in the middle; a replay took up to 9.
        sequence.took(9);
        for (number, came) in [
            (8, Came::Again),
            (9, Came::Again),
            (10, Came::Next),
            (13, Came::Missing(11)),
            (0, Came::Restarted),
        ] {
            assert_eq!(sequence.came(number), came, "{number}");
            if came == Came::Next {
                sequence.took(number);
            }
        }
        assert_eq!(Sequence::default().came(7), Came::Next);
    }

    #[test]
    fn a_message_has_a_topic_a_number_and_events() {
        let number = 7_u64.to_be_bytes().to_vec();
        let whole = vec![b"kv".to_vec(), number.clone(), b"x".to_vec()];
        assert_eq!(parts(whole), Some((7, b"x".to_vec())));
        for bad in [
            vec![],
            vec![b"kv".to_vec(), number.clone()],
            vec![b"kv".to_vec(), b"short".to_vec(), b"x".to_vec()],
            vec![number.clone(), number.clone(), number.clone(), number],
        ] {
            assert_eq!(parts(bad), None);
        }
    }
}
