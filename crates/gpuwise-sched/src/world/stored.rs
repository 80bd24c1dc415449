//! A job as a world keeps it: jobs that ask alike share what they ask.
//!
//! Of millions of jobs most are copies of a few requests. What differs from one to the next (number, name,
//! when it came, how long it takes) lies beside what they have in common, which is kept once.

use super::pages::Pages;
use gpuwise_domain::placement::{
    DurationEstimate, Gang, Job, JobId, KindId, NodeId, Preemption, QueueId, Spread, TopologyWish,
    WorkerAsk,
};
use gpuwise_units::Nanoseconds;
use rustc_hash::FxHasher;
use std::{
    hash::{Hash as _, Hasher as _},
    ops::{Deref, DerefMut},
    sync::Arc,
};

/// A job; reads as if it had all that it asks.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct StoredJob {
    pub id: JobId,
    pub name: Box<str>,
    pub submitted: Nanoseconds,
    pub duration: Option<DurationEstimate>,
    spec: Arc<JobSpec>,
}

/// What jobs that ask alike have in common; of each field there is more at [`Job`].
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct JobSpec {
    pub tenant: String,
    pub queue: Option<QueueId>,
    pub priority: i32,
    pub worker: WorkerAsk,
    pub gang: Gang,
    pub topology: Option<TopologyWish>,
    pub spread: Option<Spread>,
    pub deadline: Option<Nanoseconds>,
    pub preemption: Preemption,
    pub grace: Nanoseconds,
    pub speeds: Vec<(KindId, u32)>,
    pub near: Vec<NodeId>,
}

impl JobSpec {
    /// Its speed on a kind in thousandths of the reference.
    pub fn speed(&self, kind: KindId) -> u32 {
        let found = self.speeds.iter().find(|(named, _)| *named == kind);
        found.map_or(1000, |(_, speed)| *speed)
    }

    fn of(job: &Job) -> Self {
        Self {
            tenant: job.tenant.clone(),
            queue: job.queue,
            priority: job.priority,
            worker: job.worker,
            gang: job.gang,
            topology: job.topology,
            spread: job.spread,
            deadline: job.deadline,
            preemption: job.preemption,
            grace: job.grace,
            speeds: job.speeds.clone(),
            near: job.near.clone(),
        }
    }

    /// Whether a job asks just this.
    fn is_of(&self, job: &Job) -> bool {
        let Self {
            tenant,
            queue,
            priority,
            worker,
            gang,
            topology,
            spread,
            deadline,
            preemption,
            grace,
            speeds,
            near,
        } = self;
        *tenant == job.tenant
            && *queue == job.queue
            && *priority == job.priority
            && *worker == job.worker
            && *gang == job.gang
            && *topology == job.topology
            && *spread == job.spread
            && *deadline == job.deadline
            && *preemption == job.preemption
            && *grace == job.grace
            && *speeds == job.speeds
            && *near == job.near
    }
}

impl StoredJob {
    /// The job as it was asked for.
    pub fn to_job(&self) -> Job {
        let spec = (*self.spec).clone();
        Job {
            id: self.id,
            name: self.name.to_string(),
            submitted: self.submitted,
            duration: self.duration,
            tenant: spec.tenant,
            queue: spec.queue,
            priority: spec.priority,
            worker: spec.worker,
            gang: spec.gang,
            topology: spec.topology,
            spread: spec.spread,
            deadline: spec.deadline,
            preemption: spec.preemption,
            grace: spec.grace,
            speeds: spec.speeds,
            near: spec.near,
        }
    }

    fn with_spec(job: &Job, spec: Arc<JobSpec>) -> Self {
        Self {
            id: job.id,
            name: job.name.as_str().into(),
            submitted: job.submitted,
            duration: job.duration,
            spec,
        }
    }
}

impl From<&Job> for StoredJob {
    fn from(job: &Job) -> Self {
        Self::with_spec(job, Arc::new(JobSpec::of(job)))
    }
}

impl PartialEq<Job> for StoredJob {
    fn eq(&self, job: &Job) -> bool {
        self.id == job.id
            && *self.name == *job.name
            && self.submitted == job.submitted
            && self.duration == job.duration
            && self.spec.is_of(job)
    }
}

impl Deref for StoredJob {
    type Target = JobSpec;

    fn deref(&self) -> &JobSpec {
        &self.spec
    }
}

/// What is changed of one job is changed of no other.
impl DerefMut for StoredJob {
    fn deref_mut(&mut self) -> &mut JobSpec {
        Arc::make_mut(&mut self.spec)
    }
}

/// Places for what was asked lately.
const PLACES: usize = 1024;

/// What was asked lately, so that who asks the same next shares it. Only a matter of memory: what is not
/// found here is kept once more.
#[derive(Debug, Clone, Default)]
pub(crate) struct Specs(Pages<Option<Arc<JobSpec>>>);

impl PartialEq for Specs {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Specs {
    /// A job as it is kept.
    pub(super) fn store(&mut self, job: &Job) -> StoredJob {
        let hash = hash((&job.worker, job.gang, job.priority, &job.tenant));
        let known = |spec: &JobSpec| spec.is_of(job);
        let spec = self.find(hash, known, || Arc::new(JobSpec::of(job)));
        StoredJob::with_spec(job, spec)
    }

    /// Lets a job that was read share what it asks.
    pub(super) fn adopt(&mut self, job: &mut StoredJob) {
        let own = Arc::clone(&job.spec);
        let hash = hash((&own.worker, own.gang, own.priority, &own.tenant));
        job.spec = self.find(hash, |spec| *spec == *own, || Arc::clone(&own));
    }

    /// One of the two places of a hash has it, or gets it: the one that nobody else counts on, or the first.
    fn find(
        &mut self,
        hash: u64,
        is_it: impl Fn(&JobSpec) -> bool,
        make: impl FnOnce() -> Arc<JobSpec>,
    ) -> Arc<JobSpec> {
        if self.0.is_empty() {
            self.0 = (0..PLACES).map(|_| None).collect();
        }
        let places = [hash, hash >> 32].map(|hash| hash as usize % PLACES);
        for at in places {
            if let Some(Some(spec)) = self.0.get(at)
                && is_it(spec)
            {
                return Arc::clone(spec);
            }
        }
        let made = make();
        let free = |at: &usize| {
            let there = self.0.get(*at).and_then(Option::as_ref);
            there.is_none_or(|spec| Arc::strong_count(spec) == 1)
        };
        let at = places.iter().copied().find(free).unwrap_or(places[0]);
        if let Some(place) = self.0.get_mut(at) {
            *place = Some(Arc::clone(&made));
        }
        made
    }
}

fn hash((worker, gang, priority, tenant): (&WorkerAsk, Gang, i32, &str)) -> u64 {
    let mut hasher = FxHasher::default();
    worker.hash(&mut hasher);
    gang.hash(&mut hasher);
    priority.hash(&mut hasher);
    tenant.hash(&mut hasher);
    gpuwise_units::math::mixed(hasher.finish())
}
