//! Work over threads.

use std::{panic::resume_unwind, thread};

/// What so many threads make, each of its number, in the order of their numbers.
pub fn spread<T: Send>(threads: usize, work: impl Fn(usize) -> Vec<T> + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let work = &work;
        let workers: Vec<_> = (0..threads)
            .map(|number| scope.spawn(move || work(number)))
            .collect();
        let made = workers.into_iter().map(std::thread::ScopedJoinHandle::join);
        made.flat_map(|made| made.unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    })
}
