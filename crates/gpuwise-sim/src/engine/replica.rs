//! An engine in time.

use super::{
    flight::Flight,
    rank::Rank,
    settings::{Settings, SettingsError},
    sink::{Done, Sink},
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
    pub steps: u64,
    /// Picoseconds in steps.
    pub busy: u64,
    /// Steps of ranks that had nothing to do while another had.
    pub dummy_steps: u64,
    /// Prompt tokens computed, those computed again included.
    pub prompt_tokens: u64,
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

#[derive(Debug)]
pub struct Replica<C> {
    pub(super) settings: Settings,
    pub(super) cost: C,
    pub(super) ranks: Vec<Rank>,
    /// The turn of the loop that was last: a boundary of steps, or an arrival at an idle engine.
    pub(super) now: u64,
    /// Whether a plan is to be made, as of `now`.
    pub(super) due: bool,
    pub(super) flight: Option<Flight>,
    /// Steps planned beyond the first of the flight and the one behind it, not yet counted.
    pub(super) extension: u64,
    pub(super) statistics: Statistics,
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

    /// The rank that a request goes to: the least of its concurrent requests, those that wait counting
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
        let done = rank.cancel(slot, now, done_steps.cast_signed() - behind)?;
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
}
