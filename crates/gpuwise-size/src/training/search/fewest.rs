//! How many GPUs a job needs: the one answer, whoever asks.

use super::{
    Physics, Shape,
    best::{self, Best},
    market::cluster,
    request::TrainChoices,
};
use alloc::{
    format,
    string::{String, ToString},
};
use gpuwise_domain::{catalogue::Catalogue, gpu::Gpu, model::Architecture};
use gpuwise_units::significant;

/// GPUs that are tried: powers of two within a host, then whole hosts of eight.
fn counts() -> impl Iterator<Item = u64> {
    let hosts = (2_u64..=8).chain([10, 12, 16, 20, 24, 32, 48, 64, 96, 128]);
    [1, 2, 4, 8].into_iter().chain(hosts.map(|hosts| hosts * 8))
}

/// The fewest GPUs of a kind, up to `most`, on which some layout fits with the whole range of its
/// memory, and the fastest such layout on them.
///
/// # Errors
/// Why no number of them does.
pub fn fewest(
    architecture: &Architecture,
    choices: &TrainChoices,
    catalogue: &Catalogue,
    gpu: &Gpu,
    most: u64,
    physics: &dyn Physics,
) -> Result<(u64, Best), String> {
    let shape = Shape::of(architecture);
    let mut why = String::from("no layout divides it");
    for gpus in counts().take_while(|gpus| *gpus <= most) {
        let place = cluster(catalogue, gpu, gpus);
        let found = best::best(&shape, choices, &place, physics);
        if let Some(best) = found.best.as_ref().filter(|best| best.roomy()) {
            return Ok((gpus, best.clone()));
        }
        let usable = physics.usable(&place).as_f64();
        why = match (&found.best, found.nearest()) {
            (Some(_), _) => format!("on {gpus} its memory fits, but not with its range"),
            (None, Some((_, ratio))) => format!(
                "on {gpus} each needs {} GiB, and {} are usable",
                significant(ratio * usable / 1_073_741_824.0, 3),
                significant(usable / 1_073_741_824.0, 3)
            ),
            (None, None) => found.refused.first().map_or(why, ToString::to_string),
        };
    }
    Err(why)
}
