//! Figures of a world at a moment.

use super::{Link, Phase, Tenancy, World};
use gpuwise_domain::placement::Figures;

impl World {
    /// What is there, held and waiting.
    pub fn figures(&self) -> Figures {
        let mut figures = Figures::default();
        for gpu in &self.gpus {
            let node = gpu.node.and_then(|node| self.node(node));
            if gpu.link == Link::Gone {
                continue;
            }
            let there = node.is_none_or(|node| node.node.health.keeps_work());
            if there && gpu.gpu.health.keeps_work() {
                figures.capacity_milli += 1000;
            }
            figures.allocated_milli += match &gpu.held {
                Tenancy::Free => 0,
                Tenancy::Whole(_) => 1000,
                Tenancy::Shared { milli_free, .. } => u64::from(1000 - milli_free.min(&1000)),
                Tenancy::Sliced(instances) => {
                    let geometry = self.kind(gpu.gpu.kind).and_then(|kind| kind.mig.as_ref());
                    let board = geometry.map_or(1, |geometry| u64::from(geometry.compute_slices));
                    let held = instances.iter().filter(|one| one.holder.is_some());
                    let compute: u64 = held
                        .filter_map(|one| geometry?.shapes.get(usize::from(one.shape)))
                        .map(|shape| u64::from(shape.compute))
                        .sum();
                    1000 * compute / board.max(1)
                }
            };
        }
        for state in self.jobs.values() {
            if state.phase.waits() {
                figures.pending += 1;
            } else if matches!(state.phase, Phase::Starting { .. } | Phase::Running { .. }) {
                figures.running += 1;
            }
        }
        figures
    }
}
