//! GpuWorkloads at a look, and what is to be measured of them.

use super::{lead::Term, look::Looks, workloads};
use crate::manifests::Mode;
use tokio::time::Instant;

impl Looks {
    /// GpuWorkloads and what is measured of them; whether all of it was written.
    pub(super) async fn look_at_workloads(&mut self, term: &Term) -> bool {
        let Some(sizer) = self.sizer.clone() else {
            return true;
        };
        let acts = self.mode == Mode::Act;
        let frozen = self.heeded.lacking.borrow().freezes();
        let mut hands = workloads::Hands {
            term,
            writer: &self.writer,
            state: &self.state,
            sizer: &*sizer,
            acts,
            frozen,
            says: self.mode != Mode::Observe,
            measures: self.wanted.is_some(),
            sleeper: self.sleeper.as_ref(),
            waits: &self.waits,
            traces: self.traces.as_ref(),
            plan: &mut self.plan,
        };
        let looked = self.workloads.look(&mut hands, self.state.measured()).await;
        // Nothing but time ends a phase of a change where nobody measures.
        let wake = looked.ends.map(|left| Instant::now() + left);
        self.wake = self.wake.into_iter().chain(wake).min();
        if let Some(wanted) = &self.wanted {
            let new = workloads::wanted(&self.state, acts);
            wanted.send_if_modified(|old| {
                let another = **old != *new;
                *old = new;
                another
            });
        }
        looked.whole
    }
}
