//! Who writes: one daemon at a time. The others wait until it is silent.

use crate::writer::Stopped;
use gpuwise_store::{Epoch, Leader, Store};
use std::{
    thread,
    time::{Duration, Instant},
};

/// How often the writer says that it is alive.
pub(crate) const BEAT: Duration = Duration::from_secs(1);

/// After how long a silence another takes over.
const SILENCE: Duration = Duration::from_secs(5);

/// How often one that waits looks.
const LOOK: Duration = Duration::from_millis(250);

/// Waits until nobody else writes, then takes the right to. `waits` is told who writes meanwhile, once;
/// `meanwhile` follows the log, so that whoever takes over knows what is in it.
///
/// # Errors
/// When the database refuses at once, or the log cannot be followed. A database that goes away while we wait
/// may come back.
pub(crate) fn take(
    store: &Store,
    holder: &str,
    mut waits: impl FnMut(&Leader),
    mut meanwhile: impl FnMut() -> Result<(), Stopped>,
    stopped: impl Fn() -> bool,
) -> Result<Option<Epoch>, Stopped> {
    let mut seen: Option<(Leader, Instant)> = None;
    let mut answered = false;
    while !stopped() {
        let looked = meanwhile().and_then(|()| look(store, holder, &mut seen, &mut waits));
        match looked {
            Ok(Some(epoch)) => return Ok(Some(epoch)),
            Ok(None) => answered = true,
            Err(Stopped::Store(_)) if answered => seen = None,
            Err(error) => return Err(error),
        }
        thread::sleep(LOOK);
    }
    Ok(None)
}

/// Takes the right to write where it is free, or its holder has been silent; remembers who was seen.
fn look(
    store: &Store,
    holder: &str,
    seen: &mut Option<(Leader, Instant)>,
    waits: &mut impl FnMut(&Leader),
) -> Result<Option<Epoch>, Stopped> {
    let Some(leader) = store.leader()? else {
        return Ok(store.lead(None, holder)?);
    };
    // Its holder gave it back, or was a process of this machine and is gone.
    let free = leader.holder.is_empty() || is_gone(&leader.holder);
    let silent = match seen {
        Some((last, since)) => *last == leader && since.elapsed() >= SILENCE,
        None => false,
    };
    if (free || silent)
        && let Some(epoch) = store.lead(Some(&leader), holder)?
    {
        return Ok(Some(epoch));
    }
    let before = seen.as_ref().map(|(last, _)| last);
    if before.is_none_or(|last| last.epoch != leader.epoch) {
        waits(&leader);
    }
    if before != Some(&leader) {
        *seen = Some((leader, Instant::now()));
    }
    Ok(None)
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

/// A name of this machine that lasts until it starts again; of a container, which numbers its processes
/// itself, one of its own.
fn machine() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let numbers = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    format!("{}/{}", boot.trim(), numbers.display())
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
