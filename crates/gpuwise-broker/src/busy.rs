//! Which readings of how busy leases are the broker is to be told.
//!
//! Each telling is an event of the log, so that what changes little is not told. It is compared with what the broker
//! holds, never with the reading before: a rise by small steps is told once it has left the band.

use crate::{Broker, Observation};
use gpuwise_domain::placement::JobId;

/// Readings within so many thousandths of what is held are not told.
const BAND: u32 = 100;

impl Broker {
    /// What is to be told of a reading, in thousandths of the time: at most `idle_milli` is idle.
    ///
    /// What the broker holds afterwards is less than a tenth from the reading, and idle or not as the reading is. A
    /// lease that comes to be idle was busy until this reading: that is told first, as idle time is counted from when
    /// it was told to be busy last.
    pub fn busy_news(&self, lease: u32, milli: u32, idle_milli: u32) -> Vec<Observation> {
        let job = JobId(lease);
        let Some(state) = self.world.job(job) else {
            return Vec::new();
        };
        let side = |milli: u32| (milli == 0, milli <= idle_milli);
        let seen = |milli: u32| Observation::Busy { job, milli };
        match state.busy_milli {
            Some(held) if side(held) == side(milli) && held.abs_diff(milli) < BAND => Vec::new(),
            Some(held) if held > idle_milli && milli <= idle_milli => {
                vec![seen(held), seen(milli)]
            }
            _ => vec![seen(milli)],
        }
    }
}
