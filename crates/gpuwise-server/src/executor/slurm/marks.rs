//! Jobs by their marks: whose each of them is, and which are too many.

use super::{
    held::{Listing, chosen},
    script::{Mark, submitted},
    told::scancel,
    work::Worker,
};
use gpuwise_domain::placement::JobId;

impl Worker {
    /// Gives the parts of leases their jobs, and ends what nobody wants: jobs that were submitted twice, and those of
    /// orders that are over, such as of a broker that is no more. Whether there was something to end.
    pub(super) fn sweep(&mut self, listing: &Listing) -> bool {
        let mut strays = false;
        if !self.adopted {
            return strays;
        }
        for mark in listing.named.keys().copied() {
            let own = self.part_of(mark, listing);
            if own.is_none() && self.expected.contains(&(JobId(mark.lease), mark.order)) {
                // Its order is about to be told again, and finds it then.
                continue;
            }
            let others = listing.marked(mark).filter(|job| Some(job.id) != own);
            for job in others.filter(|job| job.is_alive()) {
                strays = true;
                scancel(&[], job.id);
            }
        }
        strays
    }

    /// The job of a mark, where a part of a lease has that; it is the part's from now on.
    fn part_of(&mut self, mark: Mark, listing: &Listing) -> Option<u64> {
        let held = self.held.get_mut(&JobId(mark.lease))?;
        let current = held.order.0 == mark.order;
        let mut parts = held.parts.iter_mut().filter(|_| current);
        let part = parts.find(|part| part.ask.worker == mark.worker)?;
        let job = chosen(part.job, listing.marked(mark))?;
        if part.job != Some(job.id) {
            part.job = Some(job.id);
            part.submitted = submitted(&job.name).unwrap_or(part.submitted);
        }
        part.job
    }
}
