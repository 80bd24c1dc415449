//! GPUs of this machine on which processes run that this broker does not know: nothing is started on them.

use super::{
    Local,
    tree::{self, Mark, Tree},
};
use gpuwise_broker::lease_id;
use gpuwise_domain::placement::JobId;
use std::path::Path;

impl Local {
    /// Looks for processes of other leases on GPUs before something starts there: those of another log, such as one
    /// whose database is gone, and those of this log that did not end.
    ///
    /// # Errors
    /// When there is one: which GPU, what runs, and of which lease.
    pub(super) fn none_is_in_use(&self, job: JobId, devices: &str) -> Result<(), String> {
        let wanted: Vec<&str> = devices.split(',').filter(|one| !one.is_empty()).collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let tree = Tree::now();
        let (known, own) = (self.known(&tree), lease_id(job.0));
        for (process, mark) in tree.marked().filter(|(one, _)| !known.contains(&one.pid)) {
            if mark.broker == self.broker && mark.lease == own {
                // What ran of it has ended; this is what is about to be noted.
                continue;
            }
            // Another log's processes are known by its supervisors: a command could name any log and any GPU.
            if mark.broker != self.broker && !self.supervisor.is(process.pid) {
                continue;
            }
            let held = wanted.iter().find(|one| self.holds(&mark, one));
            if let Some(gpu) = held {
                let runs = tree::words(std::slice::from_ref(process));
                let log = match mark.broker.as_str() {
                    own if own == self.broker => "this log".to_owned(),
                    other => format!("log {other}"),
                };
                return Err(format!(
                    "GPU {gpu} is in use by a process that this broker does not know: {runs}, of lease {} of {log}; \
                     end it, or wait until it has ended",
                    mark.lease
                ));
            }
        }
        Ok(())
    }

    /// Whether a process that is not known here was given this GPU.
    fn holds(&self, mark: &Mark, gpu: &str) -> bool {
        // Another log may call another machine's GPUs so, but not one that is kept in the same state directory.
        let beside = |state: &String| Path::new(state).parent() == self.place.0.parent();
        let here = mark.broker == self.broker || mark.state.as_ref().is_some_and(beside);
        here && mark.devices.iter().any(|one| one == gpu)
    }
}
