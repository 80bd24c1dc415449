//! Job files: what is asked of a fleet, and what runs already.
//!
//! The form is described in `docs/reference/fleet-file.md`.

mod ask;
mod assignments;
mod tables;
mod wishes;

use super::{
    FindGpu,
    inventory::kinds::Kinds,
    text::{FleetProblems, Problems, TableText, counted_gpu, expand_braces, pieces},
};
use gpuwise_domain::placement::{
    Action, Fleet, GpuKind, Job, JobId, Kinds as KindSet, NodeId, QueueId,
};
use gpuwise_units::Nanoseconds;
use std::collections::BTreeMap;
use tables::{Head, JobTable};

#[derive(Debug, Clone, PartialEq, Default)]
pub struct JobsFile {
    /// What is asked for, in the file's order.
    pub jobs: Vec<Job>,
    /// Jobs that run already, as the actions that placed them.
    pub running: Vec<Action>,
    /// The moment of which the file speaks: the first job that still waits was asked for at 0.
    pub now: Nanoseconds,
}

/// Jobs of one file at most.
const MOST: usize = 10_000_000;

/// What is wrong, and with which field.
type Field<T> = Result<T, (&'static str, String)>;

/// Reads a job file (TOML) for a fleet. GPUs that the fleet does not have and `find` knows become
/// kinds of it without a GPU: that such a job cannot run is an answer, not a wrong file.
///
/// # Errors
/// With every problem and its line: what is no TOML of this form, two jobs with one name or id,
/// amounts of 0, queues, nodes or GPUs that there are not.
pub fn read_jobs(
    file: &str,
    text: &str,
    fleet: &mut Fleet,
    find: &FindGpu<'_>,
) -> Result<JobsFile, FleetProblems> {
    let nodes = fleet.nodes.iter().enumerate();
    let queues = fleet.queues.iter().enumerate();
    let mut build = Build {
        problems: Problems::new(file),
        nodes: nodes
            .map(|(at, node)| (node.name.as_str(), NodeId(at as u32)))
            .collect(),
        queues: queues
            .map(|(at, queue)| (queue.name.as_str(), QueueId(at as u32)))
            .collect(),
        kinds: Kinds::of(&fleet.kinds, find),
        fleet,
        out: JobsFile::default(),
        given: Vec::new(),
        lines: Vec::new(),
    };
    for piece in pieces(text) {
        match piece.table {
            "job" => build.job(&piece),
            "" => {
                let _ = piece.read::<Head>(&mut build.problems);
            }
            other => build.problems.add(
                piece.line,
                format!("[[{other}]] is no table of a job file; expected [[job]]"),
            ),
        }
        if build.out.jobs.len() > MOST {
            let what = format!("there are more than {MOST} jobs by here");
            build.problems.add(piece.line, what);
            break;
        }
    }
    build.number();
    build.date();
    let kinds = build.kinds.finish();
    build.problems.finish()?;
    let out = build.out;
    fleet.kinds = kinds;
    Ok(out)
}

/// Jobs while they are read.
struct Build<'a> {
    problems: Problems,
    fleet: &'a Fleet,
    nodes: BTreeMap<&'a str, NodeId>,
    queues: BTreeMap<&'a str, QueueId>,
    kinds: Kinds<'a>,
    out: JobsFile,
    /// Whether each job's number was given.
    given: Vec<bool>,
    lines: Vec<u32>,
}

impl Build<'_> {
    fn job(&mut self, piece: &TableText<'_>) {
        let Some(table) = piece.read::<JobTable>(&mut self.problems) else {
            return;
        };
        if let Err((field, problem)) = self.table(&table, piece) {
            self.problems.add(piece.line_of(field), problem);
        }
    }

    fn table(&mut self, table: &JobTable, piece: &TableText<'_>) -> Field<()> {
        let names = names(table)?;
        if table.id.is_some() && names.len() > 1 {
            let what = format!("one id for {} jobs; leave it out", names.len());
            return Err(("id", what));
        }
        if table.running.is_some() && names.len() > 1 {
            let what = "where a job runs is said of one job, not of several alike";
            return Err(("running", what.into()));
        }
        if names.len() > MOST - self.out.jobs.len().min(MOST) {
            return Err(("name", format!("there are more than {MOST} jobs by here")));
        }
        let template = self.template(table)?;
        if let Some(assignments) = &table.running {
            let assignments = self.assignments(&template, assignments.all());
            let assignments =
                assignments.map_err(|problem| ("running", format!("running: {problem}")))?;
            self.out.running.push(Action::Place {
                // Its place for now; numbers are given at the end.
                job: JobId(self.out.jobs.len() as u32),
                assignments,
            });
        }
        for name in names {
            self.out.jobs.push(Job {
                name,
                ..template.clone()
            });
            self.given.push(table.id.is_some());
            self.lines.push(piece.line as u32);
        }
        Ok(())
    }

    fn template(&mut self, table: &JobTable) -> Field<Job> {
        let queue = match &table.queue {
            None => None,
            Some(name) => {
                let found = self.queues.get(name.trim()).copied();
                Some(
                    found
                        .ok_or_else(|| ("queue", format!("the fleet has no [[queue]] {name:?}")))?,
                )
            }
        };
        let duration = wishes::duration(table)?;
        Ok(Job {
            id: JobId(table.id.unwrap_or(0)),
            name: String::new(),
            tenant: table.tenant.clone().unwrap_or_default(),
            queue,
            priority: table.priority,
            submitted: wishes::time("submitted", table.submitted.as_deref())?
                .unwrap_or(Nanoseconds(0)),
            worker: self.worker(table)?,
            gang: wishes::gang(table)?,
            topology: wishes::topology(table)?,
            spread: wishes::spread(table)?,
            deadline: wishes::time("deadline", table.deadline.as_deref())?,
            preemption: wishes::preemption(table, duration)?,
            grace: wishes::grace(table)?,
            duration,
            speeds: self.speeds(table)?,
            near: self.near(table)?,
        })
    }

    /// Turns what was said from now, back and ahead, into moments after the first job was asked for.
    fn date(&mut self) {
        let ago = self.out.jobs.iter().map(|job| job.submitted).max();
        let now = ago.unwrap_or(Nanoseconds(0));
        for job in &mut self.out.jobs {
            job.submitted = Nanoseconds(now.0 - job.submitted.0);
            job.deadline = job
                .deadline
                .map(|deadline| Nanoseconds(now.0.saturating_add(deadline.0)));
        }
        self.out.now = now;
    }

    /// Gives numbers to jobs without one, above those that were given, and says what is there twice.
    fn number(&mut self) {
        let mut next = 0;
        for (job, given) in self.out.jobs.iter().zip(&self.given) {
            if *given {
                next = next.max(job.id.0.saturating_add(1));
            }
        }
        for (job, given) in self.out.jobs.iter_mut().zip(&self.given) {
            if !given {
                job.id = JobId(next);
                next = next.saturating_add(1);
            }
        }
        for action in &mut self.out.running {
            if let Action::Place { job, .. } = action
                && let Some(numbered) = self.out.jobs.get(job.index())
            {
                *job = numbered.id;
            }
        }
        let jobs = &self.out.jobs;
        let mut order: Vec<u32> = (0..jobs.len() as u32).collect();
        let name = |at: &u32| jobs.get(*at as usize).map_or("", |job| job.name.as_str());
        let id = |at: &u32| jobs.get(*at as usize).map_or(0, |job| job.id.0);
        let line = |at: &u32| self.lines.get(*at as usize).copied().unwrap_or(0) as usize;
        let mut twice = Vec::new();
        order.sort_by(|a, b| name(a).cmp(name(b)).then(a.cmp(b)));
        for pair in order.windows(2) {
            if let [a, b] = pair
                && name(a) == name(b)
            {
                let what = format!(
                    "job {:?} is there twice, first on line {}",
                    name(b),
                    line(a)
                );
                twice.push((line(b), what));
            }
        }
        order.sort_by_key(|at| (id(at), *at));
        for pair in order.windows(2) {
            if let [a, b] = pair
                && id(a) == id(b)
            {
                let what = format!(
                    "id {} of job {:?} is that of job {:?} on line {}, too",
                    id(b),
                    name(b),
                    name(a),
                    line(a)
                );
                twice.push((line(b), what));
            }
        }
        for (line, what) in twice {
            self.problems.add(line, what);
        }
    }
}

fn names(table: &JobTable) -> Field<Vec<String>> {
    let mut names = expand_braces(&table.name).map_err(|problem| ("name", problem))?;
    let Some(count) = table.count else {
        return Ok(names);
    };
    let [name] = names.as_slice() else {
        return Err(("count", "a name with a range says how many already".into()));
    };
    if count == 0 || count as usize > MOST {
        let what = format!("count is {count}; expected a number from 1 to {MOST}");
        return Err(("count", what));
    }
    if count > 1 {
        names = (1..=count)
            .map(|number| format!("{name}-{number}"))
            .collect();
    }
    Ok(names)
}

/// Reads one job of a fleet that is there, from the fields of a `[[job]]`; its name, number and queue are
/// for the caller to say.
///
/// # Errors
/// With the field that is wrong, and what is wrong with it. A GPU that the fleet does not have is wrong.
pub fn read_ask(
    mut fields: toml::Table,
    kinds: &[GpuKind],
    find: &FindGpu<'_>,
) -> Result<Job, (String, String)> {
    fields.entry("name").or_insert_with(|| "ask".into());
    let table: JobTable = fields
        .try_into()
        .map_err(|error: toml::de::Error| (String::new(), error.message().to_owned()))?;
    let fleet = Fleet {
        kinds: kinds.to_vec(),
        ..Fleet::default()
    };
    let mut build = Build {
        problems: Problems::new("ask"),
        nodes: BTreeMap::new(),
        queues: BTreeMap::new(),
        kinds: Kinds::of(kinds, find),
        fleet: &fleet,
        out: JobsFile::default(),
        given: Vec::new(),
        lines: Vec::new(),
    };
    let job = build
        .template(&table)
        .map_err(|(field, problem)| (field.to_owned(), problem))?;
    if let Some(other) = build.kinds.finish().get(kinds.len()) {
        let names = GpuKind::names(kinds);
        let what = format!(
            "the fleet has no {}; it has {}",
            other.name,
            names.join(", ")
        );
        return Err(("gpus".into(), what));
    }
    Ok(job)
}

/// A quota such as `16xH100`, or `16` of any kind: kinds, and thousandths of GPUs.
///
/// # Errors
/// When it is none, or names a GPU that the fleet does not have.
pub fn read_quota(
    text: &str,
    kinds: &[GpuKind],
    find: &FindGpu<'_>,
) -> Result<(KindSet, u64), String> {
    if let Ok(count) = text.trim().parse::<u32>() {
        return Ok((KindSet::ANY, u64::from(count) * 1000));
    }
    let (count, name) = counted_gpu("quota", text)?;
    let mut known = Kinds::of(kinds, find);
    let named = known.all_named(&name)?;
    if named.iter().any(|kind| kind.index() >= kinds.len()) {
        return Err(format!("the fleet has no {name}"));
    }
    Ok((named, u64::from(count) * 1000))
}
