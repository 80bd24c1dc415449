//! What the thread that asks Slurm is told, as what is held of leases: what is started, stopped, requeued.

use super::{
    super::asking::Asking,
    GRACE,
    commands::{Refused, run},
    files,
    held::{Held, Part, Phase},
    jobs::JobPhase,
    script::{Ask, ENDS},
    work::Worker,
};
use gpuwise_broker::OrderId;
use gpuwise_domain::placement::JobId;
use std::{
    collections::{BTreeMap, BTreeSet},
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
    /// Whether a broker before this one may have submitted it.
    pub(super) maybe: bool,
}

/// What a broker that begins knows of its log.
#[derive(Debug)]
pub(super) struct Adopted {
    /// By what the log's jobs are known at Slurm.
    pub(super) log: String,
    /// All that runs, and is to be found.
    pub(super) starts: Vec<Start>,
    /// Orders that are to be told again: their jobs may be there, and are left alone until then.
    pub(super) expected: BTreeSet<(JobId, u64)>,
    /// Features of nodes, as the fleet says them.
    pub(super) features: BTreeMap<String, Vec<String>>,
}

#[derive(Debug)]
pub(super) enum Told {
    /// What is to be found; what else there is of this log is ended.
    Adopt(Adopted),
    /// Every order of before has been told again that still is one.
    All,
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
            Told::Adopt(adopted) => {
                self.log = adopted.log;
                self.nodes.expect(adopted.features);
                self.expected = adopted.expected;
                for start in adopted.starts {
                    self.hold(start);
                }
                self.adopted = true;
            }
            Told::All => self.expected.clear(),
            Told::Start(start) => {
                self.expects_no_more(start.job);
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
                self.expects_no_more(job);
                self.endpoints.remove(job.0);
                if let Some(held) = self.held.remove(&job) {
                    cancel(&held, &[]);
                }
            }
        }
    }

    /// What a lease was told last is known: what is of another order is ended.
    fn expects_no_more(&mut self, job: JobId) {
        self.expected.retain(|(expected, _)| *expected != job);
    }

    fn hold(&mut self, start: Start) {
        let (job, order) = (start.job, start.order.0);
        let part = |ask: Ask| {
            let submitted = files::submission(&self.place, job, ask.worker, order);
            Part::new(ask, submitted, start.maybe)
        };
        let parts = start.parts.into_iter().map(part).collect();
        let mut held = Held::new(start.order, parts);
        (held.asking, held.known) = (start.asking, start.known);
        self.held.insert(job, held);
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
                // Before it runs by another order it is known by which one it was submitted.
                let orders = (start.order.0, before.submitted);
                let kept = files::keep_release(&self.place, start.job, now.worker, orders);
                let number = before.job.filter(|_| kept.is_ok());
                number.is_some_and(|job| released(job, &before.ask, now, &comment))
            });
        if !released {
            cancel(&held, &[]);
            return self.hold(start);
        }
        for (part, ask) in held.parts.iter_mut().zip(start.parts) {
            // Its script removes them, too; a file of another node may be seen late.
            let end = files::end_file(&self.place, start.job, ask.worker, part.submitted);
            let _ = std::fs::remove_file(files::begun(&end));
            let _ = std::fs::remove_file(end);
            (part.ask, part.missed) = (ask, 0);
        }
        (held.order, held.known, held.asking) = (start.order, false, start.asking);
        (held.phase, held.since, held.up) = (Phase::Starting, Instant::now(), None);
        (held.ran, held.halted, held.gone) = (None, false, Arc::new(AtomicBool::new(false)));
        self.held.insert(start.job, held);
    }

    /// Its number at Slurm.
    pub(super) fn submit(&self, job: JobId, held: &Held, at: usize) -> Result<u64, Refused> {
        let mut ask = held.parts[at].ask.clone();
        let node = ask.nodes.first().cloned().unwrap_or_default();
        ask.kind = ask.kind.and_then(|kind| self.nodes.kind(&node, &kind));
        let worker = u32::try_from(ask.worker).unwrap_or(u32::MAX);
        let log = self.place.log_file(job.0, worker).display().to_string();
        let end = files::end_file(&self.place, job, ask.worker, held.order.0);
        let words = ask.arguments(&self.settings, (&self.log, held.order.0), &log);
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
        self.expects_no_more(job);
        self.endpoints.remove(job.0);
        // Of what is not held a broker before this one may have submitted something: a look says it.
        let held = self.held.entry(job);
        let held = held.or_insert_with(|| Held::new(order, Vec::new()));
        // What does not run has nothing to save.
        let grace = match held.phase {
            Phase::Starting if !held.known => Duration::ZERO,
            Phase::Requeued => Duration::ZERO,
            _ => grace,
        };
        held.since = Instant::now();
        held.told.clear();
        held.phase = Phase::Stopping {
            order,
            grace,
            end: held.since + grace,
            killed: false,
        };
        let numbers: Vec<u64> = held.parts.iter().filter_map(|part| part.job).collect();
        for number in numbers {
            held.tell_to_end(number, None, grace);
        }
    }

    fn requeue(&mut self, order: OrderId, job: JobId) {
        self.expects_no_more(job);
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

impl Held {
    pub(super) fn new(order: OrderId, parts: Vec<Part>) -> Self {
        Self {
            order,
            parts,
            asking: None,
            known: false,
            phase: Phase::Starting,
            since: Instant::now(),
            up: None,
            gone: Arc::new(AtomicBool::new(false)),
            ran: None,
            halted: false,
            addresses: Vec::new(),
            told: BTreeSet::new(),
        }
    }

    /// Asks a job to end, once: what runs has its grace.
    pub(super) fn tell_to_end(&mut self, number: u64, state: Option<JobPhase>, grace: Duration) {
        if !self.told.insert(number) {
            return;
        }
        if grace.is_zero() || state == Some(JobPhase::Pending) {
            scancel(&[], number);
        } else {
            scancel(&[ENDS, "--batch"], number);
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
