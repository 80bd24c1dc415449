//! Fabric files and lists of fleets: what is read, and what wrong ones are told.

use gpuwise_domain::fabric::PeerToPeer;
use gpuwise_read::{
    fabric::{read_fabric, read_pcie_constants},
    fleet::{read_openb_nodes, read_openb_tasks},
};
use proptest::prelude::*;

const GOOD: &str = r#"
name = "rack"
bandwidth_gbs = 63
hops = 2
hop_latency_us = 0.2
peer_to_peer = "fabric"
gpus_per_host = 8
attach_s = 12
port_price_per_hour = "0.05 USD"

[[pool]]
name = "a"
gpu = "L40S"
gpus = 12

[[host]]
name = "h"
count = 3
cores = 64
memory_gib = 512
gpus_per_host = 4
"#;

#[test]
fn a_fabric_is_read() {
    let fabric = read_fabric("f.toml", GOOD).unwrap();
    assert_eq!(
        (fabric.gpus(), fabric.host_count(), fabric.largest_host()),
        (12, 3, 4)
    );
    assert_eq!(fabric.peer_to_peer, PeerToPeer::Fabric);
    assert_eq!(fabric.port_price.unwrap().0.micros, 50_000);
    assert!(
        (fabric.bandwidth.get() - 63e9).abs() < 1.0 && (fabric.hop_latency - 2e-7).abs() < 1e-15
    );
}

#[test]
fn wrong_fabrics_are_told_what_and_where() {
    for (from, to, said) in [
        (
            "bandwidth_gbs = 63",
            "bandwidth_gbs = -1",
            "`bandwidth_gbs`: is -1",
        ),
        ("bandwidth_gbs = 63", "bandwidth = 63", "line "),
        ("\"fabric\"", "\"maybe\"", "`peer_to_peer`: is \"maybe\""),
        ("gpus = 12", "gpus = 0", "pool \"a\": gpus`: is 0"),
        (
            "memory_gib = 512",
            "memory_gib = nan",
            "memory_gib`: is NaN",
        ),
        ("0.05 USD", "-0.05 USD", "a price is not negative"),
        ("0.05 USD", "0.05", "`port_price_per_hour`"),
        ("[[host]]", "[[server]]", "unknown field"),
        ("attach_s = 12", "attach_s = 1e9", "`attach_s`"),
        ("name = \"rack\"", "", "missing field `name`"),
    ] {
        let text = GOOD.replacen(from, to, 1);
        let error = read_fabric("f.toml", &text).unwrap_err().to_string();
        assert!(
            error.starts_with("f.toml: ") && error.contains(said),
            "{to}: {error}"
        );
    }
    let none = GOOD.split("[[pool]]").next().unwrap();
    let error = read_fabric("f.toml", none).unwrap_err().to_string();
    assert!(error.contains("add a [[pool]]"), "{error}");
}

#[test]
fn wrong_constants_are_refused() {
    let text = gpuwise_read::fabric::PCIE_CONSTANTS.replace("pair_share = 0.636", "pair_share = 0");
    let error = read_pcie_constants("c.toml", &text)
        .unwrap_err()
        .to_string();
    assert!(error.contains("`all_reduce.pair_share`: is 0"), "{error}");
}

const PODS: &str = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n";

#[test]
fn lists_of_a_fleet_are_read() {
    let nodes = read_openb_nodes(
        "n",
        "sn,cpu_milli,memory_mib,gpu,model\na,64000,262144,2,P100\nb,8000,1024,0,\n",
    )
    .unwrap();
    assert_eq!((nodes.len(), nodes[0].gpus, nodes[1].gpus), (2, 2, 0));
    let text = format!(
        "{PODS}a,12000,16384,1,460,T4|P100,LS,Running,5,100,20\nb,1,1,0,0,,BE,Pending,7,9,\n"
    );
    let tasks = read_openb_tasks("p", &text).unwrap();
    assert_eq!(
        (tasks[0].arrival, tasks[0].duration, tasks[0].milli()),
        (Some(5), Some(80), 460)
    );
    assert_eq!(tasks[0].models, ["T4", "P100"]);
    assert_eq!((tasks[1].duration, tasks[1].milli()), (None, 0));
    // Some lists have the first columns alone.
    let short = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1,1,8,1000\n";
    let tasks = read_openb_tasks("p", short).unwrap();
    assert_eq!((tasks[0].gpus, tasks[0].arrival), (8, None));
}

#[test]
fn wrong_lists_are_told_their_line() {
    for (row, said) in [
        (
            "a,1,1,2,500,,,,,,",
            "line 2: a asks for 2 GPUs of 500 thousandths",
        ),
        ("a,1,1,1,0,,,,,,", "a asks for 1 GPUs of 0"),
        ("a,1,1,1,1000,,,,0,5,9", "before it was scheduled"),
        ("a,x,1,1,1000,,,,,,", "line 2"),
    ] {
        let error = read_openb_tasks("p", &format!("{PODS}{row}\n"))
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("p: ") && error.contains(said),
            "{row}: {error}"
        );
    }
    for (row, said) in [
        ("a,1,1,2,", "no `model`"),
        ("a,1,1,5000,T4", "at most 4096"),
    ] {
        let text = format!("sn,cpu_milli,memory_mib,gpu,model\n{row}\n");
        let error = read_openb_nodes("n", &text).unwrap_err().to_string();
        assert!(error.contains(said), "{row}: {error}");
    }
}

proptest! {
    #[test]
    fn hostile_text_never_panics(text in "\\PC{0,200}", cut in 0_usize..400) {
        let _ = read_fabric("f", &text);
        let _ = read_openb_nodes("n", &text);
        let _ = read_openb_tasks("p", &format!("{PODS}{text}"));
        if let Some(part) = GOOD.get(..cut) {
            let _ = read_fabric("f", part);
        }
    }
}
