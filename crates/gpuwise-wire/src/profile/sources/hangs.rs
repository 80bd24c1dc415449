//! Hung collectives.

use super::FRAMES;
use gpuwise_domain::profile::{
    flight_recorder::Frame,
    sources::{Hang, HangSource},
};
use serde::Serialize;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Dumps of flight recorders of one job, held against one another.
#[derive(Serialize, ToSchema)]
pub(super) struct HangsDocument {
    /// Ranks of which there is a dump.
    ranks: Vec<u32>,
    /// Dumps.
    n_dumps: u64,
    /// Collectives in which ranks wait, the cause before what it causes.
    hangs: Vec<HangDocument>,
}

#[derive(Serialize, ToSchema)]
struct HangDocument {
    group: String,
    description: Option<String>,
    sequence: u64,
    operation: String,
    /// The ranks to look at.
    suspects: Vec<u32>,
    waiting: Vec<u32>,
    scheduled: Vec<u32>,
    completed: Vec<u32>,
    late: Vec<LateDocument>,
    /// Ranks without a dump.
    missing: Vec<u32>,
    /// Ranks that called something else under this number.
    astray: BTreeMap<String, String>,
    /// Where the waiting ranks called it, the innermost first.
    frames: Vec<String>,
    /// The place in this list of the hang in which the late ranks wait themselves.
    caused_by: Option<usize>,
}

#[derive(Serialize, ToSchema)]
struct LateDocument {
    rank: u32,
    last_sequence: Option<u64>,
    last_operation: Option<String>,
    frames: Vec<String>,
}

fn places(frames: &[Frame]) -> Vec<String> {
    let frames = frames.iter().take(FRAMES);
    frames
        .map(|frame| format!("{} ({}:{})", frame.function, frame.file, frame.line))
        .collect()
}

impl From<&Hang> for HangDocument {
    fn from(hang: &Hang) -> Self {
        let late = hang.late.iter().map(|late| LateDocument {
            rank: late.rank,
            last_sequence: late.last.as_ref().map(|(sequence, _)| *sequence),
            last_operation: late.last.as_ref().map(|(_, operation)| operation.clone()),
            frames: places(&late.frames),
        });
        let astray = hang.astray.iter();
        Self {
            group: hang.group.clone(),
            description: hang.description.clone(),
            sequence: hang.sequence,
            operation: hang.operation.clone(),
            suspects: hang.suspects(),
            waiting: hang.waiting.clone(),
            scheduled: hang.scheduled.clone(),
            completed: hang.completed.clone(),
            late: late.collect(),
            missing: hang.missing.clone(),
            astray: astray
                .map(|(rank, what)| (rank.to_string(), what.clone()))
                .collect(),
            frames: places(&hang.frames),
            caused_by: hang.caused_by,
        }
    }
}

impl From<&HangSource> for HangsDocument {
    fn from(source: &HangSource) -> Self {
        Self {
            ranks: source.ranks.clone(),
            n_dumps: source.dump_count,
            hangs: source.hangs.iter().map(HangDocument::from).collect(),
        }
    }
}
