//! Being told to end.

use std::{
    future::Future,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

/// Becomes true when this process is told to end; it no longer ends by that alone.
///
/// # Errors
/// When signals cannot be listened to.
pub fn told_to_end() -> io::Result<Arc<AtomicBool>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let heard = {
        let _within = runtime.enter();
        told()?
    };
    let is_told = Arc::new(AtomicBool::new(false));
    let tells = Arc::clone(&is_told);
    thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            runtime.block_on(heard);
            tells.store(true, Ordering::SeqCst);
        })?;
    Ok(is_told)
}

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
