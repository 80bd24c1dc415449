//! Threads that send requests and read their answers, each with a runtime of its own.

use super::{
    client::{Client, Sending},
    exchange::{ResponseState, exchange},
    failure::Failure,
    measured::{Doubt, Measured},
    pace::{EndedRequest, Job},
    run::Counters,
    stop::Stop,
};
use gpuwise_domain::request::{Outcome, RequestRecord};
use std::{
    io,
    sync::{Arc, atomic::Ordering::Relaxed, mpsc},
};
use tokio::{sync::mpsc::UnboundedReceiver, task::JoinSet};

enum Ended<R> {
    Answered(R),
    TimedOut,
    Stopped,
}

/// What all requests of a worker share.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) client: Arc<Client>,
    pub(crate) sending: Arc<Sending>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) stop: Stop,
    pub(crate) freed: mpsc::Sender<EndedRequest>,
    pub(crate) measured: mpsc::Sender<Measured>,
    /// Connections to make beforehand.
    pub(crate) connections: usize,
}

impl Worker {
    /// Makes connections, says that it is ready, and works until nothing more comes.
    pub(crate) fn run(
        self,
        mut jobs: UnboundedReceiver<Job>,
        ready: &mpsc::Sender<()>,
    ) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let worker = Arc::new(self);
        runtime.block_on(async {
            for _ in 0..worker.connections {
                // Why none can be made is told by the requests that need one.
                if worker.client.open_idle().await.is_err() {
                    break;
                }
            }
            let _ = ready.send(());
            let mut tasks = JoinSet::new();
            while let Some(job) = jobs.recv().await {
                while tasks.try_join_next().is_some() {}
                tasks.spawn(Arc::clone(&worker).serve(job));
            }
            while tasks.join_next().await.is_some() {}
        });
        Ok(())
    }

    async fn serve(self: Arc<Self>, job: Job) {
        // Nobody repeats what comes last, or outside of a session.
        let repeated = job.request.session.is_some() && !job.request.closes;
        let mut seen = ResponseState::new(repeated && job.request.answer.is_some());
        self.counters.in_flight.fetch_add(1, Relaxed);
        let mut stop = self.stop.watch();
        let ended = tokio::select! {
            biased;
            answered = exchange(&self.client, &self.sending, &job.body, &mut seen, &self.counters.pieces) => Ended::Answered(answered),
            _ = stop.wait_for(|stopped| *stopped) => Ended::Stopped,
            () = tokio::time::sleep(self.sending.timeout) => Ended::TimedOut,
        };
        self.counters.in_flight.fetch_sub(1, Relaxed);
        let (failure, rest) = match ended {
            Ended::Answered(Ok(rest)) => (None, rest),
            Ended::Answered(Err(failure)) => (Some(failure), None),
            Ended::TimedOut => (Some(Failure::TimedOut(seen.stage())), None),
            Ended::Stopped => (Some(Failure::Unfinished(seen.stage())), None),
        };
        let text = seen.text.take();
        let measured = self.measured(&job, seen, failure);
        // Whoever no longer listens has ended the run.
        let _ = self.freed.send(EndedRequest {
            at: self.client.route.clock.now(),
            session: job.request.session,
            closes: job.request.closes,
            answer: job.request.answer.zip(text),
        });
        let _ = self.measured.send(measured);
        if let Some(rest) = rest {
            rest.read(&self.client).await;
        }
    }

    fn measured(&self, job: &Job, seen: ResponseState, failure: Option<Failure>) -> Measured {
        let now = self.client.route.clock.now();
        let sent = seen.sent.unwrap_or(now);
        let request = &job.request;
        let pieces = u32::try_from(seen.pieces.len()).unwrap_or(u32::MAX);
        let (output, doubt) = if failure.is_some() {
            (pieces, None)
        } else {
            self.output(&seen, pieces, request.output)
        };
        let end = match failure {
            Some(_) => now,
            None => seen.pieces.last().copied().or(seen.whole).unwrap_or(now),
        };
        let counted = |count: Option<u64>| count.and_then(|count| u32::try_from(count).ok());
        let record = RequestRecord {
            number: job.number,
            due: job.due,
            sent,
            scheduled: None,
            first_token: seen.pieces.first().copied(),
            end,
            input: counted(seen.usage.and_then(|usage| usage.prompt)).unwrap_or(request.input),
            output,
            cached: counted(seen.usage.and_then(|usage| usage.cached)),
            preemptions: 0,
            retries: seen.retries,
            tenant: request.tenant,
            stage: request.stage,
            session: request.session,
            replica: None,
            outcome: failure
                .as_ref()
                .map_or(Outcome::Completed, Failure::outcome),
        };
        Measured {
            record,
            pieces: seen.pieces.into(),
            usage: seen.usage,
            timings: seen.timings,
            requested_input: request.input,
            requested_output: request.output,
            connect: seen.connect,
            failure,
            doubt,
        }
    }

    /// Tokens of a whole answer: as the server counted them, where that can be.
    fn output(&self, seen: &ResponseState, pieces: u32, asked: u32) -> (u32, Option<Doubt>) {
        let least = pieces.max(1);
        let counted = seen.usage.and_then(|usage| usage.completion);
        let asked_otherwise = ["max_tokens", "max_completion_tokens", "n"]
            .iter()
            .any(|name| self.sending.bodies.extra.contains_key(*name));
        match counted {
            None if seen.pieces.is_empty() => (0, Some(Doubt::Unknown)),
            None => (least, Some(Doubt::Absent)),
            Some(count) if count < u64::from(pieces) => (least, Some(Doubt::TooFew)),
            Some(count) if count > u64::from(asked.max(least)) && !asked_otherwise => {
                if seen.pieces.is_empty() {
                    (0, Some(Doubt::Unknown))
                } else {
                    (least, Some(Doubt::TooMany))
                }
            }
            Some(count) => (u32::try_from(count).unwrap_or(least), None),
        }
    }
}
