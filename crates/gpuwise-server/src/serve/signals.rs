//! Being told to end.

use crate::stopping;
use std::{io, sync::Arc, thread};
use tokio::sync::watch;

/// Closes the daemon when it is told to end.
pub(super) fn signals(close: Arc<watch::Sender<bool>>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let told = {
        let _within = runtime.enter();
        stopping::told()?
    };
    thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            runtime.block_on(told);
            close.send_replace(true);
        })?;
    Ok(())
}
