//! Many files, each a job of its own: one line for each, and all kept.

use super::{Context, Flags, concluded, keep::keep_all};
use crate::schemas::AnswerName;
use crate::{
    commands::Exit,
    profiles::{self, Everything, ProfileQuery, ShardSpec},
    progress,
};
use gpuwise_domain::profile::figure::{Scope, Summary};
use gpuwise_store::{NewRun, Store};
use gpuwise_view::{
    figures,
    record::{self, Fields, Record},
};
use std::path::PathBuf;

/// Files that are read at once: what is not yet written is bounded.
const BATCH: usize = 64;

/// Reads every file as a job of its own.
///
/// # Errors
/// When no file can be used, or the database refuses.
pub(super) fn run(
    context: &Context,
    flags: &Flags,
    files: &[PathBuf],
    wanted: &ProfileQuery,
) -> anyhow::Result<Exit> {
    let store = flags
        .keep
        .save
        .then(|| flags.keep.database.open())
        .transpose()?;
    let shard = flags.sharding.shard.map(ShardSpec::resolve).transpose()?;
    let mine = |file: &&PathBuf| shard.is_none_or(|shard| shard.reads(file));
    let all = files.len();
    let files: Vec<PathBuf> = files.iter().filter(mine).cloned().collect();
    if let Some(shard) = shard {
        let (index, count, mine) = (shard.index, shard.count, files.len());
        progress::say(&format!("shard {index} of {count}: {mine} of {all} files"));
    }
    let mut rows = Vec::new();
    let mut first_error = None;
    for batch in files.chunks(BATCH) {
        let Everything {
            profiled,
            sources,
            contents,
            unusable,
        } = profiles::measure(batch, wanted);
        for file in unusable {
            progress::say(&format!("note: {}: {:#}", file.file, file.error));
            first_error.get_or_insert(file.error);
        }
        let mut runs: Vec<NewRun> = Vec::new();
        let with_work = profiled.into_iter().map(|one| Everything {
            profiled: vec![one],
            ..Everything::default()
        });
        let without = sources
            .into_iter()
            .enumerate()
            .map(|(place, one)| Everything {
                sources: vec![one],
                contents: contents.get(place..=place).unwrap_or_default().to_vec(),
                ..Everything::default()
            });
        for file in with_work.chain(without) {
            let concluded = concluded::from(file, &wanted.limits);
            runs.push(flags.keep.run(&concluded, "profile", wanted, &[]));
            rows.push(Job(concluded.summary));
        }
        if let Some(store) = &store {
            kept(store, &runs)?;
        }
        progress::doing(&format!("{} of {} files", rows.len(), files.len()));
    }
    progress::doing("");
    if let (true, Some(error)) = (rows.is_empty(), first_error) {
        return Err(error);
    }
    let table = record::table(&rows);
    context.answering(AnswerName::ProfileEach).table(&table)?;
    Ok(Exit::Yes)
}

fn kept(store: &Store, runs: &[NewRun]) -> anyhow::Result<()> {
    keep_all(store, runs).map(drop)
}

/// A file as a job of its own.
pub(super) struct Job(Summary);

impl Job {
    /// A figure of the whole.
    fn whole(&self, name: &str) -> Option<f64> {
        let of_all = |scope: &Scope| scope.device.is_none() && scope.part.is_none();
        let mut figures = self.0.figures.iter();
        let figure = figures.find(|figure| figure.name == name && of_all(&figure.scope))?;
        figure.value.real()
    }
}

impl Record for Job {
    const NAME: &'static str = "ProfiledFile";

    fn fields(of: &mut Fields<'_, Self>) {
        of.column("file", "file", |j| j.0.files.join(", ")).wrap(24);
        of.column("span_ns", "span", |j| j.whole("span_ns"))
            .said_of(|span| figures::seconds(span * 1e-9));
        of.column("idle_pct", "idle, %", |j| j.whole("idle_pct"))
            .said_of(|idle| format!("{idle:.1}"));
        let first = |job: &Self| job.0.findings.first().cloned();
        of.column("first_finding", "limited by", |j| Some(first(j)?.class))
            .said_as(|class| class.replace('_', " "));
        of.column("statement", "because", |j| Some(first(j)?.statement))
            .wrap(30)
            .priority(1);
        of.column("findings", "findings", |j| j.0.findings.len())
            .priority(2);
    }
}
