//! Who runs where and who waits, as tools say it, as a job file.

use super::write::quoted;
use crate::fleet::FleetFile;
use gpuwise_domain::placement::{Action, GpuId, MigGeometry};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

/// What somebody runs or asks for, as far as a tool has said it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FoundJob {
    pub name: String,
    pub tenant: Option<String>,
    pub priority: i32,
    /// Of each worker.
    pub gpu: FoundAsk,
    /// Of each worker, in thousandths of a core.
    pub cpu_milli: u64,
    pub memory_mib: u64,
    /// So many start together, and so many there are at most.
    pub workers: (u32, u32),
    /// Where workers run, one each; nowhere: it waits.
    pub on: Vec<FoundPlace>,
    /// How long ago it was asked for.
    pub waits_seconds: Option<u64>,
    /// What was said and cannot be kept in a job file, a sentence each.
    pub notes: Vec<String>,
}

/// GPUs that a worker asks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum FoundAsk {
    #[default]
    None,
    Whole(u32),
    /// An instance of a MIG profile.
    Slice(String),
    /// Thousandths of one GPU's time.
    Share(u32),
}

/// Where a worker runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FoundPlace {
    pub node: String,
    /// The numbers of its GPUs; empty: they are not said, and the first that are free stand for them.
    pub gpus: Vec<u32>,
}

/// A job file (TOML) of these for a fleet that was read, which [`read_jobs`](crate::fleet::read_jobs)
/// accepts. Who runs where there is no place for it in the fleet is left out, and a comment says so: it
/// does not wait.
pub fn job_file(file: &FleetFile, jobs: &[FoundJob]) -> String {
    let mut seats = Seats::of(file);
    let known = |job: &&(usize, &FoundJob)| job.1.on.iter().any(|place| !place.gpus.is_empty());
    let all: Vec<(usize, &FoundJob)> = jobs.iter().enumerate().collect();
    // Those whose GPUs are said take them before others are given what is left.
    let first = all.iter().filter(known);
    let rest = all.iter().filter(|job| !known(job));
    let mut running: BTreeMap<usize, Result<Vec<String>, String>> = BTreeMap::new();
    for (at, job) in first.chain(rest) {
        running.insert(*at, seats.seat(job));
    }
    let mut out = String::new();
    for (at, job) in all {
        let nowhere = Ok(Vec::new());
        table(&mut out, job, running.get(&at).unwrap_or(&nowhere));
    }
    out
}

fn table(out: &mut String, job: &FoundJob, running: &Result<Vec<String>, String>) {
    let running = match running {
        Ok(running) => running,
        Err(why) => {
            let line = format!("{} is left out: {why}", job.name);
            let _ = writeln!(out, "\n# {}", super::write::comment(&line));
            return;
        }
    };
    out.push_str("\n[[job]]\n");
    for note in &job.notes {
        let _ = writeln!(out, "# {}", super::write::comment(note));
    }
    let _ = writeln!(out, "name = {}", super::write::named(&job.name));
    if let Some(tenant) = &job.tenant {
        let _ = writeln!(out, "tenant = {}", quoted(tenant));
    }
    if job.priority != 0 {
        let _ = writeln!(out, "priority = {}", job.priority);
    }
    let _ = match &job.gpu {
        FoundAsk::None => Ok(()),
        FoundAsk::Whole(count) => writeln!(out, "gpus = {count}"),
        FoundAsk::Slice(profile) => writeln!(out, "slice = {}", quoted(profile)),
        FoundAsk::Share(milli) => {
            writeln!(out, "fraction = {}", f64::from(*milli) / 1000.0)
        }
    };
    if job.cpu_milli > 0 {
        let _ = writeln!(out, "cpu = {}", job.cpu_milli as f64 / 1000.0);
    }
    if job.memory_mib > 0 {
        let _ = writeln!(out, "memory = \"{}MiB\"", job.memory_mib);
    }
    let (least, most) = job.workers;
    let least = if running.is_empty() {
        least
    } else {
        least.min(job.on.len() as u32)
    };
    let _ = match (least.max(1), most.max(1)) {
        (1, 1) => Ok(()),
        (least, most) if least >= most => writeln!(out, "workers = {most}"),
        (least, most) => writeln!(out, "workers = {{ min = {least}, max = {most} }}"),
    };
    if let Some(seconds) = job.waits_seconds.filter(|seconds| *seconds > 0) {
        let _ = writeln!(out, "submitted = \"{seconds}s\"");
    }
    let seats: Vec<String> = running.iter().map(|seat| quoted(seat)).collect();
    let _ = match seats.as_slice() {
        [] => Ok(()),
        [one] => writeln!(out, "running = {one}"),
        many => writeln!(out, "running = [{}]", many.join(", ")),
    };
}

/// GPUs of nodes with what is taken of them.
struct Seats<'a> {
    nodes: BTreeMap<&'a str, Vec<Seat<'a>>>,
}

#[derive(Default)]
struct Seat<'a> {
    /// Thousandths that are taken of the whole.
    taken: u32,
    geometry: Option<&'a MigGeometry>,
    /// MIG instances: by start, the profile's place and whether somebody has it; `None`: MIG is off.
    instances: Option<BTreeMap<u8, (u8, bool)>>,
}

impl<'a> Seats<'a> {
    fn of(file: &'a FleetFile) -> Self {
        let fleet = &file.fleet;
        let mut cut: BTreeMap<GpuId, BTreeMap<u8, (u8, bool)>> = BTreeMap::new();
        for action in &file.present {
            if let Action::CreateInstance { gpu, shape, start } = action {
                cut.entry(*gpu).or_default().insert(*start, (*shape, false));
            }
        }
        let seat = |id: &GpuId| {
            let gpu = fleet.gpus.get(id.index())?;
            let kind = fleet.kinds.get(gpu.kind.index())?;
            Some(Seat {
                taken: 0,
                geometry: kind.mig.as_ref(),
                instances: cut
                    .get(id)
                    .cloned()
                    .or_else(|| gpu.mig_on.then(BTreeMap::new)),
            })
        };
        let nodes = fleet.nodes.iter().map(|node| {
            let seats = node.gpus.iter().filter_map(seat).collect();
            (node.name.as_str(), seats)
        });
        Self {
            nodes: nodes.collect(),
        }
    }

    /// Where a job's workers run, as a job file says it; nothing of it is taken where one has no place.
    fn seat(&mut self, job: &FoundJob) -> Result<Vec<String>, String> {
        let mut out = Vec::new();
        for place in &job.on {
            let node = super::write::plain(&place.node);
            let seats = self
                .nodes
                .get_mut(node.as_str())
                .ok_or_else(|| format!("it runs on {node}, which is no node of this fleet"))?;
            let seat = match &job.gpu {
                FoundAsk::None => Some(node.clone()),
                FoundAsk::Whole(count) => {
                    whole(seats, *count, &place.gpus).map(|list| format!("{node}:{list}"))
                }
                FoundAsk::Share(milli) => {
                    share(seats, *milli, &place.gpus).map(|at| format!("{node}:{at}"))
                }
                FoundAsk::Slice(profile) => instance(seats, profile, &place.gpus)
                    .map(|(at, start)| format!("{node}:{at}@{start}")),
            };
            out.push(seat.ok_or_else(|| unseated(&node, seats, &job.gpu))?);
        }
        Ok(out)
    }
}

/// Why who runs on a node has no place there in the fleet.
fn unseated(node: &str, seats: &[Seat<'_>], ask: &FoundAsk) -> String {
    let cut = seats.iter().any(|seat| seat.geometry.is_some());
    if let (FoundAsk::Slice(profile), false) = (ask, cut) {
        return format!("it has {profile} on {node}, and how a GPU there is cut is not known");
    }
    format!("it runs on {node}, where fewer GPUs are than pods hold")
}

/// Those that are said, or as many as are asked of those that are free.
fn whole(seats: &mut [Seat<'_>], count: u32, said: &[u32]) -> Option<String> {
    let free = |at: &u32| {
        let seat = seats.get(*at as usize);
        seat.is_some_and(|seat| seat.taken == 0 && seat.instances.is_none())
    };
    let said: BTreeSet<u32> = said.iter().copied().collect();
    let chosen: Vec<u32> = if said.is_empty() {
        (0..seats.len() as u32)
            .filter(free)
            .take(count as usize)
            .collect()
    } else {
        said.into_iter().filter(free).collect()
    };
    if chosen.len() != count as usize {
        return None;
    }
    for at in &chosen {
        seats.get_mut(*at as usize)?.taken = 1000;
    }
    Some(ranges(&chosen))
}

/// The GPU that is said, else the fullest that has so much left: devices fill up one after the other.
fn share(seats: &mut [Seat<'_>], milli: u32, said: &[u32]) -> Option<usize> {
    let has = |at: usize, seat: &Seat<'_>| {
        let wanted = said.first().is_none_or(|said| *said as usize == at);
        wanted && seat.instances.is_none() && seat.taken + milli <= 1000
    };
    let all = seats.iter().enumerate();
    let fits = all.filter(|(at, seat)| has(*at, seat));
    let (at, _) = fits.max_by_key(|(at, seat)| (seat.taken, std::cmp::Reverse(*at)))?;
    seats.get_mut(at)?.taken += milli;
    Some(at)
}

/// The first free instance of a profile: its GPU and start.
fn instance(seats: &mut [Seat<'_>], profile: &str, said: &[u32]) -> Option<(usize, u8)> {
    for (at, seat) in seats.iter_mut().enumerate() {
        if said.first().is_some_and(|said| *said as usize != at) {
            continue;
        }
        let wanted = seat.geometry.and_then(|geometry| geometry.named(profile));
        let Some(instances) = &mut seat.instances else {
            continue;
        };
        for (start, (shape, taken)) in instances {
            if Some(*shape) == wanted && !*taken {
                *taken = true;
                return Some((at, *start));
            }
        }
    }
    None
}

/// `0-3,6`.
fn ranges(numbers: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => runs.push((*number, *number)),
        }
    }
    let runs: Vec<String> = runs
        .iter()
        .map(|(first, last)| {
            if first == last {
                first.to_string()
            } else {
                format!("{first}-{last}")
            }
        })
        .collect();
    runs.join(",")
}
