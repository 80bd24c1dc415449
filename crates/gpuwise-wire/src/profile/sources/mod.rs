//! What files other than traces say, under the names that their formats and `exact` scripts use.

mod counters;
mod hangs;
mod memory;
mod nsight;
mod planes;

use counters::CountersDocument;
use gpuwise_domain::profile::sources::{Source, SourceContent};
use hangs::HangsDocument;
use memory::{CategoriesDocument, MemorySnapshotDocument};
use nsight::NsightDocument;
use planes::PlanesDocument;
use serde::Serialize;
use utoipa::ToSchema;

/// Frames of a call stack that are listed.
const FRAMES: usize = 64;

/// A file, and what it says beyond a timeline.
#[derive(Serialize, ToSchema)]
pub(crate) struct SourceDocument {
    /// The file as the user named it.
    file: String,
    /// `nsight_systems`, `xplane`, `memory_snapshot`, `memory_timeline`, `nsight_compute`
    /// or `flight_recorder`.
    format: &'static str,
    #[serde(flatten)]
    content: ContentDocument,
}

/// What it says, by its format.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
enum ContentDocument {
    Nsight(NsightDocument),
    Planes(PlanesDocument),
    Memory(MemorySnapshotDocument),
    Categories(CategoriesDocument),
    Counters(CountersDocument),
    Hangs(HangsDocument),
}

impl From<&Source> for SourceDocument {
    fn from(source: &Source) -> Self {
        Self {
            file: source.file.clone(),
            format: source.content.format(),
            content: match &source.content {
                SourceContent::Nsight(nsight) => ContentDocument::Nsight(nsight.into()),
                SourceContent::Planes(planes) => ContentDocument::Planes(planes.into()),
                SourceContent::Memory(memory) => ContentDocument::Memory((&**memory).into()),
                SourceContent::Categories(figures) => ContentDocument::Categories(figures.into()),
                SourceContent::Counters(counters) => ContentDocument::Counters(counters.into()),
                SourceContent::Hangs(hangs) => ContentDocument::Hangs(hangs.into()),
            },
        }
    }
}
