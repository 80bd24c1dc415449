//! Sequences that yield a token in each step, without a word written for each of them.
//!
//! All their token counts rise together, so that each is told by its difference to one count of
//! steps. Kept are how many there are, the sum of their contexts, how many begin a block in each of
//! the next steps, and who ends first.

use super::sequence::{NEVER, State, Table};
use std::{cmp::Reverse, collections::BinaryHeap};

/// The sequences of a rank that decode.
#[derive(Debug)]
pub(super) struct Decodes {
    steps: u64,
    count: u32,
    /// Sum of tokens computed, over all.
    computed: u64,
    /// How many are still to yield tokens, and the sum of the counts of steps at which they have.
    yielding: u64,
    finishes: u64,
    /// The most tokens that any of them was to yield since none did.
    most_wanted: u32,
    /// How many have computed so many tokens more than there were steps, modulo the block.
    phases: Vec<u32>,
    /// (count of steps at the last token, order, slot), smallest first; some are out of date.
    ends: BinaryHeap<Reverse<(u64, u64, u32)>>,
}

impl Decodes {
    pub(super) fn new(block_tokens: u32) -> Self {
        Self {
            steps: 0,
            count: 0,
            computed: 0,
            yielding: 0,
            finishes: 0,
            most_wanted: 0,
            phases: vec![0; block_tokens.max(1) as usize],
            ends: BinaryHeap::new(),
        }
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Tokens that they are still to yield.
    pub(super) fn remaining(&self) -> u64 {
        self.finishes - self.yielding * self.steps
    }

    /// No less than what any of them is to yield in all.
    pub(super) fn most_wanted(&self) -> u32 {
        self.most_wanted
    }

    /// One of them yielded its last token, which nobody knows yet.
    pub(super) fn ended(&mut self, table: &mut Table, slot: u32) {
        let sequence = table.get_mut(slot);
        self.yielding -= 1;
        self.finishes -= sequence.finish;
        sequence.finish = NEVER;
    }

    /// Tokens of context that the next step attends to.
    pub(super) fn context(&self) -> u64 {
        self.computed + u64::from(self.count)
    }

    /// How many begin a block in the `ahead`-th step from now.
    fn beginning(&self, ahead: u64) -> u64 {
        let length = self.phases.len() as u64;
        let phase = (length - (self.steps + ahead) % length) % length;
        u64::from(self.phases[phase as usize])
    }

    /// Blocks that the next step takes.
    pub(super) fn blocks(&self) -> u64 {
        self.beginning(0)
    }

    /// Blocks that so many next steps take.
    pub(super) fn blocks_in(&self, steps: u64) -> u64 {
        let length = self.phases.len() as u64;
        let rest: u64 = (0..steps % length).map(|ahead| self.beginning(ahead)).sum();
        steps / length * u64::from(self.count) + rest
    }

    /// How many of the next steps, up to `most`, take no more than `free` blocks together.
    pub(super) fn steps_in(&self, most: u64, free: u64) -> u64 {
        let length = self.phases.len() as u64;
        let count = u64::from(self.count).max(1);
        if most.div_ceil(length).saturating_mul(count) <= free {
            return most;
        }
        let cycles = free / count;
        let (mut steps, mut left) = (cycles * length, free % count);
        for ahead in 0..length {
            let needed = self.beginning(ahead);
            if steps >= most || needed > left {
                break;
            }
            left -= needed;
            steps += 1;
        }
        steps.min(most)
    }

    pub(super) fn computed(&self, base: u64) -> u32 {
        (base.wrapping_add(self.steps)) as u32
    }

    /// A sequence of the table joins: it has computed `computed` tokens and yields `remaining` more;
    /// `None`: it has ended, which nobody knows yet.
    pub(super) fn join(
        &mut self,
        table: &mut Table,
        slot: u32,
        computed: u32,
        remaining: Option<u32>,
    ) {
        let length = self.phases.len() as u64;
        let sequence = table.get_mut(slot);
        sequence.state = State::Decode;
        sequence.base = u64::from(computed).wrapping_sub(self.steps);
        sequence.finish = remaining.map_or(NEVER, |more| self.steps + u64::from(more));
        self.most_wanted = if self.count == 0 { 0 } else { self.most_wanted }.max(sequence.wanted);
        if sequence.finish != NEVER {
            self.yielding += 1;
            self.finishes += sequence.finish;
            self.ends
                .push(Reverse((sequence.finish, sequence.order, slot)));
        }
        self.count += 1;
        self.computed += u64::from(computed);
        let phase = residue(u64::from(computed), self.steps, length);
        self.phases[phase] += 1;
    }

    /// A sequence leaves; its tokens are told in its own counts from here on.
    pub(super) fn leave(&mut self, table: &mut Table, slot: u32) {
        let length = self.phases.len() as u64;
        let sequence = table.get_mut(slot);
        let computed = self.computed(sequence.base);
        sequence.computed = computed;
        if sequence.finish != NEVER {
            self.yielding -= 1;
            self.finishes -= sequence.finish;
        }
        sequence.finish = NEVER;
        sequence.generated = (computed + 1).saturating_sub(sequence.request.input);
        self.count -= 1;
        self.computed -= u64::from(computed);
        let phase = residue(u64::from(computed), self.steps, length);
        self.phases[phase] -= 1;
    }

    /// So many steps are planned with all of them.
    pub(super) fn advance(&mut self, steps: u64) {
        self.steps += steps;
        self.computed += steps * u64::from(self.count);
    }

    /// Steps until the first yields its last token; out-of-date entries go.
    pub(super) fn until_end(&mut self, table: &Table) -> u64 {
        while let Some(Reverse(top)) = self.ends.peek() {
            if valid(table, *top) {
                return top.0.saturating_sub(self.steps);
            }
            self.ends.pop();
        }
        u64::MAX
    }

    /// One that yielded its last token in the step planned last, by order.
    pub(super) fn pop_end(&mut self, table: &Table) -> Option<u32> {
        while let Some(Reverse(top)) = self.ends.peek().copied() {
            if top.0 > self.steps {
                return None;
            }
            self.ends.pop();
            if valid(table, top) {
                return Some(top.2);
            }
        }
        None
    }

    pub(super) fn clear(&mut self) {
        self.count = 0;
        self.computed = 0;
        self.yielding = 0;
        self.finishes = 0;
        self.phases.fill(0);
        self.ends.clear();
    }
}

fn valid(table: &Table, (finish, order, slot): (u64, u64, u32)) -> bool {
    let sequence = table.get(slot);
    sequence.state == State::Decode && sequence.order == order && sequence.finish == finish
}

/// (computed − steps) modulo the block.
fn residue(computed: u64, steps: u64, length: u64) -> usize {
    ((computed % length + length - steps % length) % length) as usize
}
