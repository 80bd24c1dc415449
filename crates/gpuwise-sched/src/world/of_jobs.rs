//! What happens to jobs beside actions: they come, change, save, lose workers and end.

use super::{JobState, Phase, Refused, World};
use gpuwise_domain::placement::{Event, Job, JobId, Queue, QueueId};
use gpuwise_units::Nanoseconds;

impl World {
    pub(super) fn happened_to_job(
        &mut self,
        at: Nanoseconds,
        event: &Event,
    ) -> Result<(), Refused> {
        match event {
            Event::Submitted(job) => self.submit(at, job)?,
            Event::JobSet(job) => self.job_set(at, job)?,
            Event::Ended { job, .. } => self.end(at, *job),
            Event::WorkerLost { job, assignment } => self.worker_lost(at, *job, assignment),
            Event::Held { job, held } => self.with_job(*job, |state| state.hold = *held),
            Event::Checkpointed { job } => {
                let done = self.done_by(at, *job);
                self.with_job(*job, |state| {
                    state.rare.change(|rare| rare.checkpoint = Some(done));
                });
            }
            Event::Measured { job, busy_milli } => self.with_job(*job, |state| {
                state.measured(at, *busy_milli);
            }),
            Event::Wanted { job } => self.with_job(*job, |state| {
                if matches!(state.phase, Phase::Reclaimed { .. }) {
                    state
                        .rare
                        .change(|rare| rare.wanted = rare.wanted.or(Some(at)));
                }
            }),
            _ => {}
        }
        Ok(())
    }

    /// Changes a job's state; of a job that is not there, or no more, it is counted.
    fn with_job(&mut self, job: JobId, change: impl FnOnce(&mut JobState)) {
        match self.jobs.get_mut(job) {
            Some(state) => change(state),
            None => self.ignored.unknown += 1,
        }
    }

    fn submit(&mut self, at: Nanoseconds, job: &Job) -> Result<(), Refused> {
        if let Some(known) = self.jobs.get(job.id) {
            if known.job == *job {
                self.ignored.repeated += 1;
                return Ok(());
            }
            return Err(Refused::SecondJob(job.id));
        }
        self.has_queue(job.queue)?;
        self.arrivals.count(job);
        let attempt = self.attempts();
        let stored = self.specs.store(job);
        self.jobs.insert(job.id, JobState::new(stored, at, attempt));
        Ok(())
    }

    fn has_queue(&self, queue: Option<QueueId>) -> Result<(), Refused> {
        match queue.filter(|queue| queue.index() >= self.queues.len()) {
            Some(queue) => Err(Refused::NoSuchQueue(queue)),
            None => Ok(()),
        }
    }

    /// A job is asked for otherwise. While it has a place its workers keep what they have.
    fn job_set(&mut self, at: Nanoseconds, job: &Job) -> Result<(), Refused> {
        self.has_queue(job.queue)?;
        let Some(state) = self.jobs.get(job.id) else {
            self.ignored.unknown += 1;
            return Ok(());
        };
        if state.job == *job && state.rare.next_ask.is_none() {
            self.ignored.repeated += 1;
            return Ok(());
        }
        let assignments = state.assignments.clone();
        let moves = state.job.queue != job.queue && !assignments.is_empty();
        if moves {
            self.book(at, job.id, &assignments, false);
        }
        if let Some(state) = self.jobs.get_mut(job.id) {
            let worker = state.job.worker;
            state.job = self.specs.store(&Job {
                worker,
                ..job.clone()
            });
            state.rare.change(|rare| {
                rare.next_ask = (job.worker != worker).then(|| Box::new(job.worker));
                // What it was tried with may have been at fault.
                if let Some(trouble) = &mut rare.trouble {
                    (trouble.until, trouble.failures) = (Nanoseconds(0), 0);
                    trouble.avoids.clear();
                }
            });
            state.fresh_ask();
        }
        if moves {
            self.book(at, job.id, &assignments, true);
        }
        Ok(())
    }

    pub(super) fn queue_set(&mut self, at: Nanoseconds, queue: &Queue) -> Result<(), Refused> {
        let known = self.queues.iter().position(|old| old.name == queue.name);
        let id = QueueId(known.unwrap_or(self.queues.len()) as u32);
        if queue.parent.is_some_and(|parent| parent >= id) {
            return Err(Refused::WrongParent(id));
        }
        match self.queues.get_mut(id.index()) {
            Some(old) => *old = queue.clone(),
            None => self.queues.push(queue.clone()),
        }
        self.rebook(at);
        Ok(())
    }

    fn end(&mut self, at: Nanoseconds, id: JobId) {
        self.left(id);
        let assignments = self
            .job(id)
            .map_or_else(Vec::new, |state| state.assignments.clone());
        self.book(at, id, &assignments, false);
        match self.jobs.remove(id) {
            Some(state) => self.give(id, &state.job.worker, &state.assignments),
            None => self.ignored.unknown += 1,
        }
    }
}
