//! Being told to end.

use std::{future::Future, io};

/// Ready when this process is told to end (SIGINT, SIGTERM). To be called within a runtime, before anything
/// else is started, so that no signal is missed.
pub(crate) fn told() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    // A file that may not grow further is an error of the database, not the end.
    let mut large = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?;
    Ok(async move {
        loop {
            tokio::select! {
                _ = interrupt.recv() => return,
                _ = terminate.recv() => return,
                _ = large.recv() => {}
            }
        }
    })
}
