//! What tools say of nodes, and fleet files made of it.

use super::{find, fleet};
use gpuwise_domain::placement::{Action, Health};
use gpuwise_read::fleet::{
    FoundGpu, FoundNode, FoundSlice, fleet_file, merge_found, read_fleet, read_found,
};
use proptest::prelude::*;

const SMI: &str = r#"<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
  <driver_version>570.86.15</driver_version>
  <gpu id="00000000:1B:00.0">
    <product_name>H100</product_name>
    <uuid>GPU-8f6b9a1c-2d3e-4f50-9a7b-1c2d3e4f5a6b</uuid>
    <mig_mode><current_mig>Disabled</current_mig></mig_mode>
    <mig_devices>None</mig_devices>
    <fb_memory_usage><total>81559 MiB</total><used>4 MiB</used></fb_memory_usage>
    <fabric><state>N/A</state><cliqueId>N/A</cliqueId></fabric>
  </gpu>
  <gpu id="00000000:43:00.0">
    <product_name>H100</product_name>
    <uuid>GPU-0d1c2b3a-4f5e-4d6c-8b7a-9f8e7d6c5b4a</uuid>
    <mig_mode><current_mig>Enabled</current_mig></mig_mode>
    <mig_devices>
      <mig_device>
        <index>0</index><gpu_instance_id>1</gpu_instance_id>
        <device_attributes><shared><multiprocessor_count>48</multiprocessor_count></shared></device_attributes>
        <fb_memory_usage><total>40448 MiB</total></fb_memory_usage>
      </mig_device>
      <mig_device>
        <index>1</index>
        <device_attributes><shared><multiprocessor_count>16</multiprocessor_count></shared></device_attributes>
        <fb_memory_usage><total>9984 MiB</total></fb_memory_usage>
      </mig_device>
    </mig_devices>
    <fb_memory_usage><total>81559 MiB</total></fb_memory_usage>
  </gpu>
</nvidia_smi_log>"#;

/// Two pairs joined by bridges; one NIC at the first GPU's switch, two at the third's.
const TOPO: &str = "\tGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1\tNIC2\tCPU Affinity\tNUMA Affinity\n\
GPU0\t X \tNV4\tNODE\tSYS\tPIX\tSYS\tSYS\t0-31\t0\n\
GPU1\tNV4\t X \tPXB\tSYS\tNODE\tSYS\tSYS\t0-31\t0\n\
GPU2\tNODE\tPXB\t X \tNV4\tNODE\tPXB\tPIX\t32-63\t1\n\
GPU3\tSYS\tSYS\tNV4\t X \tSYS\tNODE\tNODE\t32-63\tN/A\n\
NIC0\tPIX\tNODE\tNODE\tSYS\t X \tSYS\tSYS\t\t\n\nLegend:\n";

const NODES: &str = r#"{"kind": "List", "items": [
 {"kind": "Node", "metadata": {"name": "a-1", "labels": {"nvidia.com/gpu.product": "H100-MIG-1g.10gb", "nvidia.com/gpu.count": "2",
   "topology.kubernetes.io/zone": "z1", "example.com/topology-rack": "r7"}},
  "spec": {}, "status": {"allocatable": {"cpu": "127500m", "memory": "1056462096Ki", "nvidia.com/mig-3g.40gb": "2", "nvidia.com/mig-1g.10gb.me": "2"},
   "conditions": [{"type": "Ready", "status": "True"}]}},
 {"kind": "Node", "metadata": {"name": "b", "labels": {"nvidia.com/gpu.product": "L40S-SHARED", "nvidia.com/gpu.replicas": "4"}},
  "spec": {"unschedulable": true}, "status": {"capacity": {"nvidia.com/gpu": "16"}, "allocatable": {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": "8"},
   "conditions": [{"type": "Ready", "status": "True"}]}},
 {"kind": "Node", "metadata": {"name": "c"}, "status": {"allocatable": {"cpu": "8", "memory": "34359738368"},
   "conditions": [{"type": "Ready", "status": "Unknown"}]}}
]}"#;

const SLURM: &str = r#"{"nodes": [
 {"name": "n1", "cpus": 128, "real_memory": 1031000, "gres": "gpu:H100:8(S:0,1),shard:32", "gres_used": "gpu:H100:3(IDX:0-2)", "state": ["MIXED"]},
 {"name": "n2", "cpus": 128, "real_memory": 1031000, "gres": "gpu:H100:8(S:0,1),shard:32", "gres_used": "gpu:H100:3(IDX:0-2)", "state": ["MIXED", "PLANNED"]},
 {"name": "n3", "cpus": {"set": true, "number": 64}, "real_memory": 500000, "gres": "gpu:H100_1g.10gb:7", "state": "idle+drain"},
 {"name": "n4", "cpus": 64, "real_memory": 500000, "gres": "", "state": ["DOWN*"]}
]}"#;

fn one(name: &str, text: &str) -> FoundNode {
    read_found("f", name, text).unwrap().remove(0)
}

#[test]
fn nvidia_smi_and_its_topology_are_put_together() {
    let topology = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV18\t0-55\t0\nGPU1\tNV18\t X \t56-111\t1\n";
    let merged = merge_found(vec![one("gpu-01", SMI), one("gpu-01", topology)]).unwrap();
    let text = fleet_file("lab", &merged, &find);
    assert_eq!(
        text,
        "name = \"lab\"\n\n[[node]]\nname = \"gpu-01\"\ngpus = \"2xH100 SXM5 80GB\"\n\
         uuids = [\"GPU-8f6b9a1c-2d3e-4f50-9a7b-1c2d3e4f5a6b\", \"GPU-0d1c2b3a-4f5e-4d6c-8b7a-9f8e7d6c5b4a\"]\n\
         # cpu = ?  # not said: cores that jobs may have\n# memory = \"?\"  # not said: what jobs may have\n\
         numa = [0, 1]\nnvlink = true\nmig = { 1 = [\"3g.40gb\", \"1g.10gb\"] }\n"
    );
    // What was not said is accepted, and that it is not known is said.
    let bare = fleet(&text);
    let unknown = bare.doubts.iter().filter(|doubt| doubt.contains("gpu-01"));
    assert_eq!(unknown.count(), 2, "{:?}", bare.doubts);
    let node = &bare.fleet.nodes[0];
    assert_eq!((node.cpu(), node.memory()), (None, None));
    let uids: Vec<&str> = bare.fleet.gpus.iter().map(|gpu| gpu.uid.as_str()).collect();
    assert!(uids.iter().all(|uid| uid.starts_with("GPU-")), "{uids:?}");
    let text = text
        .replace("# cpu = ?", "cpu = 8")
        .replace("# memory = \"?\"", "memory = \"1TiB\"");
    let read = fleet(&text);
    assert_eq!(read.present.len(), 2);
    assert!(matches!(
        read.present[0],
        Action::CreateInstance { start: 0 | 4, .. }
    ));
}

#[test]
fn a_topology_says_groups_switches_and_rails() {
    let node = one("x", TOPO);
    let said: Vec<_> = node
        .gpus
        .iter()
        .map(|gpu| (gpu.group, gpu.switch, gpu.rail, gpu.numa))
        .collect();
    assert_eq!(
        said,
        [
            (Some(0), Some(0), Some(0), Some(0)),
            (Some(0), Some(1), None, Some(0)),
            (Some(1), Some(1), Some(2), Some(1)),
            (Some(1), None, None, None)
        ]
    );
    let text = fleet_file("x", &[node], &find);
    assert!(text.contains("numa = [0, 0, 1, -1]\nswitches = [0, 1, 1, -1]\nrails = [0, -1, 2, -1]\nnvlink = [[0, 1], [2, 3]]\n"), "{text}");
    // NVLink of all with all through other GPUs is one group; a table without NICs has no rails.
    let other = one(
        "y",
        "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tSYS\t\nGPU1\tSYS\t X \t\n",
    );
    assert_eq!(other.gpus[0], gpuwise_read::fleet::FoundGpu::default());
}

#[test]
fn kubernetes_nodes_are_read() {
    let found = read_found("nodes.json", "", NODES).unwrap();
    let [a, b, c] = found.as_slice() else {
        panic!("three: {found:?}")
    };
    assert_eq!(
        (a.cpu_milli, a.memory_mib),
        (Some(127_500), Some(1_031_701))
    );
    assert_eq!(
        (a.rack.as_deref(), a.zone.as_deref()),
        (Some("r7"), Some("z1"))
    );
    assert_eq!(
        (a.gpus.len(), a.gpus[0].product.as_deref()),
        (2, Some("H100"))
    );
    let profiles: Vec<_> = a.gpus[1]
        .mig
        .as_ref()
        .unwrap()
        .iter()
        .map(|one| one.profile.as_deref().unwrap())
        .collect();
    assert_eq!(profiles, ["1g.10gb+me", "3g.40gb"]);
    assert_eq!((b.gpus.len(), b.health), (2, Some(Health::Draining)));
    assert!(
        b.notes
            .iter()
            .any(|note| note.contains("8 of 16 GPUs are not healthy"))
    );
    assert_eq!((c.gpus.len(), c.health), (0, Some(Health::Lost { xid: 0 })));
    let read = fleet(&fleet_file("k", &found, &find));
    assert_eq!((read.fleet.gpus.len(), read.present.len()), (4, 4));
    assert_eq!(read.fleet.nodes[1].health, Health::Draining);
}

/// A node with these labels and so many `nvidia.com/gpu`.
fn offering(labels: &str, count: u32) -> FoundNode {
    let text = format!(
        r#"{{"kind": "Node", "metadata": {{"name": "n", "labels": {{{labels}}}}}, "status": {{"allocatable": {{"nvidia.com/gpu": "{count}"}}}}}}"#
    );
    one("n", &text)
}

#[test]
fn alike_instances_are_no_gpus_of_their_own() {
    // MIG's strategy `single`: product, count and resource are of instances.
    for (profile, count, expected) in [("3g.40gb", 4, vec![2, 2]), ("1g.10gb", 9, vec![7, 2])] {
        let labels = format!(
            r#""nvidia.com/gpu.product": "H100-MIG-{profile}", "nvidia.com/gpu.count": "{count}", "nvidia.com/mig.strategy": "single""#
        );
        let node = offering(&labels, count);
        let cut = node
            .gpus
            .iter()
            .map(|gpu| gpu.mig.as_ref().map_or(0, Vec::len));
        assert_eq!(cut.collect::<Vec<_>>(), expected, "{profile}");
        assert_eq!(node.gpus[0].product.as_deref(), Some("H100"));
        assert_eq!(
            fleet(&fleet_file("k", &[node], &find)).present.len(),
            count as usize
        );
    }
}

#[test]
fn clouds_name_products_too() {
    for (label, product) in [
        ("cloud.google.com/gke-accelerator", "nvidia l4"),
        ("karpenter.k8s.aws/instance-gpu-name", "l4"),
        ("amd.com/gpu.product-name", "MI300X"),
    ] {
        let node = offering(&format!(r#""{label}": "{}""#, product.replace(' ', "-")), 2);
        assert_eq!(node.gpus.len(), 2);
        assert_eq!(node.gpus[0].product.as_deref(), Some(product));
    }
}

#[test]
fn slurm_nodes_are_read_and_alike_ones_are_one_table() {
    let found = read_found("n.json", "", SLURM).unwrap();
    let text = fleet_file("s", &found, &find);
    assert!(text.contains("name = \"n{1..2}\"\n# in use: gpu:H100:3(IDX:0-2); by which jobs is not said\ngpus = \"8xH100 SXM5 80GB\"\ncpu = 128\nmemory = \"1031000MiB\"\n"), "{text}");
    let read = fleet(&text);
    assert_eq!(
        (
            read.fleet.nodes.len(),
            read.fleet.gpus.len(),
            read.present.len()
        ),
        (4, 17, 7)
    );
    let health: Vec<_> = read.fleet.nodes.iter().map(|node| node.health).collect();
    assert_eq!(
        health,
        [
            Health::Up,
            Health::Up,
            Health::Draining,
            Health::Lost { xid: 0 }
        ]
    );
}

#[test]
fn other_boards_are_described() {
    let text = SMI.replace("H100", "Acme \"9000\"");
    let mut node = one("n", &text);
    node.cpu_milli = Some(8000);
    node.memory_mib = Some(1024);
    let read = fleet(&fleet_file("o", &[node], &find));
    assert_eq!(
        (
            read.fleet.kinds[0].name.as_str(),
            read.fleet.kinds[0].memory_mib
        ),
        ("Acme \"9000\"", Some(81_559))
    );
}

#[test]
fn what_cannot_be_read_is_told() {
    for (text, said) in [
        ("hello", "none of the forms"),
        ("{\"a\": 1}", "neither the `items`"),
        ("{", "line 1"),
        ("<nvidia_smi_log></nvidia_smi_log>", "no <gpu> is in it"),
        ("<nvidia_smi_log><gpu></x></nvidia_smi_log>", "byte"),
        ("{\"items\": []}", "no node is in it"),
        ("{\"nodes\": []}", "it lists no node"),
        ("{\"nodes\": [{\"cpus\": 1}]}", "nodes[0]: name is missing"),
        (
            "{\"items\": [{\"metadata\": {\"name\": \"x\"}, \"status\": {\"allocatable\": {\"cpu\": \"many\"}}}]}",
            "items[0]: cpu is \"many\"",
        ),
    ] {
        let found = read_found("f", "n", text).unwrap_err().to_string();
        assert!(
            found.starts_with("f: ") && found.contains(said),
            "{text} said {found}"
        );
    }
    let apart = merge_found(vec![one("n", SMI), one("n", TOPO)]).unwrap_err();
    assert!(
        apart.contains("2 GPUs in one output and 4 in another"),
        "{apart}"
    );
}

/// What tools say, and what they might: names with what a file would take otherwise, one rack in several
/// zones, amounts of nothing, instances that do not go together.
fn node() -> impl Strategy<Value = FoundNode> {
    let place = || proptest::option::of(0..4_u32);
    let products = [
        "H100",
        "L40S",
        "odd {1..2} one",
        "odd-1",
        "odd 1",
        "A'''B",
        "",
        " ",
        "8x",
    ];
    let slice = proptest::sample::select(vec![
        "1g.10gb",
        "1g.10gb+me",
        "3g.40gb",
        "4g.40gb",
        "7g.80gb",
        "9g.1gb",
    ]);
    let slices = proptest::option::of(proptest::collection::vec(slice, 0..5));
    let gpu = (
        proptest::sample::select(products.to_vec()),
        (place(), place(), place(), place()),
        proptest::option::of(0..3_u32),
        slices,
    );
    let word = || proptest::option::of("[ab{}\"\\\\' \t\u{7f}]{0,3}");
    let said = (
        "[a-z{}' \"]{1,3}[0-9]{0,3}",
        proptest::collection::vec(gpu, 0..9),
        (word(), word(), word(), word()),
        any::<bool>(),
        proptest::option::of(prop_oneof![0..4000_u64, Just(u64::MAX)]),
        proptest::option::of(prop_oneof![0..2_u64, Just(1 << 50)]),
    );
    said.prop_map(|(name, gpus, words, links_said, cpu_milli, memory_mib)| {
        let gpu = |(product, places, memory_mib, mig): Said| FoundGpu {
            product: Some(product.into()),
            // The same on two nodes now and then, and what is none.
            uuid: ["GPU-1a", "GPU-2", "GPU-\"", "3"]
                .get(memory_mib.unwrap_or(0) as usize % 5)
                .map(|uuid| (*uuid).to_owned()),
            memory_mib,
            numa: places.0,
            switch: places.1,
            rail: places.2,
            group: places.3,
            mig: mig.map(|all| all.into_iter().map(slice_of).collect()),
        };
        let (rack, block, zone, island) = words;
        FoundNode {
            name,
            cpu_milli,
            memory_mib,
            gpus: gpus.into_iter().map(gpu).collect(),
            rack,
            block,
            zone,
            island,
            links_said,
            ..FoundNode::default()
        }
    })
}

type Spot = Option<u32>;
/// Product, places, memory and instances of a GPU.
type Said = (
    &'static str,
    (Spot, Spot, Spot, Spot),
    Spot,
    Option<Vec<&'static str>>,
);

fn slice_of(profile: &str) -> FoundSlice {
    FoundSlice {
        profile: Some(profile.into()),
        ..FoundSlice::default()
    }
}

/// Every tool's output with an oddity that is seen in the field, and a node that says next to nothing.
#[test]
fn what_any_tool_says_is_a_fleet_that_is_accepted() {
    let kube = |labels: &str, more: &str| {
        format!(
            "{{\"kind\": \"Node\", \"metadata\": {{\"name\": \"n\", \"labels\": {{{labels}}}}}, \
             \"status\": {{\"allocatable\": {{{more}}}}}}}"
        )
    };
    let slurm = |gres: &str| format!("{{\"nodes\": [{{\"name\": \"n\", \"gres\": \"{gres}\"}}]}}");
    for text in [
        SMI.to_owned(),
        TOPO.to_owned(),
        SMI.replace("81559 MiB", "N/A"),
        SMI.replace(">H100<", ">A card of nobody's <"),
        slurm("gpu:8"),
        slurm("gpu:h100_3g.40gb:4,gpu:h100_1g.10gb:8"),
        slurm("gpu:nvidia_{x}:2"),
        slurm(""),
        kube("", ""),
        kube("\"nvidia.com/gpu.count\": \"2\"", "\"memory\": \"4\""),
        kube(
            "\"nvidia.com/gpu.product\": \"H100\", \"nvidia.com/gpu.count\": \"1\"",
            "\"nvidia.com/mig-3g.40gb\": \"3\"",
        ),
        kube("\"topology.kubernetes.io/zone\": \"\"", "\"cpu\": \"0\""),
    ] {
        let found = read_found("f", "n", &text).unwrap_or_else(|wrong| panic!("{text}\n{wrong}"));
        let written = fleet_file("p", &merge_found(found).unwrap(), &find);
        if let Err(wrong) = read_fleet("p", &written, None, &find) {
            panic!("{text}\n{written}\n{wrong}");
        }
    }
}

proptest! {
    /// What is written is read back: the same nodes with the same GPUs in the same places.
    #[test]
    fn what_is_written_is_read_back(nodes in proptest::collection::vec(node(), 1..8)) {
        let named = |(at, node): (usize, FoundNode)| FoundNode { name: format!("{}{at}", node.name), ..node };
        let nodes = merge_found(nodes.into_iter().enumerate().map(named).collect());
        let nodes = nodes.map_err(TestCaseError::reject)?;
        let text = fleet_file("p", &nodes, &find);
        let read = read_fleet("p", &text, None, &find).map_err(|wrong| TestCaseError::fail(format!("{text}\n{wrong}")))?;
        prop_assert_eq!(read.fleet.nodes.len(), nodes.len());
        for (node, found) in read.fleet.nodes.iter().zip(&nodes) {
            prop_assert_eq!(&node.name, &found.name);
            for (gpu, said) in node.gpus.iter().zip(&found.gpus) {
                let gpu = &read.fleet.gpus[gpu.index()];
                prop_assert_eq!((gpu.numa, gpu.switch, gpu.rail), (said.numa, said.switch, said.rail));
            }
        }
    }

    /// Whatever is mangled: an answer or an error, never a panic.
    #[test]
    fn mangled_outputs_do_not_panic(which in 0..4_usize, at in 0..1000_usize, with in "[ \t\n<>{}\\[\\]a-zA-Z0-9:]{0,8}") {
        let text = [SMI, TOPO, NODES, SLURM][which];
        let at = at % text.len();
        let text = format!("{}{with}{}", &text[..at], &text[(at + 5).min(text.len())..]);
        if let Ok(found) = read_found("f", "n", &text) {
            let _ = read_fleet("p", &fleet_file("p", &found, &find), None, &find);
        }
    }
}
