//! Time of operations, by relations that hold whatever the constants are.

use super::super::fixture;
use gpuwise_domain::{
    gpu::{Device, Gpu},
    network::{Operation, OperationKind, Part, PartRole, Walk},
    precision::Compute,
};
use gpuwise_size::media::{
    Constants, Machine, Numbers, batch,
    memory::{Residence, largest_batch, memory},
};
use gpuwise_units::Bytes;

fn matmul(rows: u64, inner: u64, columns: u64) -> Operation {
    Operation {
        name: "product".into(),
        kind: OperationKind::Matmul,
        count: 24,
        flops: 2 * rows * inner * columns,
        weights: inner * columns,
        reads: rows * inner,
        writes: rows * columns,
        rows,
        shared_weights: true,
    }
}

fn walk(role: PartRole, operations: Vec<Operation>) -> Walk {
    Walk {
        parts: vec![Part {
            name: "backbone".into(),
            role,
            passes: 1.0,
            parameters: 300_000_000,
            operations,
            live_elements: 2_000_000,
        }],
        assumptions: Vec::new(),
    }
}

fn gpu(name: &str) -> Gpu {
    fixture::catalogue().gpu(name).expect("known").clone()
}

#[test]
fn nothing_is_faster_than_the_hardware() {
    let constants = Constants::default();
    for (name, rows) in [
        ("L4", 16),
        ("L4", 512),
        ("H100 SXM5 80GB", 1),
        ("H100 SXM5 80GB", 512),
    ] {
        let gpu = gpu(name);
        let machine = Machine::new(Device::whole(&gpu), &constants);
        let network = walk(PartRole::Backbone, vec![matmul(rows, 1024, 4096)]);
        for numbers in [Numbers::HALF, Numbers::of(Compute::Int8)] {
            let peak = machine.peak(numbers.main);
            let mut rates = Vec::new();
            for inputs in [1.0, 8.0, 64.0] {
                let seconds = batch(&network, inputs, numbers, &machine);
                assert!(
                    network.flops() * inputs / seconds < peak,
                    "{name} {rows} {inputs}"
                );
                let bytes = 24.0
                    * 4e6
                    * if numbers.main == Compute::Half {
                        2.0
                    } else {
                        1.0
                    };
                assert!(bytes / seconds < machine.device.bandwidth().get());
                rates.push(inputs / seconds);
            }
            assert!(
                rates.windows(2).all(|pair| pair[1] > pair[0]),
                "{name}: {rates:?}"
            );
        }
    }
}

#[test]
fn a_framework_is_slower_than_a_compiler_and_more_devices_exchange_rows() {
    let constants = Constants::default();
    let gpu = gpu("H100 SXM5 80GB");
    let mut machine = Machine::new(Device::whole(&gpu), &constants);
    let rows = Operation {
        kind: OperationKind::Lookup,
        flops: 0,
        weights: 0,
        reads: 0,
        writes: 26 * 128 * 270,
        rows: 0,
        count: 1,
        ..matmul(270, 1, 1)
    };
    let network = walk(PartRole::Tables, vec![rows]);
    let alone = batch(&network, 64.0, Numbers::HALF, &machine);
    let loose = Numbers {
        compiled: false,
        ..Numbers::HALF
    };
    assert!(batch(&network, 64.0, loose, &machine) > alone);
    machine.devices = 4;
    let spread = batch(&network, 64.0, Numbers::HALF, &machine);
    // Three quarters of 26 × 128 × 270 × 64 elements of two bytes cross NVLink.
    let bytes = 0.75 * 26.0 * 128.0 * 270.0 * 64.0 * 2.0;
    let link = gpu.scale_up.as_ref().expect("NVLink").bandwidth.get();
    assert!(spread - alone > bytes / link, "{spread} {alone}");
}

#[test]
fn memory_follows_weights_and_the_widest_pass() {
    let mut network = walk(PartRole::Backbone, vec![matmul(512, 1024, 4096)]);
    network.parts.push(Part {
        name: "text_encoder".into(),
        role: PartRole::TextEncoder,
        passes: 1.0,
        parameters: 1_000_000_000,
        operations: Vec::new(),
        live_elements: 10,
    });
    let here = memory(&network, 8.0, Numbers::HALF, 1, Residence::default());
    // 1.3 G weights of two bytes, 8 × 2 M elements of two bytes, and the program.
    assert_eq!(
        here.total().count() - here.program.count(),
        2_600_000_000 + 32_000_000
    );
    assert_eq!(here.widest, "backbone");
    let away = Residence {
        encoders_offloaded: true,
        tiled: false,
    };
    let swapped = memory(&network, 8.0, Numbers::HALF, 1, away);
    assert_eq!(swapped.offloaded.count(), 2_000_000_000);
    assert_eq!(
        here.total().count() - swapped.total().count(),
        2_000_000_000
    );
    let eight = memory(
        &network,
        8.0,
        Numbers::of(Compute::Fp8),
        1,
        Residence::default(),
    );
    assert_eq!(eight.weights[0].1.count(), 300_000_000);
    assert_eq!(eight.weights[1].1.count(), 2_000_000_000);
    let room = Bytes::new(here.total().count() + 5_000_000);
    let most = largest_batch(&network, Numbers::HALF, 1, Residence::default(), room, 1024);
    assert_eq!(most, Some(8));
    let none = largest_batch(
        &network,
        Numbers::HALF,
        1,
        Residence::default(),
        Bytes::new(1 << 30),
        8,
    );
    assert_eq!(none, None);
}
