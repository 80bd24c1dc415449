//! What is kept of a world for the next look: most of those who hold places then held them before.
//!
//! Holders are adopted in the order in which they began, so that those who have come or changed since the last look
//! are among the last. Copies of the world on the way to it are kept; the next begins with the last of them before
//! which nothing is other than it was. What is made of it is the same as from nothing.

use super::{Pod, Seen, adopt::Holder, fleet::Class, world::Cluster};
use gpuwise_domain::placement::{Fleet, JobId, QueueId};
use gpuwise_sched::world::World;
use gpuwise_units::Nanoseconds;
use std::{collections::BTreeMap, sync::Arc};

/// So many of the last are adopted at each look: they come, go and change.
const TAIL: usize = if cfg!(test) { 2 } else { 64 };
/// Copies that are kept at most: each takes as much memory as its world differs from the others.
const MOST: usize = 5;

/// The world of the last look, as far as the next may begin alike.
#[derive(Debug, Default)]
pub struct Kept {
    of: Option<(Fleet, Vec<Class>, BTreeMap<String, QueueId>)>,
    /// Those that were adopted and whose beginning stays what it is, in their order.
    order: Vec<Arc<Pod>>,
    /// Their jobs, each with its holder's place in `order`.
    jobs: Vec<(JobId, usize)>,
    checkpoints: Vec<Checkpoint>,
    /// Places in `order` before which copies are to be made.
    wanted: Vec<usize>,
}

/// How far those who hold places are adopted.
#[derive(Debug, Clone, Default)]
pub(super) struct SoFar {
    pub count: usize,
    /// By GPU, whether somebody has it.
    pub taken: Vec<bool>,
    /// By node, how many GPUs more are held than there are.
    pub over: BTreeMap<String, u32>,
    pub troubles: Vec<String>,
}

#[derive(Debug)]
struct Checkpoint {
    so_far: SoFar,
    world: World,
    latest: Nanoseconds,
    next: u32,
}

impl Kept {
    /// A world of a fleet on which nobody is. What was kept of another is forgotten.
    pub(super) fn begin(
        &mut self,
        fleet: Fleet,
        classes: &[Class],
        queues: &BTreeMap<&str, QueueId>,
    ) -> World {
        let same = |(of, own, all): &(Fleet, Vec<Class>, BTreeMap<String, QueueId>)| {
            let all = all
                .iter()
                .map(|(namespace, queue)| (namespace.as_str(), *queue));
            *of == fleet && own == classes && all.eq(queues.iter().map(|(name, id)| (*name, *id)))
        };
        if let Some(first) = self
            .checkpoints
            .first()
            .filter(|_| self.of.as_ref().is_some_and(same))
        {
            return first.world.clone();
        }
        let world = World::new(&fleet);
        let queues = queues.iter().map(|(name, id)| ((*name).to_owned(), *id));
        *self = Self {
            of: Some((fleet, classes.to_vec(), queues.collect())),
            ..Self::default()
        };
        world
    }

    /// Puts a cluster where the last copy is before which nothing is other than it was.
    pub(super) fn resume(
        &mut self,
        cluster: &mut Cluster<'_>,
        seen: &Seen,
        holders: &[Holder<'_>],
        (now, gpus): (Nanoseconds, usize),
    ) -> SoFar {
        let settled = holders.iter().take_while(|one| {
            !one.stops && one.truly && one.pod.standing.started.is_some_and(|then| then < now)
        });
        let order: Vec<Arc<Pod>> = settled
            .filter_map(|one| seen.pods.get(one.at).cloned())
            .collect();
        let both = order.iter().zip(&self.order);
        let same = both
            .take_while(|(one, other)| Arc::ptr_eq(one, other) || is_adopted_alike(one, other))
            .count();
        self.order = order;
        self.checkpoints.retain(|one| one.so_far.count <= same);
        let from = self.checkpoints.last().map_or(0, |one| one.so_far.count);
        self.jobs.retain(|(_, at)| *at < from);
        let all = self.order.len();
        let last = all.saturating_sub(TAIL);
        self.wanted = match self.checkpoints.last() {
            // One half, seven eighths: where somebody older goes not all is made anew.
            None => vec![0, all / 2, all - all / 8, last],
            Some(_) if last > from + 4 * TAIL => vec![last],
            Some(_) => Vec::new(),
        };
        let Some(last) = self.checkpoints.last() else {
            return SoFar {
                taken: vec![false; gpus],
                ..SoFar::default()
            };
        };
        cluster.world = last.world.clone();
        (cluster.latest, cluster.next) = (last.latest, last.next);
        for (job, at) in &self.jobs {
            if let Some(holder) = holders.get(*at) {
                cluster.held.insert(*job, vec![holder.at]);
            }
        }
        last.so_far.clone()
    }

    /// So many are adopted: a copy is kept where one is wanted.
    pub(super) fn pass(&mut self, count: usize, cluster: &Cluster<'_>, so_far: &SoFar) {
        let known = self.checkpoints.last().map(|one| one.so_far.count);
        if !self.wanted.contains(&count) || known == Some(count) {
            return;
        }
        if self.checkpoints.len() >= MOST {
            self.checkpoints.remove(MOST - 2);
        }
        self.checkpoints.push(Checkpoint {
            so_far: SoFar {
                count,
                ..so_far.clone()
            },
            world: cluster.world.clone(),
            latest: cluster.latest,
            next: cluster.next,
        });
    }

    /// The job of the holder at a place.
    pub(super) fn runs(&mut self, at: usize, job: JobId) {
        if at < self.order.len() {
            self.jobs.push((job, at));
        }
    }
}

/// Whether two pods that run make the same of a world.
fn is_adopted_alike(one: &Pod, other: &Pod) -> bool {
    let of = |pod: &Pod| {
        let ask = pod
            .ask
            .as_ref()
            .map(|ask| (ask.resource.clone(), ask.count));
        let began = (pod.standing.started, pod.created);
        (ask, began, pod.priority, pod.cpu_milli, pod.memory_mib)
    };
    one.place == other.place
        && one.name == other.name
        && one.namespace == other.namespace
        && of(one) == of(other)
}
