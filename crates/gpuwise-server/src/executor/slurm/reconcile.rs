//! What a listing of Slurm's jobs means for a lease: what is done next, and what is told.

use super::{
    super::asking::Waited,
    commands::{Refused, run},
    files,
    held::{Held, Listing, Phase, Seen},
    jobs::{JobPhase, SlurmJob},
    script::KILLS,
    told::{NOW, cancel, scancel},
    work::{Answered, Worker},
};
use gpuwise_broker::{Observation, OrderId};
use gpuwise_domain::placement::JobId;
use std::{
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

/// From when a requeued job is seen until Slurm is told to start it, and between two such words.
const AFTER: Duration = Duration::from_secs(2);
const AGAIN: Duration = Duration::from_secs(10);

/// How long a job runs, to Slurm, whose script has not said that it begins: a file of another node may be seen late.
const UNSEEN: Duration = Duration::from_secs(10);

impl Worker {
    pub(super) fn reconcile(&mut self, job: JobId, listing: &Listing) {
        let Some(mut held) = self.held.remove(&job) else {
            return;
        };
        let seen = held.seen(listing);
        if seen.iter().any(|one| one.is(JobPhase::Running)) {
            held.ran = Some(listing.asked);
        }
        let stays = match held.phase {
            Phase::Starting => self.starting(job, &mut held, &seen, listing),
            Phase::Answering | Phase::Running => self.running(job, &mut held, &seen),
            Phase::Stopping { .. } => self.stopping(job, &mut held, &seen, listing),
            Phase::Requeueing(order) => self.requeueing(order, &mut held, &seen),
            Phase::Requeued | Phase::Over => true,
        };
        if stays {
            self.held.insert(job, held);
        }
    }

    /// Until nothing of the lease is alive, by whichever order it was submitted, and nothing may appear any more.
    fn stopping(&self, job: JobId, held: &mut Held, seen: &[Seen<'_>], listing: &Listing) -> bool {
        let Phase::Stopping {
            order,
            grace,
            end,
            killed,
        } = held.phase
        else {
            return true;
        };
        let alive: Vec<&SlurmJob> = listing.alive(job.0).map(|(_, job)| job).collect();
        let settled = held.parts.iter().zip(seen).all(|(part, seen)| {
            let none = part.job.is_none() && !part.may_appear(listing);
            none || seen.is_over()
        });
        if alive.is_empty() && settled {
            self.ended_before_it_was_told(job, held, listing);
            self.tell(Observation::Done(order));
            return false;
        }
        for one in &alive {
            held.tell_to_end(one.id, Some(one.state), grace);
        }
        if !killed && Instant::now() >= end {
            for one in &alive {
                scancel(&[KILLS, "--batch"], one.id);
                // Where its shell does not hear.
                scancel(&[], one.id);
            }
            held.phase = Phase::Stopping {
                order,
                grace,
                end,
                killed: true,
            };
        }
        true
    }

    fn requeueing(&self, order: OrderId, held: &mut Held, seen: &[Seen<'_>]) -> bool {
        if seen.iter().any(|one| one.is_over()) {
            // It ended before it could be requeued: it gives its GPUs up all the same, and is started anew.
            cancel(held, &[]);
            self.tell(Observation::Done(order));
            return false;
        }
        if seen.iter().all(|one| one.is(JobPhase::Pending)) {
            self.tell(Observation::Done(order));
            held.phase = Phase::Requeued;
        }
        true
    }

    /// Whether it is still held.
    fn starting(
        &mut self,
        job: JobId,
        held: &mut Held,
        seen: &[Seen<'_>],
        listing: &Listing,
    ) -> bool {
        let missing = held.known && seen.contains(&Seen::Missing);
        if missing || seen.iter().any(|one| one.is_over()) {
            return self.ended(job, held, seen);
        }
        let waits = match self.submit_all(job, held, listing) {
            Ok(waits) => waits,
            Err(why) => return self.fails(held, &why),
        };
        let runs =
            |one: &Seen<'_>| one.is(JobPhase::Running) || held.known && one.is(JobPhase::Suspended);
        if seen.iter().all(runs) {
            if self.is_halted(job, held, seen) {
                return true;
            }
            let since = *held.up.get_or_insert_with(Instant::now);
            let begun = held.known || self.has_begun(job, held) || since.elapsed() >= UNSEEN;
            return !begun || self.up(job, held);
        }
        let pending = seen.iter().find_map(|one| match one {
            Seen::Job(job) if job.state == JobPhase::Pending => Some(job.reason.clone()),
            _ => None,
        });
        match waits.or(pending) {
            Some(why) if held.since.elapsed() > self.settings.patience && !held.known => {
                let minutes = self.settings.patience.as_secs_f64() / 60.0;
                self.fails(
                    held,
                    &format!("Slurm did not start it within {minutes} min: {why}"),
                )
            }
            _ => true,
        }
    }

    /// Submits the parts that are not, where that is known of them. What it waits for, if for something.
    ///
    /// # Errors
    /// With what Slurm says where it does not take one.
    fn submit_all(
        &mut self,
        job: JobId,
        held: &mut Held,
        listing: &Listing,
    ) -> Result<Option<String>, String> {
        let mut missing = held
            .parts
            .iter()
            .filter(|part| part.job.is_none())
            .peekable();
        if missing.peek().is_none() {
            return Ok(None);
        }
        if missing.any(|part| part.may_appear(listing)) {
            return Ok(Some(
                "Slurm has not said whether it has taken its job".into(),
            ));
        }
        let other = |mark: &super::script::Mark| mark.order != held.order.0;
        let before = listing.alive(job.0).find(|(mark, _)| other(mark));
        if let Some((_, before)) = before {
            // It moves, or is started anew: what ran before ends first.
            let why = format!("its job of before, {}, has not ended yet", before.id);
            return Ok(Some(why));
        }
        if self.has_run(job, held) {
            // The next look goes on from there.
            return Ok(None);
        }
        for at in 0..held.parts.len() {
            if held.parts[at].job.is_some() {
                continue;
            }
            match self.submit(job, held, at) {
                Ok(number) => {
                    held.parts[at].job = Some(number);
                    held.parts[at].submitted = held.order.0;
                }
                Err(Refused::No(why)) => return Err(why),
                // Whether it was taken is seen by a later look.
                Err(Refused::Silent(why)) => {
                    let now = Instant::now();
                    self.unanswered = Some(now);
                    held.parts[at].unanswered = Some(now);
                    self.says(Refused::Silent(why.clone()));
                    return Ok(Some(why));
                }
            }
        }
        Ok(None)
    }

    /// Whether commands of all its jobs were found: to Slurm one whose program is not there runs for a moment, too.
    fn has_begun(&self, job: JobId, held: &Held) -> bool {
        let mut parts = held.parts.iter();
        parts.all(|part| {
            let end = files::end_file(&self.place, job, part.ask.worker, part.submitted);
            files::begun(&end).exists()
        })
    }

    pub(super) fn fails(&self, held: &Held, reason: &str) -> bool {
        cancel(held, &[]);
        self.tell(Observation::failed(held.order, reason.to_owned()));
        false
    }

    /// All its jobs run.
    fn up(&self, job: JobId, held: &mut Held) -> bool {
        let Some(asking) = held.asking.clone() else {
            held.phase = Phase::Running;
            if !held.known {
                self.tell(Observation::Done(held.order));
            }
            held.known = true;
            return true;
        };
        held.phase = Phase::Answering;
        let addresses: Vec<String> = held
            .parts
            .iter()
            .filter_map(|part| {
                let node = self.nodes.address(part.ask.nodes.first()?);
                Some(format!("{node}:{}", part.ask.port?))
            })
            .collect();
        let (gone, answers) = (held.gone.clone(), self.answers.0.clone());
        let order = held.order;
        thread::spawn(move || {
            let came = match asking.wait(&addresses, || gone.load(Ordering::SeqCst)) {
                Waited::Ready => Ok(addresses),
                // Who looks at the jobs says so.
                Waited::Gone => return,
                Waited::Late(reason) => Err(reason),
            };
            let _ = answers.send(Answered { job, order, came });
        });
        true
    }

    /// A service has answered, or has not in time.
    pub(super) fn answered(&mut self, answered: Answered) {
        let Answered { job, order, came } = answered;
        let held = self.held.get_mut(&job);
        let waits = |held: &&mut Held| held.order == order && held.phase == Phase::Answering;
        let Some(held) = held.filter(waits) else {
            return;
        };
        match came {
            Ok(addresses) => {
                let known = std::mem::replace(&mut held.known, true);
                held.phase = Phase::Running;
                held.addresses.clone_from(&addresses);
                if !held.halted {
                    self.endpoints.set(job.0, addresses);
                }
                if !known {
                    self.tell(Observation::Done(order));
                }
            }
            // What is suspended does not answer: it is asked again once it runs.
            Err(_) if held.halted => held.phase = Phase::Starting,
            Err(reason) => {
                if let Some(held) = self.held.remove(&job) {
                    self.fails(&held, &reason);
                }
            }
        }
    }

    fn running(&mut self, job: JobId, held: &mut Held, seen: &[Seen<'_>]) -> bool {
        let nodes = &self.nodes;
        let lost = |part: &super::held::Part| nodes.is_down(&part.ask.nodes);
        let off = |one: &Seen<'_>| one.is(JobPhase::Pending) || one.is(JobPhase::Over(None));
        if seen.iter().any(off) && held.parts.iter().any(lost) {
            // That its node is down is told, and where it goes then is decided anew.
            held.gone.store(true, Ordering::SeqCst);
            self.endpoints.remove(job.0);
            cancel(held, &[]);
            held.phase = Phase::Over;
            return true;
        }
        self.is_halted(job, held, seen);
        // Who was requeued by somebody else starts again where it was, by Slurm. Not at once: a node's daemon refuses a
        // job ("job credential revoked") in the second in which it ended the one before under the same number.
        for (one, part) in seen.iter().zip(&mut held.parts) {
            let (true, Some(number)) = (one.is(JobPhase::Pending), part.job) else {
                part.hurry = None;
                continue;
            };
            let hurry = part.hurry.get_or_insert_with(|| Instant::now() + AFTER);
            if *hurry <= Instant::now() {
                let words = ["update".into(), format!("JobId={number}"), NOW.into()];
                // Where it is refused it waits.
                let _ = run("scontrol", &words, "");
                *hurry = Instant::now() + AGAIN;
            }
        }
        !seen.iter().any(|one| one.is_over()) || self.ended(job, held, seen)
    }
}
