//! Fleet files and job files: what is read, and what wrong ones are told.

mod fabric;
mod features;
mod files;
mod found;
mod jobs;

use gpuwise_domain::placement::{Fleet, GpuKind, MigGeometry, MigShape, VgpuProfile};
use gpuwise_read::fleet::{FleetFile, JobsFile, KnownGpu, KnownParts, read_fleet, read_jobs};

/// A catalogue of three boards.
pub(super) fn find(name: &str) -> Result<KnownGpu, String> {
    let (name, memory, joined, mig) = match name {
        "H100" | "H100 SXM5 80GB" => ("H100 SXM5 80GB", 81_559, Some(8), Some(seven())),
        "L40S" => ("L40S", 46_068, None, None),
        "GB200" => ("GB200", 189_471, Some(72), None),
        other => return Err(format!("{other}: no such GPU is in the catalogue")),
    };
    Ok(KnownGpu {
        kind: GpuKind {
            features: Vec::new(),
            name: name.into(),
            memory_mib: Some(memory),
            units: None,
            bandwidth_gbs: None,
            tflops: None,
            price: None,
            mig,
        },
        joined,
        parts: parts(name),
    })
}

/// 48 clients under MPS; vGPU types of halves and quarters of one board.
fn parts(name: &str) -> KnownParts {
    let profile = |memory: u32, most: u32| VgpuProfile {
        gpus: vec!["L40S".into()],
        profile: format!("L40S-{}C", memory / 1024),
        frame_buffer_mib: memory,
        most,
        most_mixed: None,
        source: "by hand".into(),
    };
    KnownParts {
        mps_clients: Some(48),
        vgpu: match name {
            "L40S" => vec![profile(24_576, 2), profile(12_288, 4)],
            _ => Vec::new(),
        },
    }
}

/// Seven compute slices, eight memory slices.
fn seven() -> MigGeometry {
    let shape = |profile: &str, compute, size, starts: &[u8], most| MigShape {
        profile: profile.into(),
        memory_mib: Some(10_000 * u32::from(size)),
        units: Some(16 * u32::from(compute)),
        compute,
        size,
        starts: starts.iter().fold(0, |bits, start| bits | 1 << start),
        most,
        media: profile.ends_with("+me"),
    };
    MigGeometry {
        compute_slices: 7,
        memory_slices: 8,
        shapes: vec![
            shape("1g.10gb", 1, 1, &[0, 1, 2, 3, 4, 5, 6], 7),
            shape("1g.10gb+me", 1, 1, &[0, 1, 2, 3, 4, 5, 6], 1),
            shape("3g.40gb", 3, 4, &[0, 4], 2),
            shape("4g.40gb", 4, 4, &[0], 1),
            shape("7g.80gb", 7, 8, &[0], 1),
        ],
    }
}

pub(super) fn fleet(text: &str) -> FleetFile {
    read_fleet("fleet.toml", text, None, &find).unwrap_or_else(|wrong| panic!("{wrong}"))
}

pub(super) fn fleet_fails(text: &str) -> String {
    read_fleet("fleet.toml", text, None, &find).map_or_else(
        |wrong| wrong.to_string(),
        |read| panic!("it was read: {read:?}"),
    )
}

pub(super) fn jobs(fleet: &mut Fleet, text: &str) -> JobsFile {
    read_jobs("jobs.toml", text, fleet, &find).unwrap_or_else(|wrong| panic!("{wrong}"))
}

pub(super) fn jobs_fail(fleet: &mut Fleet, text: &str) -> String {
    read_jobs("jobs.toml", text, fleet, &find).map_or_else(
        |wrong| wrong.to_string(),
        |read| panic!("it was read: {read:?}"),
    )
}

/// The examples of the reference are read, and say what they are said to.
#[test]
fn examples_of_the_reference_are_read() {
    let page = include_str!("../../../../../docs/reference/fleet-file.md");
    let blocks: Vec<&str> = page
        .split("```toml\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect();
    let [first, second] = blocks.as_slice() else {
        panic!("a fleet and jobs: {} blocks", blocks.len())
    };
    let mut read = fleet(first);
    let asked = jobs(&mut read.fleet, second);
    let racks: Vec<_> = read
        .fleet
        .nodes
        .iter()
        .take(4)
        .map(|node| node.domain)
        .collect();
    assert!(racks[0] == racks[1] && racks[1] != racks[2] && racks[2] == racks[3]);
    assert_eq!((read.fleet.nodes.len(), read.fleet.gpus.len()), (11, 60));
    assert_eq!(
        (read.present.len(), asked.running.len(), asked.jobs.len()),
        (8, 1, 9)
    );
}
