//! Every trace of the sample data against counts that were made by other means.
//!
//! The folder is not part of the repository: `GPUWISE_DATA` names it.

use gpuwise_domain::profile::timeline::Needed;
use gpuwise_read::kineto::read_bytes;
use serde_json::Value;
use std::collections::BTreeSet;

#[test]
fn counts_of_every_trace() {
    let Some(table) = gpuwise_needs::data("profile/expected_traces.json") else {
        return;
    };
    let folder = table.parent().expect("it has one");
    let text = std::fs::read(&table).expect("it exists");
    let expected: Value = serde_json::from_slice(&text).expect("it is JSON");
    let datasets = expected["datasets"].as_object().expect("they are named");
    let mut read = 0;
    for (name, dataset) in datasets {
        for (rank, exact) in dataset["exact"].as_object().expect("by rank") {
            let file = dataset["ranks"][rank]["file"].as_str().expect("a file");
            let bytes = std::fs::read(folder.join(file)).expect("it is there");
            compare(&format!("{name} rank {rank}"), &bytes, exact);
            read += 1;
        }
    }
    assert!(read >= 39, "only {read} traces were compared");
}

fn compare(name: &str, bytes: &[u8], exact: &Value) {
    let timeline = read_bytes(bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
    let number = |key: &str| {
        exact[key]
            .as_u64()
            .unwrap_or_else(|| panic!("{name}: {key}"))
    };
    assert_eq!(timeline.event_count, number("n_trace_events"), "{name}");
    assert_eq!(timeline.bytes, number("json_bytes"), "{name}");
    assert_eq!(timeline.work.len() as u64, number("n_gpu_events"), "{name}");
    let gpus: BTreeSet<String> = timeline
        .devices
        .iter()
        .filter(|device| device.other_kind.is_none())
        .map(|device| device.number.to_string())
        .collect();
    let devices: Vec<&str> = exact["devices"]
        .as_array()
        .expect("an array")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert!(
        gpus.iter().eq(devices.iter()),
        "{name}: {gpus:?} {devices:?}"
    );
    assert_eq!(timeline.streams.len() as u64, number("n_streams"), "{name}");
    // One name says it; all others are whole.
    let mut lacks = timeline.lacks.iter();
    let sample = lacks.any(|lack| lack.needed == Needed::Events);
    assert_eq!(sample, name.starts_with("hta_sampled"), "{name}");
    for (category, count) in exact["categories"].as_object().expect("an object") {
        let found = timeline
            .categories
            .iter()
            .find(|(known, _)| known == category);
        assert_eq!(
            found.map(|(_, count)| *count),
            count.as_u64(),
            "{name}: {category}"
        );
    }
    let (first, last) = timeline
        .work
        .iter()
        .fold((i64::MAX, i64::MIN), |(first, last), work| {
            (first.min(work.start_ns), last.max(work.end_ns))
        });
    if let Some(span) = exact["span_ns"].as_i64() {
        assert_eq!(last - first, span, "{name}");
    }
}
