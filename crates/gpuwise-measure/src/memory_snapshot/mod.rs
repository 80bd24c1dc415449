//! Figures of snapshots of a memory allocator: what was taken, used, wasted, and when it was most.

mod categories;
mod owners;
mod peak;
mod totals;

pub use categories::category_figures;
pub use peak::live_timeline;

use gpuwise_domain::profile::memory_snapshot::MemorySnapshot;
use gpuwise_domain::profile::sources::{MemoryFigures, MemorySource};

pub fn memory_figures(snapshot: &MemorySnapshot) -> MemoryFigures {
    let mut figures = totals::totals(snapshot);
    let traces = snapshot.traces.iter().enumerate();
    figures.traces = traces
        .filter(|(_, events)| !events.is_empty())
        .map(|(device, events)| peak::trace_figures(snapshot, device, events))
        .collect();
    figures
}

pub fn memory_source(snapshot: MemorySnapshot) -> MemorySource {
    let figures = memory_figures(&snapshot);
    let traces = figures.traces.iter();
    let live =
        traces.map(|trace| live_timeline(&snapshot, usize::try_from(trace.device).unwrap_or(0)));
    let live: Vec<_> = live.collect();
    let owned = figures.traces.iter().zip(&live);
    let owned = owned.map(|(trace, live)| owners::owned(&snapshot, trace, live));
    MemorySource {
        owned: owned.collect(),
        live,
        figures,
        keys: snapshot.keys,
        stacks: snapshot.stacks,
        settings: snapshot.settings,
        losses: snapshot.losses,
    }
}
