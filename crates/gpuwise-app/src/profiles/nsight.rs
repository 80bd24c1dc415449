//! Exports of Nsight Systems, and reports that need the vendor's exporter.

use super::formats::{Opened, counters};
use crate::error::Problem;
use gpuwise_domain::profile::{kernel_counters::CounterRules, sources::SourceContent};
use gpuwise_measure::nsight::nsight_source;
use gpuwise_probe::nsight::{
    Exporter, NsightError, ReportKind, Room, UnpackError, read_export, unpack,
};
use gpuwise_read::kineto;
use std::{
    env,
    fs::File,
    io::{self, BufReader, Read as _},
    path::Path,
};
use tempfile::NamedTempFile;

/// The first bytes of a compressed file.
const GZIP: [u8; 2] = [0x1f, 0x8b];

fn told(file: &Path, error: NsightError) -> anyhow::Error {
    let hint = error.hint();
    let problem = Problem::new(format!("{}", file.display()));
    let problem = hint.into_iter().fold(problem, Problem::hint);
    problem.because(error).into()
}

fn io_error(file: &Path, deed: &str, error: io::Error) -> anyhow::Error {
    Problem::new(format!("{}: {deed}", file.display()))
        .because(error)
        .into()
}

/// An SQLite export; a compressed one is unpacked beside the system's temporary files.
pub(super) fn export(file: &Path, mut opened: File) -> anyhow::Result<Opened> {
    let mut magic = [0; 2];
    let packed = opened.read_exact(&mut magic).is_ok() && magic == GZIP;
    drop(opened);
    if !packed {
        return of_sqlite(file, file);
    }
    let cannot = |error| io_error(file, "cannot be unpacked", error);
    let opened = File::open(file).map_err(cannot)?;
    let room = Room::of(&env::temp_dir(), opened.metadata().map_err(cannot)?.len());
    // What is left of it goes with its name, however this ends.
    let mut unpacked = NamedTempFile::with_prefix("gpuwise-").map_err(cannot)?;
    let reader = kineto::open(BufReader::new(opened));
    unpack(reader, unpacked.as_file_mut(), &room).map_err(|error| {
        let problem = Problem::new(format!("{}: cannot be unpacked", file.display()));
        let hint = match &error {
            UnpackError::NoRoom { .. } => {
                "TMPDIR names another place; or unpack it yourself, and give the .sqlite"
            }
            _ => "unpack it yourself, and give the .sqlite if it is one",
        };
        problem.hint(hint).because(error)
    })?;
    of_sqlite(file, unpacked.path())
}

/// A report that only the vendor's program reads.
pub(super) fn report(
    file: &Path,
    kind: ReportKind,
    rules: &CounterRules,
) -> anyhow::Result<Opened> {
    let exporter = Exporter::default();
    match kind {
        ReportKind::Systems => {
            let cannot = |error| io_error(file, "cannot be exported", error);
            let folder = tempfile::Builder::new()
                .prefix("gpuwise-")
                .tempdir()
                .map_err(cannot)?;
            let target = folder.path().join("export.sqlite");
            exporter
                .export_systems(file, &target)
                .map_err(|error| told(file, error))?;
            of_sqlite(file, &target)
        }
        ReportKind::Compute => {
            let csv = exporter
                .import_compute(file)
                .map_err(|error| told(file, error))?;
            counters(file, &csv, rules)
        }
    }
}

fn of_sqlite(file: &Path, sqlite: &Path) -> anyhow::Result<Opened> {
    let export = read_export(sqlite).map_err(|error| told(file, error.of_file(file)))?;
    let source = nsight_source(&export);
    let several = export.processes.len() > 1;
    let timelines = export.processes.into_iter().map(|process| {
        let label = several.then(|| match process.name {
            Some(name) => format!("process {} ({name})", process.id),
            None => format!("process {}", process.id),
        });
        (label, process.timeline)
    });
    // Processes that called the runtime and gave a GPU nothing to do are not ranks of the job.
    let mut timelines: Vec<_> = timelines.collect();
    if timelines
        .iter()
        .any(|(_, timeline)| !timeline.work.is_empty())
    {
        timelines.retain(|(_, timeline)| !timeline.work.is_empty());
    }
    Ok(Opened {
        timelines,
        content: Some(SourceContent::Nsight(source)),
        flight: None,
    })
}
