//! Fleet files.

use super::{find, fleet, fleet_fails};
use gpuwise_domain::placement::{Action, GpuId, Health, Home, IslandId, Level, PoolId};
use gpuwise_read::{
    fabric::read_fabric,
    fleet::{fabric_of, read_fleet},
};
use gpuwise_units::Nanoseconds;
use proptest::prelude::*;

const LAB: &str = r#"
name = "lab"

[[gpu_kind]]
name = "H100"
price = "2.50 USD"

[[node]]
name = "gpu-{01..04}"
gpus = "8xH100"
cpu = 112
memory = "2TiB"
rack = "r{1..2}"
numa = 2
rails = 8
mig = { 7 = ["3g.40gb", "1g.10gb@3", "1g.10gb"] }

[[node]]
name = "edge"
gpus = ["2xL40S", "1xH100"]
cpu = 31.5
memory = "256GB"
rack = "r2"
nvlink = [[0, 2]]
health = "draining"
gpu_health = { 1 = "xid 79" }

[[pool]]
name = "shelf"
gpus = "4xL40S"
attach = "10s"
nodes = "edge"
slots = 2

[[queue]]
name = "vision"
parent = "all"
quota = { types = "H100", gpus = 8, borrow = 4 }
budget = "500 USD"

[[queue]]
name = "all"
quota = { gpus = 36 }

[[reservation]]
name = "demo"
queue = "vision"
nodes = "gpu-{01..02}"
gpus = 4
from = "2h"
until = "4h"
"#;

#[test]
fn a_fleet_is_read() {
    let read = fleet(LAB);
    let lab = &read.fleet;
    assert_eq!((lab.nodes.len(), lab.gpus.len()), (5, 39));
    let kinds: Vec<&str> = lab.kinds.iter().map(|kind| kind.name.as_str()).collect();
    assert_eq!(kinds, ["H100 SXM5 80GB", "L40S"]);
    assert_eq!(lab.kinds[0].price.unwrap().0.micros, 2_500_000);
    // Two nodes to a rack, four GPUs to a socket, each on a rail of its own.
    let racks: Vec<&str> = lab
        .nodes
        .iter()
        .map(|node| lab.domains[node.domain.unwrap().index()].name.as_str())
        .collect();
    assert_eq!(racks, ["r1", "r1", "r2", "r2", "r2"]);
    assert_eq!(lab.domains[0].level, Level::Rack);
    let second = &lab.gpus[lab.nodes[1].gpus[5].index()];
    assert_eq!(
        (second.numa, second.rail, second.index),
        (Some(1), Some(5), 5)
    );
    assert_eq!(second.island, Some(IslandId(1)), "one island in each node");
    let edge = &lab.nodes[4];
    assert_eq!((edge.cpu_milli, edge.memory_mib), (31_500, 244_140));
    assert_eq!((edge.health, edge.slots), (Health::Draining, 2));
    let of_edge: Vec<_> = edge
        .gpus
        .iter()
        .map(|gpu| (lab.gpus[gpu.index()].island, lab.gpus[gpu.index()].health))
        .collect();
    let joined = Some(IslandId(4));
    assert_eq!(
        of_edge,
        [
            (joined, Health::Up),
            (None, Health::Lost { xid: 79 }),
            (joined, Health::Up)
        ]
    );
    let pooled = lab
        .gpus
        .iter()
        .filter(|gpu| gpu.home == Home::Pool(PoolId(0)));
    assert_eq!(pooled.count(), 4);
    assert_eq!(lab.pools[0].detach, Nanoseconds(10_000_000_000));
    // Parents stand before their children whatever the file's order.
    assert_eq!(lab.queues[0].name, "all");
    assert_eq!(lab.queues[1].quotas[0].borrowing_milli, Some(4000));
    let kept: Vec<&str> = lab.reservations.iter().map(|r| r.name.as_str()).collect();
    assert_eq!(kept, ["demo/gpu-01", "demo/gpu-02"]);
}

#[test]
fn instances_without_a_start_go_where_there_is_room() {
    let read = fleet(LAB);
    let first: Vec<_> = read
        .present
        .iter()
        .filter_map(|action| match action {
            Action::CreateInstance { gpu, shape, start } if *gpu == GpuId(7) => {
                Some((*shape, *start))
            }
            _ => None,
        })
        .collect();
    // The 1g at 3 blocks the left half; the 3g goes right, the other 1g to the first slice.
    assert_eq!(first, [(0, 3), (2, 4), (0, 0)]);
    assert_eq!(read.present.len(), 12);
    assert!(read.fleet.gpus[7].mig_on && !read.fleet.gpus[6].mig_on);
}

#[test]
fn islands_reach_beyond_nodes() {
    let read = fleet(
        r#"
[[island]]
name = "nvl-{1..2}"
nodes = "t-{1..4}"
[[node]]
name = "t-{1..4}"
gpus = "4xGB200"
cpu = 144
memory = "1TiB"
"#,
    );
    let islands: Vec<_> = read
        .fleet
        .gpus
        .iter()
        .map(|gpu| gpu.island.unwrap().0)
        .collect();
    assert_eq!(islands, [[0; 8], [1; 8]].concat());
    assert_eq!(read.fleet.islands, ["nvl-1", "nvl-2"]);
}

#[test]
fn a_fabric_brings_its_pools_and_hosts() {
    let text = "fabric = \"rack.toml\"\n[[node]]\nname = \"a\"\ngpus = \"2xL40S\"\ncpu = 8\nmemory = \"64GiB\"\n";
    assert_eq!(fabric_of(text).as_deref(), Some("rack.toml"));
    let fabric = read_fabric(
        "rack.toml",
        "name = \"r\"\nbandwidth_gbs = 63\npeer_to_peer = \"none\"\ngpus_per_host = 4\nattach_s = 12\n\
         [[pool]]\nname = \"p\"\ngpu = \"L40S\"\ngpus = 6\n[[host]]\nname = \"h\"\ncount = 2\ncores = 64\nmemory_gib = 512\n",
    )
    .unwrap();
    let read = read_fleet("fleet.toml", text, Some(&fabric), &find).unwrap();
    let names: Vec<&str> = read
        .fleet
        .nodes
        .iter()
        .map(|node| node.name.as_str())
        .collect();
    assert_eq!(names, ["a", "h-1", "h-2"]);
    assert_eq!(
        (read.fleet.nodes[2].slots, read.fleet.nodes[0].slots),
        (4, 0)
    );
    assert_eq!(read.fleet.gpus.len(), 8);
}

/// A node that is right, to be made wrong.
const NODE: &str = "[[node]]\nname = \"a\"\ngpus = \"8xH100\"\ncpu = 8\nmemory = \"1TiB\"\n";

#[test]
fn wrong_fleets_are_told_what_and_where() {
    let twice = "[[rack]]\nname = \"r\"\n[[rack]]\nname = \"r\"\n";
    let queue = |name: &str, parent: &str, gpus: u32| {
        format!(
            "[[queue]]\nname = \"{name}\"\nparent = \"{parent}\"\nquota = {{ gpus = {gpus} }}\n"
        )
    };
    for (text, said) in [
        (String::new(), "fleet.toml: there is no [[node]]"),
        (
            format!("{NODE}{NODE}"),
            "line 7: node \"a\" is there twice, first on line 1",
        ),
        (
            NODE.replace("8xH100", "8xH1000"),
            "line 3: H1000: no such GPU",
        ),
        (
            NODE.replace("8xH100", "0xH100"),
            "line 3: gpus is \"0xH100\"; 0 GPUs",
        ),
        (NODE.replace("1TiB", "0GiB"), "line 5: memory is \"0GiB\""),
        (NODE.replace("1TiB", "-1GiB"), "line 5: memory"),
        (NODE.replace("cpu = 8", "cpu = -8"), "line 4: cpu is -8"),
        (
            NODE.replace("cpu = 8", "cpu = 8\ncores = 8"),
            "line 5: node: unknown field",
        ),
        (NODE.replace("cpu = 8", "cpu = "), "line 4: node:"),
        (
            format!("{NODE}rack = \"x\"\n{twice}"),
            "line 10: rack \"r\" is there twice",
        ),
        (
            format!("[[rack]]\nname = \"r\"\n{NODE}rack = \"x\"\n"),
            "line 8: there is no [[rack]] \"x\"",
        ),
        (
            format!("{NODE}nvlink = [[0, 8]]\n"),
            "line 6: nvlink joins GPU 8",
        ),
        (
            format!("{NODE}nvlink = [[0, 1], [1, 2]]\n"),
            "nvlink has GPU 1 in two groups",
        ),
        (
            format!("{NODE}island = \"i\"\n"),
            "line 6: there is no [[island]] \"i\"",
        ),
        (
            format!("{NODE}[[island]]\nname = \"i\"\nnodes = \"b\"\n"),
            "line 8: there is no [[node]] \"b\"",
        ),
        (
            format!("{NODE}numa = [0, 1]\n"),
            "line 6: numa lists 2 numbers",
        ),
        (
            format!("{NODE}mig = {{ 0 = [\"4g.40gb@0\", \"1g.10gb@3\"] }}\n"),
            "line 6: mig: 1g.10gb cannot be at memory slice 3 of GPU 0 (H100 SXM5 80GB): another",
        ),
        (
            format!("{NODE}mig = {{ 0 = [\"3g.40gb@2\"] }}\n"),
            "cannot start at memory slice 2 of GPU 0 (H100 SXM5 80GB); it starts at 0, 4",
        ),
        (
            format!("{NODE}mig = {{ 0 = [\"5g.40gb\"] }}\n"),
            "has no profile \"5g.40gb\"; it has 1g.10gb",
        ),
        (format!("{NODE}mig = {{ 9 = [] }}\n"), "mig names GPU 9"),
        (
            NODE.replace("H100", "L40S") + "mig = true\n",
            "mig: nothing is known of how L40S is partitioned",
        ),
        (
            format!("{NODE}gpu_health = {{ 3 = \"ill\" }}\n"),
            "line 6: health is \"ill\"",
        ),
        (
            format!("{NODE}pools = \"p\"\nslots = 2\n"),
            "line 6: there is no [[pool]] \"p\"",
        ),
        (
            format!("{NODE}{}{}", queue("b", "c", 1), queue("c", "b", 1)),
            "line 8: queue \"b\" is in a circle",
        ),
        (
            format!("{NODE}{}", queue("b", "c", 1)),
            "line 8: there is no [[queue]] \"c\"",
        ),
        (
            format!(
                "{NODE}[[queue]]\nname = \"c\"\nquota = {{ gpus = 3 }}\n{}{}",
                queue("d", "c", 2),
                queue("e", "c", 2)
            ),
            "line 8: the children of queue `c` own 4 GPUs and it owns 3",
        ),
        (
            format!("{NODE}[[nodes]]\nname = \"b\"\n"),
            "line 6: [[nodes]] is no table",
        ),
        (
            NODE.replace("\"a\"", "\"a{3..1}\""),
            "line 2: \"a{3..1}\": the range {3..1} is empty",
        ),
        (
            NODE.replace("\"a\"", "\"a{1..99999999}\""),
            "stands for more than",
        ),
        (
            NODE.replace("\"a\"", "\"a{1..3}\"") + "rack = \"r{1..2}\"\n",
            "line 6: rack \"r{1..2}\" stands for 2, and 3 do not",
        ),
    ] {
        let found = fleet_fails(&text);
        assert!(found.contains(said), "{text}\nsaid {found}\nnot {said}");
    }
}

#[test]
fn several_problems_are_told_at_once() {
    let text = "[[node]]\nname = \"a\"\ngpus = \"8xH1\"\ncpu = 8\nmemory = \"1TiB\"\n\
        [[node]]\nname = \"b\"\ncpu = 8\nmemory = \"0B\"\n[[node]\n[[node]]\nname = \"c\"\ncpu = x\nmemory = \"1TiB\"\n";
    let lines: Vec<String> = fleet_fails(text)
        .lines()
        .map(|line| line.split(": ").nth(1).unwrap_or("").to_owned())
        .collect();
    assert_eq!(lines, ["line 3", "line 10", "line 13"]);
}

proptest! {
    /// Whatever is mangled: an answer or an error, never a panic.
    #[test]
    fn mangled_fleets_do_not_panic(at in 0..LAB.len(), cut in 0..40_usize, with in "[\\[\\]{}=\"0-9a-z.\n@-]{0,6}") {
        let to = (at + cut).min(LAB.len());
        let text = format!("{}{with}{}", &LAB[..at], &LAB[to..]);
        if let Ok(read) = read_fleet("f", &text, None, &find) {
            prop_assert!(!read.fleet.nodes.is_empty());
            for node in &read.fleet.nodes {
                prop_assert!(node.gpus.iter().all(|gpu| gpu.index() < read.fleet.gpus.len()));
            }
        }
    }
}
