//! Dumps of PyTorch's NCCL flight recorder, as JSON or as a pickle: what each rank was waiting for
//! when a job hung.
//!
//! The form is that of `FlightRecorder.hpp` of PyTorch 2.5 to 2.9 (`dump_json`, `dump`); keys that a
//! version does not write yet are absent here.

mod node;

use crate::pickle::{Pickle, PickleError, is_pickle};
use gpuwise_domain::profile::{
    flight_recorder::{FlightEntry, FlightRecord, FlightState, Frame, ProcessGroup},
    timeline::Loss,
};
use node::Node;

/// Why a file is no dump of a flight recorder.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FlightRecorderError {
    /// It is neither JSON nor a pickle.
    #[error("not a dump of the NCCL flight recorder: {0}")]
    Syntax(String),
    /// The pickle cannot be read.
    #[error("not a dump of the NCCL flight recorder: {0}")]
    Pickle(#[from] PickleError),
    /// It holds something else.
    #[error("not a dump of the NCCL flight recorder: expected an object with `entries`, found {0}")]
    Content(&'static str),
}

/// The rank that a file's name ends in (`nccl_trace_rank_3`, `rank3.json`), as PyTorch names dumps.
pub fn rank_of_name(name: &str) -> Option<u32> {
    let stem = name.strip_suffix(".json").or(name.strip_suffix(".pkl"));
    let stem = stem.unwrap_or(name);
    let digits = stem.len() - stem.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    stem.get(stem.len() - digits..)?.parse().ok()
}

/// Whether bytes may be such a dump: a JSON object with a version and the key of the recorder, or a
/// pickle with it.
pub fn is_flight_record(bytes: &[u8]) -> bool {
    let start = bytes.get(..bytes.len().min(1 << 16)).unwrap_or_default();
    let names = |key: &[u8]| memchr::memmem::find(start, key).is_some();
    (names(b"profiling_name") && (names(b"collective_seq_id") || names(b"record_id")))
        || (names(b"pg_config") && names(b"pg_status"))
}

/// Reads the dump of one rank.
///
/// # Errors
/// When it is neither JSON nor a pickle of plain data, or has no `entries`.
pub fn read(bytes: &[u8], rank: Option<u32>) -> Result<FlightRecord, FlightRecorderError> {
    if is_pickle(bytes) {
        let pickle = Pickle::read(bytes)?;
        return record(Node::Pickle(&pickle, pickle.root()), rank);
    }
    let json: serde_json::Value = serde_json::from_slice(bytes)
        .map_err(|error| FlightRecorderError::Syntax(error.to_string()))?;
    record(Node::Json(&json), rank)
}

fn record(root: Node<'_>, rank: Option<u32>) -> Result<FlightRecord, FlightRecorderError> {
    if !root.is_object() {
        return Err(FlightRecorderError::Content("another value"));
    }
    let version = root.get("version").and_then(Node::text);
    let entries = match root.get("entries") {
        Some(entries) if entries.is_list() => entries.items(),
        Some(_) => return Err(FlightRecorderError::Content("`entries` that is no list")),
        // Dumps without collectives, as of a rank that never got there, leave the key out.
        None if version.is_some() && root.get("pg_config").is_some() => Vec::new(),
        None => return Err(FlightRecorderError::Content("an object without them")),
    };
    let mut record = FlightRecord {
        rank,
        version,
        groups: groups(root),
        ..FlightRecord::default()
    };
    for (index, node) in entries.into_iter().enumerate() {
        match entry(node) {
            Ok(entry) => record.entries.push(entry),
            Err(what) => lose(&mut record.losses, what, index),
        }
    }
    Ok(record)
}

fn lose(losses: &mut Vec<Loss>, what: &str, index: usize) {
    match losses.iter_mut().find(|loss| loss.what == what) {
        Some(loss) => loss.count += 1,
        None => losses.push(Loss {
            what: what.into(),
            count: 1,
            first: Some(format!("entry {}", index + 1)),
        }),
    }
}

/// Ranks as they are written: a list, or its text (`[0, 1]`).
fn ranks(node: Node<'_>) -> Vec<u32> {
    let small = |number: u64| u32::try_from(number).ok();
    if node.is_list() {
        return node
            .items()
            .into_iter()
            .filter_map(|rank| small(rank.count()?))
            .collect();
    }
    let text = node.text().unwrap_or_default();
    text.trim_matches(['[', ']'])
        .split(',')
        .filter_map(|rank| rank.trim().parse().ok())
        .collect()
}

fn groups(root: Node<'_>) -> Vec<ProcessGroup> {
    let mut groups: Vec<ProcessGroup> = Vec::new();
    for (key, node) in root.get("pg_config").map(Node::entries).unwrap_or_default() {
        groups.push(ProcessGroup {
            name: node.get("name").and_then(Node::text).unwrap_or(key),
            description: node
                .get("desc")
                .and_then(Node::text)
                .filter(|text| !text.is_empty()),
            ranks: node.get("ranks").map(ranks).unwrap_or_default(),
            ..ProcessGroup::default()
        });
    }
    for (name, node) in root.get("pg_status").map(Node::entries).unwrap_or_default() {
        let last = |key: &str| node.get(key).and_then(Node::count);
        let at = groups.iter().position(|group| group.name == name);
        let at = at.unwrap_or_else(|| {
            groups.push(ProcessGroup {
                name,
                ..ProcessGroup::default()
            });
            groups.len() - 1
        });
        if let Some(group) = groups.get_mut(at) {
            group.last_enqueued = last("last_enqueued_collective");
            group.last_started = last("last_started_collective");
            group.last_completed = last("last_completed_collective");
        }
    }
    groups
}

fn sizes(node: Option<Node<'_>>) -> Vec<Vec<u64>> {
    node.map(Node::items)
        .unwrap_or_default()
        .into_iter()
        .map(|shape| shape.items().into_iter().filter_map(Node::count).collect())
        .collect()
}

fn entry(node: Node<'_>) -> Result<FlightEntry, &'static str> {
    let text = |key: &str| node.get(key).and_then(Node::text);
    // Before version 2.4 the group stood as its number alone.
    let group = match node.get("process_group") {
        Some(names) if names.is_list() => names.items().first().copied().and_then(Node::text),
        Some(name) => name.text(),
        None => text("pg_name").or_else(|| text("pg_id")),
    };
    let is_point_to_point = node.get("is_p2p").and_then(Node::truth).unwrap_or(false);
    let sequence = ["collective_seq_id", "seq_id"]
        .into_iter()
        .find_map(|key| node.get(key).and_then(Node::count));
    let state = match text("state").as_deref() {
        Some("scheduled") => FlightState::Scheduled,
        Some("started") => FlightState::Started,
        Some("completed") => FlightState::Completed,
        _ => return Err("entries in no state that is known"),
    };
    Ok(FlightEntry {
        group: group.ok_or("entries without a process group")?,
        sequence: sequence
            .or(is_point_to_point.then_some(0))
            .ok_or("entries without a number (`collective_seq_id`)")?,
        operation: text("profiling_name").ok_or("entries without a name (`profiling_name`)")?,
        is_point_to_point,
        input_sizes: sizes(node.get("input_sizes")),
        output_sizes: sizes(node.get("output_sizes")),
        input_types: node
            .get("input_dtypes")
            .map(Node::items)
            .unwrap_or_default()
            .into_iter()
            .filter_map(Node::text)
            .collect(),
        state,
        created_ns: node.get("time_created_ns").and_then(Node::integer),
        timeout_ms: node.get("timeout_ms").and_then(Node::count),
        frames: node
            .get("frames")
            .map(Node::items)
            .unwrap_or_default()
            .into_iter()
            .map(|frame| Frame {
                function: frame.get("name").and_then(Node::text).unwrap_or_default(),
                file: frame
                    .get("filename")
                    .and_then(Node::text)
                    .unwrap_or_default(),
                line: frame.get("line").and_then(Node::count).unwrap_or(0),
            })
            .collect(),
    })
}
