//! Nodes of eight GPUs at 2.50 USD an hour.

use gpuwise_domain::placement::{Fleet, FleetGpu, GpuId, GpuKind, Home, KindId, Node, NodeId};
use gpuwise_units::{Currency, HourlyPrice, Money};

/// What a GPU costs an hour, in millionths of a dollar.
pub(crate) const PRICE: i64 = 2_500_000;

pub(crate) fn boards(name: &str, gpu: &str, nodes: u32) -> Fleet {
    let mut kind = GpuKind::named(gpu);
    kind.price = Some(HourlyPrice(Money {
        micros: PRICE,
        currency: Currency::USD,
    }));
    kind.memory_mib = Some(80 * 1024);
    let gpus = |node: u32| (0..8).map(move |index| (node, index));
    Fleet {
        name: name.into(),
        kinds: vec![kind],
        nodes: (0..nodes)
            .map(|node| Node {
                name: format!("n{node}"),
                cpu_milli: 128_000,
                memory_mib: 1 << 21,
                gpus: (node * 8..node * 8 + 8).map(GpuId).collect(),
                ..Node::default()
            })
            .collect(),
        gpus: (0..nodes)
            .flat_map(gpus)
            .map(|(node, index)| FleetGpu::new(KindId(0), Home::Node(NodeId(node)), index))
            .collect(),
        ..Fleet::default()
    }
}
