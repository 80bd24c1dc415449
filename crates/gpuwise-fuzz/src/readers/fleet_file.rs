//! Fleet files, job files, and what tools say of nodes.

use gpuwise_domain::placement::{Fleet, GpuKind, MigGeometry, MigShape};
use gpuwise_read::fleet::{KnownGpu, fleet_file, merge_found, read_fleet, read_found, read_jobs};

/// Every GPU is known, and can be cut in two.
fn find(name: &str) -> Result<KnownGpu, String> {
    if name.len() > 40 {
        return Err("no such GPU".into());
    }
    Ok(KnownGpu {
        kind: GpuKind {
            features: Vec::new(),
            name: name.into(),
            memory_mib: Some(81_559),
            units: Some(132),
            bandwidth_gbs: None,
            tflops: None,
            price: None,
            mig: Some(MigGeometry {
                compute_slices: 7,
                memory_slices: 8,
                shapes: vec![MigShape {
                    profile: "3g.40gb".into(),
                    memory_mib: Some(40_448),
                    units: Some(60),
                    compute: 3,
                    size: 4,
                    starts: 0b1_0001,
                    most: 2,
                    media: false,
                }],
            }),
        },
        joined: Some(8),
        parts: gpuwise_read::fleet::KnownParts::default(),
    })
}

/// What numbers name is there.
fn sound(fleet: &Fleet) {
    assert!(
        fleet
            .gpus
            .iter()
            .all(|gpu| gpu.kind.index() < fleet.kinds.len())
    );
    for node in &fleet.nodes {
        assert!(node.gpus.iter().all(|gpu| gpu.index() < fleet.gpus.len()));
        assert!(
            node.domain
                .is_none_or(|domain| domain.index() < fleet.domains.len())
        );
    }
    for (at, queue) in fleet.queues.iter().enumerate() {
        assert!(queue.parent.is_none_or(|parent| parent.index() < at));
    }
}

/// Hands bytes over and holds what is true of every answer.
pub(crate) fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(mut read) = read_fleet("fleet.toml", text, None, &find) {
        sound(&read.fleet);
        // Jobs stand behind the fleet in one seed.
        let _ = read_jobs("jobs.toml", text, &mut read.fleet, &find);
    }
    let _ = read_jobs("jobs.toml", text, &mut Fleet::default(), &find);
    if let Ok(found) = read_found("found", "node", text)
        && let Ok(nodes) = merge_found(found)
        && let Ok(read) = read_fleet("made", &fleet_file("made", &nodes, &find), None, &find)
    {
        sound(&read.fleet);
    }
}
