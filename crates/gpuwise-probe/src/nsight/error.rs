//! Why an export was not read.

use thiserror::Error;

/// Why an export of Nsight Systems was not read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NsightError {
    /// It is no SQLite file, or it is damaged or cut off.
    #[error("{file}: no SQLite file, or a damaged or cut-off one ({place}: {why})")]
    Damaged {
        file: String,
        place: String,
        why: String,
    },
    /// It is an SQLite file of something else.
    #[error("{file} is an SQLite file, but no export of Nsight Systems; it holds {tables}")]
    Foreign { file: String, tables: String },
    /// It is an export without anything of a GPU in it.
    #[error("{file} has no activity of a GPU: its tables are {tables}")]
    NothingOfGpu { file: String, tables: String },
    /// A table lacks a column without which it says nothing.
    #[error("{file}: table {table} has no column {column}")]
    Column {
        file: String,
        table: String,
        column: String,
    },
    /// The vendor's exporter is needed and not installed.
    #[error("{file} can only be read by NVIDIA's `{tool}`, which is not on this machine")]
    NoExporter {
        file: String,
        tool: &'static str,
        /// The command to run where it is installed.
        command: String,
    },
    /// The vendor's exporter failed.
    #[error("`{command}` failed: {why}")]
    ExporterFailed { command: String, why: String },
}

impl NsightError {
    /// The same of a file by the name that the user gave it: what was read may be an unpacked copy.
    #[must_use]
    pub fn of_file(mut self, named: &std::path::Path) -> Self {
        match &mut self {
            Self::Damaged { file, .. }
            | Self::Foreign { file, .. }
            | Self::NothingOfGpu { file, .. }
            | Self::Column { file, .. }
            | Self::NoExporter { file, .. } => *file = named.display().to_string(),
            Self::ExporterFailed { .. } => {}
        }
        self
    }

    /// What to do, where there is something.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoExporter { command, .. } => {
                format!("run `{command}` where the profile was made, and give its output")
            }
            Self::NothingOfGpu { .. } => {
                "profile with `nsys profile --trace=cuda,nvtx …`, and export again".into()
            }
            Self::Foreign { .. } => {
                "exports are made by `nsys export --type sqlite REPORT.nsys-rep`".into()
            }
            Self::Damaged { .. } => {
                "export the report again: `nsys export --type sqlite --force-overwrite true REPORT.nsys-rep`".into()
            }
            Self::Column { .. } | Self::ExporterFailed { .. } => return None,
        })
    }
}
