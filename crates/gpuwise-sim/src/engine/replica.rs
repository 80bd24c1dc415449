//! An engine in time.

use super::{
    rank::{Plan, Rank},
    settings::{Policy, Settings, SettingsError},
    sink::{Done, Sink, StepRun, span},
};
use crate::cost::StepCost;
use gpuwise_domain::request::{Outcome, Request};

/// A request's place in an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Ticket {
    pub(super) rank: u32,
    pub(super) slot: u32,
    pub(super) generation: u32,
}

/// What an engine has to do, over all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Load {
    /// Requests that wait.
    pub waiting: u32,
    /// Sequences in the batch.
    pub running: u32,
    /// KV blocks in use.
    pub kv_used: u64,
    /// KV blocks that can be in use.
    pub kv_blocks: u64,
    /// Tokens of prompts that are not computed yet.
    pub queued_tokens: u64,
    /// Those, and the output tokens that are to come.
    pub outstanding_tokens: u64,
}

/// What an engine has done, over all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Steps.
    pub steps: u64,
    /// Picoseconds in steps.
    pub busy: u64,
    /// Steps of ranks that had nothing to do while another had.
    pub dummy_steps: u64,
    /// Prompt tokens computed, those computed again included.
    pub prompt_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// Times that a sequence lost its place.
    pub preemptions: u64,
    /// Prompt tokens of requests that joined.
    pub asked_tokens: u64,
    /// How many of these were found in the prefix cache.
    pub found_tokens: u64,
    /// KV blocks of content that could be asked for again, overwritten.
    pub evicted_blocks: u64,
}

/// The step that runs, or steps of the same batch.
#[derive(Debug, Clone, Copy)]
struct Flight {
    start: u64,
    steps: u64,
    first: u64,
    increment: u64,
    end: u64,
    /// Whether the steps behind it are planned and its duration is known.
    planned: bool,
}

impl Flight {
    fn is_many(&self) -> bool {
        self.planned && self.steps > 1
    }
}

/// One serving engine.
#[derive(Debug)]
pub struct Replica<C> {
    settings: Settings,
    cost: C,
    ranks: Vec<Rank>,
    /// The turn of the loop that was last: a boundary of steps, or an arrival at an idle engine.
    now: u64,
    /// Whether a plan is to be made, as of `now`.
    due: bool,
    flight: Option<Flight>,
    /// Steps planned beyond the first of the flight and the one behind it, not yet counted.
    extension: u64,
    statistics: Statistics,
}

impl<C: StepCost> Replica<C> {
    /// An idle engine.
    ///
    /// # Errors
    /// Settings that no engine could run with.
    pub fn new(settings: Settings, cost: C) -> Result<Self, SettingsError> {
        settings.check()?;
        Ok(Self {
            ranks: (0..settings.ranks)
                .map(|index| Rank::new(index, &settings))
                .collect(),
            settings,
            cost,
            now: 0,
            due: false,
            flight: None,
            extension: 0,
            statistics: Statistics::default(),
        })
    }

    /// What it was made with.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What it asks for the time of steps.
    pub const fn cost(&self) -> &C {
        &self.cost
    }

    /// Puts a request into its queue at `now`, up to which [`Self::advance`] was called. A prompt or
    /// an answer without tokens counts as one token.
    ///
    /// # Errors
    /// What becomes of a request that is refused at once: longer than the context or than all of the
    /// cache, or too many wait.
    pub fn submit(&mut self, now: u64, number: u64, request: Request) -> Result<Ticket, Box<Done>> {
        self.enqueue(now, number, request, false)
    }

    /// As [`Self::submit`], for a request whose prompt was computed elsewhere. [`Sink::blocks_taken`]
    /// says when it has its blocks; [`Self::remote_arrived`] is to follow.
    ///
    /// # Errors
    /// As [`Self::submit`].
    pub fn submit_remote(
        &mut self,
        now: u64,
        number: u64,
        request: Request,
    ) -> Result<Ticket, Box<Done>> {
        self.enqueue(now, number, request, true)
    }

    fn enqueue(
        &mut self,
        now: u64,
        number: u64,
        mut request: Request,
        remote: bool,
    ) -> Result<Ticket, Box<Done>> {
        request.input = request.input.max(1);
        request.output = request.output.max(1);
        if let Some(outcome) = self.refusal(&request) {
            return Err(Box::new(Done {
                number,
                ticket: Ticket::default(),
                request,
                submitted: now,
                scheduled: None,
                first_token: None,
                end: now,
                generated: 0,
                cached: 0,
                preemptions: 0,
                outcome,
            }));
        }
        let at = self.choose_rank(now);
        let Some(rank) = self.ranks.get_mut(at) else {
            unreachable!("an engine has a rank")
        };
        let ticket = rank.submit(now, number, request, remote);
        if rank.may_join(ticket.slot) {
            self.cut(now);
        }
        self.wake(now);
        Ok(ticket)
    }

    fn refusal(&self, request: &Request) -> Option<Outcome> {
        let rank = self.ranks.first()?;
        let context = u64::from(request.input) + u64::from(request.output);
        if context > u64::from(self.settings.max_context)
            || rank.pool.blocks_for(rank.most_tokens(request)) > rank.pool.total()
            || rank.never_joins(request)
        {
            return Some(Outcome::Impossible);
        }
        let waiting: u32 = self.ranks.iter().map(|own| own.waiting.count()).sum();
        let tokens: u64 = self.ranks.iter().map(|own| own.waiting.tokens()).sum();
        let many = self.settings.max_queued.is_some_and(|most| waiting >= most);
        let long = self
            .settings
            .max_queued_tokens
            .is_some_and(|most| tokens + u64::from(request.input) > most);
        (many || long).then_some(Outcome::Rejected)
    }

    /// The rank that a request goes to: the least of its requests in flight, those that wait counting
    /// more the fuller its cache is.
    fn choose_rank(&self, now: u64) -> usize {
        if self.ranks.len() == 1 {
            return 0;
        }
        let more = self.steps_planned(now) - 1;
        let score = |rank: &Rank| {
            let waiting = f64::from(rank.waiting.count());
            let used = rank.pool.used() + rank.decodes.blocks_in(more);
            let full = used as f64 / rank.pool.total().max(1) as f64;
            waiting + f64::from(rank.table.running()) + 6.0 * waiting * (full - 0.5).max(0.0)
        };
        let scores = self.ranks.iter().map(score).enumerate();
        scores
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .map_or(0, |(at, _)| at)
    }

    /// A client gives a request up at `now`; `None` if it is over already. Its blocks go when the
    /// loop turns next.
    pub fn cancel(&mut self, now: u64, ticket: Ticket) -> Option<Done> {
        let done_steps = self.steps_done(now);
        let behind = 1 + i64::from(self.settings.overlap);
        let rank = self.ranks.get_mut(ticket.rank as usize)?;
        let slot = rank.table.place(ticket.slot, ticket.generation)?;
        let done = rank.cancel(slot, now, done_steps as i64 - behind)?;
        if self.flight.is_none() {
            rank.turn_over();
        }
        self.cut(now);
        self.wake(now);
        Some(done)
    }

    /// The cache of a prompt has come from elsewhere at `now`.
    pub fn remote_arrived(&mut self, now: u64, ticket: Ticket) {
        if let Some(rank) = self.ranks.get_mut(ticket.rank as usize) {
            rank.remote_arrived(ticket.slot, ticket.generation);
            self.cut(now);
            self.wake(now);
        }
    }

    /// The cache of a prompt that was computed here has been pulled at `now`: its blocks are free.
    pub fn release_remote(&mut self, now: u64, ticket: Ticket) {
        // Blocks that steps of the flight take are taken first.
        self.cut(now);
        if let Some(rank) = self.ranks.get_mut(ticket.rank as usize) {
            rank.release_remote(ticket.slot, ticket.generation);
            self.wake(now);
        }
    }

    /// The engine dies at `now`: every request ends as failed, the cache is lost.
    pub fn fail<S: Sink>(&mut self, now: u64, sink: &mut S) {
        for rank in &mut self.ranks {
            rank.fail(now, sink);
        }
        self.flight = None;
        self.extension = 0;
        self.due = false;
        self.now = now;
    }

    /// Lets everything happen that ends up to and including `until`. A step that would be planned at
    /// exactly `until` is left to the next call, so that requests submitted at `until` are in it.
    pub fn advance<S: Sink>(&mut self, until: u64, sink: &mut S) {
        loop {
            if self.due {
                if self.now >= until {
                    return;
                }
                self.plan(sink);
            }
            match self.flight {
                Some(flight) if flight.end <= until => self.turn(sink),
                _ => return,
            }
        }
    }

    /// When its loop turns next, before which nothing of it can be heard; `None` while it is idle.
    /// Requests that are due by the time it was advanced to are to be submitted before.
    pub fn next_event<S: Sink>(&mut self, sink: &mut S) -> Option<u64> {
        if self.due {
            self.plan(sink);
        }
        self.flight.map(|flight| flight.end)
    }

    /// What it has to do at `now`.
    pub fn load(&self, now: u64) -> Load {
        let more = self.steps_done(now).min(self.extension);
        let mut load = Load::default();
        for rank in &self.ranks {
            let tokens = more * u64::from(rank.decodes.count());
            load.waiting += rank.waiting.count();
            load.running += rank.table.running();
            load.kv_used += rank.pool.used() + rank.decodes.blocks_in(more);
            load.kv_blocks += rank.pool.total();
            load.queued_tokens += rank.unread();
            load.outstanding_tokens += rank.owed().saturating_sub(tokens);
        }
        load
    }

    /// Prompt tokens of a request that it has in its prefix cache.
    pub fn find(&self, request: &Request) -> u32 {
        self.ranks
            .iter()
            .map(|rank| rank.pool.find(request).tokens)
            .max()
            .unwrap_or(0)
    }

    /// What it has done.
    pub fn statistics(&self) -> Statistics {
        let mut all = self.statistics;
        for rank in &self.ranks {
            let cache = rank.pool.statistics();
            all.prompt_tokens += rank.counts.prompt_tokens;
            all.output_tokens += rank.counts.output_tokens;
            all.preemptions += rank.counts.preemptions;
            all.asked_tokens += cache.asked_tokens;
            all.found_tokens += cache.found_tokens;
            all.evicted_blocks += cache.evicted_blocks;
        }
        all
    }

    /// Something came while it was idle.
    fn wake(&mut self, now: u64) {
        if self.flight.is_none() {
            self.now = self.now.max(now);
            self.due = true;
        }
    }

    /// Steps of the flight that are over at `now`.
    fn steps_done(&self, now: u64) -> u64 {
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
    fn steps_planned(&self, now: u64) -> u64 {
        let Some(flight) = self.flight.filter(Flight::is_many) else {
            return 1;
        };
        let until = now.saturating_sub(flight.start);
        steps_to_reach(flight.first, flight.increment, until, flight.steps).max(1)
    }

    /// A request comes at `now` that may join: no more steps are planned than are already.
    fn cut(&mut self, now: u64) {
        let steps = self.steps_planned(now);
        let Some(flight) = self.flight.as_mut().filter(|own| own.is_many()) else {
            return;
        };
        self.extension -= flight.steps - steps;
        flight.steps = steps;
        flight.end = flight.start + span(flight.first, flight.increment, steps);
    }

    /// Plans the steps that are planned at `self.now`.
    fn plan<S: Sink>(&mut self, sink: &mut S) {
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
        let mut first = 0;
        for rank in &self.ranks {
            first = first.max(time_of(&mut self.cost, rank));
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
        for rank in &self.ranks {
            let work = rank.current.work;
            let (first, increment) = if work.decodes == 0 {
                (time_of(&mut self.cost, rank), 0)
            } else {
                let (count, context) = (u64::from(work.decodes), work.context);
                let piece = self.cost.decode(work.decodes, context);
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
                (piece.at(context), piece.slope.saturating_mul(count))
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
    fn turn<S: Sink>(&mut self, sink: &mut S) {
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

/// Picoseconds of a rank's step; one that has nothing to do computes a token for nothing.
fn time_of<C: StepCost>(cost: &mut C, rank: &Rank) -> u64 {
    let work = &rank.current.work;
    if work.prefill > 0 {
        cost.mixed(work).max(1)
    } else {
        let (sequences, context) = (work.decodes.max(1), work.context.max(1));
        cost.decode(sequences, context).at(context)
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
