//! Workers of one kind together: fractions with fractions, pairs of GPUs with pairs.

use super::registry::{Registered, indexed};
use super::scored::{Score, Scored, View};
use crate::world::Tenancy;
use gpuwise_domain::placement::{GpuAsk, WorkerAsk};

pub(super) const POLICY: Registered = Registered {
    name: "gpuclustering",
    about: "where workers of the same size are",
    make: |context| indexed(Clustering::default(), context),
};

/// The published policy GpuClustering. 25 × the GPU time that is held in 8 GPUs, and: 75 if all workers
/// there are of the worker's kind (a fraction, one GPU, two, …), 50 if some are, 25 if none is there at
/// all. Workers without GPUs: 0 everywhere.
#[derive(Debug, Clone, Default)]
pub struct Clustering {
    /// Kinds of workers by node, and the revision at which they were looked up.
    present: Vec<(u64, u64)>,
}

/// Fractions; 1 to 63 GPUs have the bits of their number.
const FRACTIONS: u64 = 1;

impl Score for Clustering {
    fn score(&mut self, view: &View<'_>, ask: &WorkerAsk) -> Scored {
        let own = kind_of(&ask.gpu);
        if own == 0 {
            return 0.into();
        }
        let present = self.present(view);
        let bonus = if present == own {
            75
        } else if present & own != 0 {
            50
        } else if present == 0 {
            25
        } else {
            0
        };
        let free = view.gpu_free().cast_signed();
        (25 * (8000 - free) / 8000 + bonus).into()
    }
}

impl Clustering {
    fn present(&mut self, view: &View<'_>) -> u64 {
        let at = view.id.index();
        if at >= self.present.len() {
            self.present.resize(at + 1, (0, 0));
        }
        let Some(known) = self.present.get_mut(at) else {
            return 0;
        };
        // 0 is a revision as good as any, but of an idle node at most one in 2⁶⁴.
        if known.0 != view.node.revision || known.0 == 0 {
            *known = (view.node.revision, look_up(view));
        }
        known.1
    }
}

fn look_up(view: &View<'_>) -> u64 {
    let gpus = view.node.gpus.iter().filter_map(|id| view.world.gpu(*id));
    gpus.fold(0, |kinds, gpu| match &gpu.held {
        Tenancy::Free | Tenancy::Sliced(_) => kinds,
        Tenancy::Shared { .. } => kinds | FRACTIONS,
        Tenancy::Whole(job) => {
            let ask = view.world.job(*job).map(|state| state.job.worker.gpu);
            kinds | ask.map_or(0, |ask| kind_of(&ask))
        }
    })
}

fn kind_of(ask: &GpuAsk) -> u64 {
    match ask {
        GpuAsk::None | GpuAsk::Slice { .. } => 0,
        GpuAsk::Fraction { .. } => FRACTIONS,
        GpuAsk::Whole { count, .. } => 1 << (*count).clamp(1, 63),
    }
}
