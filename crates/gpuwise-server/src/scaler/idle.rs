//! For how long nothing has come to a service, waited in it, run in it or started.

use super::service::Read;

/// Since when a service does nothing. A replica that starts does something: a request may wait for it of which nothing
/// tells.
#[derive(Debug, Default)]
pub(super) struct Idle {
    /// When something was last to do, in milliseconds; `None`: nothing was looked at yet.
    last_ms: Option<u64>,
    /// When what was last wanted where there was nothing serves, where nothing tells what is ready.
    serves_ms: u64,
    starts: bool,
}

impl Idle {
    /// Looks at what was read; `wanted`: replicas that were wanted before, `start_ms`: how long one takes until it
    /// serves.
    pub(super) fn look(&mut self, at_ms: u64, read: &Read, wanted: Option<u32>, start_ms: u64) {
        let fresh = self.last_ms.is_none();
        let last = self.last_ms.get_or_insert(at_ms);
        let busy = works(read) || std::mem::replace(&mut self.starts, false);
        if busy {
            *last = at_ms;
        }
        // Before the first look something may have been started, of which only pods tell.
        let unknown = read.pods.is_none() && read.ready.is_none_or(|ready| ready <= 0.0);
        if fresh && unknown {
            self.serves_ms = at_ms.saturating_add(start_ms);
        }
        let wanted = wanted.map(f64::from);
        self.starts = match (read.pods, read.ready, wanted) {
            (Some(pods), _, wanted) => {
                pods.starting > 0 || wanted.is_some_and(|wanted| wanted > f64::from(pods.ready))
            }
            (None, Some(ready), Some(wanted)) => wanted > ready,
            _ => at_ms < self.serves_ms,
        };
        if self.starts {
            self.last_ms = Some(at_ms);
        }
    }

    /// Nothing could be read: what came meanwhile is not known, and is not taken for nothing.
    pub(super) fn unknown(&mut self, at_ms: u64) {
        if let Some(last) = &mut self.last_ms {
            *last = at_ms;
        }
    }

    /// So many are wanted now where so many were.
    pub(super) const fn wants(&mut self, at_ms: u64, before: Option<u32>, now: u32, start_ms: u64) {
        if now > 0 && matches!(before, None | Some(0)) {
            self.serves_ms = at_ms.saturating_add(start_ms);
        }
    }

    /// Whether a replica starts, as far as is known.
    pub(super) const fn starts(&self) -> bool {
        self.starts
    }

    /// For how long there has been nothing to do, in seconds.
    pub(super) fn seconds(&self, at_ms: u64) -> f64 {
        let last = self.last_ms.unwrap_or(at_ms);
        at_ms.saturating_sub(last) as f64 / 1000.0
    }
}

/// Whether something comes, waits or runs.
pub(super) fn works(read: &Read) -> bool {
    let some = |count: Option<f64>| count.is_some_and(|count| count > 0.0);
    read.rate > 0.0 || some(read.queued) || some(read.running)
}
