//! Figures of snapshots of a memory allocator: what was taken, used, wasted, and when it was most.

mod categories;
mod peak;
mod totals;

pub use categories::{CategoryFigures, category_figures};
pub use peak::{AllocationSite, LivePoint, OutOfMemory, TraceFigures};
pub use totals::MemoryFigures;

use gpuwise_domain::profile::memory_snapshot::MemorySnapshot;

/// Figures of a snapshot.
pub fn memory_figures(snapshot: &MemorySnapshot) -> MemoryFigures {
    let mut figures = totals::totals(snapshot);
    let traces = snapshot.traces.iter().enumerate();
    figures.traces = traces
        .filter(|(_, events)| !events.is_empty())
        .map(|(device, events)| peak::trace_figures(snapshot, device, events))
        .collect();
    figures
}
