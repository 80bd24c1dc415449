//! Who writes: one daemon at a time. The others wait until it is silent.

use gpuwise_store::{Epoch, Leader, Store, StoreError};
use std::{
    thread,
    time::{Duration, Instant},
};

/// How often the writer says that it is alive.
pub(crate) const BEAT: Duration = Duration::from_secs(1);

/// After how long a silence another takes over.
const SILENCE: Duration = Duration::from_secs(5);

/// Waits until nobody else writes, then takes the right to. `waits` is told who writes meanwhile, once.
///
/// # Errors
/// When the database refuses.
pub(crate) fn take(
    store: &Store,
    holder: &str,
    mut waits: impl FnMut(&Leader),
    stopped: impl Fn() -> bool,
) -> Result<Option<Epoch>, StoreError> {
    let mut seen: Option<(Leader, Instant)> = None;
    loop {
        if stopped() {
            return Ok(None);
        }
        let Some(leader) = store.leader()? else {
            match store.lead(None, holder)? {
                Some(epoch) => return Ok(Some(epoch)),
                None => continue,
            }
        };
        // Its holder gave it back, or was a process of this machine and is gone.
        let free = leader.holder.is_empty() || is_gone(&leader.holder);
        match &seen {
            Some((last, since)) if *last == leader => {
                if since.elapsed() >= SILENCE
                    && let Some(epoch) = store.lead(Some(&leader), holder)?
                {
                    return Ok(Some(epoch));
                }
            }
            last => {
                if free && let Some(epoch) = store.lead(Some(&leader), holder)? {
                    return Ok(Some(epoch));
                }
                if last
                    .as_ref()
                    .is_none_or(|(last, _)| last.epoch != leader.epoch)
                {
                    waits(&leader);
                }
                seen = Some((leader, Instant::now()));
            }
        }
        thread::sleep(Duration::from_millis(250));
    }
}

/// This process, as others of this machine can ask after it: machine, number, when it started.
pub(crate) fn holder() -> String {
    let number = std::process::id();
    let started = started(number).unwrap_or_default();
    format!("{} {number} {started}", machine())
}

/// Whether a holder was a process of this machine that is no longer there.
fn is_gone(holder: &str) -> bool {
    let words: Vec<&str> = holder.split(' ').collect();
    let [machine_of, number, started_at] = words.as_slice() else {
        return false;
    };
    if *machine_of != machine() {
        return false;
    }
    let number = number.parse().ok();
    number.is_some_and(|number| started(number).as_deref() != Some(*started_at))
}

/// A name of this machine that lasts until it starts again.
fn machine() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    boot.map(|boot| boot.trim().to_owned()).unwrap_or_default()
}

/// When a process of this machine started, in ticks since the machine did; `None`: there is none.
fn started(number: u32) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    // Its name stands in parentheses and may hold anything.
    let (_, rest) = status.rsplit_once(") ")?;
    // The state is the third of the documented fields, the start the twenty-second.
    let mut fields = rest.split(' ');
    let state = fields.next()?;
    (state != "Z").then(|| fields.nth(18).map(ToOwned::to_owned))?
}
