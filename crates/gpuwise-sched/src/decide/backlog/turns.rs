//! Whose turn it is, found line by line: of each line only the first is in view, and of a line that finds no
//! place the rest is passed over until something is freed.

use super::{Backlog, Line, Rules, Turn};
use crate::{
    decide::{
        Order, Tells, barred,
        decision::{Decision, Generation},
    },
    queues::{ShareOf, key, poorest},
};
use gpuwise_domain::placement::{JobId, Kinds, QueueId};
use gpuwise_units::Nanoseconds;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
};

/// The first of each line, soonest first.
type Heads = BinaryHeap<Reverse<(Turn, u32)>>;

/// The lines of one queue, where queues take turns.
#[derive(Debug, Default)]
struct OfQueue {
    heads: Heads,
    /// The last who stands in one of them.
    last: Option<Turn>,
    /// Whose turn it was last.
    cursor: Option<Turn>,
}

/// In whose turn somebody is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Of all; where queues take turns, of those who have waited too long.
    All,
    Queue(Option<QueueId>),
}

/// Whose turn it is.
#[derive(Debug, Clone, Copy)]
pub(in crate::decide) struct Next {
    pub(in crate::decide) job: JobId,
    pub(in crate::decide) aged: bool,
    turn: Turn,
    line: u32,
    /// In which queue's turn.
    queue: Part,
}

/// Who is not looked at though it seeks a place.
pub(in crate::decide) type LeftOut<'w> = &'w dyn Fn(JobId) -> bool;

/// The turns of one decision.
pub(in crate::decide) struct Turns<'w> {
    now: Nanoseconds,
    rules: Rules,
    aged_until: Option<Nanoseconds>,
    tells: Tells,
    /// The line of the one of whom is to be told.
    about: Option<u32>,
    left_out: LeftOut<'w>,
    /// All, or where queues take turns those who have waited too long.
    heads: Heads,
    cursor: Option<Turn>,
    queues: BTreeMap<Option<QueueId>, OfQueue>,
    /// Lines of which nobody is in view, and the queue in whose turn that is.
    parked: Vec<(u32, Part)>,
    generation: Generation,
    /// Which queue's turn it is, at which number of changes: as long as nothing changes it stays so.
    turn: Option<(u64, Option<QueueId>)>,
    /// What was found of lines that were looked at.
    pub(in crate::decide) looked: BTreeMap<u32, Option<(u32, Kinds)>>,
}

impl<'w> Turns<'w> {
    pub(in crate::decide) fn new(
        backlog: &Backlog,
        decision: &Decision<'_>,
        (now, rules): (Nanoseconds, Rules),
        left_out: LeftOut<'w>,
        tells: Tells,
    ) -> Self {
        let about = match tells {
            Tells::Of(job) => backlog.standing.get(&job).map(|(line, _)| *line),
            Tells::Everybody | Tells::Changes => None,
        };
        let mut turns = Self {
            now,
            rules,
            aged_until: rules.aged_until(now),
            tells,
            about,
            left_out,
            heads: Heads::new(),
            cursor: None,
            queues: BTreeMap::new(),
            parked: Vec::new(),
            generation: decision.generation(),
            turn: None,
            looked: BTreeMap::new(),
        };
        // Nobody is looked at in vain but where a start can be reserved.
        let quiet = turns.aged_until.is_none() && decision.passes_blocked(false);
        for (number, line) in backlog.numbers() {
            if turns.takes_turns() {
                turns.enters_queue(decision, number, line);
            } else if quiet
                && line.queue().is_none()
                && backlog.blocked.contains(&number)
                && turns.passes_over(number)
            {
                turns.parked.push((number, Part::All));
            } else if let Some(head) = turns.next_of(decision, line, None, Part::All) {
                turns.heads.push(Reverse((head, number)));
            }
        }
        turns
    }

    fn takes_turns(&self) -> bool {
        matches!(self.rules.order, Order::Share | Order::FairTree)
    }

    fn enters_queue(&mut self, decision: &Decision<'_>, number: u32, line: &Line) {
        if let Some(head) = self.next_of(decision, line, None, Part::All) {
            self.heads.push(Reverse((head, number)));
        }
        let queue = match line.only() {
            Some(id) => decision.world.job(id).and_then(|state| state.job.queue),
            None => line.queue(),
        };
        let Some(head) = self.next_of(decision, line, None, Part::Queue(queue)) else {
            return;
        };
        let last = match line.only() {
            Some(_) => Some(head),
            None => line.last_other(self.aged_until, self.rules, self.left_out),
        };
        let Some(last) = last else { return };
        let of = self.queues.entry(queue).or_default();
        of.last = of.last.max(Some(last));
        of.heads.push(Reverse((head, number)));
    }

    /// Whether those of a line at whom a look would change nothing are passed over.
    fn passes_over(&self, line: u32) -> bool {
        self.tells != Tells::Everybody && self.about != Some(line)
    }

    fn heads(&mut self, part: Part) -> Option<&mut Heads> {
        match part {
            Part::All => Some(&mut self.heads),
            Part::Queue(queue) => self.queues.get_mut(&queue).map(|of| &mut of.heads),
        }
    }

    fn is_aged(&self, submitted: Nanoseconds) -> bool {
        self.aged_until.is_some_and(|until| submitted <= until)
    }

    /// The next of a line after a turn: of all, or where queues take turns of those who have waited too long,
    /// or of the others of a queue.
    fn next_of(
        &self,
        decision: &Decision<'_>,
        line: &Line,
        after: Option<Turn>,
        queue: Part,
    ) -> Option<Turn> {
        let others = queue != Part::All || !self.takes_turns();
        let aged = queue == Part::All;
        if let Some(id) = line.only() {
            let state = decision.world.job(id).filter(|state| state.seeks())?;
            let is_aged = self.is_aged(state.job.submitted);
            let here = if is_aged { aged } else { others };
            if !here || barred(&decision.world, state, self.now).is_some() {
                return None;
            }
            let turn = key(self.now, &decision.world, id, self.rules.order, is_aged);
            return after.is_none_or(|after| after < turn).then_some(turn);
        }
        let first = line.next_aged(after, self.aged_until).filter(|_| aged);
        first.or_else(|| {
            let next = || line.next_other(after, self.aged_until, self.rules);
            others.then(next)?
        })
    }

    /// Who is next; who need not be looked at is passed over.
    pub(in crate::decide) fn next(
        &mut self,
        backlog: &Backlog,
        decision: &Decision<'_>,
    ) -> Option<Next> {
        self.comes_back(backlog, decision);
        while let Some(Reverse((turn, line))) = self.heads.pop() {
            if let Some(next) = self.looks(backlog, decision, (turn, line), Part::All) {
                return Some(next);
            }
        }
        let by = match self.rules.order {
            Order::FairTree => ShareOf::Used,
            _ => ShareOf::Held,
        };
        while !self.queues.is_empty() {
            let part = self.queue_next(decision, by)?;
            // As long as nobody gets anything it stays this queue's turn.
            while let Some(Reverse((turn, line))) = self.heads(part).and_then(BinaryHeap::pop) {
                if let Some(next) = self.looks(backlog, decision, (turn, line), part) {
                    return Some(next);
                }
            }
            if let Part::Queue(queue) = part {
                self.queues.remove(&queue);
            }
        }
        None
    }

    /// The queue whose turn it is.
    fn queue_next(&mut self, decision: &Decision<'_>, by: ShareOf) -> Option<Part> {
        let changes = decision.world.changes().count();
        let same = |(at, queue): &(u64, _)| *at == changes && self.queues.contains_key(queue);
        if let Some((_, queue)) = self.turn.filter(same) {
            return Some(Part::Queue(queue));
        }
        let waiting: Vec<Option<QueueId>> = self.queues.keys().copied().collect();
        let queue = poorest(self.now, &decision.world, by, &waiting)?;
        self.turn = Some((changes, queue));
        Some(Part::Queue(queue))
    }

    /// The first of a line, if it is to be looked at.
    fn looks(
        &mut self,
        backlog: &Backlog,
        decision: &Decision<'_>,
        (turn, number): (Turn, u32),
        queue: Part,
    ) -> Option<Next> {
        let job = turn.4;
        let line = backlog.line(number)?;
        if (self.left_out)(job) {
            self.steps(decision, line, (turn, number), queue);
            return None;
        }
        let aged = !turn.0 && turn.3.is_some_and(|submitted| self.is_aged(submitted));
        if self.passes_over(number)
            && let Some(kinds) = backlog.no_place(number)
            && !self.looked.contains_key(&number)
            && decision.passes(job, kinds, self.rules.starvation_timeout.is_some())
        {
            self.parked.push((number, queue));
            return None;
        }
        Some(Next {
            job,
            aged,
            turn,
            line: number,
            queue,
        })
    }

    /// The one behind comes into view.
    fn steps(
        &mut self,
        decision: &Decision<'_>,
        line: &Line,
        (turn, number): (Turn, u32),
        queue: Part,
    ) {
        let Some(next) = self.next_of(decision, line, Some(turn), queue) else {
            return;
        };
        let heads = self.heads(queue);
        if let Some(heads) = heads {
            heads.push(Reverse((next, number)));
        }
    }

    /// Somebody was looked at. `closes`: nobody behind it in its line gets anything now either; `found`: what is
    /// known of its place.
    pub(in crate::decide) fn looked(
        &mut self,
        backlog: &Backlog,
        decision: &Decision<'_>,
        next: &Next,
        closes: bool,
        found: Option<(u32, Kinds)>,
    ) {
        self.looked.insert(next.line, found);
        match next.queue {
            Part::All => self.cursor = Some(next.turn),
            Part::Queue(queue) => {
                if let Some(of) = self.queues.get_mut(&queue) {
                    of.cursor = Some(next.turn);
                }
            }
        }
        if closes && self.passes_over(next.line) {
            self.parked.push((next.line, next.queue));
        } else if let Some(line) = backlog.line(next.line) {
            self.steps(decision, line, (next.turn, next.line), next.queue);
        }
        // Who has been looked at last of a queue leaves it to the others.
        if let Part::Queue(queue) = next.queue
            && let Some(of) = self.queues.get(&queue)
            && of.last <= Some(next.turn)
        {
            self.queues.remove(&queue);
        }
    }

    /// Something was freed, or somebody came who can be stopped: all are looked at again who come after.
    fn comes_back(&mut self, backlog: &Backlog, decision: &Decision<'_>) {
        let generation = decision.generation();
        if generation == self.generation {
            return;
        }
        self.generation = generation;
        for (number, queue) in std::mem::take(&mut self.parked) {
            let Some(line) = backlog.line(number) else {
                continue;
            };
            let after = match queue {
                Part::All => self.cursor,
                Part::Queue(queue) => match self.queues.get(&queue) {
                    Some(of) => of.cursor,
                    None => continue,
                },
            };
            let Some(next) = self.next_of(decision, line, after, queue) else {
                continue;
            };
            let heads = self.heads(queue);
            if let Some(heads) = heads {
                heads.push(Reverse((next, number)));
            }
        }
    }

    /// Whether somebody may still be to be looked at after one.
    pub(in crate::decide) fn more(
        &self,
        backlog: &Backlog,
        decision: &Decision<'_>,
        next: &Next,
    ) -> bool {
        let behind = |line| self.next_of(decision, line, Some(next.turn), next.queue);
        !self.heads.is_empty()
            || !self.queues.is_empty()
            || !self.parked.is_empty()
            || backlog.line(next.line).and_then(behind).is_some()
    }

    /// All who are still to be looked at: those in line, then those of each queue.
    pub(in crate::decide) fn rest(
        mut self,
        backlog: &Backlog,
        decision: &Decision<'_>,
    ) -> Vec<JobId> {
        let mut rest = Vec::new();
        let queues: Vec<Option<QueueId>> = self.queues.keys().copied().collect();
        let parts = queues.into_iter().map(Part::Queue);
        for queue in std::iter::once(Part::All).chain(parts) {
            loop {
                let heads = self.heads(queue);
                let Some(Reverse((turn, number))) = heads.and_then(BinaryHeap::pop) else {
                    break;
                };
                if !(self.left_out)(turn.4) {
                    rest.push(turn.4);
                }
                if let Some(line) = backlog.line(number) {
                    self.steps(decision, line, (turn, number), queue);
                }
            }
        }
        rest
    }
}
