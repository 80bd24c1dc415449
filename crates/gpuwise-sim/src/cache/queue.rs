//! The free queue: blocks that nobody holds, in the order in which they are used next.

pub(super) const NONE: u32 = u32::MAX;

/// Neighbouring blocks of the queue of one kind.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    before: u32,
    after: u32,
    pub(super) blocks: u64,
    /// The unit whose content they hold; [`NONE`]: nothing that anybody can ask for.
    pub(super) unit: u32,
    /// Where in the unit they begin. They are used from the last to the first.
    pub(super) from: u32,
    /// The run of the same unit that was let go before, further back in the unit.
    pub(super) older: u32,
    /// The run of the same unit that was let go after, nearer to the unit's beginning.
    pub(super) newer: u32,
}

/// A doubly linked list of runs in one table, so that any run is found and taken out at once.
#[derive(Debug, Clone)]
pub(super) struct FreeQueue {
    runs: Vec<Run>,
    /// Places of the table that are not used, linked by `after`.
    spare: u32,
    front: u32,
    back: u32,
    blocks: u64,
}

impl FreeQueue {
    pub(super) fn new(blocks: u64) -> Self {
        let mut queue = Self {
            runs: Vec::new(),
            spare: NONE,
            front: NONE,
            back: NONE,
            blocks: 0,
        };
        queue.push_back(blocks);
        queue
    }

    pub(super) const fn blocks(&self) -> u64 {
        self.blocks
    }

    pub(super) fn run(&self, at: u32) -> &Run {
        &self.runs[at as usize]
    }

    pub(super) fn run_mut(&mut self, at: u32) -> &mut Run {
        &mut self.runs[at as usize]
    }

    /// The run at the head, if there is any.
    pub(super) const fn front(&self) -> u32 {
        self.front
    }

    /// The run at the end, if there is any.
    pub(super) const fn back(&self) -> u32 {
        self.back
    }

    /// Blocks that nobody can ask for, to the end.
    pub(super) fn push_back(&mut self, blocks: u64) {
        if blocks == 0 {
            return;
        }
        self.blocks += blocks;
        let back = self.back;
        if back != NONE && self.run(back).unit == NONE {
            self.run_mut(back).blocks += blocks;
        } else {
            self.link_back(NONE, 0, blocks);
        }
    }

    /// Blocks that nobody can ask for, to the head.
    pub(super) fn push_front(&mut self, blocks: u64) {
        if blocks == 0 {
            return;
        }
        self.blocks += blocks;
        let front = self.front;
        if front != NONE && self.run(front).unit == NONE {
            self.run_mut(front).blocks += blocks;
            return;
        }
        let at = self.place(NONE, 0, blocks);
        self.run_mut(at).after = front;
        match front {
            NONE => self.back = at,
            front => self.run_mut(front).before = at,
        }
        self.front = at;
    }

    /// Blocks of a unit, to the end; returns their run.
    pub(super) fn push_unit(&mut self, unit: u32, from: u32, blocks: u32) -> u32 {
        self.blocks += u64::from(blocks);
        self.link_back(unit, from, u64::from(blocks))
    }

    /// Takes blocks out of a run; a run without blocks must then be taken out as a whole.
    pub(super) fn shrink(&mut self, at: u32, blocks: u64) {
        self.blocks -= blocks;
        self.run_mut(at).blocks -= blocks;
    }

    /// Adds blocks to a run.
    pub(super) fn widen(&mut self, at: u32, blocks: u32) {
        self.blocks += u64::from(blocks);
        self.run_mut(at).blocks += u64::from(blocks);
    }

    /// Takes a run out, and joins its neighbours where both hold nothing that can be asked for.
    pub(super) fn remove(&mut self, at: u32) {
        let Run { before, after, .. } = *self.run(at);
        self.unlink(at);
        if before == NONE || after == NONE {
            return;
        }
        if self.run(before).unit == NONE && self.run(after).unit == NONE {
            let blocks = self.run(after).blocks;
            self.unlink(after);
            self.blocks += blocks;
            self.run_mut(before).blocks += blocks;
        }
    }

    fn unlink(&mut self, at: u32) {
        let Run {
            before,
            after,
            blocks,
            ..
        } = *self.run(at);
        match before {
            NONE => self.front = after,
            before => self.run_mut(before).after = after,
        }
        match after {
            NONE => self.back = before,
            after => self.run_mut(after).before = before,
        }
        self.blocks -= blocks;
        self.run_mut(at).after = self.spare;
        self.spare = at;
    }

    fn link_back(&mut self, unit: u32, from: u32, blocks: u64) -> u32 {
        let at = self.place(unit, from, blocks);
        let back = self.back;
        self.run_mut(at).before = back;
        match back {
            NONE => self.front = at,
            back => self.run_mut(back).after = at,
        }
        self.back = at;
        at
    }

    /// A place of the table with a run that is not linked yet.
    fn place(&mut self, unit: u32, from: u32, blocks: u64) -> u32 {
        let run = Run {
            before: NONE,
            after: NONE,
            blocks,
            unit,
            from,
            older: NONE,
            newer: NONE,
        };
        if self.spare == NONE {
            self.runs.push(run);
            return (self.runs.len() - 1) as u32;
        }
        let at = self.spare;
        self.spare = self.run(at).after;
        *self.run_mut(at) = run;
        at
    }

    /// Sum over all runs, the slow way: for checks.
    pub(super) fn count(&self) -> u64 {
        let mut blocks = 0;
        let mut at = self.front;
        while at != NONE {
            blocks += self.run(at).blocks;
            at = self.run(at).after;
        }
        blocks
    }
}
