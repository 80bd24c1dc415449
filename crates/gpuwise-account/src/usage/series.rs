//! What one lease held and used of one part of one device, over time.

use super::{Granted, Grid, Quantity, Sharing, Spans, UsageRecord, Used};
use crate::{money::split, period::Interval};
use gpuwise_domain::offer::Terms;
use gpuwise_units::Nanoseconds;

/// Used amounts, by [`Quantity`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Amounts {
    sums: [u64; Quantity::ALL.len()],
    /// Bits of the quantities that somebody measured.
    known: u8,
    /// Time for which the multiprocessors' was measured, in nanoseconds.
    pub measured_ns: u64,
}

impl Amounts {
    /// What was measured of it; `None`: nobody did.
    pub const fn get(&self, quantity: Quantity) -> Option<u64> {
        if self.known & (1 << quantity as u8) == 0 {
            return None;
        }
        Some(self.sums[quantity as usize])
    }

    /// One of them alone.
    pub(crate) fn only(&self, quantity: Quantity) -> Self {
        let mut only = Self::default();
        if let Some(sum) = self.get(quantity) {
            only.sums[quantity as usize] = sum;
            only.known = 1 << quantity as u8;
        }
        only
    }

    /// Adds; `None` where a sum is beyond 64 bits.
    pub(crate) fn plus(mut self, other: &Self) -> Option<Self> {
        for (sum, more) in self.sums.iter_mut().zip(other.sums) {
            *sum = sum.checked_add(more)?;
        }
        self.known |= other.known;
        self.measured_ns = self.measured_ns.checked_add(other.measured_ns)?;
        Some(self)
    }

    pub(crate) fn of(used: Used, length: u64) -> Self {
        let mut amounts = Self::default();
        for (index, value) in used.all().into_iter().enumerate() {
            if let Some(value) = value {
                amounts.sums[index] = value;
                amounts.known |= 1 << index;
            }
        }
        if used.sm_ns.is_some() {
            amounts.measured_ns = length;
        }
        amounts
    }

    pub(crate) const fn is_unknown(&self) -> bool {
        self.known == 0
    }

    /// In parts by lengths of time, which sum to it.
    pub(crate) fn split(&self, lengths: &[u64]) -> Vec<Self> {
        let mut parts = vec![
            Self {
                known: self.known,
                ..Self::default()
            };
            lengths.len()
        ];
        let mut share = |total: u64, set: &dyn Fn(&mut Self, u64)| {
            for (part, value) in parts.iter_mut().zip(split(i128::from(total), lengths)) {
                set(part, value as u64);
            }
        };
        for index in 0..self.sums.len() {
            share(self.sums[index], &|part, value| part.sums[index] = value);
        }
        share(self.measured_ns, &|part, value| part.measured_ns = value);
        parts
    }
}

/// What was used in one cell of the grid: at most an hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Cell {
    pub start: Nanoseconds,
    pub used: Amounts,
}

/// One lease on one part of one device.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Series {
    pub tenant: String,
    pub lease: String,
    pub device: String,
    /// Which of the equal parts of the device that the lease held, from 0 on.
    pub part: u32,
    pub kind: String,
    pub granted: Granted,
    pub isolation: Sharing,
    pub class: Terms,
    /// When it was held.
    pub spans: Spans,
    cells: Vec<Cell>,
}

impl Series {
    pub(super) fn new(record: &UsageRecord) -> Self {
        Self {
            tenant: record.tenant.clone(),
            lease: record.lease.clone(),
            device: record.device.clone(),
            part: record.part,
            kind: record.kind.clone(),
            granted: record.granted.clone(),
            isolation: record.isolation,
            class: record.class,
            spans: Spans::default(),
            cells: Vec::new(),
        }
    }

    /// Whether a record belongs to it, of those of the same lease and device.
    pub(super) fn holds(&self, record: &UsageRecord) -> bool {
        self.part == record.part
            && self.granted == record.granted
            && self.class == record.class
            && self.isolation == record.isolation
            && self.kind == record.kind
            && self.tenant == record.tenant
    }

    /// Whether anything of it is within an interval.
    pub fn is_in(&self, within: Interval) -> bool {
        self.spans.touching(within).next().is_some() || !self.cells(within).is_empty()
    }

    /// Its cells that begin within an interval.
    pub fn cells(&self, within: Interval) -> &[Cell] {
        let first = self.cells.partition_point(|cell| cell.start < within.start);
        let count = self.cells[first..].partition_point(|cell| cell.start < within.end);
        &self.cells[first..first + count]
    }

    /// Adds a record; `false`, and nothing changed, where a sum would leave 64 bits. One that does not
    /// grant adds what was used alone.
    pub(super) fn add(
        &mut self,
        interval: Interval,
        used: Used,
        grid: &Grid,
        grants: bool,
    ) -> bool {
        let amounts = Amounts::of(used, interval.length());
        if !amounts.is_unknown() && !self.add_amounts(interval, &amounts, grid) {
            return false;
        }
        if grants {
            self.grant(interval);
        }
        true
    }

    /// It was held.
    pub(super) fn grant(&mut self, interval: Interval) {
        if self.granted != Granted::Nothing {
            self.spans.insert(interval);
        }
    }

    fn add_amounts(&mut self, interval: Interval, amounts: &Amounts, grid: &Grid) -> bool {
        let cell = grid.cell(interval.start.0);
        if interval.end <= cell.end {
            let place = self.place(cell.start);
            let sum = self.cells[place].used.plus(amounts);
            return sum.map(|sum| self.cells[place].used = sum).is_some();
        }
        let (mut starts, mut lengths, mut at) = (Vec::new(), Vec::new(), interval.start);
        while at < interval.end {
            let cell = grid.cell(at.0);
            let part = interval.within(cell);
            starts.push(cell.start);
            lengths.push(part.length());
            at = part.end;
        }
        let parts = amounts.split(&lengths);
        let mut sums = Vec::with_capacity(parts.len());
        for (start, part) in starts.iter().zip(&parts) {
            let place = self.place(*start);
            match self.cells[place].used.plus(part) {
                Some(sum) => sums.push(sum),
                None => return false,
            }
        }
        for (start, sum) in starts.into_iter().zip(sums) {
            let place = self.place(start);
            self.cells[place].used = sum;
        }
        true
    }

    /// Where the cell of this start lies; it is made if it is not there.
    fn place(&mut self, start: Nanoseconds) -> usize {
        let found = match self.cells.last() {
            Some(last) if last.start == start => Ok(self.cells.len() - 1),
            Some(last) if last.start < start => Err(self.cells.len()),
            _ => self.cells.binary_search_by_key(&start, |cell| cell.start),
        };
        found.unwrap_or_else(|place| {
            let used = Amounts::default();
            self.cells.insert(place, Cell { start, used });
            place
        })
    }

    /// Divides cells that a finer grid cuts: by the time that was held on each side, or by the time
    /// alone where nothing was held.
    pub(super) fn regrid(&mut self, old: &Grid, new: &Grid) {
        let mut cells = Vec::with_capacity(self.cells.len());
        for cell in &self.cells {
            let whole = old.cell(cell.start.0);
            let (mut parts, mut at) = (Vec::new(), whole.start);
            while at < whole.end {
                let part = whole.within(new.cell(at.0));
                parts.push(part);
                at = part.end;
            }
            if parts.len() == 1 {
                cells.push(*cell);
                continue;
            }
            let mut lengths: Vec<u64> = parts
                .iter()
                .map(|part| self.spans.length_within(*part))
                .collect();
            if lengths.iter().all(|length| *length == 0) {
                lengths = parts.iter().map(|part| part.length()).collect();
            }
            for (part, used) in parts.iter().zip(cell.used.split(&lengths)) {
                cells.push(Cell {
                    start: part.start,
                    used,
                });
            }
        }
        self.cells = cells;
    }

    /// Forgets what ended before a moment.
    pub(super) fn forget(&mut self, before: Nanoseconds) {
        self.spans.forget(before);
        self.cells.retain(|cell| cell.start >= before);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.cells.is_empty() && self.spans.iter().next().is_none()
    }
}
