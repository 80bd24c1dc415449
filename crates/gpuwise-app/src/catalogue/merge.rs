//! A user's rows over those of the catalogue: the same row is replaced, another one added.

use gpuwise_domain::{
    catalogue::{SizeClass, folded},
    gpu::{Gpu, MigProfile},
    offer::{Host, Offer},
    placement::{MigBoard, VgpuProfile},
    quality::QualityRow,
    question::Benchmark,
    training_facts::TrainingFacts,
};

/// Puts rows over others: each takes the place of all earlier ones that are the same by `same`.
///
/// Rows of one file never replace each other, as lists sell one shape at several prices.
pub(super) fn over<T>(known: &mut Vec<T>, added: Vec<T>, same: impl Fn(&T, &T) -> bool) {
    if !known.is_empty() {
        known.retain(|row| !added.iter().any(|new| same(row, new)));
    }
    known.extend(added);
}

/// A user's facts of training before those of the catalogue, of which the first that fits counts;
/// sets of constants and benchmarks of one name are replaced.
pub(super) fn over_training(known: &mut TrainingFacts, added: TrainingFacts) {
    fn before<T>(known: &mut Vec<T>, mut added: Vec<T>) {
        added.append(known);
        *known = added;
    }
    before(&mut known.matmul, added.matmul);
    before(&mut known.attention, added.attention);
    before(&mut known.networks, added.networks);
    before(&mut known.errors, added.errors);
    if !added.sets.is_empty() {
        // What rows left was left by the constants that go.
        known.residuals.clear();
    }
    over(&mut known.sets, added.sets, |a, b| a.name == b.name);
    over(&mut known.residuals, added.residuals, |a, b| {
        (&a.rows, &a.gpu) == (&b.rows, &b.gpu)
    });
    over(&mut known.benchmarks, added.benchmarks, |a, b| {
        a.name == b.name
    });
    if let Some(convergence) = added.convergence {
        known.convergence = Some(convergence);
    }
}

pub(super) fn same_gpu(a: &Gpu, b: &Gpu) -> bool {
    folded(&a.name) == folded(&b.name)
}

pub(super) fn same_profile(a: &MigProfile, b: &MigProfile) -> bool {
    a.profile == b.profile && a.gpus.iter().any(|gpu| b.gpus.contains(gpu))
}

pub(super) fn same_board(a: &MigBoard, b: &MigBoard) -> bool {
    a.gpus.iter().any(|gpu| b.gpus.contains(gpu))
}

pub(super) fn same_quality(a: &QualityRow, b: &QualityRow) -> bool {
    folded(&a.model) == folded(&b.model) && a.scheme == b.scheme
}

pub(super) fn same_vgpu(a: &VgpuProfile, b: &VgpuProfile) -> bool {
    a.profile == b.profile && a.gpus.iter().any(|gpu| b.gpus.contains(gpu))
}

pub(super) fn same_host(a: &Host, b: &Host) -> bool {
    a.provider == b.provider && a.shape == b.shape
}

pub(super) fn same_offer(a: &Offer, b: &Offer) -> bool {
    a.provider == b.provider && a.instance == b.instance && a.region == b.region && a.gpu == b.gpu
}

pub(super) fn same_benchmark(a: &Benchmark, b: &Benchmark) -> bool {
    a.prefix == b.prefix
}

pub(super) fn same_class(a: &SizeClass, b: &SizeClass) -> bool {
    folded(&a.class) == folded(&b.class)
}
