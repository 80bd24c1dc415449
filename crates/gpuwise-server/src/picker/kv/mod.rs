//! What engines hold in their KV caches, as their own events say (vLLM, SGLang): by ZeroMQ, in MessagePack.
//!
//! Events name tokens, and a picker sees text. Whose engine serves `/tokenize` is asked, beside the request and never
//! before it, which tokens a prompt was; from then on its beginnings are known by their tokens, and it is seen which
//! engine holds them and which one holds them no more. Without it, events still say when an engine holds nothing.

mod ask;
mod events;
mod follow;
mod held;
mod index;
#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "what fails here fails the test")]
mod tests;
mod texts;
mod tokens;
mod zmtp;

pub use ask::Asker;
pub(super) use ask::{Ask, asks};
pub(super) use index::{Index, Shown as Followed};
pub(super) use texts::Piece;

use super::{Membership, pool::Pool};
use follow::Follower;
use std::{collections::BTreeMap, str::FromStr, sync::Arc};
use tokio::task::JoinHandle;

/// Where an engine publishes, beside its own port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Port {
    /// At this one.
    At(u16),
    /// So many after the one that it answers at: where several engines are on one host.
    Plus(u16),
}

/// A port is a number from 1 to 65535, with `+` before it where it is counted from the engine's own.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a port such as 5557, or +1000 for a port that is so many after the engine's own")]
pub struct PortError;

impl FromStr for Port {
    type Err = PortError;

    fn from_str(text: &str) -> Result<Self, PortError> {
        let (plus, digits) = match text.strip_prefix('+') {
            Some(digits) => (true, digits),
            None => (false, text),
        };
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        match digits.parse() {
            Ok(number) if is_number && number > 0 => Ok(if plus {
                Self::Plus(number)
            } else {
                Self::At(number)
            }),
            _ => Err(PortError),
        }
    }
}

impl Port {
    /// Beside an engine at this host and port; none where there is no such port.
    fn of(self, address: &str) -> Option<String> {
        let (host, own) = address.rsplit_once(':')?;
        let port = match self {
            Self::At(port) => port,
            Self::Plus(more) => own.parse::<u16>().ok()?.checked_add(more)?,
        };
        Some(format!("{host}:{port}"))
    }
}

/// Where engines publish events of their KV caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ports {
    pub events: Port,
    /// Where they say again what they said; `None`: nowhere.
    pub replay: Option<Port>,
}

/// Follows every engine of a pool for as long as it is in it.
pub(super) async fn follows(pool: Arc<Pool>, membership: Membership, ports: Ports) {
    let mut endpoints = membership.0.subscribe();
    let mut running: BTreeMap<String, JoinHandle<()>> = BTreeMap::new();
    loop {
        let now = endpoints.borrow_and_update().clone().unwrap_or_default();
        running.retain(|address, task| {
            let stays = now.contains(address);
            if !stays {
                task.abort();
                if let Some(index) = pool.index() {
                    index.left(address);
                }
            }
            stays
        });
        for address in now {
            if running.contains_key(&address) {
                continue;
            }
            if let Some(follower) = Follower::of(&pool, &address, ports) {
                running.insert(address, tokio::spawn(follower.run()));
            }
        }
        // It never ends: who says it is held by the picker.
        if endpoints.changed().await.is_err() {
            return;
        }
    }
}
