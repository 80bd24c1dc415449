//! Streams, queues and ranges of made-up timelines, worked by hand.

use crate::support::classifier;
use gpuwise_domain::profile::timeline::{
    CopyShape, Detail, Device, Direction, HostSpan, Index, NameId, Stream, Timeline, Work,
    WorkClass,
};
use gpuwise_measure::{
    figures::Settings,
    operators::ranges,
    streams::{bandwidth, of_rank, queues},
};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn timeline() -> Timeline {
    let mut timeline = Timeline {
        devices: vec![Device::default()],
        streams: [7, 20].map(|number| Stream { device: 0, number }).into(),
        ..Timeline::default()
    };
    for name in ["kernel", "step#1", "step#2", "inner"] {
        timeline.names.add(name);
    }
    timeline
}

fn span(name: u32, start_ns: i64, end_ns: i64) -> HostSpan {
    HostSpan {
        start_ns,
        end_ns,
        name: NameId(name),
        thread: 0,
        operands: Index::NONE,
    }
}

/// A kernel on a stream, launched at a time.
fn launch(timeline: &mut Timeline, stream: u32, called_ns: i64, start_ns: i64, end_ns: i64) {
    timeline.calls.push(span(0, called_ns, called_ns + 5));
    timeline.work.push(Work {
        start_ns,
        end_ns,
        name: NameId(0),
        stream,
        call: Index::of(timeline.calls.len() - 1),
        operator: Index::NONE,
        detail: Index::NONE,
        class: WorkClass::Kernel,
    });
}

fn with<T>(look: impl FnOnce(&Settings<'_>) -> T) -> T {
    let (names, peaks) = (classifier(), BTreeMap::new());
    look(&Settings {
        names: &names,
        window: None,
        device: None,
        peaks: &peaks,
    })
}

#[test]
fn a_stream_stands_still_for_the_host_or_behind_its_launch() {
    let mut timeline = timeline();
    launch(&mut timeline, 0, 0, 100, 200);
    // Launched 50 ns after the end before, begun 30 later.
    launch(&mut timeline, 0, 250, 280, 400);
    // Launched while the one before ran.
    launch(&mut timeline, 0, 300, 460, 500);
    launch(&mut timeline, 1, 10, 20, 30);
    let all = with(|settings| of_rank(&timeline, settings));
    assert_eq!(all.iter().map(|of| of.stream).collect::<Vec<_>>(), [7, 20]);
    let of = &all[0];
    assert_eq!((of.kernels, of.span_ns, of.busy_ns), (3, 400, 260));
    assert_eq!(
        (of.host_wait_ns, of.launched_wait_ns, of.unlinked_ns),
        (50, 90, 0)
    );
    assert_eq!(of.longest_gap_ns, 80);
    // One waits from 0 to 100, from 250 to 280 and from 300 to 460: 290 of 460.
    let queue = of.queue.expect("launches");
    assert!((queue.mean - 290.0 / 460.0).abs() < 1e-12, "{queue:?}");
    assert_eq!((queue.most, queue.full_ns), (1, 0));
}

#[test]
fn copies_that_run_at_once_add_their_rates() {
    let mut timeline = timeline();
    for (start_ns, end_ns, bytes) in [(0, 100, 1_000), (50, 150, 3_000), (400, 400, 5)] {
        launch(&mut timeline, 0, 0, start_ns, end_ns);
        timeline.details.push(Detail::Copy(CopyShape {
            bytes: Some(bytes),
            direction: Some(Direction::HostToDevice),
            ..CopyShape::default()
        }));
        let detail = Index::of(timeline.details.len() - 1);
        let work = timeline.work.last_mut().expect("work");
        (work.class, work.detail) = (WorkClass::Copy, detail);
    }
    let all = with(|settings| bandwidth(&timeline, settings));
    assert_eq!((all.len(), all[0].of.as_str()), (1, "HtoD"));
    let samples: Vec<(i64, i64)> = all[0]
        .samples
        .iter()
        .map(|sample| (sample.at_ns, sample.value.round() as i64))
        .collect();
    let (one, other) = (10_000_000_000, 30_000_000_000);
    assert_eq!(
        samples,
        [(0, one), (50, one + other), (100, other), (150, 0)]
    );
}

#[test]
fn a_range_is_what_was_launched_within_it() {
    let mut timeline = timeline();
    timeline.annotations = vec![span(1, 0, 100), span(3, 40, 60), span(2, 100, 200)];
    launch(&mut timeline, 0, 10, 300, 400);
    launch(&mut timeline, 1, 50, 350, 500);
    launch(&mut timeline, 0, 120, 600, 700);
    launch(&mut timeline, 0, 900, 950, 960);
    let all = with(|settings| ranges(&timeline, settings));
    let lines: Vec<_> = all
        .iter()
        .map(|of| (of.name.as_str(), of.count, of.kernel_ns))
        .collect();
    assert_eq!(lines, [("step#*", 2, 350), ("inner", 1, 150)]);
    let step = &all[0];
    // 300 to 500 and 600 to 700 on the device, 100 each on the host; begun 300 apart.
    assert!((step.device_median_ns - 150.0).abs() < 1e-9);
    assert!((step.host_median_ns - 100.0).abs() < 1e-9);
    assert_eq!(
        (step.pace_median_ns, all[1].pace_median_ns),
        (Some(300.0), None)
    );
}

proptest! {
    /// Against counting the launches that wait at each sample, one by one.
    #[test]
    fn a_queue_is_what_was_launched_and_has_not_begun(
        launches in prop::collection::vec((0_i64..500, 0_i64..200), 1..60),
    ) {
        let mut timeline = timeline();
        for (called, waits) in &launches {
            launch(&mut timeline, 0, *called, called + waits, called + waits + 10);
        }
        let all = with(|settings| queues(&timeline, settings));
        prop_assert_eq!(all.len(), 1);
        for sample in &all[0].samples {
            let waiting = launches.iter().filter(|(called, waits)| {
                (*called..called + waits).contains(&sample.at_ns)
            });
            prop_assert_eq!(sample.value, waiting.count() as f64);
        }
    }
}
