//! An engine in time: when its loop turns, and for how long steps run.

use super::{
    rank::{Plan, Rank},
    replica::Replica,
    settings::Policy,
    sink::{Sink, StepRun, span},
};
use crate::cost::{Picoseconds, StepCost};

/// The step that runs, or steps of the same batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flight {
    pub(super) start: u64,
    pub(super) steps: u64,
    pub(super) first: u64,
    pub(super) increment: u64,
    pub(super) end: u64,
    /// Whether the steps behind it are planned and its duration is known.
    planned: bool,
}

impl Flight {
    fn is_many(&self) -> bool {
        self.planned && self.steps > 1
    }
}

impl<C: StepCost> Replica<C> {
    /// Something came while it was idle.
    pub(super) fn wake(&mut self, now: u64) {
        if self.flight.is_none() {
            self.now = self.now.max(now);
            self.due = true;
        }
    }

    /// Steps of the flight that are over at `now`.
    pub(super) fn steps_done(&self, now: u64) -> u64 {
        let Some(flight) = self.flight.filter(Flight::is_many) else {
            return 0;
        };
        let until = now.saturating_sub(flight.start);
        let at = steps_to_reach(flight.first, flight.increment, until, flight.steps);
        if span(flight.first, flight.increment, at) > until {
            at - 1
        } else {
            at
        }
    }

    /// Steps of the flight that are over at `now`, and the one that runs then.
    pub(super) fn steps_planned(&self, now: u64) -> u64 {
        let Some(flight) = self.flight.filter(Flight::is_many) else {
            return 1;
        };
        let until = now.saturating_sub(flight.start);
        steps_to_reach(flight.first, flight.increment, until, flight.steps).max(1)
    }

    /// A request comes at `now` that may join: no more steps are planned than are already.
    pub(super) fn cut(&mut self, now: u64) {
        let steps = self.steps_planned(now);
        let Some(flight) = self.flight.as_mut().filter(|own| own.is_many()) else {
            return;
        };
        self.extension -= flight.steps - steps;
        flight.steps = steps;
        flight.end = flight.start + span(flight.first, flight.increment, steps);
    }

    /// Plans the steps that are planned at `self.now`.
    pub(super) fn plan<S: Sink>(&mut self, sink: &mut S) {
        self.due = false;
        let mut start = self.now;
        if let Some(flight) = &self.flight {
            start = flight.start;
        } else {
            for rank in &mut self.ranks {
                // A plan in which all lose their places is followed by another at once.
                loop {
                    let lost = rank.counts.preemptions + rank.counts.broken;
                    rank.plan(self.now, false, sink);
                    rank.mark_dropped(start);
                    if !rank.current.is_empty()
                        || rank.counts.preemptions + rank.counts.broken == lost
                    {
                        break;
                    }
                }
            }
        }
        if self.ranks.iter().all(|rank| rank.current.is_empty()) {
            self.flight = None;
            return;
        }
        if self.settings.overlap {
            for rank in &mut self.ranks {
                rank.plan(self.now, true, sink);
            }
        }
        self.flight = Some(self.fly(start));
    }

    /// Times of the steps that begin at `start`.
    fn fly(&mut self, start: u64) -> Flight {
        let replica = self.step_tokens();
        let mut first = 0;
        for rank in &self.ranks {
            first = first.max(time_of(&mut self.cost, rank, replica).get());
        }
        let mut flight = Flight {
            start,
            steps: 1,
            first,
            increment: 0,
            end: start.saturating_add(first),
            planned: true,
        };
        self.extension = 0;
        let more = self.steady_steps();
        if more > 0 {
            self.extend_flight(&mut flight, more);
        }
        flight
    }

    /// Tokens that all ranks compute in the step that begins.
    fn step_tokens(&self) -> u64 {
        self.ranks
            .iter()
            .map(|rank| rank.current.work.tokens())
            .sum()
    }

    /// How many steps may follow the planned ones without another plan.
    fn steady_steps(&mut self) -> u64 {
        let mut most = u64::MAX;
        for rank in &mut self.ranks {
            let (current, next) = (&rank.current, &rank.next);
            let last = if self.settings.overlap { next } else { current };
            if current.is_empty() && last.is_empty() && rank.is_idle() {
                continue;
            }
            let same = !self.settings.overlap
                || (current.steady
                    && next.work.decodes == current.work.decodes
                    && next.work.context == current.work.context + u64::from(current.work.decodes));
            if !last.steady || !same {
                return 0;
            }
            most = most.min(rank.more_steps());
        }
        if most == u64::MAX { 0 } else { most }
    }

    /// Lets a flight take up to `more` steps more, as long as their times are in one piece and one
    /// rank is the slowest.
    fn extend_flight(&mut self, flight: &mut Flight, more: u64) {
        let mut most = more.min(u64::from(u32::MAX) - 1);
        let mut slowest = (0, 0);
        let mut lines = [(0u64, 0u64); 1];
        let mut many = Vec::new();
        let replica = self.step_tokens();
        for rank in &self.ranks {
            let work = rank.current.work;
            let (first, increment) = if work.decodes == 0 {
                (time_of(&mut self.cost, rank, replica).get(), 0)
            } else {
                let (count, context) = (u64::from(work.decodes), work.context);
                let piece = self.cost.decode(work.decodes, context, replica);
                let whole = piece
                    .until
                    .saturating_sub(context)
                    .div_ceil(count)
                    .saturating_sub(1);
                most = most.min(whole);
                let time = i128::from(piece.base) + i128::from(piece.slope) * i128::from(context);
                if time < 1 {
                    most = 0;
                }
                (piece.at(context).get(), piece.slope.saturating_mul(count))
            };
            slowest = slowest.max((first, increment));
            if self.ranks.len() == 1 {
                lines[0] = (first, increment);
            } else {
                many.push((first, increment));
            }
        }
        for &(first, increment) in if many.is_empty() {
            &lines[..]
        } else {
            &many[..]
        } {
            // Another rank that grows faster is the slowest one from some step on.
            if increment > slowest.1 {
                most = most.min((slowest.0 - first) / (increment - slowest.1));
            }
        }
        // Times must stay below the end of time.
        while most > 0 && span(flight.first, slowest.1, most + 1) > u64::MAX - flight.start {
            most /= 2;
        }
        flight.steps = 1 + most;
        flight.increment = slowest.1;
        flight.end = flight
            .start
            .saturating_add(span(flight.first, slowest.1, flight.steps));
        self.extension = most;
    }

    /// The loop turns: the flight is over.
    pub(super) fn turn<S: Sink>(&mut self, sink: &mut S) {
        let Some(flight) = self.flight.take() else {
            return;
        };
        if self.extension > 0 {
            for rank in &mut self.ranks {
                if rank.decodes.count() > 0 {
                    rank.extend(self.extension, self.settings.overlap);
                }
            }
            self.extension = 0;
        }
        self.now = flight.end;
        self.due = true;
        for rank in &mut self.ranks {
            rank.verify();
        }
        self.tell(&flight, sink);
        for rank in &mut self.ranks {
            rank.output(self.now, u64::from(flight.steps as u32), sink);
            rank.turn_over();
        }
        if self.settings.overlap && self.ranks.iter().any(|rank| !rank.next.is_empty()) {
            for rank in &mut self.ranks {
                rank.start_next(self.now);
            }
            self.flight = Some(Flight {
                start: self.now,
                steps: 1,
                first: 0,
                increment: 0,
                end: u64::MAX,
                planned: false,
            });
        } else {
            for rank in &mut self.ranks {
                rank.drop_next();
            }
        }
    }

    fn tell<S: Sink>(&mut self, flight: &Flight, sink: &mut S) {
        let mut run = StepRun {
            start: flight.start,
            steps: flight.steps as u32,
            first: flight.first,
            increment: flight.increment,
            ..StepRun::default()
        };
        for rank in &self.ranks {
            let step = &rank.current;
            run.decodes += step.sequences();
            run.regular += step.sequences().saturating_sub(step.irregular());
            run.tokens += step.tokens;
            run.prefill += step.work.prefill;
            run.context += step.work.context;
            run.kv_used += rank.pool.used();
            run.running += rank.table.running();
            run.waiting += rank.waiting.count();
            self.statistics.dummy_steps += if step.is_empty() { flight.steps } else { 0 };
        }
        self.statistics.steps += flight.steps;
        self.statistics.busy += flight.end - flight.start;
        sink.steps(&run);
    }
}

/// The time of a rank's step beside those of the others, which compute `replica` tokens with it; one
/// that has nothing to do computes a token for nothing.
fn time_of<C: StepCost>(cost: &mut C, rank: &Rank, replica: u64) -> Picoseconds {
    let work = &rank.current.work;
    if work.prefill > 0 {
        cost.mixed(work, replica)
    } else {
        let (sequences, context) = (work.decodes.max(1), work.context.max(1));
        cost.decode(sequences, context, replica).at(context)
    }
}

/// The fewest of `most` steps that take at least `until`; `most` if none do.
fn steps_to_reach(first: u64, increment: u64, until: u64, most: u64) -> u64 {
    if until == 0 {
        return 0;
    }
    let (a, b, c) = (
        increment as f64 / 2.0,
        first as f64 - increment as f64 / 2.0,
        until as f64,
    );
    let root = if increment == 0 {
        c / b.max(1.0)
    } else {
        2.0 * c / (b + libm::sqrt(b * b + 4.0 * a * c))
    };
    let mut steps = (root as u64).min(most);
    while steps < most && span(first, increment, steps) < until {
        steps += 1;
    }
    while steps > 0 && span(first, increment, steps - 1) >= until {
        steps -= 1;
    }
    steps
}

impl Rank {
    /// Plans a step by the rules of its engine: the one behind the step that runs, or that itself.
    fn plan<S: Sink>(&mut self, now: u64, next: bool, sink: &mut S) {
        self.begin_plan();
        let blank = self.blank();
        let place = self.last_step(next);
        let step = core::mem::replace(place, blank);
        let mut plan = Plan { now, sink, step };
        match self.settings.policy.clone() {
            Policy::Vllm(rules) => self.plan_vllm(&mut plan, &rules),
            Policy::Sglang(rules) => self.plan_sglang(&mut plan, &rules),
            Policy::TensorRtLlm(rules) => self.plan_tensorrt_llm(&mut plan, &rules),
        }
        let blank = core::mem::replace(self.last_step(next), plan.step);
        self.spare = Some(blank);
    }
}
