//! Profiles: figures of files and devices, findings, and the summary that a database keeps.
//!
//! Of a file, figures that HolisticTraceAnalysis and others give too have the names of theirs.

mod device;
mod file;
mod joined;
mod layouts;
mod sources;
mod summary;

use crate::mirror::{Mirror, forms};
use file::FileDocument;
use gpuwise_domain::profile::{
    figure::Summary, figures::ProfileFigures, finding::Finding, sources::Source,
};
use joined::JoinedDocument;
use layouts::LayoutsDocument;
use serde::Serialize;
use sources::SourceDocument;
use summary::{FindingDocument, StragglersDocument, SummaryDocument};
use utoipa::ToSchema;

/// The schema of profiles.
pub const PROFILE_SCHEMA: &str = "gpuwise.profile/v1";

/// A profile.
#[derive(Serialize, ToSchema)]
pub(crate) struct ProfileFile {
    /// `gpuwise.profile/v1`.
    schema: String,
    /// Each file: one process, one rank.
    files: Vec<FileDocument>,
    /// What files other than traces say beyond a timeline.
    sources: Vec<SourceDocument>,
    /// Who waited for whom, where two or more ranks are there.
    stragglers: Option<StragglersDocument>,
    /// What was recorded beside it, where anything was.
    joined: Option<JoinedDocument>,
    /// Its layout beside others on the same GPUs, where `--model` asked for it.
    layouts: Option<LayoutsDocument>,
    /// What is concluded, kept and compared.
    summary: SummaryDocument,
}

/// A profile as a document (`gpuwise.profile/v1`), indented, with a line end.
pub fn profile_to_json(figures: &ProfileFigures, sources: &[Source], summary: &Summary) -> String {
    crate::written(&ProfileFile {
        schema: PROFILE_SCHEMA.into(),
        files: forms(&figures.ranks),
        sources: forms(sources),
        joined: (!figures.joined.is_empty()).then(|| JoinedDocument::from(&figures.joined)),
        layouts: figures.layouts.as_ref().map(LayoutsDocument::from),
        stragglers: figures.stragglers.as_ref().map(StragglersDocument::from),
        summary: summary.into(),
    })
}

/// One finding as a document, on one line: what a database keeps.
pub fn finding_to_json(finding: &Finding) -> String {
    serde_json::to_string(&FindingDocument::of(finding)).unwrap_or_default()
}
