//! What happened when, in a bounded number of stretches whose width doubles as the run grows.

use super::histogram::{COARSE, Histogram};
use gpuwise_domain::run::{Bucket, Series};
use gpuwise_units::Nanoseconds;

/// Stretches of a report, at most.
const BUCKETS: usize = 200;
const FINER: usize = 16;
const CELLS: usize = BUCKETS * FINER;
/// Nanoseconds of the first cells, as a power of two.
const FIRST_WIDTH: u32 = 16;
/// Fractions of a token a nanosecond that a rate is told in, as a power of two.
pub(super) const TOKEN_BITS: u32 = 40;

/// A quantity that changes in steps: its changes in a cell, and each times when it was.
#[derive(Debug, Clone, Copy, Default)]
struct Level {
    change: i128,
    moment: i128,
}

impl Level {
    fn change(&mut self, time: u64, by: i128) {
        self.change += by;
        self.moment += by * i128::from(time);
    }

    fn add(&mut self, other: &Self) {
        self.change += other.change;
        self.moment += other.moment;
    }

    /// Its sum over time up to `end`.
    fn until(&self, end: u64) -> i128 {
        self.change * i128::from(end) - self.moment
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quantity {
    Concurrent,
    /// Output tokens a nanosecond, in fractions.
    Tokens,
    Running,
    Waiting,
    Cache,
}

#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    offered: u64,
    completed: u64,
    unserved: u64,
    /// Output tokens that come at once, in fractions.
    tokens: u128,
    first_tokens: u64,
    first_token_time: u128,
    levels: [Level; 5],
}

impl Cell {
    fn add(&mut self, other: &Self) {
        self.offered += other.offered;
        self.completed += other.completed;
        self.unserved += other.unserved;
        self.tokens += other.tokens;
        self.first_tokens += other.first_tokens;
        self.first_token_time += other.first_token_time;
        for (level, more) in self.levels.iter_mut().zip(&other.levels) {
            level.add(more);
        }
    }
}

/// A run over time.
#[derive(Debug, Clone)]
pub(super) struct Timeline {
    shift: u32,
    cells: Vec<Cell>,
    first_tokens: Vec<Option<Histogram>>,
    end: u64,
}

/// Sums over a stretch of time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Stretch {
    pub tokens: f64,
    /// Concurrent requests times nanoseconds.
    pub concurrent: f64,
}

impl Default for Timeline {
    fn default() -> Self {
        Self {
            shift: FIRST_WIDTH,
            cells: vec![Cell::default(); CELLS],
            first_tokens: vec![None; BUCKETS],
            end: 0,
        }
    }
}

impl Timeline {
    /// A request that was due, and when it ended.
    pub(super) fn request(&mut self, due: u64, end: u64, completed: bool) {
        // The later first: the width is settled then.
        let cell = self.cell(end.max(due));
        if completed {
            cell.completed += 1;
        } else {
            cell.unserved += 1;
        }
        self.hold(Quantity::Concurrent, due, end.max(due), 1);
        self.cell(due).offered += 1;
    }

    /// A request that was due and had not ended when the run did.
    pub(super) fn open(&mut self, due: u64, end: u64) {
        self.hold(Quantity::Concurrent, due, end, 1);
        self.cell(due).offered += 1;
    }

    /// A time to first token of a request.
    pub(super) fn first_token(&mut self, due: u64, wait: u64) {
        let cell = self.cell(due);
        cell.first_tokens += 1;
        cell.first_token_time += u128::from(wait);
        let place = (due >> self.shift) as usize / FINER;
        if let Some(slot) = self.first_tokens.get_mut(place) {
            slot.get_or_insert_with(|| Histogram::new(COARSE))
                .add(wait, 1);
        }
    }

    /// Output tokens from the first to the last, evenly between.
    pub(super) fn tokens(&mut self, first: u64, last: u64, count: u32) {
        let Some(more) = count.checked_sub(1) else {
            return;
        };
        let fractions = u128::from(more) << TOKEN_BITS;
        let duration = u128::from(last.saturating_sub(first));
        let rate = fractions.checked_div(duration).unwrap_or(0);
        self.cell(last.max(first)).tokens += fractions - rate * duration;
        self.cell(first).tokens += 1 << TOKEN_BITS;
        if rate > 0 {
            self.hold(Quantity::Tokens, first, last, rate.cast_signed());
        }
    }

    /// A quantity that is `value` higher from one time to another.
    pub(super) fn hold(&mut self, quantity: Quantity, from: u64, to: u64, value: i128) {
        let at = quantity as usize;
        if let Some(level) = self.cell(to).levels.get_mut(at) {
            level.change(to, -value);
        }
        if let Some(level) = self.cell(from).levels.get_mut(at) {
            level.change(from, value);
        }
    }

    fn cell(&mut self, time: u64) -> &mut Cell {
        self.end = self.end.max(time);
        while (time >> self.shift) as usize >= CELLS {
            self.widen();
        }
        let at = (time >> self.shift) as usize;
        // Widened until it is inside.
        &mut self.cells[at]
    }

    /// Makes cells twice as wide.
    fn widen(&mut self) {
        self.shift += 1;
        for at in 0..CELLS {
            let mut sum = Cell::default();
            for cell in self.cells.get(at * 2..at * 2 + 2).unwrap_or_default() {
                sum.add(cell);
            }
            if let Some(cell) = self.cells.get_mut(at) {
                *cell = sum;
            }
        }
        for at in 0..BUCKETS {
            let mut sum: Option<Histogram> = None;
            for place in [at * 2, at * 2 + 1] {
                let found = self.first_tokens.get_mut(place).and_then(Option::take);
                match (&mut sum, found) {
                    (Some(sum), Some(found)) => sum.merge(&found),
                    (None, found) => sum = found,
                    (Some(_), None) => {}
                }
            }
            if let Some(slot) = self.first_tokens.get_mut(at) {
                *slot = sum;
            }
        }
    }

    fn width(&self) -> u64 {
        1 << self.shift
    }

    /// Sums between two times; what came at once in a cell that is cut is shared in proportion.
    pub(super) fn between(&self, from: u64, to: u64) -> Stretch {
        let mut out = Stretch::default();
        let mut before = Cell::default();
        for (at, cell) in self.cells.iter().enumerate() {
            let start = at as u64 * self.width();
            if start >= to {
                break;
            }
            let end = start + self.width();
            let mut after = before;
            after.add(cell);
            let inside = end.min(to).saturating_sub(start.max(from));
            if inside > 0 {
                let share = inside as f64 / self.width() as f64;
                let held = |quantity: Quantity| held(&before, &after, quantity, start, end);
                out.tokens += (cell.tokens as f64 + held(Quantity::Tokens) as f64) * share / TOKEN;
                out.concurrent += held(Quantity::Concurrent) as f64 * share;
            }
            before = after;
        }
        out
    }

    /// The mean of concurrent requests and of times to first token in nanoseconds, over `count`
    /// stretches of equal length between two times; less where it is too short, and without those in
    /// which no request was due.
    pub(super) fn trend(&self, from: u64, to: u64, count: usize) -> Vec<(f64, f64, f64)> {
        let first = from.div_ceil(self.width()) as usize;
        let last = ((to / self.width()) as usize).min(CELLS);
        let step = last.saturating_sub(first).div_ceil(count.max(1)).max(1);
        let mut out = Vec::new();
        let mut at = first;
        while at + step <= last {
            let (mut waits, mut sum) = (0_u64, 0_u128);
            for cell in self.cells.get(at..at + step).unwrap_or_default() {
                waits += cell.first_tokens;
                sum += cell.first_token_time;
            }
            let (start, end) = (at as u64 * self.width(), (at + step) as u64 * self.width());
            if waits > 0 {
                let concurrent = self.between(start, end).concurrent / (end - start) as f64;
                let middle = (start + end) as f64 / 2.0;
                out.push((middle, concurrent, sum as f64 / waits as f64));
            }
            at += step;
        }
        out
    }

    /// As a report has it; `steps` says whether engines told of theirs, `blocks` how many all of them
    /// have.
    pub(super) fn series(&self, steps: bool, blocks: u64) -> Series {
        let width = self.width() * FINER as u64;
        let used = (self.end / width) as usize + 1;
        let mut before = Cell::default();
        let mut buckets = Vec::with_capacity(used);
        let chunks = self.cells.chunks(FINER).zip(&self.first_tokens).take(used);
        for (at, (cells, waits)) in chunks.enumerate() {
            let mut sum = Cell::default();
            for cell in cells {
                sum.add(cell);
            }
            let mut after = before;
            after.add(&sum);
            let start = at as u64 * width;
            // The last stretch is as long as the run.
            let end = (start + width).min(self.end.max(start + 1));
            let mean = |quantity: Quantity| {
                held(&before, &after, quantity, start, end) as f64 / (end - start) as f64
            };
            let told = |quantity: Quantity| steps.then(|| mean(quantity));
            let wait = |fraction: f64| {
                let waits = waits.as_ref()?;
                Some(waits.quantile(fraction)? / 1e9)
            };
            let flow = held(&before, &after, Quantity::Tokens, start, end) as f64;
            buckets.push(Bucket {
                offered: sum.offered,
                completed: sum.completed,
                unserved: sum.unserved,
                output_tokens: Some((sum.tokens as f64 + flow) / TOKEN),
                concurrent: mean(Quantity::Concurrent),
                running: told(Quantity::Running),
                waiting: told(Quantity::Waiting),
                cache_use: told(Quantity::Cache)
                    .filter(|_| blocks > 0)
                    .map(|used| used / blocks as f64),
                ttft_p50: wait(0.5),
                ttft_p95: wait(0.95),
            });
            before = after;
        }
        Series {
            start: Nanoseconds(0),
            width: Nanoseconds(width),
            buckets,
        }
    }
}

const TOKEN: f64 = (1_u64 << TOKEN_BITS) as f64;

/// A quantity's sum over a stretch, given all changes before it and to its end.
fn held(before: &Cell, after: &Cell, quantity: Quantity, start: u64, end: u64) -> i128 {
    let at = quantity as usize;
    let (Some(before), Some(after)) = (before.levels.get(at), after.levels.get(at)) else {
        return 0;
    };
    after.until(end) - before.until(start)
}
