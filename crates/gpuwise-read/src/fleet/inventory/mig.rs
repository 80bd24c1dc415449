//! MIG instances that are there already.

use super::{KnownGpu, tables::Mig};
use crate::fleet::text::{Found, parts};
use gpuwise_domain::placement::{MigGeometry, Occupancy};

/// What one GPU of a node has: `None`: MIG is off; else its instances as profile and start.
pub(super) type Cuts = Option<Vec<(u8, u8)>>;

/// What each GPU of a node has, given its kind.
pub(super) fn cuts(mig: Option<&Mig>, gpus: &[Option<&KnownGpu>]) -> Found<Vec<Cuts>> {
    let mut out: Vec<Cuts> = vec![None; gpus.len()];
    match mig {
        None | Some(Mig::All(false)) => {}
        Some(Mig::All(true)) => {
            for (cut, gpu) in out.iter_mut().zip(gpus) {
                geometry(*gpu)?;
                *cut = Some(Vec::new());
            }
        }
        Some(Mig::Instances(tables)) => {
            for (which, profiles) in tables {
                let numbers = match which.trim() {
                    "all" => (0..gpus.len() as u32).collect(),
                    text => parts(text, 4096).map_err(|problem| format!("mig: {problem}"))?,
                };
                for number in numbers {
                    let at = number as usize;
                    let (Some(cut), Some(gpu)) = (out.get_mut(at), gpus.get(at)) else {
                        return Err(format!(
                            "mig names GPU {number}, and a node has {}; they count from 0",
                            gpus.len()
                        ));
                    };
                    if cut.is_some() {
                        return Err(format!("mig has GPU {number} twice"));
                    }
                    *cut = Some(instances(number, *gpu, profiles)?);
                }
            }
        }
    }
    Ok(out)
}

fn geometry(gpu: Option<&KnownGpu>) -> Found<(&str, &MigGeometry)> {
    let name = gpu.map_or("the GPU", |gpu| gpu.kind.name.as_str());
    let geometry = gpu.and_then(|gpu| gpu.kind.mig.as_ref());
    geometry.map(|geometry| (name, geometry)).ok_or_else(|| {
        format!(
            "mig: nothing is known of how {name} is partitioned; leave mig out, or describe it as a [[gpu_kind]]"
        )
    })
}

/// Instances as `3g.40gb@4`, or without their start: then at the lowest that is free once those with
/// one are there.
fn instances(number: u32, gpu: Option<&KnownGpu>, profiles: &[String]) -> Found<Vec<(u8, u8)>> {
    let (name, geometry) = geometry(gpu)?;
    let mut taken = Occupancy::default();
    let mut out = Vec::new();
    let mut open = Vec::new();
    for text in profiles {
        let (profile, start) = match text.split_once('@') {
            Some((profile, start)) => {
                let start: u8 = start.trim().parse().map_err(|_| {
                    format!("mig: {text:?} does not end in a memory slice, such as 3g.40gb@4")
                })?;
                (profile.trim(), Some(start))
            }
            None => (text.trim(), None),
        };
        let shape = geometry.named(profile).ok_or_else(|| {
            let known: Vec<&str> = geometry.shapes.iter().map(|s| s.profile.as_str()).collect();
            format!(
                "mig: {name} has no profile {profile:?}; it has {}",
                known.join(", ")
            )
        })?;
        let Some(start) = start else {
            open.push((shape, profile));
            continue;
        };
        taken = geometry
            .created(taken, shape, start)
            .ok_or_else(|| refused(geometry, taken, (number, name), shape, profile, start))?;
        out.push((shape, start));
    }
    for (shape, profile) in open {
        let (start, after) = geometry.starts(taken, shape).next().ok_or_else(|| {
            format!(
                "mig: GPU {number} ({name}) has no room for {profile} beside its other instances"
            )
        })?;
        taken = after;
        out.push((shape, start));
    }
    Ok(out)
}

/// Why an instance cannot be where it is said to be.
fn refused(
    geometry: &MigGeometry,
    taken: Occupancy,
    (number, name): (u32, &str),
    shape: u8,
    profile: &str,
    start: u8,
) -> String {
    let row = geometry.shape(shape);
    let allowed: Vec<String> = (0..16)
        .filter(|at| row.is_some_and(|row| row.mask(*at).is_some()))
        .map(|at| at.to_string())
        .collect();
    if !allowed.contains(&start.to_string()) {
        return format!(
            "mig: {profile} cannot start at memory slice {start} of GPU {number} ({name}); it starts at {}",
            allowed.join(", ")
        );
    }
    let overlaps = row
        .and_then(|row| row.mask(start))
        .is_some_and(|mask| mask & taken.memory != 0);
    let why = if overlaps {
        "another instance has memory slices of it"
    } else {
        "the board has no compute slices left for it, or enough of them already"
    };
    format!("mig: {profile} cannot be at memory slice {start} of GPU {number} ({name}): {why}")
}
