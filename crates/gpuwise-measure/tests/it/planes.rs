//! Figures of planes against figures made elsewhere; timelines made of them.

use crate::sample_data::{expected, unzipped};
use gpuwise_domain::profile::planes::{Line, Plane, PlaneEvent};
use gpuwise_domain::profile::sources::PlaneFigures;
use gpuwise_domain::profile::timeline::{Index, NameId, Origin, Timeline};
use gpuwise_measure::planes::{line_figures, plane_figures, planes_source, top_names};
use gpuwise_read::trace_viewer::read_trace_viewer;
use gpuwise_read::xplane::{is_xplane, read_planes, timeline};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn with_figures(mut object: Value, figures: &PlaneFigures) -> Value {
    let number = |ps: i128| json!(i64::try_from(ps).expect("fits"));
    object["events"] = json!(figures.event_count);
    object["zero_duration"] = json!(figures.zero_duration_count);
    object["without_start"] = json!(figures.without_start_count);
    object["sum_ps"] = number(figures.sum_ps);
    object["busy_union_ps"] = number(figures.busy_ps);
    object["span_ps"] = number(figures.span_ps);
    object["first_start_ps"] = figures.first_start_ps.map_or(Value::Null, number);
    object
}

fn as_expected(plane: &Plane) -> Value {
    let object = json!({
        "id": plane.id, "name": plane.name, "n_lines": plane.lines.len(),
        "n_event_metadata": plane.event_name_count,
    });
    let mut object = with_figures(object, &plane_figures(plane));
    if plane.is_device() {
        let line = |line: &Line| {
            let object =
                json!({"id": line.id, "name": line.name, "timestamp_ns": line.timestamp_ns});
            with_figures(object, &line_figures(line))
        };
        object["lines"] = plane.lines.iter().map(line).collect();
        let top = top_names(plane, 5).into_iter();
        let top =
            top.map(|(name, count, ps)| json!([name, count, i64::try_from(ps).expect("fits")]));
        object["top5"] = top.collect();
    }
    object
}

#[test]
fn planes_of_the_sample_data_are_exact() {
    let Some(folder) = gpuwise_needs::data("profile") else {
        return;
    };
    let expected = expected(&folder.join("xplane/expected_xplane.json"));
    let tpu = unzipped(&folder.join("xplane/xprof_tpu_inference_2.xplane.pb"));
    let tpu = planes_source(&read_planes(&tpu).expect("planes"));
    let steps = tpu.planes.iter().map(|plane| plane.steps.len());
    // Runs of modules, since this file marks no steps; operations lie within them.
    assert_eq!(
        steps.filter(|steps| *steps > 0).collect::<Vec<_>>(),
        [105, 103, 103, 103]
    );
    for step in tpu.planes.iter().flat_map(|plane| &plane.steps) {
        assert!((0..=step.duration_ps).contains(&step.busy_ps), "{step:?}");
    }
    for (name, want) in expected.as_object().expect("files") {
        let bytes = unzipped(&folder.join("xplane").join(name));
        assert!(is_xplane(&bytes), "{name}");
        let planes = read_planes(&bytes).expect(name);
        assert!(planes.losses.is_empty(), "{name}");
        let of = |device: bool| -> Vec<Value> {
            let planes = planes.planes.iter();
            planes
                .filter(|p| p.is_device() == device)
                .map(as_expected)
                .collect()
        };
        let got = json!({
            "bytes": planes.byte_count, "n_planes": planes.planes.len(),
            "device_planes": of(true), "other_planes": of(false),
        });
        assert_eq!(&got, want, "{name}");
        same_work(name, &planes.planes, &timeline(&planes));
    }
}

/// Work of a timeline is what streams of GPUs hold, each end rounded down to a nanosecond.
fn same_work(name: &str, planes: &[Plane], timeline: &Timeline) {
    let gpu = |plane: &&Plane| plane.device().is_some_and(|(kind, _)| kind == "GPU");
    let events: u64 = planes
        .iter()
        .filter(gpu)
        .map(|p| plane_figures(p).event_count)
        .sum();
    assert_eq!(timeline.work.len() as u64, events, "{name}");
    let sum_ps: i128 = planes
        .iter()
        .filter(gpu)
        .map(|p| plane_figures(p).sum_ps)
        .sum();
    let sum_ns: i128 = timeline
        .work
        .iter()
        .map(|w| i128::from(w.end_ns - w.start_ns))
        .sum();
    assert!(
        (sum_ps / 1_000 - sum_ns).unsigned_abs() <= u128::from(events),
        "{name}"
    );
    if events > 0 {
        assert!(
            timeline
                .work
                .iter()
                .filter(|work| work.call.get().is_some())
                .count()
                > 0,
            "{name}"
        );
        assert!(
            timeline
                .devices
                .iter()
                .any(|device| device.other_kind.is_none()),
            "{name}"
        );
    }
    let tpu = planes
        .iter()
        .filter(|p| p.device().is_some_and(|(kind, _)| kind == "TPU"));
    let told = timeline
        .devices
        .iter()
        .filter(|d| d.other_kind.as_deref() == Some("TPU"));
    assert_eq!(told.count(), tpu.count(), "{name}");
}

/// The viewer's trace of a file of planes: the same work, stream by stream, to its rounding.
#[test]
fn the_viewers_sample_has_the_same_streams() {
    let Some(folder) = gpuwise_needs::data("profile") else {
        return;
    };
    for name in ["tl_mi300_jax_conv_legacy", "xprof_tpu_inference_2"] {
        let planes = read_planes(&unzipped(&folder.join(format!("xplane/{name}.xplane.pb"))));
        let exact = timeline(&planes.expect(name));
        let sample = unzipped(&folder.join(format!("xplane/{name}.trace.json.gz")));
        assert!(gpuwise_read::trace_viewer::is_trace_viewer(
            &sample[..4_096]
        ));
        let sample = read_trace_viewer(&sample).expect(name);
        assert!(
            sample
                .losses
                .iter()
                .any(|loss| loss.what.starts_with("a sample"))
        );
        let sums = |timeline: &Timeline| {
            let mut sums: BTreeMap<(i64, i64), (u64, i64)> = BTreeMap::new();
            for work in &timeline.work {
                let stream = timeline.streams[work.stream as usize];
                let device = timeline.device_of(work).expect("a device").number;
                let sum = sums.entry((device, stream.number)).or_default();
                *sum = (sum.0 + 1, sum.1 + work.end_ns - work.start_ns);
            }
            sums
        };
        let (exact, sample) = (sums(&exact), sums(&sample));
        assert_eq!(
            exact.keys().collect::<Vec<_>>(),
            sample.keys().collect::<Vec<_>>(),
            "{name}"
        );
        for (stream, (count, sum)) in &exact {
            let (sampled, sampled_sum) = sample[stream];
            assert_eq!(*count, sampled, "{name} {stream:?}");
            assert!(
                u64::try_from((sum - sampled_sum).abs()).expect("positive") <= 2 * count,
                "{name} {stream:?}"
            );
        }
    }
}

proptest! {
    /// Against marking every picosecond.
    #[test]
    fn busy_is_what_marking_finds(
        spans in prop::collection::vec((0_i64..60, 0_i64..15, any::<bool>()), 1..20),
    ) {
        let events = spans.iter().map(|(offset, duration, aggregate)| PlaneEvent {
            name: NameId(0),
            offset_ps: (!aggregate).then_some(*offset),
            duration_ps: *duration,
            correlation: None,
            detail: Index::NONE,
            origin: Origin::NONE,
        });
        let line = Line { timestamp_ns: 3, events: events.collect(), ..Line::default() };
        let placed = || spans.iter().filter(|(_, _, aggregate)| !aggregate);
        let busy = (0..100).filter(|at| placed().any(|(s, d, _)| (*s..s + d).contains(at))).count();
        let figures = line_figures(&line);
        prop_assert_eq!(figures.busy_ps, busy as i128);
        let first = placed().map(|(start, _, _)| i128::from(3_000 + start)).min();
        prop_assert_eq!(figures.first_start_ps, first);
        prop_assert_eq!(figures.without_start_count as usize, spans.len() - placed().count());
    }
}
