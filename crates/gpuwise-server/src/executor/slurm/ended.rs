//! What has ended: how, and when.

use super::{
    accounting::Past,
    files,
    held::{Held, Listing, Part, Phase, Seen},
    jobs::JobPhase,
    script::MISSING,
    told::cancel,
    work::Worker,
};
use gpuwise_broker::{Observation, ended_by};
use gpuwise_domain::placement::JobId;
use gpuwise_units::Nanoseconds;
use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// How long ago something ended, by a clock that may be another machine's: not in the future, and not before it was last
/// seen to run.
fn ago(ended: Option<u64>, ran: Option<Instant>) -> Option<Nanoseconds> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    let ago = now.saturating_sub(Duration::from_secs(ended?));
    let ago = ran.map_or(ago, |ran| ago.min(ran.elapsed()));
    u64::try_from(ago.as_nanos()).ok().map(Nanoseconds)
}

impl Worker {
    /// Whether a part that is about to be submitted, and may have been before, has run already: by what its job wrote,
    /// or what Slurm's accounting says. That is kept of it then.
    pub(super) fn has_run(&mut self, job: JobId, held: &mut Held) -> bool {
        let doubtful =
            |part: &Part| part.job.is_none() && (part.maybe || part.unanswered.is_some());
        let mut ran = false;
        for part in held.parts.iter_mut().filter(|part| doubtful(part)) {
            let end = files::end_file(&self.place, job, part.ask.worker, part.submitted);
            part.past = self.past_of(part);
            if part.past.is_none() && files::begun(&end).exists() {
                part.past = Some(Past::default());
            }
            ran |= part.past.is_some();
        }
        ran
    }

    /// What Slurm's accounting says of a part's job.
    fn past_of(&mut self, part: &Part) -> Option<Past> {
        let name = part.ask.name(&self.log, part.submitted);
        self.accounting
            .past(std::slice::from_ref(&name))
            .remove(&name)
    }

    /// What ended before it was told to is told with when that was, so that it is not charged until now.
    pub(super) fn ended_before_it_was_told(&self, job: JobId, held: &Held, listing: &Listing) {
        let told = held.since.elapsed();
        let jobs = held.parts.iter().filter_map(|part| part.job);
        let mut jobs = jobs.filter_map(|number| listing.jobs.get(&number));
        let over = jobs.find_map(|one| match one.state {
            JobPhase::Over(code) if one.ran => Some((code, ago(one.ended, held.ran)?)),
            _ => None,
        });
        let Some((code, ago)) =
            over.filter(|(_, ago)| held.known && u128::from(ago.0) > told.as_nanos())
        else {
            return;
        };
        let (code, reason) = match code {
            None => (None, "Slurm ended it".to_owned()),
            code => ended_by(code),
        };
        self.tell(Observation::Exited {
            job,
            order: held.order,
            code,
            reason,
            ago: Some(ago),
        });
    }

    /// A part of it has ended, or is not known any more.
    pub(super) fn ended(&mut self, job: JobId, held: &mut Held, seen: &[Seen<'_>]) -> bool {
        let over = seen.iter().zip(&held.parts).find(|(one, _)| one.is_over());
        let Some((one, part)) = over else {
            return true;
        };
        let worker = part.ask.worker;
        let file = files::end_file(&self.place, job, worker, part.submitted);
        let wrote = files::end(&file);
        let (code, ran, why, ended) = if let Seen::Job(job) = one {
            let code = match job.state {
                JobPhase::Over(code) => code,
                _ => None,
            };
            (code, job.ran, job.reason.clone(), job.ended)
        } else {
            // Slurm's controller forgets jobs some minutes after their end.
            let asked = part.past.clone().or_else(|| self.past_of(part));
            let accounted = asked.unwrap_or_default();
            let why = match accounted.state.as_str() {
                "" => "Slurm knows nothing of its job any more",
                state => state,
            };
            (accounted.code, true, why.to_owned(), accounted.ended)
        };
        let code = code.or(wrote.map(|wrote| wrote.code));
        let ago = ago(ended.or(wrote.and_then(|wrote| wrote.at)), held.ran);
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
        self.exits(job, held, (code, ago), said)
    }

    fn exits(
        &self,
        job: JobId,
        held: &mut Held,
        (code, ago): (Option<i32>, Option<Nanoseconds>),
        reason: String,
    ) -> bool {
        held.gone.store(true, Ordering::SeqCst);
        self.endpoints.remove(job.0);
        cancel(held, &[]);
        self.tell(Observation::Exited {
            job,
            order: held.order,
            code,
            reason,
            ago,
        });
        held.phase = Phase::Over;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clocks of machines differ: an end is never in the future, nor before what was seen.
    #[test]
    fn an_end_is_bounded_by_what_was_seen() {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .expect("after 1970")
            .as_secs();
        let seconds = |ended, ran| ago(ended, ran).map(|ago| ago.0 / 1_000_000_000);
        assert_eq!(seconds(None, None), None);
        let hour = seconds(Some(now - 3600), None).expect("is known");
        assert!((3600..3610).contains(&hour), "{hour}");
        assert_eq!(seconds(Some(now + 3600), None), Some(0));
        assert_eq!(seconds(Some(now - 3600), Some(Instant::now())), Some(0));
    }
}
