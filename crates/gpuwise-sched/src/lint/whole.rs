//! Whether a world holds together: every sum, and every assignment seen from both sides.

use super::{
    Note, Rule, Severity,
    account::{InstanceState, users},
    devices::misfit,
    gpu_name, job_name, node_name,
};
use crate::world::{GpuState, Link, Phase, Tenancy, World};
use gpuwise_domain::placement::{GpuId, Home, JobId, NodeId, Part};
use std::collections::BTreeMap;

/// Holds a world against itself; nothing: it holds together. Looks at everything.
pub fn lint_world(world: &World) -> Vec<Note> {
    let mut whole = Whole {
        world,
        notes: Vec::new(),
        assignments: BTreeMap::new(),
        hosts: BTreeMap::new(),
    };
    whole.jobs();
    for id in (0..world.gpus().len() as u32).map(GpuId) {
        whole.gpu(id);
    }
    for id in (0..world.nodes().len() as u32).map(NodeId) {
        whole.node(id);
    }
    whole.leaving();
    whole.notes
}

/// Processor time, memory and workers of a node's assignments.
type Hosted = (u64, u64, u32);

struct Whole<'w> {
    world: &'w World,
    notes: Vec<Note>,
    /// Shares of each GPU as the assignments of jobs have them.
    assignments: BTreeMap<GpuId, Vec<(JobId, Part, NodeId)>>,
    hosts: BTreeMap<NodeId, Hosted>,
}

impl Whole<'_> {
    fn error(&mut self, rule: Rule, what: String) {
        self.notes.push(Note {
            severity: Severity::Error,
            rule,
            action: None,
            what,
        });
    }

    fn jobs(&mut self) {
        let world = self.world;
        for (id, state) in world.jobs() {
            let job = &state.job;
            let holds = match state.phase {
                Phase::Starting { .. } | Phase::Running { .. } => true,
                Phase::Waiting { .. } | Phase::Reclaimed { .. } => false,
            };
            let most = job.gang.most.max(job.gang.preferred).max(job.gang.least);
            let count = state.assignments.len() as u32;
            if holds && (count == 0 || count < job.gang.least || count > most) {
                let what = format!(
                    "job {} has {count} workers; it runs with {} to {most}",
                    job.name, job.gang.least
                );
                self.error(Rule::Gang, what);
            }
            let bare = matches!(state.phase, Phase::Reclaimed { .. })
                && state
                    .assignments
                    .iter()
                    .all(|assignment| assignment.gpus.is_empty());
            if !holds && count > 0 && !bare {
                let what = format!("job {} does not run and has {count} assignments", job.name);
                self.error(Rule::Phase, what);
            }
            for assignment in &state.assignments {
                let host = self.hosts.entry(assignment.node).or_default();
                host.0 += job.worker.cpu_milli;
                host.1 += job.worker.memory_mib;
                host.2 += 1;
                for share in &assignment.gpus {
                    let shares = self.assignments.entry(share.gpu).or_default();
                    shares.push((id, share.part, assignment.node));
                }
            }
        }
    }

    fn gpu(&mut self, id: GpuId) {
        let Some(state) = self.world.gpu(id) else {
            return;
        };
        let gpu = gpu_name(self.world, id);
        let mut held = users(&state.held);
        for (job, part, node) in self.assignments.get(&id).cloned().unwrap_or_default() {
            let Some(at) = held.iter().position(|one| *one == (job, part)) else {
                let name = job_name(self.world, job);
                self.error(
                    Rule::Sums,
                    format!("{name} counts on {gpu}, which is not its"),
                );
                continue;
            };
            held.swap_remove(at);
            if state.node != Some(node) {
                let (name, host) = (job_name(self.world, job), node_name(self.world, node));
                let what = format!("{name} uses {gpu} on {host}, where it is not");
                self.error(Rule::Sums, what);
            }
        }
        for (job, _) in held {
            let name = job_name(self.world, job);
            self.error(
                Rule::Sums,
                format!("{gpu} is held by {name}, which has no such assignment"),
            );
        }
        if let Some(what) = self.misheld(id) {
            self.error(Rule::Exclusive, format!("{gpu}: {what}"));
        }
        self.whereabouts(id);
    }

    /// Who is under way says so, and who is still leaving somewhere is known on both sides.
    fn leaving(&mut self) {
        let world = self.world;
        let mut hosts: BTreeMap<NodeId, (u64, u64)> = BTreeMap::new();
        let mut left: Vec<(GpuId, JobId)> = Vec::new();
        for (id, state) in world.jobs() {
            let name = &state.job.name;
            let starting = matches!(state.phase, Phase::Starting { .. });
            if starting != state.start().is_some() {
                let what =
                    format!("job {name} starts, or not, and what is done for it says otherwise");
                self.error(Rule::Phase, what);
            }
            if state.stop().is_some() && !state.stopping {
                let what = format!("job {name} is being stopped and is not stopping");
                self.error(Rule::Phase, what);
            }
            if state.stopping && !state.is_leaving() {
                self.error(Rule::Phase, format!("job {name} is stopping nowhere"));
            }
            if state.attempt > world.attempts() {
                self.error(
                    Rule::Sums,
                    format!("job {name} counts more actions than began"),
                );
            }
            for host in state.leaving_hosts() {
                let sum = hosts.entry(*host).or_default();
                sum.0 += state.job.worker.cpu_milli;
                sum.1 += state.job.worker.memory_mib;
            }
            left.extend(state.rare.leaving.iter().map(|gpu| (*gpu, id)));
        }
        for (node, id) in world.nodes().iter().zip((0..).map(NodeId)) {
            let said = (node.leaving_cpu, node.leaving_memory);
            if hosts.get(&id).copied().unwrap_or_default() != said {
                let what = format!(
                    "node {}: what those who leave still have is {said:?}",
                    node.node.name
                );
                self.error(Rule::Sums, what);
            }
            if node.left && !(node.gpus.is_empty() && node.workers == 0) {
                let what = format!("node {} has left, and something is there", node.node.name);
                self.error(Rule::Fence, what);
            }
        }
        let mut seen: Vec<(GpuId, JobId)> = Vec::new();
        for (gpu, id) in world.gpus().iter().zip((0..).map(GpuId)) {
            seen.extend(gpu.leaving.iter().map(|(job, _)| (id, *job)));
        }
        left.sort_unstable();
        seen.sort_unstable();
        if left != seen {
            let what = format!("jobs leave {left:?}, and GPUs are left by {seen:?}");
            self.error(Rule::Sums, what);
        }
    }

    /// What is wrong in how a GPU is held.
    fn misheld(&self, id: GpuId) -> Option<String> {
        let state = self.world.gpu(id)?;
        let kind = self.world.kind(state.gpu.kind);
        let keeps = state.gpu.health.keeps_work();
        if !keeps && !users(&state.held).is_empty() {
            return Some("it is lost and still held".to_owned());
        }
        match &state.held {
            Tenancy::Free | Tenancy::Whole(_) => {
                let on = state.gpu.mig_on;
                on.then(|| "MIG is on, but its instances are not accounted for".to_owned())
            }
            Tenancy::Shared {
                milli_free,
                memory_free,
                holders,
                ..
            } => {
                let milli: u64 = holders.iter().map(|one| u64::from(one.milli)).sum();
                let memory: u64 = holders.iter().map(|one| u64::from(one.memory_mib)).sum();
                let size = kind.and_then(|kind| kind.memory_mib).map(u64::from);
                if milli + u64::from(*milli_free) != 1000 {
                    return Some(format!(
                        "{milli} thousandths are held, {milli_free} are free"
                    ));
                }
                if memory_free.map(|free| u64::from(free) + memory) != size {
                    return Some(format!("{memory} MiB are held, {memory_free:?} are free"));
                }
                holders
                    .is_empty()
                    .then(|| "it is shared by nobody".to_owned())
            }
            Tenancy::Sliced(instances) => {
                if !state.gpu.mig_on {
                    return Some("it has MIG instances, but MIG is off".to_owned());
                }
                let pieces: Vec<InstanceState> = instances
                    .iter()
                    .map(|one| InstanceState {
                        shape: one.shape,
                        start: one.start,
                        ready: one.ready,
                    })
                    .collect();
                match kind.and_then(|kind| kind.mig.as_ref()) {
                    Some(geometry) => misfit(geometry, &pieces),
                    None if pieces.is_empty() => None,
                    None => Some("it has no MIG, and has MIG instances".to_owned()),
                }
            }
        }
    }

    fn whereabouts(&mut self, id: GpuId) {
        let Some(state) = self.world.gpu(id) else {
            return;
        };
        let gpu = gpu_name(self.world, id);
        let pooled = matches!(state.gpu.home, Home::Pool(_));
        let listed = state
            .node
            .and_then(|node| self.world.node(node))
            .map(|node| {
                let times = node.gpus.iter().filter(|one| **one == id).count();
                times == 1
            });
        match (state.link, listed) {
            (Link::InPool, None) if pooled => {}
            (Link::Gone, None) | (Link::Here | Link::Attaching | Link::Detaching, Some(true)) => {}
            (link, _) => {
                let what = format!("{gpu} is {link:?}, and no node or pool agrees");
                self.error(Rule::Fabric, what);
            }
        }
        if state.node.is_none() && !users(&state.held).is_empty() {
            self.error(Rule::Fabric, format!("{gpu} is in its pool and held"));
        }
    }

    fn node(&mut self, id: NodeId) {
        let Some(state) = self.world.node(id) else {
            return;
        };
        let (cpu, memory, workers) = self.hosts.get(&id).copied().unwrap_or_default();
        let (mut whole, mut milli, mut strangers) = (0, 0, 0);
        for gpu in &state.gpus {
            let gpu = self.world.gpu(*gpu).filter(|gpu| gpu.node == Some(id));
            strangers += u32::from(gpu.is_none());
            let (idle, free) = gpu.map_or((false, 0), free);
            whole += u32::from(idle);
            milli += free;
        }
        let table = [
            (
                "thousandths of cores",
                cpu + state.cpu_free,
                state.node.cpu_milli,
            ),
            (
                "MiB of memory",
                memory + state.memory_free,
                state.node.memory_mib,
            ),
            ("workers", u64::from(workers), u64::from(state.workers)),
            (
                "whole free GPUs",
                u64::from(whole),
                u64::from(state.whole_free),
            ),
            (
                "free thousandths of GPUs",
                u64::from(milli),
                u64::from(state.milli_free),
            ),
            ("GPUs that are elsewhere", u64::from(strangers), 0),
        ];
        for (of, counted, said) in table {
            if counted != said {
                let name = &state.node.name;
                let what = format!("node {name}: {counted} {of} are counted, {said} are said");
                self.error(Rule::Sums, what);
            }
        }
        let attached = state.gpus.len().saturating_sub(state.node.gpus.len());
        if attached > state.node.slots as usize {
            let what = format!(
                "node {} has {} slots and {attached} GPUs attached",
                state.node.name, state.node.slots
            );
            self.error(Rule::Fabric, what);
        }
        if !state.node.health.keeps_work() && workers > 0 {
            let what = format!("node {} is down and has {workers} workers", state.node.name);
            self.error(Rule::Health, what);
        }
    }
}

/// Whether nobody has anything of a GPU that takes work, and how many thousandths of it are free.
fn free(gpu: &GpuState) -> (bool, u32) {
    let there = matches!(gpu.link, Link::Here | Link::Attaching);
    let takes = gpu.gpu.health.takes_work() && there && !gpu.stray;
    if !takes || matches!(gpu.held, Tenancy::Sliced(_)) {
        return (false, 0);
    }
    let users = users(&gpu.held).into_iter();
    let used: u32 = users
        .map(|(_, part)| match part {
            Part::Fraction { milli, .. } => milli,
            _ => 1000,
        })
        .sum();
    (gpu.held == Tenancy::Free, 1000_u32.saturating_sub(used))
}
