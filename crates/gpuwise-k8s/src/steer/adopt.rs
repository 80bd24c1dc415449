//! Those who hold places, as the world's running jobs.

use super::{Pod, Seen, gangs::gang_of, kept::Kept, world::Cluster};
use gpuwise_domain::placement::{
    Action, Assignment, Event, Gang, GpuAsk, GpuId, GpuShare, Job, JobId, KindId, Kinds, Need,
    NodeId, Part, Preemption, WorkerAsk,
};
use gpuwise_sched::world::NodeState;
use gpuwise_units::Nanoseconds;
use std::collections::BTreeMap;

/// From starting a pod again until it goes on where it was, as long as nobody says: a minute.
pub(super) const RESTART: Nanoseconds = Nanoseconds(60_000_000_000);

/// Of nodes on which more is held than there is so many are named: conditions are no lists.
const NAMED: usize = 8;

/// A pod that holds a place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Holder<'a> {
    pub pod: &'a Pod,
    /// Its place in [`Seen::pods`].
    pub at: usize,
    pub node: &'a str,
    /// Whether it may be stopped.
    pub stops: bool,
    /// It is there, and not only promised.
    pub truly: bool,
}

impl Holder<'_> {
    pub(super) fn since(&self, now: Nanoseconds) -> Nanoseconds {
        let started = self.pod.standing.started.filter(|_| self.truly);
        started.unwrap_or(now).min(now)
    }
}

/// A holder with the units that it has.
struct Seat<'a> {
    node: NodeId,
    kind: KindId,
    gpus: Vec<GpuId>,
    holder: Holder<'a>,
}

impl Cluster<'_> {
    /// Who holds a place holds what it asks: the lowest of its node's units that are left.
    pub(super) fn adopt(
        &mut self,
        kept: &mut Kept,
        seen: &Seen,
        mut holders: Vec<Holder<'_>>,
        now: Nanoseconds,
        gpus: usize,
    ) {
        let nodes = self.nodes.iter().zip((0..).map(NodeId));
        let ids: BTreeMap<&str, NodeId> = nodes.map(|(node, id)| (&*node.name, id)).collect();
        // In the order in which they began, as the world's events come.
        holders.sort_by_cached_key(|one| (one.since(now), !one.truly, one.at));
        let mut so_far = kept.resume(self, seen, &holders, (now, gpus));
        let mut gangs: BTreeMap<_, Vec<Seat<'_>>> = BTreeMap::new();
        for (at, holder) in holders.into_iter().enumerate().skip(so_far.count) {
            kept.pass(at, self, &so_far);
            let (Some(ask), Some(id)) = (&holder.pod.ask, ids.get(holder.node)) else {
                continue;
            };
            let mine = self.units(*id, &ask.resource, ask.count as usize, &so_far.taken);
            if mine.len() < ask.count as usize && holder.truly {
                let over = so_far.over.entry(holder.node.to_owned()).or_default();
                *over += ask.count - mine.len() as u32;
            }
            for gpu in &mine {
                if let Some(taken) = so_far.taken.get_mut(gpu.index()) {
                    *taken = true;
                }
            }
            let Some(kind) = mine.first().and_then(|gpu| self.world.gpu(*gpu)) else {
                continue;
            };
            let seat = Seat {
                node: *id,
                kind: kind.gpu.kind,
                gpus: mine,
                holder,
            };
            // A gang that may be stopped is stopped whole: it is one job where its pods ask alike.
            match gang_of(seat.holder.pod).filter(|_| seat.holder.stops) {
                Some(gang) => {
                    let alike = (gang, seat.kind, seat.gpus.len());
                    gangs.entry(alike).or_default().push(seat);
                }
                None => match self.runs(&[seat], now) {
                    Ok(job) => kept.runs(at, job),
                    Err(why) => so_far.troubles.push(why),
                },
            }
        }
        self.troubles.append(&mut so_far.troubles);
        let mut gangs: Vec<Vec<Seat<'_>>> = gangs.into_values().collect();
        gangs.sort_by_key(|seats| seats.iter().map(|one| one.holder.since(now)).max());
        for seats in gangs {
            let ran = self.runs(&seats, now);
            self.troubles.extend(ran.err());
        }
        self.tell_over(so_far.over);
    }

    fn tell_over(&mut self, over: BTreeMap<String, u32>) {
        let others = over.len().saturating_sub(NAMED);
        let named = over.into_iter().take(NAMED).map(|(node, count)| {
            format!(
                "pods on node {node} hold {count} more of its GPUs than its device plugin gives"
            )
        });
        self.troubles.extend(named);
        if others > 0 {
            self.troubles.push(format!(
                "so do pods on {others} other nodes: were they bound past kube-scheduler, or do device plugins say too little?"
            ));
        }
    }

    /// The lowest units of a resource on a node that nobody has taken.
    fn units(&self, node: NodeId, resource: &str, count: usize, taken: &[bool]) -> Vec<GpuId> {
        let of = |gpu: &GpuId| {
            let kind = self.world.gpu(*gpu).map(|gpu| gpu.gpu.kind);
            kind.and_then(|kind| self.classes.get(kind.index()))
                .is_some_and(|class| class.0 == resource)
        };
        let all = self.world.node(node).map(|state| &state.node.gpus);
        let free = all.into_iter().flatten();
        let free = free.filter(|gpu| taken.get(gpu.index()) == Some(&false));
        free.copied().filter(of).take(count).collect()
    }

    /// A job of pods that run; or why they cannot be counted, for people.
    fn runs(&mut self, seats: &[Seat<'_>], now: Nanoseconds) -> Result<JobId, String> {
        let first = seats.first().ok_or("nobody runs")?;
        let pod = first.holder.pod;
        // Cores and memory that a node has not got are not what is decided here.
        let least = |of: &dyn Fn(&Pod) -> u64, left: &dyn Fn(&NodeState) -> u64| {
            let each = seats.iter().map(|seat| {
                let on = seats.iter().filter(|other| other.node == seat.node);
                let on = on.count().max(1) as u64;
                let left = self.world.node(seat.node).map_or(0, left) / on;
                of(seat.holder.pod).min(left)
            });
            each.min().unwrap_or_default()
        };
        let worker = WorkerAsk {
            cpu_milli: least(&|pod| pod.cpu_milli, &|node| node.cpu_free),
            memory_mib: least(&|pod| pod.memory_mib, &|node| node.memory_free),
            gpu: GpuAsk::Whole {
                count: first.gpus.len() as u32,
                kinds: Kinds::one(first.kind),
                need: Need::default(),
            },
        };
        let id = self.number();
        let name = format!("{}/{}", pod.namespace, pod.name);
        let mut job = Job::new(id, name, worker);
        job.tenant.clone_from(&pod.namespace);
        job.queue = self.queues.get(pod.namespace.as_str()).copied();
        job.priority = pod.priority;
        let since = seats.iter().map(|one| one.holder.since(now)).max();
        let since = since.unwrap_or(now).max(self.latest);
        self.latest = since;
        job.submitted = pod.created.min(since);
        job.gang = Gang::exactly(seats.len() as u32);
        if seats.iter().all(|one| one.holder.stops) {
            job.preemption = Preemption::Allowed {
                // Nobody says that it saves anything: all that it has done would be lost.
                checkpoint_every: Nanoseconds(u64::MAX),
                restart: RESTART,
            };
        }
        let share = |gpu: &GpuId| GpuShare {
            gpu: *gpu,
            part: Part::Whole,
        };
        let assignments = seats.iter().map(|seat| Assignment {
            node: seat.node,
            gpus: seat.gpus.iter().map(share).collect(),
        });
        let place = Action::Place {
            job: id,
            assignments: assignments.collect(),
        };
        let told = self
            .tell(since, Event::Submitted(job))
            .and_then(|()| self.tell(since, Event::done(place)));
        told.map_err(|why| {
            format!(
                "pod {}/{} cannot be counted: {why}",
                pod.namespace, pod.name
            )
        })?;
        let pods = seats.iter().map(|seat| seat.holder.at).collect();
        self.held.insert(id, pods);
        Ok(id)
    }
}
