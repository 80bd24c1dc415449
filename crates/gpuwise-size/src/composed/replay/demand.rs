//! What is asked for, when and for how long.

use alloc::vec::Vec;
use gpuwise_domain::fleet::{FleetNode, FleetTask};

/// Tasks in the order in which they come.
#[derive(Debug, Clone, PartialEq)]
pub struct Demand {
    /// Task, second of arrival and seconds that it runs, by arrival.
    pub tasks: Vec<(FleetTask, u64, u64)>,
    /// Seconds after which nothing is looked at any more.
    pub until: u64,
}

impl Demand {
    /// GPU-seconds in thousandths that are asked for.
    pub fn gpu_milli_seconds(&self) -> u128 {
        self.tasks
            .iter()
            .map(|(task, _, seconds)| u128::from(task.milli()) * u128::from(*seconds))
            .sum()
    }

    /// Every task for good, one a second in the list's order; those that find no room wait in vain.
    pub fn accumulating(tasks: &[FleetTask]) -> Self {
        let until = tasks.len() as u64;
        Self {
            tasks: tasks
                .iter()
                .zip(0..)
                .map(|(task, at)| (task.clone(), at, u64::MAX / 4))
                .collect(),
            until,
        }
    }
}

/// The trace `copies` times over, each copy begun later by an equal part of the trace's span; what
/// goes beyond its end goes on at its beginning. So the load is even over the span, while lengths,
/// sizes and their order within a copy are the trace's own. Tasks that never ran are left out.
pub fn carried_over(tasks: &[FleetTask], copies: u64) -> Demand {
    let timed = |task: &FleetTask| Some((task.arrival?, task.duration?));
    let first = tasks
        .iter()
        .filter_map(|t| timed(t).map(|(at, _)| at))
        .min();
    let first = first.unwrap_or(0);
    let span = tasks
        .iter()
        .filter_map(|task| timed(task).map(|(at, _)| at - first))
        .max()
        .map_or(1, |last| last + 1);
    let copies = copies.max(1);
    let mut out = Vec::new();
    for copy in 0..copies {
        let later = (u128::from(span) * u128::from(copy) / u128::from(copies)) as u64;
        for task in tasks {
            let Some((arrival, seconds)) = timed(task) else {
                continue;
            };
            let seconds = seconds.min(span);
            let at = (arrival - first + later) % span;
            let inside = seconds.min(span - at);
            out.push((task.clone(), at, inside));
            if seconds > inside {
                out.push((task.clone(), 0, seconds - inside));
            }
        }
    }
    // Equal seconds stay in the order of copies and of the trace.
    out.sort_by_key(|(_, at, _)| *at);
    Demand {
        tasks: out,
        until: span,
    }
}

/// So many nodes out of a list, evenly over it.
pub fn every_nth(nodes: &[FleetNode], count: usize) -> Vec<FleetNode> {
    let count = count.clamp(1, nodes.len().max(1));
    (0..count)
        .filter_map(|index| nodes.get(index * nodes.len() / count).cloned())
        .collect()
}
