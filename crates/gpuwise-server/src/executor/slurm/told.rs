//! What the thread that asks Slurm is told, as what is held of leases: what is started, stopped, requeued.

use super::{
    super::asking::Asking,
    GRACE,
    commands::{Refused, run},
    held::{Held, Part, Phase},
    script::{Ask, ENDS, begun},
    work::Worker,
};
use gpuwise_broker::{Observation, OrderId};
use gpuwise_domain::placement::JobId;
use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, Instant},
};

/// What is to run of a lease.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) order: OrderId,
    pub(super) job: JobId,
    pub(super) parts: Vec<Ask>,
    pub(super) asking: Option<Asking>,
    /// Whether it was started before, and is only to be found.
    pub(super) known: bool,
}

#[derive(Debug)]
pub(super) enum Told {
    /// All that is to be found; what else there is of this log is ended. Nodes with the features that the fleet says.
    Adopt(Vec<Start>, BTreeMap<String, Vec<String>>),
    Start(Start),
    Stop {
        order: OrderId,
        job: JobId,
        grace: Duration,
    },
    /// Its GPUs are given up, and its jobs held.
    Requeue {
        order: OrderId,
        job: JobId,
    },
    Forget(JobId),
}

impl Worker {
    pub(super) fn take(&mut self, told: Told) {
        match told {
            Told::Adopt(starts, features) => {
                self.nodes.expect(features);
                for start in starts {
                    self.hold(start);
                }
                self.adopted = true;
            }
            Told::Start(start) => {
                let waits = self.held.remove(&start.job);
                match waits {
                    Some(held) if held.phase == Phase::Requeued => self.release(held, start),
                    Some(held) => {
                        // It moves, or is started anew: what ran before ends first.
                        self.endpoints.remove(start.job.0);
                        cancel(&held, &[]);
                        self.hold(start);
                    }
                    None => self.hold(start),
                }
            }
            Told::Stop { order, job, grace } => self.stop(order, job, grace),
            Told::Requeue { order, job } => self.requeue(order, job),
            Told::Forget(job) => {
                self.endpoints.remove(job.0);
                if let Some(held) = self.held.remove(&job) {
                    cancel(&held, &[]);
                }
            }
        }
    }

    /// How one before it began and ended says nothing of the next.
    fn forget_end(&self, job: JobId, worker: usize) {
        let end = self.place.end_file(job, worker);
        let _ = std::fs::remove_file(begun(&end));
        let _ = std::fs::remove_file(end);
    }

    fn hold(&mut self, start: Start) {
        for ask in &start.parts {
            if !start.known {
                self.forget_end(start.job, ask.worker);
            }
        }
        let parts = start.parts.into_iter().map(|ask| Part {
            ask,
            job: None,
            missed: 0,
            hurry: None,
        });
        let held = Held {
            order: start.order,
            parts: parts.collect(),
            asking: start.asking,
            known: start.known,
            phase: Phase::Starting,
            since: Instant::now(),
            up: None,
            gone: Arc::new(AtomicBool::new(false)),
        };
        self.held.insert(start.job, held);
    }

    /// What was requeued and is held runs again, on other nodes: under the numbers that people know it by.
    fn release(&mut self, mut held: Held, start: Start) {
        let alike = held.parts.len() == start.parts.len()
            && held.parts.iter().zip(&start.parts).all(|(before, now)| {
                before.ask.nodes.len() == now.nodes.len() && before.ask.words == now.words
            });
        let released = alike
            && held.parts.iter().zip(&start.parts).all(|(before, now)| {
                let comment = now.comment(&self.log, start.order.0);
                before
                    .job
                    .is_some_and(|job| released(job, &before.ask, now, &comment))
            });
        if !released {
            cancel(&held, &[]);
            return self.hold(start);
        }
        for (part, ask) in held.parts.iter_mut().zip(start.parts) {
            self.forget_end(start.job, ask.worker);
            (part.ask, part.missed) = (ask, 0);
        }
        (held.order, held.known, held.asking) = (start.order, false, start.asking);
        (held.phase, held.since, held.up) = (Phase::Starting, Instant::now(), None);
        held.gone = Arc::new(AtomicBool::new(false));
        self.held.insert(start.job, held);
    }

    /// Its number at Slurm.
    pub(super) fn submit(&self, job: JobId, held: &Held, at: usize) -> Result<u64, Refused> {
        let mut ask = held.parts[at].ask.clone();
        let node = ask.nodes.first().cloned().unwrap_or_default();
        ask.kind = ask.kind.and_then(|kind| self.nodes.kind(&node, &kind));
        let worker = u32::try_from(ask.worker).unwrap_or(u32::MAX);
        let log = self.place.log_file(job.0, worker).display().to_string();
        let end = self.place.end_file(job, ask.worker);
        let comment = ask.comment(&self.log, held.order.0);
        let words = ask.arguments(&self.settings, &comment, &log);
        let said = run("sbatch", &words, &ask.script(&end))?;
        // On several clusters it says which.
        let number = said
            .trim()
            .split(';')
            .next()
            .and_then(|word| word.parse().ok());
        number.ok_or_else(|| Refused::Silent(format!("sbatch said {said:?}")))
    }

    fn stop(&mut self, order: OrderId, job: JobId, grace: Duration) {
        self.endpoints.remove(job.0);
        let Some(held) = self.held.get_mut(&job) else {
            return self.tell(Observation::Done(order));
        };
        for job in held.parts.iter().filter_map(|part| part.job) {
            // What does not run has nothing to save.
            if grace.is_zero() || matches!(held.phase, Phase::Starting | Phase::Requeued) {
                scancel(&[], job);
            } else {
                scancel(&[ENDS, "--batch"], job);
            }
        }
        held.phase = Phase::Stopping {
            order,
            end: Instant::now() + grace,
            killed: false,
        };
    }

    fn requeue(&mut self, order: OrderId, job: JobId) {
        self.endpoints.remove(job.0);
        let runs = (self.held.get(&job)).is_some_and(|held| {
            matches!(held.phase, Phase::Running | Phase::Answering)
                && held.parts.iter().all(|part| part.job.is_some())
        });
        if !runs {
            return self.stop(order, job, GRACE);
        }
        let Some(held) = self.held.get_mut(&job) else {
            return;
        };
        let numbers: Vec<u64> = held.parts.iter().filter_map(|part| part.job).collect();
        held.phase = Phase::Requeueing(order);
        let refused = numbers.iter().any(|number| {
            let words = ["requeuehold".to_owned(), number.to_string()];
            matches!(run("scontrol", &words, ""), Err(Refused::No(_)))
        });
        if refused {
            // Such as a cluster where JobRequeue is off.
            self.stop(order, job, GRACE);
        }
    }
}

/// Ends all jobs of a lease but these.
pub(super) fn cancel(held: &Held, but: &[u64]) {
    let jobs = held.parts.iter().filter_map(|part| part.job);
    jobs.filter(|job| !but.contains(job))
        .for_each(|job| scancel(&[], job));
}

/// Where it is refused, the next look finds the job still there.
pub(super) fn scancel(more: &[&str], job: u64) {
    let mut words: Vec<String> = more.iter().map(|&word| word.into()).collect();
    words.push(job.to_string());
    let _ = run("scancel", &words, "");
}

/// A requeued job starts at once: Slurm alone would wait for two minutes.
pub(super) const NOW: &str = "StartTime=now";

/// Sends a held job to other nodes; `false`: Slurm does not want that.
fn released(job: u64, before: &Ask, now: &Ask, comment: &str) -> bool {
    let mut words = vec![
        "update".to_owned(),
        format!("JobId={job}"),
        format!("ReqNodeList={}", now.nodes.join(",")),
        NOW.to_owned(),
        format!("Comment={comment}"),
    ];
    if before.gres() != now.gres() {
        words.push(format!("TresPerNode=gres:{}", now.gres()));
    }
    let release = ["release".to_owned(), job.to_string()];
    run("scontrol", &words, "").is_ok() && run("scontrol", &release, "").is_ok()
}
