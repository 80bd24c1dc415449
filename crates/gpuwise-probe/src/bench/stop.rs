//! Stopping in the middle, with what was measured kept.

use std::{io, sync::Arc, thread};
use tokio::sync::watch;

/// Stops runs: nothing more is sent, and what is under way is aborted and counted.
#[derive(Debug, Clone)]
pub struct Stop(Arc<watch::Sender<bool>>);

impl Default for Stop {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }
}

impl Stop {
    /// Stops now, and every later run with it.
    pub fn set(&self) {
        self.0.send_replace(true);
    }

    pub fn is_set(&self) -> bool {
        *self.0.borrow()
    }

    pub(crate) fn watch(&self) -> watch::Receiver<bool> {
        self.0.subscribe()
    }

    /// Stops at the first Ctrl-C; at the second the process ends at once.
    ///
    /// # Errors
    /// When the system does not let signals be caught.
    pub fn at_interrupt(&self) -> io::Result<()> {
        let stop = self.clone();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        thread::Builder::new()
            .name("interrupt".into())
            .spawn(move || {
                runtime.block_on(async {
                    while tokio::signal::ctrl_c().await.is_ok() {
                        if stop.is_set() {
                            // As shells report a process that Ctrl-C ended.
                            std::process::exit(130);
                        }
                        stop.set();
                    }
                });
            })
            .map(drop)
    }
}
