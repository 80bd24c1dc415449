//! Hosts and pools that a fabric's manager names by their blocks.

use super::{find, fleet};
use gpuwise_domain::placement::{Home, PoolId, resource_block_of};
use gpuwise_read::fleet::{FoundBlock, FoundFabric, FoundPooled, fabric_fleet_file, read_fleet};

fn gpu(block: &str, zones: &[&str], model: &str) -> FoundPooled {
    FoundPooled {
        block: block.into(),
        zones: zones.iter().map(|&zone| zone.to_owned()).collect(),
        manufacturer: Some("NVIDIA".into()),
        model: Some(model.into()),
        memory_mib: Some(48_000),
    }
}

fn host(block: &str, zones: &[&str]) -> FoundBlock {
    FoundBlock {
        block: block.into(),
        zones: zones.iter().map(|&zone| zone.to_owned()).collect(),
        cpu_milli: Some(96_000),
        memory_mib: None,
    }
}

#[test]
fn what_is_written_of_a_fabric_is_read_back_by_its_blocks() {
    let found = FoundFabric {
        hosts: vec![
            host("Compute-1", &["Z1"]),
            host("Compute-2", &["Z1", "Z2"]),
            host("odd{1}", &[]),
        ],
        gpus: vec![
            gpu("G1", &["Z1"], "L40S"),
            gpu("G2", &["Z2"], "Nobody's \"GPU\""),
            gpu("G3", &["Z1"], "L40S"),
            gpu("G4", &["Z1", "Z2"], "L40S"),
        ],
        hot_plug: Some(false),
    };
    let text = fabric_fleet_file("lab", &found, Some(4), &find);
    let read = read_fleet("fleet.toml", &text, None, &find)
        .expect(&text)
        .fleet;
    let block = |uid: &str| resource_block_of(uid).map(str::to_owned);
    let of = |pool: u32| {
        let own = read
            .gpus
            .iter()
            .filter(move |gpu| gpu.home == Home::Pool(PoolId(pool)));
        own.filter_map(|gpu| block(&gpu.uid)).collect::<Vec<_>>()
    };
    let pools: Vec<&str> = read.pools.iter().map(|pool| pool.name.as_str()).collect();
    assert_eq!(pools, ["Z1", "Z1+Z2", "Z2"]);
    assert_eq!(
        [of(0), of(1), of(2)],
        [vec!["G1", "G3"], vec!["G4"], vec!["G2"]]
    );
    assert!(read.pools.iter().all(|pool| !pool.hot_plug));
    let hosts: Vec<_> = read
        .nodes
        .iter()
        .map(|node| (block(&node.uid), &node.pools[..], node.slots))
        .collect();
    let pool = |all: &[u32]| all.iter().copied().map(PoolId).collect::<Vec<_>>();
    let (first, second) = (pool(&[0, 1]), pool(&[0, 1, 2]));
    assert_eq!(hosts[0], (Some("Compute-1".into()), &first[..], 4));
    assert_eq!(hosts[1], (Some("Compute-2".into()), &second[..], 4));
    assert_eq!(hosts[2].1, []);
}

#[test]
fn blocks_that_cannot_be_are_named_with_their_line() {
    let host = |more: &str| format!("[[node]]\nname = \"h\"\ncpu = 8\nmemory = \"1TiB\"\n{more}");
    let pool =
        |more: &str| format!("[[pool]]\nname = \"p\"\ngpus = \"3xL40S\"\nattach = \"1s\"\n{more}");
    let wrong = [
        (
            pool("resource_blocks = \"G{1..2}\""),
            "2 resource blocks for 3 GPUs",
        ),
        (
            pool("resource_blocks = [\"a\", \"b\", \"a\"]"),
            "\"a\" is there twice",
        ),
        (
            host("resource_block = \"C\"\n")
                + &host("resource_block = \"C\"").replace("\"h\"", "\"i\""),
            "\"C\" is there twice",
        ),
        (
            host("resource_block = \"C\"").replace("\"h\"", "\"h-{1..2}\""),
            "of one machine",
        ),
    ];
    for (text, said) in wrong {
        let problems = read_fleet("fleet.toml", &text, None, &find)
            .expect_err(&text)
            .to_string();
        assert!(problems.contains(said), "{problems}");
    }
    let named = fleet(&(pool("resource_blocks = \"G{1..3}\"\nhot_plug = false\n") + &host("")));
    assert_eq!(resource_block_of(&named.fleet.gpus[2].uid), Some("G3"));
}
