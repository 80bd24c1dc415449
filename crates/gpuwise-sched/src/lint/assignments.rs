//! Seats: whether each has what its worker asks for, where there is room.

use super::{
    Check, Rule,
    account::{GpuUse, InstanceState, JobActivity},
};
use crate::world::{Link, StoredJob};
use gpuwise_domain::placement::{
    Assignment, Gang, GpuAsk, GpuId, GpuKind, GpuShare, Isolation, JobId, Kinds, Need, Part,
    SliceAsk, WorkerAsk,
};

impl Check<'_> {
    pub(super) fn place(&mut self, id: JobId, assignments: &[Assignment]) {
        if self.expect(id, JobActivity::Waits, "placed, but it does not wait") {
            self.may_start(id, assignments);
            self.take(id, assignments, &[]);
        }
    }

    pub(super) fn restore(&mut self, id: JobId, assignments: &[Assignment]) {
        if self.expect(
            id,
            JobActivity::Reclaimed,
            "restored, but nothing was reclaimed",
        ) {
            self.may_start(id, assignments);
            self.account.give_back(id);
            self.take(id, assignments, &[]);
        }
    }

    pub(super) fn resize(&mut self, id: JobId, assignments: &[Assignment]) {
        if !self.expect(id, JobActivity::Runs, "resized, but it does not run") {
            return;
        }
        self.may_be_told(id);
        let elastic = self.world.job(id).is_some_and(|state| {
            let Gang { least, most, .. } = state.job.gang;
            least < most
        });
        let held = self.world.job(id).map(|state| state.assignments.as_slice());
        let joins = held.is_some_and(|held| joins_or_parts(held, assignments));
        if !elastic && !joins {
            let name = self.job_name(id);
            self.error(
                Rule::Gang,
                format!("{name} is resized, but it is not elastic"),
            );
        }
        let kept = self.account.give_back(id);
        self.take(id, assignments, &kept);
    }

    /// Whether a job exists and does this; says so where not.
    pub(super) fn expect(&mut self, id: JobId, doing: JobActivity, otherwise: &str) -> bool {
        let Some(used) = self.account.job(id) else {
            self.error(Rule::Unknown, format!("there is no job {id}"));
            return false;
        };
        let right = used.doing == doing;
        if !right {
            let name = self.job_name(id);
            self.error(Rule::Phase, format!("{name} is {otherwise}"));
        }
        right
    }

    /// Counts a job on assignments, and says what does not hold of them. Assignments that it had before may be
    /// where nothing new may start.
    pub(super) fn take(&mut self, id: JobId, assignments: &[Assignment], before: &[Assignment]) {
        let Some(state) = self.world.job(id) else {
            return;
        };
        let job = &state.job;
        let (count, gang) = (assignments.len(), job.gang);
        let most = gang.most.max(gang.preferred).max(gang.least);
        if count < gang.least as usize || count > most as usize || count == 0 {
            let what = format!(
                "job {} gets {count} workers; it runs with {} to {most}",
                job.name, gang.least
            );
            self.error(Rule::Gang, what);
        }
        for assignment in assignments {
            self.take_seat(job, assignment, before.contains(assignment));
        }
        if let Some(used) = self.account.job(id) {
            used.doing = JobActivity::Runs;
            used.assignments = assignments.to_vec();
        }
        self.wishes(job, assignments);
        self.queue_limits(job);
        self.kept_for_others(job, assignments);
    }

    fn take_seat(&mut self, job: &StoredJob, assignment: &Assignment, kept: bool) {
        let name = &job.name;
        let Some(state) = self.world.node(assignment.node) else {
            let what = format!(
                "job {name} is put on node {}, which is not",
                assignment.node
            );
            self.error(Rule::Unknown, what);
            return;
        };
        let node = &state.node;
        if !kept {
            self.is_open(job, assignment.node);
        }
        if !node.health.takes_work() && !kept {
            let what = format!(
                "job {name} is put on {}, which takes no new work",
                node.name
            );
            self.error(Rule::Health, what);
        }
        if let Some(used) = self.account.node(assignment.node) {
            used.cpu_milli += job.worker.cpu_milli;
            used.memory_mib += job.worker.memory_mib;
            used.workers += 1;
            let (cpu, memory) = (used.cpu_milli, used.memory_mib);
            if cpu > node.cpu_milli {
                let what = format!(
                    "node {} has {} thousandths of cores; with job {name} {cpu} are used",
                    node.name, node.cpu_milli
                );
                self.error(Rule::Capacity, what);
            }
            if memory > node.memory_mib {
                let what = format!(
                    "node {} has {} MiB of memory; with job {name} {memory} are used",
                    node.name, node.memory_mib
                );
                self.error(Rule::Capacity, what);
            }
        }
        if let Some(wrong) = self.is_not_asked(&job.worker, assignment) {
            self.error(Rule::Ask, format!("a worker of job {name} {wrong}"));
        }
        for share in &assignment.gpus {
            self.take_share(job, assignment, *share, kept);
        }
    }

    fn take_share(
        &mut self,
        job: &StoredJob,
        assignment: &Assignment,
        share: GpuShare,
        kept: bool,
    ) {
        let (Some(state), gpu) = (self.world.gpu(share.gpu), self.gpu_name(share.gpu)) else {
            let what = format!("job {} gets GPU #{}, which is not", job.name, share.gpu);
            self.error(Rule::Unknown, what);
            return;
        };
        let memory = self.world.kind(state.gpu.kind).and_then(|k| k.memory_mib);
        let Some(used) = self.account.gpu(share.gpu) else {
            return;
        };
        let here =
            used.node == Some(assignment.node) && matches!(used.link, Link::Here | Link::Attaching);
        let double = clash(used, share.part, memory);
        used.users.push((job.id, share.part));
        if !here {
            let node = self.node_name(assignment.node);
            self.error(Rule::Health, format!("{gpu} is not attached to {node}"));
        }
        if (state.stray || state.link == Link::Gone) && !kept {
            let what = format!("{gpu} has somebody on it, or is no longer of the fleet");
            self.error(Rule::Fence, what);
        }
        if !state.gpu.health.takes_work() && !kept {
            self.error(Rule::Health, format!("{gpu} takes no new work"));
        }
        if let Some(why) = double {
            let what = format!("{gpu} cannot be given to job {}: {why}", job.name);
            self.error(Rule::Exclusive, what);
        }
    }

    /// In what an assignment is not what its worker asks for.
    fn is_not_asked(&self, ask: &WorkerAsk, assignment: &Assignment) -> Option<String> {
        let mut seen: Vec<GpuId> = assignment.gpus.iter().map(|share| share.gpu).collect();
        seen.sort_unstable();
        if seen.windows(2).any(|pair| pair.first() == pair.last()) {
            return Some("gets a GPU twice".to_owned());
        }
        let wanted = match ask.gpu {
            GpuAsk::None => 0,
            GpuAsk::Whole { count, .. } => count as usize,
            GpuAsk::Fraction { .. } | GpuAsk::Slice { .. } => 1,
        };
        if assignment.gpus.len() != wanted {
            return Some(format!(
                "asks for {wanted} GPUs and gets {}",
                assignment.gpus.len()
            ));
        }
        let mut kinds: Vec<u32> = Vec::new();
        for share in &assignment.gpus {
            let state = self.world.gpu(share.gpu)?;
            let kind = self.world.kind(state.gpu.kind)?;
            let accepted = match ask.gpu {
                GpuAsk::None => Kinds::NONE,
                GpuAsk::Whole { kinds, .. }
                | GpuAsk::Fraction { kinds, .. }
                | GpuAsk::Slice { kinds, .. } => kinds,
            };
            if accepted.0 >> state.gpu.kind.0.min(63) & 1 == 0 {
                return Some(format!("does not accept {}", kind.name));
            }
            if let Some(wrong) = wrong_part(ask.gpu, share.part, kind) {
                return Some(wrong);
            }
            kinds.push(state.gpu.kind.0);
        }
        kinds.sort_unstable();
        kinds.dedup();
        (kinds.len() > 1).then(|| "gets GPUs of several kinds".to_owned())
    }
}

/// Whether one who has a GPU only lets another of a pair on it, or has it for itself again.
fn joins_or_parts(held: &[Assignment], wanted: &[Assignment]) -> bool {
    let part = |all: &[Assignment]| match all {
        [one] => match one.gpus.as_slice() {
            [share] => Some((one.node, share.gpu, share.part)),
            _ => None,
        },
        _ => None,
    };
    let pair = |part: Part| {
        matches!(
            part,
            Part::Fraction {
                isolation: Isolation::Pair { .. },
                ..
            }
        )
    };
    match (part(held), part(wanted)) {
        (Some((node, gpu, was)), Some((other, same, is))) => {
            node == other && gpu == same && (pair(was) || pair(is))
        }
        _ => false,
    }
}

fn wrong_part(ask: GpuAsk, part: Part, kind: &GpuKind) -> Option<String> {
    match (ask, part) {
        (GpuAsk::Whole { need, .. }, Part::Whole) => lacks(need, kind),
        (
            GpuAsk::Whole { need, count: 1, .. },
            Part::Fraction {
                isolation: Isolation::Pair { gain_milli },
                ..
            },
        ) => match gain_milli {
            0..=1000 => Some("shares a GPU where both do no more than one alone".to_owned()),
            _ => lacks(need, kind),
        },
        (
            GpuAsk::Fraction {
                milli,
                memory_mib,
                isolation,
                ..
            },
            Part::Fraction {
                milli: got,
                memory_mib: memory,
                isolation: kept,
            },
        ) => {
            if got < milli {
                return Some(format!("asks for {milli} thousandths and gets {got}"));
            }
            if memory < memory_mib.unwrap_or(0) {
                return Some(format!("gets {memory} MiB, fewer than it asks for"));
            }
            (kept != isolation).then(|| format!("is to be kept apart by {}", isolation.name()))
        }
        (GpuAsk::Slice { slice, .. }, Part::Slice { shape, .. }) => wrong_slice(slice, shape, kind),
        _ => Some("gets another part of a GPU than it asks for".to_owned()),
    }
}

/// What is unknown is not enough.
fn lacks(need: Need, kind: &GpuKind) -> Option<String> {
    let table = [
        ("MiB of memory", need.memory_mib, kind.memory_mib),
        ("TFLOP/s", need.tflops, kind.tflops),
        ("GB/s", need.bandwidth_gbs, kind.bandwidth_gbs),
    ];
    for (unit, wanted, has) in table {
        match has {
            _ if wanted == 0 => {}
            Some(has) if has >= wanted => {}
            Some(has) => {
                return Some(format!(
                    "needs {wanted} {unit} a GPU; {} has {has}",
                    kind.name
                ));
            }
            None => {
                return Some(format!(
                    "needs {wanted} {unit} a GPU; of {} it is unknown",
                    kind.name
                ));
            }
        }
    }
    None
}

fn wrong_slice(ask: SliceAsk, shape: u8, kind: &GpuKind) -> Option<String> {
    let row = kind
        .mig
        .as_ref()
        .and_then(|g| g.shapes.get(usize::from(shape)));
    let Some(row) = row else {
        return Some(format!("gets an instance that {} does not have", kind.name));
    };
    let fewer = |has: Option<u32>, asked: u32| asked > 0 && has.unwrap_or(0) < asked;
    let short = fewer(row.memory_mib, ask.memory_mib)
        || fewer(row.units, ask.units)
        || (ask.compute > 0 && row.compute != ask.compute)
        || (ask.memory_slices > 0 && row.size != ask.memory_slices)
        || (ask.media && !row.media);
    short.then(|| format!("gets {}, which is not what it asks for", row.profile))
}

/// Why a part of a GPU cannot be taken beside what is used already.
fn clash(used: &GpuUse, part: Part, memory: Option<u32>) -> Option<String> {
    if let Part::Slice { shape, start } = part {
        if !used.cut {
            return Some("MIG is off".to_owned());
        }
        let there = |one: &InstanceState| one.shape == shape && one.start == start;
        if !used.instances.iter().any(there) {
            return Some(format!("it has no such instance at memory slice {start}"));
        }
        let taken = used.users.iter().any(|(_, other)| *other == part);
        return taken.then(|| format!("its instance at memory slice {start} is held"));
    }
    if used.cut {
        return Some("MIG is on".to_owned());
    }
    let Part::Fraction {
        mut milli,
        memory_mib,
        isolation,
    } = part
    else {
        return (!used.users.is_empty()).then(|| "somebody uses it".to_owned());
    };
    let mut sum = u64::from(memory_mib);
    for (_, other) in &used.users {
        let Part::Fraction {
            milli: has,
            memory_mib,
            isolation: kept,
        } = other
        else {
            return Some("somebody has all of it".to_owned());
        };
        if *kept != isolation {
            return Some(format!("it is shared by {}", kept.name()));
        }
        milli = milli.saturating_add(*has);
        sum += u64::from(*memory_mib);
    }
    if milli > 1000 {
        return Some(format!("{milli} thousandths of it would be used"));
    }
    let over = memory.is_some_and(|memory| sum > u64::from(memory));
    over.then(|| format!("{sum} MiB of its memory would be used"))
}
