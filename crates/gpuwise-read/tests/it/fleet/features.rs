//! Features of nodes: GPUs on nodes with others are kinds of their own.

use super::{find, fleet, fleet_fails, jobs, jobs_fail};
use gpuwise_domain::placement::{GpuAsk, KindId};
use gpuwise_read::fleet::{fleet_file, read_found, read_quota};

const FLEET: &str = r#"
[[node]]
name = "n{1..2}"
gpus = "8xH100"
features = ["nvme", "ib", "nvme"]

[[node]]
name = "n3"
gpus = "8xH100"
features = "ib"

[[node]]
name = "n4"
gpus = ["4xH100 SXM5 80GB", "2xL40S"]

[[queue]]
name = "q"
quota = [{ types = "H100", gpus = 20 }]
"#;

/// Nodes on whose GPUs a job may run, by their names' numbers.
fn nodes_of(text: &str) -> Vec<usize> {
    let mut fleet = fleet(FLEET).fleet;
    let read = jobs(&mut fleet, text);
    let GpuAsk::Whole { kinds, .. } = read.jobs[0].worker.gpu else {
        panic!("whole GPUs are asked for");
    };
    let fits = |node: &&gpuwise_domain::placement::Node| {
        let mut gpus = node.gpus.iter().map(|gpu| &fleet.gpus[gpu.index()]);
        gpus.any(|gpu| kinds.has(gpu.kind))
    };
    let fit = fleet.nodes.iter().filter(fits);
    fit.map(|node| node.name[1..].parse().expect("a number"))
        .collect()
}

#[test]
fn a_job_may_go_where_all_that_it_asks_for_is() {
    let asked = |rest: &str| nodes_of(&format!("[[job]]\nname = \"j\"\n{rest}\n"));
    assert_eq!(asked("gpus = \"1xH100\""), [1, 2, 3, 4]);
    assert_eq!(asked("gpus = \"1xH100\"\nfeatures = \"ib\""), [1, 2, 3]);
    assert_eq!(asked("gpus = 1\nfeatures = [\"nvme\", \"ib\"]"), [1, 2]);
    assert_eq!(asked("gpus = 1"), [1, 2, 3, 4]);
}

#[test]
fn quotas_are_of_all_kinds_of_a_name() {
    let fleet = fleet(FLEET).fleet;
    let named = |id: KindId| fleet.kinds[id.index()].label();
    let kinds: Vec<_> = fleet.queues[0].quotas[0].kinds.iter().map(named).collect();
    let own = [
        "H100 SXM5 80GB (ib, nvme)",
        "H100 SXM5 80GB (ib)",
        "H100 SXM5 80GB",
    ];
    assert_eq!(kinds, own);
    let (kinds, milli) = read_quota("16xH100", &fleet.kinds, &find).expect("a quota");
    assert_eq!((kinds.iter().count(), milli), (3, 16_000));
    assert!(read_quota("16xGB200", &fleet.kinds, &find).is_err());
}

#[test]
fn what_no_node_has_is_told_with_what_there_is() {
    let told = |rest: &str| {
        let mut fleet = fleet(FLEET).fleet;
        jobs_fail(&mut fleet, &format!("[[job]]\nname = \"j\"\n{rest}\n"))
    };
    let none = told("gpus = \"1xH100\"\nfeatures = [\"ib\", \"rdma\"]");
    assert!(
        none.contains("ib and rdma") && none.contains("are ib, nvme"),
        "{none}"
    );
    // None of an L40S is on a node with ib.
    assert!(
        told("gpus = \"1xL40S\"\nfeatures = \"ib\"").contains("no node with such a GPU has ib")
    );
    assert!(told("cpu = 1\nfeatures = \"ib\"").contains("say gpus"));
    assert!(told("gpus = 1\nfeatures = \"ib&nvme\"").contains("one word for each"));
    assert!(
        fleet_fails("[[node]]\nname = \"n\"\ngpus = \"1xH100\"\nfeatures = \"a|b\"")
            .contains("features")
    );
}

#[test]
fn slurms_features_are_kept_in_both_forms() {
    let node = |rest: &str| {
        let text =
            format!("{{\"nodes\": [{{\"name\": \"n\", \"gres\": \"gpu:H100:2\", {rest}}}]}}");
        let found = read_found("n.json", "", &text).expect("reads");
        fleet(&fleet_file("s", &found, &find))
            .fleet
            .kinds
            .remove(0)
            .features
    };
    let both = ["ib", "nvme"];
    assert_eq!(
        node(r#""features": "ib,nvme,gone", "active_features": "nvme,ib""#),
        both
    );
    assert_eq!(
        node(r#""features": [], "active_features": ["ib", "nvme"]"#),
        both
    );
    assert_eq!(node(r#""features": "ib""#), ["ib"]);
    assert!(node(r#""active_features": """#).is_empty());
}
