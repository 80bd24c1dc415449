//! Call stacks of a snapshot, each stored once.

use crate::pickle::{Pickle, Value};
use gpuwise_domain::profile::memory_snapshot::{Frame, Stacks};
use gpuwise_domain::profile::timeline::Index;
use std::collections::BTreeMap;

/// Collects stacks. Writers share the dictionaries of frames, so most frames are known by their place.
pub(super) struct StackTable<'p, 'a> {
    pickle: &'p Pickle<'a>,
    stacks: Stacks,
    by_place: Vec<Option<u32>>,
    by_frame: BTreeMap<Frame, u32>,
    by_frames: BTreeMap<Box<[u32]>, usize>,
}

impl<'p, 'a> StackTable<'p, 'a> {
    pub(super) fn new(pickle: &'p Pickle<'a>) -> Self {
        Self {
            pickle,
            stacks: Stacks::default(),
            by_place: vec![None; pickle.dict_count()],
            by_frame: BTreeMap::new(),
            by_frames: BTreeMap::new(),
        }
    }

    /// The stack of a block or an event, from its `frames`; none where there are none.
    pub(super) fn stack(&mut self, frames: Option<Value>) -> Index {
        let Some(frames) = frames else {
            return Index::NONE;
        };
        let pickle = self.pickle;
        let frames: Box<[u32]> = pickle
            .items(frames)
            .iter()
            .filter_map(|frame| self.frame(*frame))
            .collect();
        if frames.is_empty() {
            return Index::NONE;
        }
        if let Some(known) = self.by_frames.get(&frames) {
            return Index::of(*known);
        }
        let index = self.stacks.stacks.len();
        self.stacks.stacks.push(frames.clone());
        self.by_frames.insert(frames, index);
        Index::of(index)
    }

    fn frame(&mut self, value: Value) -> Option<u32> {
        let Value::Dict(place) = value else {
            return None;
        };
        if let Some(known) = self.by_place.get(place as usize).copied().flatten() {
            return Some(known);
        }
        let text = |key| {
            let found = self.pickle.get(value, key);
            found
                .and_then(|found| self.pickle.text(found))
                .unwrap_or("")
        };
        let frame = Frame {
            function: text("name").into(),
            file: text("filename").into(),
            line: self
                .pickle
                .get(value, "line")
                .and_then(|line| self.pickle.unsigned(line))
                .and_then(|line| u32::try_from(line).ok())
                .unwrap_or(0),
        };
        let id = if let Some(known) = self.by_frame.get(&frame) {
            *known
        } else {
            let id = u32::try_from(self.stacks.frames.len()).ok()?;
            self.stacks.frames.push(frame.clone());
            self.by_frame.insert(frame, id);
            id
        };
        if let Some(known) = self.by_place.get_mut(place as usize) {
            *known = Some(id);
        }
        Some(id)
    }

    pub(super) fn finish(self) -> Stacks {
        self.stacks
    }
}
