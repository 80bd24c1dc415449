//! Hung collectives.

use super::FRAMES;
use crate::mirror::{forms, written};
use gpuwise_domain::profile::{
    flight_recorder::Frame,
    sources::{Hang, HangSource, LateRank},
};
use std::collections::BTreeMap;

written! {
    /// Dumps of flight recorders of one job, held against one another.
    pub(super) HangsDocument = |source: &HangSource| {
        /// Ranks of which there is a dump.
        ranks: Vec<u32> = source.ranks.clone(),
        /// Dumps.
        n_dumps: u64 = source.dump_count,
        /// Collectives in which ranks wait, the cause before what it causes.
        hangs: Vec<HangDocument> = forms(&source.hangs),
    }
}

written! {
    HangDocument = |hang: &Hang| {
        group: String = hang.group.clone(),
        description: Option<String> = hang.description.clone(),
        sequence: u64 = hang.sequence,
        operation: String = hang.operation.clone(),
        /// The ranks to look at.
        suspects: Vec<u32> = hang.suspects(),
        waiting: Vec<u32> = hang.waiting.clone(),
        scheduled: Vec<u32> = hang.scheduled.clone(),
        completed: Vec<u32> = hang.completed.clone(),
        late: Vec<LateDocument> = forms(&hang.late),
        /// Ranks without a dump.
        missing: Vec<u32> = hang.missing.clone(),
        /// Ranks that called something else under this number.
        astray: BTreeMap<String, String> = (hang.astray.iter()).map(|(rank, what)| (rank.to_string(), what.clone())).collect(),
        /// Where the waiting ranks called it, the innermost first.
        frames: Vec<String> = places(&hang.frames),
        /// The place in this list of the hang in which the late ranks wait themselves.
        caused_by: Option<usize> = hang.caused_by,
    }
}

written! {
    LateDocument = |late: &LateRank| {
        rank: u32 = late.rank,
        last_sequence: Option<u64> = late.last.as_ref().map(|(sequence, _)| *sequence),
        last_operation: Option<String> = late.last.as_ref().map(|(_, operation)| operation.clone()),
        frames: Vec<String> = places(&late.frames),
    }
}

fn places(frames: &[Frame]) -> Vec<String> {
    let frames = frames.iter().take(FRAMES);
    frames
        .map(|frame| format!("{} ({}:{})", frame.function, frame.file, frame.line))
        .collect()
}
