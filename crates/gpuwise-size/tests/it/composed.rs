//! Links of fabrics against measured collectives, and what a deployment takes over them.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::similar_names,
    clippy::type_complexity,
    reason = "tests may fail at once, and say what they skip"
)]

use crate::fixture;
use gpuwise_domain::{
    engine::{Engine, EngineKind},
    fabric::{Fabric, FabricHost, FabricLink, PcieConstants, PeerToPeer, Pool},
    gpu::Device,
    layout::Layout,
    precision::CacheFormat,
};
use gpuwise_read::fabric::{PCIE_CONSTANTS, read_pcie_constants};
use gpuwise_size::{
    composed::{Load, all_reduce, layouts, share},
    engines,
    knowledge::Corrections,
    setup::{Setup, Weights},
};
use gpuwise_units::BytesPerSecond;
use proptest::prelude::*;

fn constants() -> PcieConstants {
    read_pcie_constants("pcie.toml", PCIE_CONSTANTS).unwrap()
}

fn link(gigabytes: f64, peer_to_peer: PeerToPeer) -> FabricLink {
    FabricLink {
        bandwidth: BytesPerSecond::new(gigabytes * 1e9),
        extra_latency: 0.0,
        peer_to_peer,
        constants: constants(),
    }
}

/// Bus bandwidths of all-reduces of so many bytes, as `nccl-tests` told them.
const ROWS: &str = include_str!("data/collectives.csv");

#[derive(Clone, Copy)]
struct Measured {
    gpus: u32,
    bytes: f64,
    bus_bandwidth: f64,
}

fn measured(system: &str, gpus: &[u32]) -> Vec<Measured> {
    let rows = ROWS.lines().filter(|line| line.starts_with(system));
    rows.filter_map(|line| {
        let mut cells = line.split(',').skip(1);
        let reduces = cells.next() == Some("all_reduce");
        let mut number = || cells.next().unwrap().parse::<f64>().unwrap();
        let row = Measured {
            gpus: number() as u32,
            bytes: number(),
            bus_bandwidth: number() * 1e9,
        };
        let wanted = gpus.contains(&row.gpus);
        (reduces && wanted).then_some(row)
    })
    .collect()
}

/// The largest error of a link over measured rows.
fn worst(link: &FabricLink, rows: &[Measured]) -> f64 {
    let off = |row: &Measured| {
        let n = f64::from(row.gpus);
        let seconds = 2.0 * (n - 1.0) / n * row.bytes / row.bus_bandwidth;
        (all_reduce(link, n, row.bytes) / seconds - 1.0).abs()
    };
    rows.iter().map(off).fold(0.0, f64::max)
}

#[test]
fn measured_collectives_are_met_within_the_error_that_the_constants_state() {
    let pro = measured("rtx_pro_6000_server", &[2, 4, 8]);
    let l40s = measured("l40s", &[2]);
    let staged = measured("l40s", &[4, 8]);
    assert_eq!((pro.len(), l40s.len(), staged.len()), (12, 4, 8));
    let error = constants().error;
    assert!(worst(&link(63.0, PeerToPeer::Fabric), &pro) <= error);
    assert!(worst(&link(31.5, PeerToPeer::Fabric), &l40s) <= error);
    // Through host memory only large messages were fitted.
    let large: Vec<Measured> = staged.into_iter().filter(|row| row.bytes > 1e7).collect();
    assert!(worst(&link(31.5, PeerToPeer::None), &large) <= error);
}

proptest! {
    #[test]
    fn more_bytes_ranks_or_switches_never_take_less(
        bytes in 0.0..1e9_f64, more in 0.0..1e9_f64, gpus in 2_u32..64, hop in 0.0..1e-5_f64, direct in any::<bool>(),
    ) {
        let peer = if direct { PeerToPeer::Fabric } else { PeerToPeer::None };
        let near = link(63.0, peer);
        let far = FabricLink { extra_latency: hop, ..near };
        let n = f64::from(gpus);
        prop_assert!(all_reduce(&near, n, bytes + more) >= all_reduce(&near, n, bytes));
        prop_assert!(all_reduce(&near, n + 1.0, bytes) >= all_reduce(&near, n, bytes));
        prop_assert!(all_reduce(&far, n, bytes) >= all_reduce(&near, n, bytes));
        prop_assert!(share(&near, n) > 0.0 && share(&near, n) < 1.0);
    }
}

fn fabric(gpus: u32, gpus_per_host: u32) -> Fabric {
    Fabric {
        name: "test".into(),
        bandwidth: BytesPerSecond::new(63e9),
        hops: 2,
        hop_latency: 2e-7,
        peer_to_peer: PeerToPeer::Fabric,
        gpus_per_host,
        attach: 10.0,
        detach: 0.0,
        port_price: None,
        pools: vec![Pool {
            name: "one".into(),
            gpu: "H100 SXM5 80GB".into(),
            gpus,
        }],
        hosts: vec![FabricHost {
            name: "host".into(),
            count: 2,
            cores: 64,
            memory_gib: 512.0,
            ports: 1,
            gpus_per_host,
        }],
    }
}

#[test]
fn tensor_parallel_ranks_pay_for_the_fabric_and_copies_do_not() {
    let catalogue = fixture::catalogue();
    let h100 = catalogue.gpu("H100 SXM5 80GB").unwrap();
    let model = fixture::model("meta-llama/Llama-3.1-8B");
    let engine = Engine::newest(EngineKind::Vllm);
    let setup = Setup {
        architecture: &model,
        device: Device::whole(h100),
        bucket: engines::model(engine.kind).bucket(&engine, h100),
        settings: engines::model(engine.kind).settings(
            &engine,
            &Device::whole(h100),
            Layout::tensor(4),
            None,
        ),
        engine,
        layout: Layout::tensor(4),
        weights: Weights::published(&model),
        cache: CacheFormat::HALF,
        draft: None,
        adapters: None,
        corrections: Corrections::default(),
    };
    let load = Load {
        requests: 32.0,
        context: 1000.0,
        longest: 1200.0,
        prompt: 1000.0,
        answer: 200.0,
    };
    let composed = fabric(8, 4).composed(h100, constants());
    let knowledge = fixture::prior();
    let found = layouts(&setup, &composed, 4, load, &knowledge.serving);
    let of = |wanted: Layout| found.iter().find(|one| one.layout == wanted).unwrap();
    let copies = of(Layout {
        replicas: 4,
        ..Layout::SINGLE
    });
    let tensor = of(Layout::tensor(4));
    assert!(copies.fits && (copies.factor() - 1.0).abs() < 1e-9);
    assert!(tensor.factor() > 1.2, "{}", tensor.factor());
    // All else is the same: what differs is the links.
    let rest =
        |taken: &gpuwise_size::composed::Taken| taken.step.total() - taken.step.communication;
    assert!((rest(&tensor.own) / rest(&tensor.fabric) - 1.0).abs() < 1e-9);
    assert!(tensor.requests.low < tensor.requests.value);
    // A host of two GPUs holds no four ranks.
    let narrow = fabric(8, 2).composed(h100, constants());
    let found = layouts(&setup, &narrow, 4, load, &knowledge.serving);
    assert!(found.iter().all(|one| one.layout.replica_gpus() <= 2));
}
