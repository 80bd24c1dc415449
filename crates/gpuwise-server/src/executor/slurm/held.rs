//! What is kept of a lease that has jobs at Slurm, and what of a listing means for it.

use super::{
    super::asking::Asking,
    accounting::Past,
    jobs::{JobPhase, SlurmJob},
    script::{Ask, Mark},
};
use gpuwise_broker::OrderId;
use gpuwise_wire::broker::QueuedAnswer;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, Instant},
};

/// How long after a submission that was not answered its job may still appear: as long as Slurm's controller may have
/// it in hand.
pub(super) const UNSETTLED: Duration = Duration::from_secs(15);

/// How far a lease is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Its jobs are submitted, or wait for their nodes.
    Starting,
    /// They run, and a service is asked whether it is ready.
    Answering,
    Running,
    /// They are told to end, and ended at that time.
    Stopping {
        order: OrderId,
        grace: Duration,
        end: Instant,
        killed: bool,
    },
    /// They are being requeued, to be held.
    Requeueing(OrderId),
    /// They hold nothing, and wait for another place.
    Requeued,
    /// It has ended, and that was told.
    Over,
}

#[derive(Debug)]
pub(super) struct Part {
    pub(super) ask: Ask,
    /// Its job, as soon as Slurm has taken it.
    pub(super) job: Option<u64>,
    /// The order by which that was, or is to be, submitted.
    pub(super) submitted: u64,
    /// When it was last submitted without an answer: whether it was taken is not known.
    pub(super) unanswered: Option<Instant>,
    /// Whether it may have been submitted by a broker before this one.
    pub(super) maybe: bool,
    /// What is known of its job where Slurm's controller has forgotten it.
    pub(super) past: Option<Past>,
    /// How often it was looked for since then and was not there.
    pub(super) missed: u32,
    /// Of a job that somebody requeued: when Slurm is told to start it.
    pub(super) hurry: Option<Instant>,
}

#[derive(Debug)]
pub(super) struct Held {
    pub(super) order: OrderId,
    pub(super) parts: Vec<Part>,
    pub(super) asking: Option<Asking>,
    /// Whether the broker knows that it runs.
    pub(super) known: bool,
    pub(super) phase: Phase,
    pub(super) since: Instant,
    /// Since when Slurm says that all of it runs.
    pub(super) up: Option<Instant>,
    /// Whether a part of it has ended while a service was asked.
    pub(super) gone: Arc<AtomicBool>,
    /// When it was last seen to run: it has not ended before.
    pub(super) ran: Option<Instant>,
    /// Whether the broker knows that it is suspended.
    pub(super) halted: bool,
    /// Where its service answers.
    pub(super) addresses: Vec<String>,
    /// Jobs that were told to end.
    pub(super) told: BTreeSet<u64>,
}

/// Jobs by their marks, and by number.
#[derive(Debug)]
pub(super) struct Listing {
    /// When it was asked for.
    pub(super) asked: Instant,
    pub(super) named: BTreeMap<Mark, Vec<u64>>,
    pub(super) jobs: BTreeMap<u64, SlurmJob>,
}

impl Listing {
    pub(super) fn of(asked: Instant, jobs: Vec<SlurmJob>) -> Self {
        let mut listing = Self {
            asked,
            named: BTreeMap::new(),
            jobs: BTreeMap::new(),
        };
        for job in jobs {
            if let Some(mark) = super::script::named(&job.comment) {
                listing.named.entry(mark).or_default().push(job.id);
            }
            listing.jobs.insert(job.id, job);
        }
        listing
    }

    /// Jobs of a mark.
    pub(super) fn marked(&self, mark: Mark) -> impl Iterator<Item = &SlurmJob> {
        let numbers = self.named.get(&mark).into_iter().flatten();
        numbers.filter_map(|number| self.jobs.get(number))
    }

    /// Jobs of a lease that run, or will, with their marks.
    pub(super) fn alive(&self, lease: u32) -> impl Iterator<Item = (Mark, &SlurmJob)> {
        let of_lease = self
            .named
            .iter()
            .filter(move |(mark, _)| mark.lease == lease);
        let jobs = of_lease.flat_map(|(mark, numbers)| numbers.iter().map(move |one| (mark, one)));
        let jobs = jobs.filter_map(|(mark, number)| Some((*mark, self.jobs.get(number)?)));
        jobs.filter(|(_, job)| job.is_alive())
    }
}

/// Which of several jobs of one mark is its job: one that ran or runs before one that waits, and of those the one that is
/// known, else the first.
pub(super) fn chosen<'a>(
    known: Option<u64>,
    jobs: impl Iterator<Item = &'a SlurmJob>,
) -> Option<&'a SlurmJob> {
    let rank = |job: &&SlurmJob| {
        let ran = match job.state {
            JobPhase::Running | JobPhase::Suspended | JobPhase::Completing => true,
            JobPhase::Over(_) => job.ran,
            JobPhase::Pending => false,
        };
        (!ran, known != Some(job.id), !job.is_alive(), job.id)
    };
    jobs.min_by_key(rank)
}

/// What of one part a listing says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen<'a> {
    /// It is not submitted, or was just now.
    New,
    Job(&'a SlurmJob),
    /// Slurm knows nothing of it any more.
    Missing,
}

impl Held {
    /// Whether it ran, and does not, and not by its own doing.
    pub(super) fn is_troubled(&self, listing: &Listing) -> bool {
        let taken = |part: &Part| {
            let job = part.job.and_then(|job| listing.jobs.get(&job));
            job.is_some_and(|job| matches!(job.state, JobPhase::Pending | JobPhase::Over(None)))
        };
        matches!(self.phase, Phase::Running | Phase::Answering) && self.parts.iter().any(taken)
    }

    /// What Slurm says of its first job that waits for its nodes; `None`: none does.
    pub(super) fn queued(&self, listing: &Listing) -> Option<QueuedAnswer> {
        if !matches!(
            self.phase,
            Phase::Starting | Phase::Answering | Phase::Running
        ) {
            return None;
        }
        let jobs = self.parts.iter().filter_map(|part| part.job);
        let mut jobs = jobs.filter_map(|job| listing.jobs.get(&job));
        let job = jobs.find(|job| job.state == JobPhase::Pending)?;
        Some(QueuedAnswer {
            system: "Slurm".into(),
            job: Some(job.id),
            pod: None,
            priority: job.priority,
            reason: job.reason.clone(),
            account: job.account.clone(),
            fair_share: None,
        })
    }

    /// What is said of each part.
    pub(super) fn seen<'a>(&mut self, listing: &'a Listing) -> Vec<Seen<'a>> {
        let known = self.known;
        let each = self.parts.iter_mut().map(|part| {
            let found = part.job.and_then(|job| listing.jobs.get(&job));
            match (part.job, found) {
                (_, Some(job)) => {
                    part.missed = 0;
                    Seen::Job(job)
                }
                _ if part.past.is_some() => Seen::Missing,
                (None, None) if !known => Seen::New,
                _ => {
                    // A listing may be older than the job.
                    part.missed += 1;
                    if part.missed > 1 || known && part.job.is_none() {
                        Seen::Missing
                    } else {
                        Seen::New
                    }
                }
            }
        });
        each.collect()
    }
}

impl Seen<'_> {
    pub(super) fn is(self, phase: JobPhase) -> bool {
        matches!(self, Seen::Job(job) if job.state == phase)
    }

    /// Whether nothing of it runs, or will.
    pub(super) fn is_over(self) -> bool {
        match self {
            Seen::New => false,
            Seen::Missing => true,
            Seen::Job(job) => matches!(job.state, JobPhase::Over(_)),
        }
    }
}

impl Part {
    pub(super) fn new(ask: Ask, submitted: u64, maybe: bool) -> Self {
        Self {
            ask,
            job: None,
            submitted,
            unanswered: None,
            maybe,
            past: None,
            missed: 0,
            hurry: None,
        }
    }

    /// Whether its job may still appear that a listing does not have.
    pub(super) fn may_appear(&self, listing: &Listing) -> bool {
        let since = self.unanswered.filter(|_| self.job.is_none());
        since.is_some_and(|since| listing.asked < since + UNSETTLED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(id: u64, state: JobPhase, ran: bool) -> SlurmJob {
        SlurmJob {
            id,
            name: String::new(),
            comment: "gpuwise log=a lease=L-7 worker=0 order=12".into(),
            state,
            reason: String::new(),
            priority: None,
            account: None,
            ran,
            ended: None,
        }
    }

    #[test]
    fn of_jobs_of_one_mark_one_is_chosen() {
        use JobPhase::{Over, Pending, Running};
        let cases: [(Option<u64>, Vec<SlurmJob>, Option<u64>); 7] = [
            (None, vec![], None),
            (
                None,
                vec![job(5, Pending, false), job(4, Pending, false)],
                Some(4),
            ),
            (
                None,
                vec![job(4, Pending, false), job(5, Running, true)],
                Some(5),
            ),
            // The one that is known waits for one that was submitted beside it.
            (
                Some(5),
                vec![job(4, Running, true), job(5, Pending, false)],
                Some(4),
            ),
            (
                Some(5),
                vec![job(4, Over(None), true), job(5, Running, true)],
                Some(5),
            ),
            // It has run already: the other was submitted twice.
            (
                None,
                vec![job(4, Over(Some(0)), true), job(5, Pending, false)],
                Some(4),
            ),
            // A doublet that was cancelled before it ran.
            (
                None,
                vec![job(4, Over(None), false), job(5, Pending, false)],
                Some(5),
            ),
        ];
        for (known, jobs, wanted) in cases {
            assert_eq!(
                chosen(known, jobs.iter()).map(|job| job.id),
                wanted,
                "{jobs:?}"
            );
        }
    }

    #[test]
    fn jobs_of_a_lease_are_found_under_all_its_orders() {
        let mut older = job(4, JobPhase::Running, true);
        older.comment = "gpuwise log=a lease=L-7 worker=1 order=9".into();
        let over = job(6, JobPhase::Over(None), true);
        let all = vec![older, job(5, JobPhase::Pending, false), over];
        let listing = Listing::of(Instant::now(), all);
        let alive = |lease| -> Vec<u64> { listing.alive(lease).map(|(_, job)| job.id).collect() };
        assert_eq!((alive(7), alive(8)), (vec![5, 4], vec![]));
    }
}
