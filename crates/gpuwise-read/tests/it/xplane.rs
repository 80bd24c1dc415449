//! Files of planes, made by hand and damaged.

use gpuwise_domain::profile::timeline::{Detail, Direction, Index, NameId, Origin, WorkClass};
use gpuwise_read::xplane::{XPlaneError, is_xplane, read_planes, timeline};
use proptest::prelude::*;

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

fn bytes(field: u64, value: impl AsRef<[u8]>) -> Vec<u8> {
    let value = value.as_ref();
    [
        varint(field << 3 | 2),
        varint(value.len() as u64),
        value.to_vec(),
    ]
    .concat()
}

fn named(field: u64, id: u64, name: &str) -> Vec<u8> {
    bytes(
        field,
        [
            number(1, id),
            bytes(2, [number(1, id), bytes(2, name)].concat()),
        ]
        .concat(),
    )
}

/// A GPU with a kernel, a copy and an aggregate, its names behind its line, and a host that launched.
fn file() -> Vec<u8> {
    let correlation = |id| bytes(4, [number(1, 1), number(4, id)].concat());
    let detail = |name, text: &str| bytes(4, [number(1, name), bytes(5, text)].concat());
    let kernel = [
        number(1, 5),
        number(2, 1_500),
        number(3, 2_000),
        correlation(9),
        detail(
            2,
            "regs:32 static_shared:16 dynamic_shared:8 grid:4,2,1 block:128,1,1 occ_pct:50",
        ),
        detail(7, "XlaModule:"),
        detail(8, "jit(f)/attn/dot_general"),
        detail(9, "custom-call.1"),
    ];
    let copy = [
        number(1, 6),
        number(2, 9_000),
        number(3, 500),
        detail(
            3,
            "kind_src:pageable kind_dst:device size:4096 dest:0 async:1",
        ),
    ];
    let aggregate = [number(1, 5), number(3, 7), number(5, 3)];
    let line = [
        number(1, 14),
        bytes(2, "Stream #14(Compute)"),
        number(3, 10),
        bytes(4, kernel.concat()),
        bytes(4, copy.concat()),
        bytes(4, aggregate.concat()),
    ];
    let gpu = [
        number(1, 1),
        bytes(2, "/device:GPU:0"),
        bytes(3, line.concat()),
        named(4, 5, "gemm"),
        named(4, 6, "MemcpyH2D"),
        named(5, 1, "correlation_id"),
        named(5, 2, "kernel_details"),
        named(5, 3, "memcpy_details"),
        named(5, 4, "core_count"),
        named(5, 7, "tf_op"),
        named(5, 8, "name"),
        named(5, 9, "hlo_op"),
        bytes(6, [number(1, 4), number(3, 108)].concat()),
    ];
    let call = [
        number(1, 1),
        number(2, 0),
        number(3, 1_000_000),
        correlation(9),
    ];
    let thread = [bytes(2, "python"), number(3, 10), bytes(4, call.concat())];
    let host = [
        bytes(2, "/host:CPU"),
        bytes(3, thread.concat()),
        named(4, 1, "cuLaunchKernel"),
        named(5, 1, "correlation_id"),
    ];
    [
        bytes(1, gpu.concat()),
        bytes(1, host.concat()),
        bytes(4, "a-host"),
    ]
    .concat()
}

#[test]
fn planes_and_timeline_are_read() {
    assert!(is_xplane(&file()));
    let planes = read_planes(&file()).expect("planes");
    let timeline = timeline(&planes);
    assert_eq!(timeline.devices[0].multiprocessors, Some(108));
    assert_eq!((timeline.streams[0].number, timeline.work.len()), (14, 2));
    let [kernel, copy] = &timeline.work[..] else {
        panic!("{:?}", timeline.work)
    };
    // 10 ns and 1.5 ns; its end at 13.5 ns.
    assert_eq!(
        (kernel.start_ns, kernel.end_ns, kernel.class),
        (11, 13, WorkClass::Kernel)
    );
    let call = timeline.call_of(kernel).expect("a call");
    assert_eq!(
        (timeline.names.text(call.name), call.end_ns),
        ("cuLaunchKernel", 1_010)
    );
    let text = |index: Index| {
        let at = u32::try_from(index.get()?).ok()?;
        Some(timeline.names.text(NameId(at)))
    };
    let [of_kernel, of_copy] = &timeline.origins[..] else {
        panic!("{:?}", timeline.origins)
    };
    assert_eq!(
        (
            text(of_kernel.path),
            text(of_kernel.program),
            text(of_kernel.operation)
        ),
        (Some("jit(f)/attn/dot_general"), None, Some("custom-call.1"))
    );
    assert_eq!(*of_copy, Origin::NONE);
    let Some(Detail::Launch(shape)) = timeline.detail_of(kernel) else {
        panic!("no launch")
    };
    assert_eq!(
        (shape.grid, shape.shared_memory, shape.occupancy_percent),
        (Some([4, 2, 1]), Some(24), Some(50.0))
    );
    let Some(Detail::Copy(shape)) = timeline.detail_of(copy) else {
        panic!("no copy")
    };
    assert_eq!(
        (shape.bytes, shape.direction),
        (Some(4096), Some(Direction::HostToDevice))
    );
    assert!(
        timeline
            .losses
            .iter()
            .any(|loss| loss.what.contains("no start") && loss.count == 1)
    );
}

#[test]
fn what_is_no_file_of_planes_is_told() {
    let huge = [vec![0x0a], varint(u64::MAX), vec![0; 8]].concat();
    for (bytes, told) in [
        (b"".to_vec(), "no plane"),
        (b"{\"traceEvents\": []}".to_vec(), "kind"),
        (huge, "cut off within a field at byte 11"),
        (vec![0xff; 11], "more than 64 bits"),
        (number(7, 3), "no plane"),
        (bytes(1, [0x0b]), "unknown kind"),
    ] {
        let error = read_planes(&bytes).expect_err(told).to_string();
        assert!(error.contains(told), "{told}: {error}");
    }
}

proptest! {
    /// A cut leaves whole planes and says so, or is an error; it is never a panic.
    #[test]
    fn a_cut_is_told(at in 0..file().len()) {
        match read_planes(&file()[..at]) {
            Ok(planes) => prop_assert!(planes.planes.len() == 2 || !planes.losses.is_empty() || at < file().len()),
            Err(error) => prop_assert!(matches!(error, XPlaneError::Truncated { .. } | XPlaneError::NoPlane { .. }), "{error}"),
        }
    }

    #[test]
    fn changed_bytes_give_an_answer(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let mut file = file();
        for (at, byte) in changes {
            let at = at.index(file.len());
            file[at] = byte;
        }
        if let Ok(planes) = read_planes(&file) {
            let _ = timeline(&planes);
        }
    }
}
