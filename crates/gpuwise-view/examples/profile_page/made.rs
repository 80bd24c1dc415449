//! A profile that nobody measured, of any size, with names that are hostile to pages.

use gpuwise_domain::profile::timeline::{
    Device, HostSpan, Index, MemoryEvent, NameId, Stream, Thread, Timeline, Work, WorkClass,
};
use gpuwise_units::RandomStream;

/// Two streams and a thread.
fn frame() -> Timeline {
    Timeline {
        devices: vec![Device {
            number: 0,
            name: Some("Made \"GPU\" <1>".into()),
            ..Device::default()
        }],
        streams: vec![
            Stream {
                device: 0,
                number: 7,
            },
            Stream {
                device: 0,
                number: 20,
            },
        ],
        threads: vec![Thread {
            process: 1,
            thread: 1,
            name: Some("main</script>".into()),
        }],
        ..Timeline::default()
    }
}

/// A training loop of about so many events, with names that are hostile to pages.
pub(crate) fn made(events: usize) -> Timeline {
    let mut chance = RandomStream::new(7, "made profile", 0);
    let mut timeline = frame();
    let kernels: Vec<NameId> = [
        "ampere_gemm_128x64</script><script>throw 1</script>",
        "elementwise_kernel<float, 4>",
        "ncclDevKernel_AllReduce",
        "Memcpy HtoD (Pageable -> Device)",
        "flash_fwd_kernel\u{1b}[31m",
        "layer_norm \"quoted\" & 'more'",
    ]
    .iter()
    .map(|name| timeline.names.add(name))
    .collect();
    let (operator, call) = (
        timeline.names.add("aten::mm"),
        timeline.names.add("cudaLaunchKernel"),
    );
    let count = events / 3;
    let (mut host, mut device) = (0_i64, [0_i64; 2]);
    for index in 0..count {
        let mut next = |most: u64| i64::try_from(chance.below(most)).unwrap();
        let step = index / 400;
        if index.is_multiple_of(400) {
            host = host.max(device[0]) + if step % 7 == 3 { 900_000 } else { 20_000 };
            let name = timeline.names.add(&format!("ProfilerStep#{step}"));
            timeline.annotations.push(HostSpan {
                start_ns: host,
                end_ns: host,
                name,
                thread: 0,
                operands: Index::NONE,
            });
        }
        let start = host + 300 + next(900);
        let launch = start + 1_000 + next(1_000);
        timeline.operators.push(HostSpan {
            start_ns: start,
            end_ns: launch + 4_000,
            name: operator,
            thread: 0,
            operands: Index::NONE,
        });
        timeline.calls.push(HostSpan {
            start_ns: launch,
            end_ns: launch + 2_500,
            name: call,
            thread: 0,
            operands: Index::NONE,
        });
        host = launch + 4_000;
        if let Some(step) = timeline.annotations.last_mut() {
            step.end_ns = host;
        }
        let which = usize::try_from(next(6)).unwrap();
        let stream = usize::from(which == 2);
        let from = device[stream].max(launch + 3_000);
        device[stream] = from + 500 + next(9_000) * if which == 2 { 3 } else { 1 };
        timeline.work.push(Work {
            start_ns: from,
            end_ns: device[stream],
            name: kernels[which],
            stream: u32::try_from(stream).unwrap(),
            call: Index::of(index),
            operator: Index::of(index),
            detail: Index::NONE,
            class: if which == 3 {
                WorkClass::Copy
            } else {
                WorkClass::Kernel
            },
        });
        if index.is_multiple_of(50) {
            let allocated = 2_000_000_000 + (index as u64 % 400) * 10_000_000;
            timeline.memory.push(MemoryEvent {
                at_ns: start,
                device: Some(0),
                bytes: 512,
                allocated: Some(allocated),
                reserved: Some(7_000_000_000),
            });
        }
    }
    timeline.event_count = events as u64;
    timeline
}
