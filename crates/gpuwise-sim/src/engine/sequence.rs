//! A request inside an engine, and the order of those that run.

use super::Ticket;
use crate::cache::Holding;
use gpuwise_domain::request::Request;
use gpuwise_units::RandomStream;

/// No sequence; no time.
pub(super) const NONE: u32 = u32::MAX;
pub(super) const NEVER: u64 = u64::MAX;

/// Where a sequence stands in the planned steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Its place is free.
    Vacant,
    /// Without blocks, before its first step or after it lost its place.
    Waiting,
    /// With blocks, until the cache of its prompt has come from elsewhere.
    Loading,
    /// That cache has come; it waits for a step.
    Loaded,
    /// Its prompt (or what it lost) is being computed.
    Prefill,
    /// A token in each step, see [`super::decodes::Decodes`].
    Decode,
    /// Its drafts are verified step by step, see [`super::speculation`].
    Draft,
    /// Its last token is planned and not out yet.
    Ending,
    /// It is over and holds its blocks until another engine has pulled them.
    Held,
}

/// A request inside an engine. Token counts are those of the planned steps, not of what is out.
#[derive(Debug)]
pub(super) struct Sequence {
    pub(super) state: State,
    /// Counts the requests that had this place.
    pub(super) generation: u32,
    pub(super) number: u64,
    pub(super) request: Request,
    pub(super) holding: Option<Holding>,
    /// Tells the places in the running list apart, ascending; each return gets a new one.
    pub(super) order: u64,
    /// The order of arrival.
    pub(super) arrival: u64,
    /// Neighbours in the running list.
    pub(super) before: u32,
    pub(super) after: u32,
    /// Tokens computed; while it decodes, see `base`.
    pub(super) computed: u32,
    /// Tokens to compute until it yields its next one: its prompt, and its output before it lost its
    /// place.
    pub(super) goal: u32,
    /// Tokens it has yielded; while it decodes, see `base`.
    pub(super) generated: u32,
    /// Tokens it is to yield here.
    pub(super) wanted: u32,
    /// While it decodes: tokens computed less the rank's count of steps.
    pub(super) base: u64,
    /// While it decodes: the count of steps at which it has yielded its last token; [`NEVER`] after
    /// that.
    pub(super) finish: u64,
    /// The plan it was last part of, and its tokens in it.
    pub(super) turn: u64,
    pub(super) planned: u32,
    /// Tokens of drafts in flight, see [`super::speculation`].
    pub(super) drafted: u32,
    pub(super) draws: Option<Box<RandomStream>>,
    pub(super) cached: u32,
    pub(super) preemptions: u16,
    /// Whether it decodes and got no token in the plan before.
    pub(super) behind: bool,
    /// The client gave it up; it leaves at the next turn of the loop.
    pub(super) aborted: bool,
    /// Whether its cache comes from elsewhere.
    pub(super) remote: bool,
    pub(super) submitted: u64,
    pub(super) scheduled: u64,
    pub(super) first_token: u64,
    /// When the token before its next one was out, where that is not the beginning of the step.
    pub(super) last_token: u64,
}

impl Sequence {
    pub(super) fn ticket(&self, rank: u32, slot: u32) -> Ticket {
        Ticket {
            rank,
            slot,
            generation: self.generation,
        }
    }

    /// Tokens of the prompt that are not computed yet.
    pub(super) fn unread(&self) -> u64 {
        u64::from(self.goal.saturating_sub(self.computed))
    }
}

/// All sequences of a rank, and the order of those that run.
#[derive(Debug, Default)]
pub(super) struct Table {
    slots: Vec<Sequence>,
    spare: Vec<u32>,
    first: u32,
    last: u32,
    running: u32,
    orders: u64,
}

impl Table {
    pub(super) fn new() -> Self {
        Self {
            first: NONE,
            last: NONE,
            ..Self::default()
        }
    }

    pub(super) fn get(&self, slot: u32) -> &Sequence {
        &self.slots[slot as usize]
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> &mut Sequence {
        &mut self.slots[slot as usize]
    }

    /// The place of a ticket, if its request still has it.
    pub(super) fn place(&self, slot: u32, generation: u32) -> Option<u32> {
        let sequence = self.slots.get(slot as usize)?;
        (sequence.generation == generation && sequence.state != State::Vacant).then_some(slot)
    }

    pub(super) fn insert(
        &mut self,
        number: u64,
        request: Request,
        wanted: u32,
        arrival: u64,
        now: u64,
    ) -> u32 {
        let goal = request.input;
        let sequence = Sequence {
            state: State::Waiting,
            generation: 0,
            number,
            request,
            holding: None,
            order: 0,
            arrival,
            before: NONE,
            after: NONE,
            computed: 0,
            goal,
            generated: 0,
            wanted,
            base: 0,
            finish: 0,
            turn: 0,
            planned: 0,
            drafted: 0,
            draws: None,
            cached: 0,
            preemptions: 0,
            behind: false,
            aborted: false,
            remote: false,
            submitted: now,
            scheduled: NEVER,
            first_token: NEVER,
            last_token: NEVER,
        };
        if let Some(slot) = self.spare.pop() {
            let place = self.get_mut(slot);
            let generation = place.generation;
            *place = Sequence {
                generation,
                ..sequence
            };
            slot
        } else {
            self.slots.push(sequence);
            (self.slots.len() - 1) as u32
        }
    }

    /// Frees a place that is in no list any more.
    pub(super) fn vacate(&mut self, slot: u32) -> Request {
        let sequence = self.get_mut(slot);
        sequence.state = State::Vacant;
        sequence.generation = sequence.generation.wrapping_add(1);
        let request = core::mem::take(&mut sequence.request);
        self.spare.push(slot);
        request
    }

    /// Sequences that run, those included whose last token is on its way.
    pub(super) fn running(&self) -> u32 {
        self.running
    }

    pub(super) fn first(&self) -> u32 {
        self.first
    }

    pub(super) fn last(&self) -> u32 {
        self.last
    }

    /// Appends to those that run.
    pub(super) fn run(&mut self, slot: u32) {
        self.orders += 1;
        let (order, last) = (self.orders, self.last);
        let sequence = self.get_mut(slot);
        sequence.order = order;
        sequence.before = last;
        sequence.after = NONE;
        match last {
            NONE => self.first = slot,
            last => self.get_mut(last).after = slot,
        }
        self.last = slot;
        self.running += 1;
    }

    /// Takes out of those that run.
    pub(super) fn stop(&mut self, slot: u32) {
        let (before, after) = (self.get(slot).before, self.get(slot).after);
        match before {
            NONE => self.first = after,
            before => self.get_mut(before).after = after,
        }
        match after {
            NONE => self.last = before,
            after => self.get_mut(after).before = before,
        }
        self.running -= 1;
    }

    /// Nothing runs any more.
    pub(super) fn stop_all(&mut self) {
        (self.first, self.last, self.running) = (NONE, NONE, 0);
    }

    pub(super) fn occupied(&self) -> impl Iterator<Item = u32> + '_ {
        (0..)
            .zip(&self.slots)
            .filter(|(_, own)| own.state != State::Vacant)
            .map(|(at, _)| at)
    }
}
