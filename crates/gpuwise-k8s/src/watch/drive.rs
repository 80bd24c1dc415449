//! For callers without a runtime of their own: sees a cluster once, or until it is interrupted.

use super::{ConnectError, Live, Settings, Source, Trouble, Troubles, connect, start};
use crate::inventory::Inventory;
use std::{io, sync::Arc};
use tokio::{
    signal::unix::{SignalKind, signal},
    task::yield_now,
};

/// What there is to say.
#[derive(Debug)]
pub enum Said<'a> {
    Inventory(&'a Arc<Inventory>),
    /// A watch that does not go at the moment; it is tried again.
    Trouble(&'a Trouble),
}

/// Why it ended.
#[derive(Debug)]
pub enum DriveError<E> {
    Connect(ConnectError),
    Trouble(Trouble),
    Runtime(io::Error),
    /// What the caller said.
    Given(E),
}

/// Calls `seen` with the inventory once it is complete and, where it is followed, after each change; returns
/// then, or when SIGINT or SIGTERM comes.
///
/// # Errors
/// When the cluster cannot be reached or read, or `seen` says so.
pub fn drive<E>(
    source: &Source,
    settings: Settings,
    follow: bool,
    seen: impl FnMut(Said<'_>) -> Result<(), E>,
) -> Result<(), DriveError<E>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(DriveError::Runtime)?;
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt()).map_err(DriveError::Runtime)?;
        let mut end = signal(SignalKind::terminate()).map_err(DriveError::Runtime)?;
        tokio::select! {
            biased;
            _ = interrupt.recv() => Ok(()),
            _ = end.recv() => Ok(()),
            ended = going(source, settings, follow, seen) => ended,
        }
    })
}

async fn going<E>(
    source: &Source,
    settings: Settings,
    follow: bool,
    mut seen: impl FnMut(Said<'_>) -> Result<(), E>,
) -> Result<(), DriveError<E>> {
    let client = connect(source).await.map_err(DriveError::Connect)?;
    let live: Live = start(client, settings).await.map_err(DriveError::Trouble)?;
    let mut inventory = live.subscribe();
    let mut troubles = live.troubles();
    let mut told = Troubles::new();
    let first = {
        let ready = live.ready();
        tokio::pin!(ready);
        loop {
            tokio::select! {
                first = &mut ready => break first.map_err(DriveError::Trouble)?,
                Ok(()) = troubles.changed() => {
                    let now = troubles.borrow_and_update().clone();
                    tell(true, now, &mut told, &mut seen)?;
                }
            }
        }
    };
    seen(Said::Inventory(&first)).map_err(DriveError::Given)?;
    if !follow {
        return Ok(());
    }
    // What was published meanwhile is seen, too.
    inventory.mark_changed();
    let mut last = first;
    loop {
        tokio::select! {
            changed = inventory.changed() => {
                changed.map_err(|_| DriveError::Trouble(Trouble::ended()))?;
                // Where the next copy is there before this one is told, nothing else would stop this.
                yield_now().await;
                let now = inventory.borrow_and_update().clone();
                if !Arc::ptr_eq(&now, &last) {
                    seen(Said::Inventory(&now)).map_err(DriveError::Given)?;
                    last = now;
                }
            }
            changed = troubles.changed() => {
                changed.map_err(|_| DriveError::Trouble(Trouble::ended()))?;
                let now = troubles.borrow_and_update().clone();
                tell(false, now, &mut told, &mut seen)?;
            }
        }
    }
}

/// Says what is wrong, once a fault. A kind that cannot be seen is among the findings, and what keeps the
/// first inventory from coming ends it all.
fn tell<E>(
    first: bool,
    now: Troubles,
    told: &mut Troubles,
    seen: &mut impl FnMut(Said<'_>) -> Result<(), E>,
) -> Result<(), DriveError<E>> {
    for (kind, trouble) in &now {
        let new = told.get(kind).map(|old| old.why) != Some(trouble.why);
        let elsewhere = trouble.stays() && (first || !kind.needed());
        if new && !elsewhere {
            seen(Said::Trouble(trouble)).map_err(DriveError::Given)?;
        }
    }
    *told = now;
    Ok(())
}
