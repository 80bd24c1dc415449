//! Which device of the trace a recorded GPU is.

use gpuwise_domain::{
    profile::{
        figures::RankFigures,
        joined::{JoinedDevice, JoinedFile},
    },
    telemetry::GpuIdentity,
};
use std::collections::BTreeSet;

/// Says of every series of a GPU which device of the ranks it is of, where that can be told: where the
/// file has one GPU and the trace one device; by the GPU's number on the machine, where it names one
/// machine and devices have numbers of their own; by rank, where it has as many GPUs as there are ranks
/// that each call their device the same.
pub fn assign(file: &mut JoinedFile, ranks: &[RankFigures]) {
    let gpus: BTreeSet<GpuIdentity> = file
        .series
        .iter()
        .filter_map(|one| one.series.gpu.clone())
        .collect();
    let devices: Vec<JoinedDevice> = ranks
        .iter()
        .enumerate()
        .flat_map(|(timeline, rank)| {
            let numbers = rank.devices.iter().filter_map(|device| device.device);
            numbers.map(move |device| JoinedDevice { timeline, device })
        })
        .collect();
    for one in &mut file.series {
        let gpu = one.series.gpu.as_ref();
        one.device = gpu.and_then(|gpu| of(gpu, &gpus, &devices, ranks));
    }
}

fn of(
    gpu: &GpuIdentity,
    gpus: &BTreeSet<GpuIdentity>,
    devices: &[JoinedDevice],
    ranks: &[RankFigures],
) -> Option<JoinedDevice> {
    if let ([only], 1) = (devices, gpus.len()) {
        return Some(*only);
    }
    let hosts: BTreeSet<&Option<String>> = gpus.iter().map(|gpu| &gpu.host).collect();
    let index = gpu.index.filter(|_| hosts.len() == 1)?;
    let numbers: BTreeSet<i64> = devices.iter().map(|one| one.device).collect();
    if numbers.len() == devices.len() {
        return devices
            .iter()
            .find(|one| one.device == i64::from(index))
            .copied();
    }
    let same = numbers.len() == 1 && devices.len() == ranks.len() && gpus.len() == ranks.len();
    let place = ranks.iter().position(|rank| rank.rank == Some(index))?;
    devices
        .iter()
        .find(|one| same && one.timeline == place)
        .copied()
}

/// Whether the file has GPUs of which none can be told to be one of the trace's.
pub fn unassigned(file: &JoinedFile) -> bool {
    let mut gpus = file
        .series
        .iter()
        .filter(|one| one.series.gpu.is_some())
        .peekable();
    gpus.peek().is_some() && gpus.all(|one| one.device.is_none())
}
