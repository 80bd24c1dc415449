//! Files that a profile is written into: its page, and its annotated trace.

use super::{
    concluded::{self, Concluded},
    operators,
    streams::{self, Part},
};
use crate::{
    error::Problem,
    made::made,
    profiles::{self, ProfileQuery},
    write::Pending,
};
use flate2::{Compression, write::GzEncoder};
use gpuwise_domain::profile::figures::Gap;
use gpuwise_view::profile::{Profile, perfetto, report, sources as no_work};
use std::{
    io::BufWriter,
    path::{Path, PathBuf},
};

/// Flags of the files that are written.
#[derive(Debug, clap::Args)]
#[group(id = "written", multiple = true)]
pub(super) struct Flags {
    /// Write one self-contained HTML page: a timeline that zooms, findings that lead to their place
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Beside this profile of the same work, on the page or by operator; once for each of its files
    #[arg(long, value_name = "FILE")]
    compare: Vec<PathBuf>,
    /// Write a trace for Perfetto with what was found in it; compressed where the name ends in .gz
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
}

impl Flags {
    /// Whether another profile is named, and neither a page nor a table has it.
    pub(super) fn compares_nothing(&self, part: Option<Part>) -> bool {
        !self.compare.is_empty() && self.html.is_none() && part != Some(Part::Operators)
    }
}

/// Files that are going to be written.
#[derive(Debug)]
pub(super) struct Written<'a> {
    html: Option<Pending>,
    compare: &'a [PathBuf],
    perfetto: Option<(Pending, bool)>,
}

impl<'a> Written<'a> {
    /// Makes sure that they can be written, before the work.
    ///
    /// # Errors
    /// When one could not be.
    pub(super) fn new(flags: &'a Flags) -> anyhow::Result<Self> {
        let trace = |path: &PathBuf| -> anyhow::Result<(Pending, bool)> {
            let packed = path.extension().is_some_and(|ending| ending == "gz");
            Ok((Pending::new(path)?, packed))
        };
        Ok(Self {
            html: flags.html.as_deref().map(Pending::new).transpose()?,
            compare: &flags.compare,
            perfetto: flags.perfetto.as_ref().map(trace).transpose()?,
        })
    }

    /// The files of the profile beside, where one is named.
    pub(super) fn beside(&self) -> &'a [PathBuf] {
        self.compare
    }

    /// Writes them; `files` are the files of the profile as the user named them.
    ///
    /// # Errors
    /// When the profile beside cannot be read, or one cannot be written.
    pub(super) fn finish(
        self,
        concluded: &Concluded,
        files: &[PathBuf],
        wanted: &ProfileQuery,
    ) -> anyhow::Result<()> {
        let kind_of = |name: &str| wanted.kind_of(name).to_owned();
        let other = if self.compare.is_empty() {
            None
        } else {
            Some(beside(self.compare, wanted)?)
        };
        let (mut label, mut other_label) = (label(files), label(self.compare));
        if label == other_label {
            // Runs of the same name lie in directories of their own.
            label = files
                .first()
                .map_or(label, |file| file.display().to_string());
            other_label = self
                .compare
                .first()
                .map_or(other_label, |file| file.display().to_string());
        }
        let gaps = |of: &Concluded| -> Vec<_> {
            of.timelines
                .iter()
                .map(|timeline| wanted.gaps(timeline))
                .collect()
        };
        // Asked for again, since only what is written needs them.
        let shown = if self.html.is_some() || self.perfetto.is_some() {
            gaps(concluded)
        } else {
            Vec::new()
        };
        let other_gaps = other.as_ref().map_or_else(Vec::new, gaps);
        let (trees, rows) = if self.html.is_some() {
            (
                operators::trees(concluded, wanted),
                streams::ranges(wanted, &streams::files(concluded)),
            )
        } else {
            (Vec::new(), Vec::new())
        };
        let profile = Profile {
            operators: &trees,
            ranges: &rows,
            ..of(concluded, &shown, &label, &kind_of)
        };
        if let Some(file) = self.html {
            let against = other
                .as_ref()
                .map(|other| of(other, &other_gaps, &other_label, &kind_of));
            let made = made();
            // Without a trace the page is that of the other files.
            let sources = &concluded.sources;
            let has_work = !concluded.timelines.is_empty() || sources.is_empty();
            let page = if has_work || against.is_some() {
                report(&profile, against.as_ref(), &made)
            } else {
                no_work::report(sources, &concluded.summary, &label, &made)
            };
            file.finish(&page)?;
        }
        if let Some((file, packed)) = self.perfetto {
            file.finish_with(|out| {
                let out = BufWriter::with_capacity(1 << 16, out);
                if packed {
                    let mut encoder = GzEncoder::new(out, Compression::fast());
                    perfetto(&profile, &mut encoder)?;
                    encoder.finish().map(drop)
                } else {
                    perfetto(&profile, out)
                }
            })?;
        }
        Ok(())
    }
}

fn of<'a>(
    concluded: &'a Concluded,
    gaps: &'a [Vec<(i64, Vec<Gap>)>],
    label: &'a str,
    kind_of: &'a dyn Fn(&str) -> String,
) -> Profile<'a> {
    Profile {
        label,
        timelines: &concluded.timelines,
        figures: &concluded.figures,
        summary: &concluded.summary,
        gaps,
        operators: &[],
        ranges: &[],
        kind_of,
    }
}

/// The profile that is laid beside.
pub(super) fn beside(places: &[PathBuf], wanted: &ProfileQuery) -> anyhow::Result<Concluded> {
    let files = profiles::expand(places, wanted.offline)?;
    let mut everything = profiles::measure(&files, wanted);
    if everything.profiled.is_empty() {
        return Err(match everything.unusable.pop() {
            Some(file) => file.error,
            None => Problem::new("nothing to compare with")
                .hint("name a profile")
                .into(),
        });
    }
    Ok(concluded::from(everything, &wanted.limits))
}

/// What a profile is called: its first file without directories and usual endings.
fn label(files: &[PathBuf]) -> String {
    let name = files
        .first()
        .and_then(|file: &PathBuf| Path::new(file).file_name());
    let name = name.map_or_else(
        || "profile".into(),
        |name| name.to_string_lossy().into_owned(),
    );
    let mut short = name.as_str();
    for ending in [".gz", ".json", ".trace", ".pt"] {
        short = short.strip_suffix(ending).unwrap_or(short);
    }
    let more = match files.len() {
        0 | 1 => String::new(),
        count => format!(" and {} more", count - 1),
    };
    format!("{}{more}", if short.is_empty() { &name } else { short })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_called_by_their_files() {
        let check = |files: &[&str], expected: &str| {
            let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
            assert_eq!(label(&files), expected);
        };
        check(&["a/b/step.pt.trace.json.gz"], "step");
        check(&["runs/before"], "before");
        check(
            &["rank0.json", "rank1.json", "rank2.json"],
            "rank0 and 2 more",
        );
        check(&[".json"], ".json");
    }
}
