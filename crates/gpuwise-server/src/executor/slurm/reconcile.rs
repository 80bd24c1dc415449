//! What a listing of Slurm's jobs means for a lease: what is done next, and what is told.

use super::{
    super::asking::Waited,
    commands::{Refused, run},
    held::{Held, Listing, Phase, Seen},
    jobs::JobPhase,
    script::{KILLS, MISSING, begun},
    told::{NOW, cancel, scancel},
    work::{Answered, Worker},
};
use gpuwise_broker::{Observation, ended_by};
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
        let stays = match held.phase {
            Phase::Starting => self.starting(job, &mut held, &seen),
            Phase::Answering | Phase::Running => self.running(job, &mut held, &seen),
            Phase::Stopping { order, end, killed } => {
                let over = seen.iter().all(|one| one.is_over() || *one == Seen::New);
                if over {
                    self.tell(Observation::Done(order));
                } else if !killed && Instant::now() >= end {
                    for job in held.parts.iter().filter_map(|part| part.job) {
                        scancel(&[KILLS, "--batch"], job);
                        // Where its shell does not hear.
                        scancel(&[], job);
                    }
                    held.phase = Phase::Stopping {
                        order,
                        end,
                        killed: true,
                    };
                }
                !over
            }
            Phase::Requeueing(order) => self.requeueing(order, &mut held, &seen),
            Phase::Requeued | Phase::Over => true,
        };
        if stays {
            self.held.insert(job, held);
        }
    }

    fn requeueing(
        &self,
        order: gpuwise_broker::OrderId,
        held: &mut Held,
        seen: &[Seen<'_>],
    ) -> bool {
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
    fn starting(&self, job: JobId, held: &mut Held, seen: &[Seen<'_>]) -> bool {
        let missing = held.known && seen.contains(&Seen::Missing);
        if missing || seen.iter().any(|one| one.is_over()) {
            return self.ended(job, held, seen);
        }
        for at in 0..held.parts.len() {
            if held.parts[at].job.is_some() {
                continue;
            }
            match self.submit(job, held, at) {
                Ok(number) => held.parts[at].job = Some(number),
                Err(Refused::No(why)) => return self.fails(held, &why),
                // Whether it was taken is seen at the next look.
                Err(Refused::Silent(_)) => return true,
            }
        }
        if seen.iter().all(|one| one.is(JobPhase::Running)) {
            let since = *held.up.get_or_insert_with(Instant::now);
            let begun = held.known || self.has_begun(job, held) || since.elapsed() >= UNSEEN;
            return !begun || self.up(job, held);
        }
        let waits = seen.iter().find_map(|one| match one {
            Seen::Job(job) if job.state == JobPhase::Pending => Some(job.reason.clone()),
            _ => None,
        });
        match waits {
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

    /// Whether commands of all its jobs were found: to Slurm one whose program is not there runs for a moment, too.
    fn has_begun(&self, job: JobId, held: &Held) -> bool {
        let mut parts = held.parts.iter();
        parts.all(|part| begun(&self.place.end_file(job, part.ask.worker)).exists())
    }

    fn fails(&self, held: &Held, reason: &str) -> bool {
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
                self.endpoints.set(job.0, addresses);
                if !known {
                    self.tell(Observation::Done(order));
                }
            }
            Err(reason) => {
                if let Some(held) = self.held.remove(&job) {
                    self.fails(&held, &reason);
                }
            }
        }
    }

    fn running(&self, job: JobId, held: &mut Held, seen: &[Seen<'_>]) -> bool {
        let lost = |part: &super::held::Part| self.nodes.is_down(&part.ask.nodes);
        let off = |one: &Seen<'_>| one.is(JobPhase::Pending) || one.is(JobPhase::Over(None));
        if seen.iter().any(off) && held.parts.iter().any(lost) {
            // That its node is down is told, and where it goes then is decided anew.
            held.gone.store(true, Ordering::SeqCst);
            self.endpoints.remove(job.0);
            cancel(held, &[]);
            held.phase = Phase::Over;
            return true;
        }
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

    /// A part of it has ended, or is not known any more.
    fn ended(&self, job: JobId, held: &mut Held, seen: &[Seen<'_>]) -> bool {
        let over = seen.iter().zip(&held.parts).find(|(one, _)| one.is_over());
        let Some((one, part)) = over else {
            return true;
        };
        let worker = part.ask.worker;
        let (code, ran, why) = match one {
            Seen::Job(job) => match job.state {
                JobPhase::Over(code) => (code, job.ran, job.reason.clone()),
                _ => (None, job.ran, job.reason.clone()),
            },
            // Slurm forgets jobs some minutes after their end; how they ended, they have written.
            _ => (
                None,
                true,
                "Slurm knows nothing of its job any more".to_owned(),
            ),
        };
        let code = code.or_else(|| self.place.end(job, worker));
        if !held.known && !ran {
            return self.fails(held, &format!("Slurm ended it before it ran: {why}"));
        }
        if !held.known && code == Some(MISSING) {
            let program = part
                .ask
                .words
                .first()
                .map(String::as_str)
                .unwrap_or_default();
            let node = part.ask.nodes.join(", ");
            let what = format!("{program:?} cannot be started: there is no such program on {node}");
            return self.fails(held, &what);
        }
        let (code, said) = match code {
            None => (None, format!("Slurm ended it: {why}")),
            code => ended_by(code),
        };
        let said = match held.parts.len() {
            1 => said,
            _ => format!("worker {worker}: {said}"),
        };
        if !held.known && held.asking.is_some() {
            held.gone.store(true, Ordering::SeqCst);
            return self.fails(held, &format!("{said} before it was ready"));
        }
        if !held.known {
            // As if its end had followed its start at once.
            self.tell(Observation::Done(held.order));
        }
        self.exits(job, held, code, said)
    }

    fn exits(&self, job: JobId, held: &mut Held, code: Option<i32>, reason: String) -> bool {
        held.gone.store(true, Ordering::SeqCst);
        self.endpoints.remove(job.0);
        cancel(held, &[]);
        self.tell(Observation::Exited {
            job,
            order: held.order,
            code,
            reason,
        });
        held.phase = Phase::Over;
        true
    }
}
