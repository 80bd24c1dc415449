//! The pickle that `torch.cuda.memory._dump_snapshot` writes.

use super::{MemorySnapshotError, stacks::StackTable};
use crate::pickle::{Pickle, Value};
use gpuwise_domain::profile::memory_snapshot::{
    AllocatorAction, AllocatorEvent, Block, BlockState, MemorySnapshot, Segment, SnapshotAnnotation,
};
use gpuwise_domain::profile::timeline::Loss;

/// Reads a snapshot from the bytes of its pickle.
///
/// # Errors
///
/// Where the bytes are no pickle of plain data, or of something else than a snapshot.
pub fn read_memory_snapshot(bytes: &[u8]) -> Result<MemorySnapshot, MemorySnapshotError> {
    from_pickle(&Pickle::read(bytes)?)
}

/// Reads a snapshot from its pickle.
///
/// # Errors
///
/// Where the pickle is of something else than a snapshot.
pub fn from_pickle(pickle: &Pickle<'_>) -> Result<MemorySnapshot, MemorySnapshotError> {
    let root = pickle.root();
    // Before there were traces, a snapshot was the list of its segments.
    let segments = match root {
        Value::List(_) if !pickle.items(root).is_empty() => Some(root),
        _ => pickle.get(root, "segments"),
    };
    let Some(segments @ (Value::List(_) | Value::Tuple(_))) = segments else {
        return Err(MemorySnapshotError::NotASnapshot {
            found: describe(pickle),
        });
    };
    let mut reader = Reader {
        pickle,
        stacks: StackTable::new(pickle),
    };
    let mut snapshot = MemorySnapshot {
        keys: keys(pickle, root),
        ..MemorySnapshot::default()
    };
    for (number, value) in pickle.items(segments).iter().enumerate() {
        snapshot.segments.push(reader.segment(number, *value)?);
    }
    if let Some(traces) = pickle.get(root, "device_traces") {
        let mut unread = 0;
        for trace in pickle.items(traces) {
            let events = pickle.items(*trace);
            let read: Vec<_> = events.iter().filter_map(|e| reader.event(*e)).collect();
            unread += events.len() - read.len();
            snapshot.traces.push(read);
        }
        if unread > 0 {
            snapshot.losses.push(Loss {
                what: "events of the allocator without `action` or `size`".into(),
                count: unread as u64,
                first: None,
            });
        }
    }
    snapshot.settings = reader.settings();
    snapshot.annotations = reader.annotations();
    snapshot.stacks = reader.stacks.finish();
    Ok(snapshot)
}

fn keys(pickle: &Pickle<'_>, root: Value) -> Vec<String> {
    let mut keys: Vec<String> = pickle
        .entries(root)
        .iter()
        .filter_map(|(key, _)| pickle.text(*key).map(String::from))
        .collect();
    keys.sort();
    keys.dedup();
    keys
}

/// What a pickle holds, for the message that it is no snapshot.
fn describe(pickle: &Pickle<'_>) -> String {
    let root = pickle.root();
    let keys = keys(pickle, root);
    if keys.is_empty() {
        return root.kind().into();
    }
    let shown: Vec<String> = keys
        .iter()
        .take(5)
        .map(|key| format!("`{}`", key.chars().take(40).collect::<String>()))
        .collect();
    format!("{} with {}", root.kind(), shown.join(", "))
}

struct Reader<'p, 'a> {
    pickle: &'p Pickle<'a>,
    stacks: StackTable<'p, 'a>,
}

impl<'p> Reader<'p, '_> {
    fn count(&self, of: Value, key: &str) -> Option<u64> {
        let value = self.pickle.get(of, key)?;
        self.pickle.unsigned(value)
    }

    fn text(&self, of: Value, key: &str) -> Option<&'p str> {
        let value = self.pickle.get(of, key)?;
        self.pickle.text(value)
    }

    fn segment(&mut self, number: usize, value: Value) -> Result<Segment, MemorySnapshotError> {
        let wanted = |field| MemorySnapshotError::Field {
            place: format!("segment {}", number + 1),
            field,
            wanted: "a whole number of bytes",
        };
        let field = |key: &'static str| self.count(value, key).ok_or_else(|| wanted(key));
        let total_bytes = field("total_size")?;
        let allocated_bytes = field("allocated_size")?;
        let active_bytes = field("active_size")?;
        let blocks = self.pickle.get(value, "blocks");
        let blocks = blocks.map_or(&[][..], |blocks| self.pickle.items(blocks));
        let blocks = blocks.iter().map(|block| {
            self.block(*block)
                .ok_or_else(|| MemorySnapshotError::Field {
                    place: format!("a block of segment {}", number + 1),
                    field: "size",
                    wanted: "a whole number of bytes beside a state",
                })
        });
        let blocks = blocks.collect::<Result<Vec<_>, _>>()?;
        Ok(Segment {
            device: self
                .count(value, "device")
                .and_then(|device| i64::try_from(device).ok())
                .unwrap_or(0),
            total_bytes,
            allocated_bytes,
            active_bytes,
            requested_bytes: self.count(value, "requested_size"),
            stream: self.count(value, "stream").unwrap_or(0),
            pool: self.text(value, "segment_type").unwrap_or("").into(),
            expandable: match self.pickle.get(value, "is_expandable") {
                Some(Value::Bool(is)) => Some(is),
                _ => None,
            },
            blocks,
        })
    }

    fn block(&mut self, value: Value) -> Option<Block> {
        Some(Block {
            address: self.count(value, "address"),
            bytes: self.count(value, "size")?,
            requested_bytes: self.count(value, "requested_size"),
            state: match self.text(value, "state")? {
                "active_allocated" => BlockState::Allocated,
                "inactive" => BlockState::Inactive,
                name @ ("active_pending_free" | "active_awaiting_free") => {
                    BlockState::PendingFree(name.into())
                }
                name => BlockState::Other(name.into()),
            },
            stack: self.block_stack(value),
        })
    }

    /// Frames of a block; files of the first versions keep them in its `history`.
    fn block_stack(&mut self, block: Value) -> gpuwise_domain::profile::timeline::Index {
        let frames = self.pickle.get(block, "frames").or_else(|| {
            let history = self.pickle.get(block, "history")?;
            let latest = self.pickle.items(history).first()?;
            self.pickle.get(*latest, "frames")
        });
        self.stacks.stack(frames)
    }

    fn event(&mut self, value: Value) -> Option<AllocatorEvent> {
        let action = action(self.text(value, "action")?);
        let device_free = self.count(value, "device_free");
        Some(AllocatorEvent {
            bytes: self.count(value, "size")?,
            address: self.count(value, "addr").unwrap_or(0),
            at_us: self
                .count(value, "time_us")
                .and_then(|at| i64::try_from(at).ok()),
            device_free,
            stack: self.stacks.stack(self.pickle.get(value, "frames")),
            action,
        })
    }

    fn settings(&self) -> Vec<(String, String)> {
        let Some(settings) = self.pickle.get(self.pickle.root(), "allocator_settings") else {
            return Vec::new();
        };
        let shown = |value: Value| match value {
            Value::Bool(is) => Some(is.to_string()),
            Value::Integer(number) => Some(number.to_string()),
            Value::Unsigned(number) => Some(number.to_string()),
            Value::Real(number) => Some(number.to_string()),
            Value::Text(_) => self.pickle.text(value).map(String::from),
            Value::None | Value::List(_) | Value::Tuple(_) | Value::Dict(_) => None,
        };
        let entries = self.pickle.entries(settings).iter();
        entries
            .filter_map(|(key, value)| Some((self.pickle.text(*key)?.into(), shown(*value)?)))
            .collect()
    }

    fn annotations(&self) -> Vec<SnapshotAnnotation> {
        let Some(list) = self.pickle.get(self.pickle.root(), "external_annotations") else {
            return Vec::new();
        };
        let one = |value: &Value| {
            Some(SnapshotAnnotation {
                name: self.text(*value, "name")?.into(),
                starts: self.text(*value, "stage")? == "START",
                at_us: self
                    .count(*value, "time_us")
                    .and_then(|at| i64::try_from(at).ok()),
            })
        };
        self.pickle.items(list).iter().filter_map(one).collect()
    }
}

fn action(name: &str) -> AllocatorAction {
    match name {
        "alloc" => AllocatorAction::Alloc,
        "free_requested" => AllocatorAction::FreeRequested,
        "free_completed" => AllocatorAction::FreeCompleted,
        "segment_alloc" => AllocatorAction::SegmentAlloc,
        "segment_free" => AllocatorAction::SegmentFree,
        "segment_map" => AllocatorAction::SegmentMap,
        "segment_unmap" => AllocatorAction::SegmentUnmap,
        "oom" => AllocatorAction::OutOfMemory,
        "snapshot" => AllocatorAction::Snapshot,
        other => AllocatorAction::Other(other.into()),
    }
}
