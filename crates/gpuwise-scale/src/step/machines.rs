//! Machines that replicas stand on, one by one: where there is no room on any, none starts, and one that is lost takes
//! all that stands on it.

use gpuwise_units::Nanoseconds;

/// Where a replica stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place(pub u64);

/// Replicas that lose their places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost {
    pub place: Place,
    /// When it is gone; it is told now.
    pub gone: Nanoseconds,
}

/// Who places replicas on machines. Times never go back.
pub trait Machines {
    /// GPUs of a pool on machines that can be used; `None`: it has no machines, and its GPUs are a number.
    fn gpus(&self, pool: &str) -> Option<u32>;

    /// A place for a replica of so many GPUs; `None`: no machine has room for it.
    fn take(&mut self, now: Nanoseconds, pool: &str, gpus: u32) -> Option<Place>;

    /// A replica is gone.
    fn give(&mut self, now: Nanoseconds, place: Place);

    /// What is lost now: machines by themselves, racks, and whole pools.
    fn lost(&mut self, now: Nanoseconds) -> Vec<Lost>;

    /// So large a share of the machines of a pool is taken away: told now, gone and back at these times.
    fn reclaim(
        &mut self,
        now: Nanoseconds,
        pool: &str,
        share: f64,
        gone: Nanoseconds,
        back: Nanoseconds,
    ) -> Vec<Lost>;
}
