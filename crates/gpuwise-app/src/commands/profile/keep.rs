//! A profile is kept in the database.

use super::concluded::Concluded;
use crate::{
    commands::runs::{
        label,
        store::{DatabaseFlags, now_ns},
    },
    profiles::ProfileQuery,
    progress,
};
use gpuwise_store::{NewRun, RunId, Saved, Store};
use gpuwise_wire::finding_to_json;
use std::{collections::BTreeMap, fmt::Write as _, path::Path};

/// Whether and how it is kept.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct KeepFlags {
    /// Keep it in the database, for `gpuwise runs`
    #[arg(long, help_heading = "Keeping it")]
    pub save: bool,
    /// What people call it [default: the file's name]
    #[arg(long, requires = "save", help_heading = "Keeping it")]
    pub name: Option<String>,
    /// What to sort it by; several may be given
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label, requires = "save", help_heading = "Keeping it")]
    pub labels: Vec<(String, String)>,
    #[command(flatten)]
    pub database: DatabaseFlags,
}

impl KeepFlags {
    /// Keeps a profile and says so.
    ///
    /// # Errors
    /// When the database cannot be opened or refuses.
    pub(super) fn keep(&self, concluded: &Concluded, wanted: &ProfileQuery) -> anyhow::Result<()> {
        let run = self.run(concluded, "profile", wanted, &[]);
        let saved = self.database.open()?.save(&run)?;
        said(&run, saved);
        Ok(())
    }

    /// The run that a profile is, with further labels.
    pub(super) fn run(
        &self,
        concluded: &Concluded,
        source: &str,
        wanted: &ProfileQuery,
        more: &[(String, String)],
    ) -> NewRun {
        let summary = concluded.summary.clone();
        let mut labels: BTreeMap<String, String> = self.labels.iter().cloned().collect();
        labels.extend(more.iter().cloned());
        NewRun {
            id: RunId::of(identity(&concluded.contents, wanted, more).as_bytes()),
            source: source.into(),
            name: self.name.clone().unwrap_or_else(|| named(&summary.files)),
            imported_at_ns: now_ns(),
            labels,
            times: wanted.times(&concluded.timelines, &concluded.figures),
            finding_documents: summary.findings.iter().map(finding_to_json).collect(),
            measured: String::new(),
            summary,
        }
    }
}

/// Says what became of a run.
pub(super) fn said(run: &NewRun, saved: Saved) {
    let done = match saved {
        Saved::New => "kept as",
        Saved::Known => "is kept already as",
    };
    progress::say(&format!("{} {done} run {}", run.name, run.id));
}

/// Keeps many runs at once.
///
/// # Errors
/// When the database refuses; then none is kept.
pub(super) fn keep_all(store: &Store, runs: &[NewRun]) -> anyhow::Result<Vec<Saved>> {
    Ok(store.save_all(runs)?)
}

/// What makes it this run and no other: the content of every file that it was made of, wherever they
/// lie, and the part of them that was looked at. Figures do not come into it: a later version may compute
/// them otherwise, and two different files may share them.
fn identity(contents: &[String], wanted: &ProfileQuery, more: &[(String, String)]) -> String {
    let mut text = String::from("profile");
    for content in contents {
        text = text + "\n" + content;
    }
    // Writing to a text cannot fail.
    if let Some(window) = wanted.window {
        let _ = write!(text, "\nwindow {}..{}", window.start_ns, window.end_ns);
    }
    if let Some(device) = wanted.device {
        let _ = write!(text, "\ndevice {device}");
    }
    for (name, value) in more {
        let _ = write!(text, "\n{name}={value}");
    }
    text
}

/// The name of the first file, without its endings and the number of a rank.
fn named(files: &[String]) -> String {
    let first = files.first().map_or("", String::as_str);
    let name = Path::new(first)
        .file_name()
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let stem = [
        ".gz", ".json", ".trace", ".pt", ".sqlite", ".pickle", ".pb", ".xplane",
    ]
    .iter()
    .fold(name.as_str(), |name, ending| {
        name.strip_suffix(ending).unwrap_or(name)
    });
    let numbered = stem.rsplit_once("rank").filter(|(_, number)| {
        files.len() > 1 && number.trim_start_matches(['_', '-']).parse::<u32>().is_ok()
    });
    let short = numbered.map_or(stem, |(before, _)| before.trim_end_matches(['_', '-', '.']));
    if short.is_empty() { stem } else { short }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let check = |files: &[&str], expect: &str| {
            let files: Vec<String> = files.iter().map(|file| (*file).to_owned()).collect();
            assert_eq!(named(&files), expect);
        };
        check(&["a/job.pt.trace.json.gz"], "job");
        check(&["a/job_rank0.json", "a/job_rank1.json"], "job");
        check(&["a/rank0.json", "a/rank1.json"], "rank0");
        check(&["job_rank0.json"], "job_rank0");
    }
}
