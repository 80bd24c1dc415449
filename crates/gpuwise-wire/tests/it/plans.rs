//! Plans: what was written is read back, and names that mean nothing are told.

use gpuwise_domain::placement::{
    Action, Assignment, Cause, FabricPool, Fleet, FleetGpu, GpuId, GpuKind, GpuShare, Health, Home,
    Isolation, JobId, KindId, MigGeometry, MigShape, Node, NodeId, Part, Plan, PoolId, Uid,
};
use gpuwise_units::Nanoseconds;
use gpuwise_wire::{StateDocument, plan_from_json, plan_to_json};

/// Node `a` with two GPUs, node `b` with none, a pool with one.
fn fleet() -> Fleet {
    let gpu = |home, index| FleetGpu {
        kind: KindId(0),
        uid: Uid::default(),
        home,
        index,
        numa: None,
        switch: None,
        island: None,
        rail: None,
        health: Health::Up,
        mig_on: false,
    };
    Fleet {
        kinds: vec![GpuKind {
            features: Vec::new(),
            name: "A".into(),
            memory_mib: None,
            units: None,
            bandwidth_gbs: None,
            tflops: None,
            price: None,
            mig: Some(MigGeometry {
                compute_slices: 7,
                memory_slices: 8,
                shapes: vec![MigShape {
                    profile: "1g".into(),
                    memory_mib: None,
                    units: None,
                    compute: 1,
                    size: 1,
                    starts: 0x7f,
                    most: 7,
                    media: false,
                }],
            }),
        }],
        nodes: ["a", "b"]
            .map(|name| Node {
                name: name.into(),
                ..Node::default()
            })
            .to_vec(),
        gpus: vec![
            gpu(Home::Node(NodeId(0)), 0),
            gpu(Home::Node(NodeId(0)), 1),
            gpu(Home::Pool(PoolId(0)), 0),
        ],
        pools: vec![FabricPool {
            name: "p".into(),
            attach: Nanoseconds(1),
            detach: Nanoseconds(1),
            hot_plug: true,
        }],
        ..Fleet::default()
    }
}

fn plan() -> Plan {
    let assignment = |gpu, part| Assignment {
        node: NodeId(0),
        gpus: vec![GpuShare {
            gpu: GpuId(gpu),
            part,
        }],
    };
    let fraction = Part::Fraction {
        milli: 300,
        memory_mib: 0,
        isolation: Isolation::Mps,
    };
    let slice = Part::Slice { shape: 0, start: 3 };
    let (job, gpu) = (JobId(0), GpuId(2));
    let cause = Cause::For(JobId(1));
    Plan {
        number: 8,
        parent: 7,
        made: Nanoseconds(5),
        actions: vec![
            Action::Preempt { job, cause },
            Action::SetMig {
                gpu: GpuId(1),
                on: true,
            },
            Action::CreateInstance {
                gpu: GpuId(1),
                shape: 0,
                start: 3,
            },
            Action::Attach {
                gpu,
                node: NodeId(1),
            },
            Action::Place {
                job: JobId(1),
                assignments: vec![assignment(0, Part::Whole), assignment(1, slice)],
            },
            Action::Move {
                job,
                assignments: vec![assignment(0, fraction)],
                cause: Cause::Defragmentation,
            },
            Action::Resize {
                job,
                assignments: Vec::new(),
            },
            Action::DestroyInstance {
                gpu: GpuId(1),
                start: 3,
            },
            Action::Detach { gpu },
            Action::Reclaim { job },
            Action::Restore {
                job,
                assignments: vec![assignment(0, Part::Whole)],
            },
        ],
    }
}

fn job(name: &str) -> Option<JobId> {
    ["x", "y"]
        .iter()
        .zip(0..)
        .find(|(one, _)| **one == name)
        .map(|(_, id)| JobId(id))
}

fn written() -> String {
    let name = |id: JobId| ["x", "y"][id.index()].to_owned();
    let state = StateDocument {
        fleet: "name = \"é\"\n".into(),
        jobs: String::new(),
        fabric: None,
    };
    plan_to_json(&plan(), &fleet(), &name, Some(state))
}

#[test]
fn a_plan_is_read_back_as_it_was() {
    let file = plan_from_json(&written()).unwrap();
    assert_eq!(file.plan(&fleet(), &job).unwrap(), plan());
    assert_eq!(file.state().unwrap().fleet, "name = \"é\"\n");
}

#[test]
fn what_means_nothing_is_told_with_its_place() {
    let check = |from: &str, to: &str, said: &str| {
        let text = written();
        assert!(text.contains(from), "{from}");
        let file = plan_from_json(&text.replace(from, to));
        let error = file
            .and_then(|file| file.plan(&fleet(), &job))
            .unwrap_err()
            .to_string();
        assert!(error.contains(said), "{error}");
    };
    check("\"y\"", "\"z\"", "`plan.actions[0]`: there is no job \"z\"");
    check(
        "\"node\": \"b\"",
        "\"node\": \"c\"",
        "`plan.actions[3]`: there is no node \"c\"",
    );
    check(
        "\"profile\": \"1g\"",
        "\"profile\": \"9g\"",
        "`plan.actions[2]`: A has no profile \"9g\"",
    );
    check(
        "\"pool\": \"p\"",
        "\"pool\": \"q\"",
        "there is no pool \"q\"",
    );
    check("\"pool\": \"p\",", "", "a GPU is in a node or of a pool");
    check(
        "\"mps\"",
        "\"mig\"",
        "is none of time-slice, mps, vgpu and pair",
    );
    check("gpuwise.plan/v1", "gpuwise.plan/v2", "gpuwise.plan/v2");
    check("\"do\": \"reclaim\"", "\"do\": \"fly\"", "plan.actions[9]");
    check("\"number\": 8", "\"number\": -8", "plan.number");
}
