//! Reports in the vendor's own formats, which only the vendor's programs read.

use super::NsightError;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Output};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportKind {
    /// `.nsys-rep` (`.qdrep` in old versions): Nsight Systems.
    Systems,
    /// `.ncu-rep`: Nsight Compute.
    Compute,
}

/// The kind of a report by its name; these formats are not published.
pub fn report_kind(path: &Path) -> Option<ReportKind> {
    match path.extension().and_then(OsStr::to_str)? {
        "nsys-rep" | "qdrep" => Some(ReportKind::Systems),
        "ncu-rep" => Some(ReportKind::Compute),
        _ => None,
    }
}

/// Runs the vendor's exporters.
#[derive(Debug, Clone)]
pub struct Exporter<'a> {
    /// The program for reports of Nsight Systems (`nsys`).
    pub nsys: &'a OsStr,
    /// The program for reports of Nsight Compute (`ncu`).
    pub ncu: &'a OsStr,
}

impl Default for Exporter<'_> {
    fn default() -> Self {
        Self {
            nsys: OsStr::new("nsys"),
            ncu: OsStr::new("ncu"),
        }
    }
}

impl Exporter<'_> {
    /// Writes the SQLite export of a report of Nsight Systems to `target`.
    ///
    /// # Errors
    ///
    /// Where the program is not installed, with the command to run elsewhere, or fails.
    pub fn export_systems(&self, report: &Path, target: &Path) -> Result<(), NsightError> {
        let mut command = Command::new(self.nsys);
        command.args([
            "export",
            "--type",
            "sqlite",
            "--force-overwrite",
            "true",
            "--output",
        ]);
        command.arg(target).arg(report);
        let told = format!("nsys export --type sqlite {}", shown(report));
        run(command, report, "nsys", told).map(drop)
    }

    /// The CSV of a report of Nsight Compute.
    ///
    /// # Errors
    ///
    /// As [`Self::export_systems`].
    pub fn import_compute(&self, report: &Path) -> Result<Vec<u8>, NsightError> {
        let mut command = Command::new(self.ncu);
        command
            .arg("--import")
            .arg(report)
            .args(["--page", "raw", "--csv"]);
        let told = format!(
            "ncu --import {} --page raw --csv > kernels.csv",
            shown(report)
        );
        run(command, report, "ncu", told).map(|output| output.stdout)
    }
}

/// A path as a shell takes it.
fn shown(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    if text.chars().all(plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

fn run(
    mut command: Command,
    report: &Path,
    tool: &'static str,
    told: String,
) -> Result<Output, NsightError> {
    match command.output() {
        Ok(output) if output.status.success() => Ok(output),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.lines().rev().find(|line| !line.trim().is_empty());
            Err(NsightError::ExporterFailed {
                command: told,
                why: said.map_or_else(|| output.status.to_string(), |line| line.trim().to_owned()),
            })
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Err(NsightError::NoExporter {
            file: report.display().to_string(),
            tool,
            command: told,
        }),
        Err(error) => Err(NsightError::ExporterFailed {
            command: told,
            why: error.to_string(),
        }),
    }
}
