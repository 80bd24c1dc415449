//! A cluster as fleet and job files, read again by their readers.

use super::given::{inventory, node, pod};
use gpuwise_domain::placement::{Action, GpuKind, MigGeometry, MigShape, Part};
use gpuwise_read::fleet::{
    FleetFile, JobsFile, KnownGpu, KnownParts, fleet_file, job_file, read_fleet, read_jobs,
};
use serde_json::{Value, json};

fn find(name: &str) -> Result<KnownGpu, String> {
    if !name.contains("H100") {
        return Err(format!("no GPU {name}"));
    }
    let shape = |profile: &str, size: u8, starts: &[u8], most| MigShape {
        profile: profile.into(),
        memory_mib: Some(u32::from(size) * 9_800),
        units: Some(u32::from(size) * 16),
        media: false,
        compute: size.min(3),
        size,
        starts: starts.iter().fold(0, |bits, at| bits | 1 << at),
        most,
    };
    Ok(KnownGpu {
        kind: GpuKind {
            features: Vec::new(),
            name: "H100 SXM5 80GB".into(),
            memory_mib: Some(81_559),
            units: None,
            bandwidth_gbs: None,
            tflops: None,
            price: None,
            mig: Some(MigGeometry {
                compute_slices: 7,
                memory_slices: 8,
                shapes: vec![
                    shape("3g.40gb", 4, &[0, 4], 2),
                    shape("1g.10gb", 1, &[0, 1, 2, 3, 4, 5, 6], 7),
                ],
            }),
        },
        joined: Some(8),
        parts: KnownParts::default(),
    })
}

fn files(objects: &[Value]) -> (FleetFile, JobsFile, String) {
    let all = inventory(objects);
    let text = fleet_file("live", &all.found_nodes(), &find);
    let mut file =
        read_fleet("fleet", &text, None, &find).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let text = job_file(&file, &all.found_jobs(1_795_687_300));
    let jobs = read_jobs("jobs", &text, &mut file.fleet, &find)
        .unwrap_or_else(|error| panic!("{error}\n{text}"));
    (file, jobs, text)
}

/// A running job by the name that the file gives it: its GPUs as node, number and part.
fn seats(file: &FleetFile, jobs: &JobsFile, name: &str) -> Vec<(String, u32, Part)> {
    let job = jobs.jobs.iter().find(|job| job.name == name);
    let id = job
        .unwrap_or_else(|| panic!("no job {name}: {:?}", jobs.jobs))
        .id;
    let fleet = &file.fleet;
    let placed = jobs.running.iter().filter_map(|action| match action {
        Action::Place { job, assignments } if *job == id => Some(assignments),
        _ => None,
    });
    let all = placed
        .flatten()
        .flat_map(|one| one.gpus.iter().map(move |gpu| (one.node, gpu)));
    all.map(|(node, share)| {
        let gpu = &fleet.gpus[share.gpu.index()];
        (
            fleet.nodes[node.index()].name.clone(),
            gpu.index,
            share.part,
        )
    })
    .collect()
}

#[test]
fn who_holds_what_and_who_waits() {
    let (file, jobs, text) = files(&[
        node("gpu-1", 8),
        node("gpu-2", 8),
        pod("a", Some("gpu-1"), 4),
        pod("b", Some("gpu-1"), 2),
        pod("c", None, 8),
        pod("plain", Some("gpu-2"), 0),
        // More than is left: the node's device plugin has lied, or it lost GPUs.
        pod("d", Some("gpu-1"), 4),
    ]);
    assert_eq!(file.fleet.gpus.len(), 16);
    let numbers = |name: &str| {
        seats(&file, &jobs, name)
            .iter()
            .map(|seat| seat.1)
            .collect::<Vec<_>>()
    };
    assert_eq!(numbers("default/a"), [0, 1, 2, 3]);
    assert_eq!(numbers("default/b"), [4, 5]);
    assert!(numbers("default/c").is_empty());
    // It runs, so that it is none of those that wait.
    assert!(jobs.jobs.iter().all(|job| job.name != "default/d"));
    let left = "# default/d is left out: it runs on gpu-1, where fewer GPUs are than pods hold";
    assert!(text.contains(left), "{text}");
    let other = jobs
        .jobs
        .iter()
        .find(|job| job.name == "other pods of gpu-2")
        .expect("the plain pod");
    assert_eq!(
        (other.worker.cpu_milli, other.worker.memory_mib),
        (4_000, 32 << 10)
    );
}

#[test]
fn a_gang_is_one_job() {
    let group = json!({
        "kind": "PodGroup", "metadata": { "name": "gang", "namespace": "default", "resourceVersion": "1" },
        "spec": { "schedulingPolicy": { "gang": { "minCount": 2 } } },
    });
    let member = |name: &str, on: &str| {
        let mut out = pod(name, Some(on), 8);
        out["spec"]["schedulingGroup"] = json!({ "podGroupName": "gang" });
        out
    };
    let objects = [
        group,
        node("gpu-1", 8),
        node("gpu-2", 8),
        member("a", "gpu-1"),
        member("b", "gpu-2"),
    ];
    let (file, jobs, _) = files(&objects);
    let seats = seats(&file, &jobs, "default/gang");
    assert_eq!(seats.len(), 16);
    let gang = &jobs.jobs[0].gang;
    assert_eq!((gang.least, gang.most), (2, 2));
}

#[test]
fn time_slices_and_instances() {
    let mut shared = node("shared", 2);
    shared["metadata"]["labels"]["nvidia.com/gpu.replicas"] = "4".into();
    shared["status"]["allocatable"]["nvidia.com/gpu"] = "8".into();
    shared["status"]["capacity"]["nvidia.com/gpu"] = "8".into();
    let mut cut = node("cut", 1);
    cut["metadata"]["labels"]["nvidia.com/mig.strategy"] = "mixed".into();
    for place in ["allocatable", "capacity"] {
        let amounts = &mut cut["status"][place];
        amounts["nvidia.com/gpu"] = "0".into();
        amounts["nvidia.com/mig-3g.40gb"] = "2".into();
    }
    let slice = |name: &str| {
        let mut out = pod(name, Some("cut"), 0);
        out["spec"]["containers"][0]["resources"] =
            json!({ "limits": { "nvidia.com/mig-3g.40gb": "1" } });
        out
    };
    let objects = [
        shared,
        cut,
        pod("a", Some("shared"), 1),
        pod("b", Some("shared"), 3),
        pod("c", Some("shared"), 1),
        slice("x"),
        slice("y"),
    ];
    let all = inventory(&objects);
    assert!(all.findings().is_empty(), "{:?}", all.findings());
    let (file, jobs, _) = files(&objects);
    let share = |name: &str| match seats(&file, &jobs, name).as_slice() {
        [(_, number, Part::Fraction { milli, .. })] => (*number, *milli),
        other => panic!("{name}: {other:?}"),
    };
    // The first GPU is filled before the second one.
    assert_eq!(
        [share("default/a"), share("default/b"), share("default/c")],
        [(0, 250), (0, 750), (1, 250)]
    );
    let starts =
        ["default/x", "default/y"].map(|name| match seats(&file, &jobs, name).as_slice() {
            [(_, 0, Part::Slice { start, .. })] => *start,
            other => panic!("{name}: {other:?}"),
        });
    assert_eq!(starts, [0, 4]);
}
