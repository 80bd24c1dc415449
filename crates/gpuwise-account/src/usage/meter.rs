//! Takes records in whichever order they come and keeps what they come to.

use super::{
    Grid, Series, UsageRecord,
    counted::{Counted, RecordKey},
    limits::{Aside, Limits, Outcome, Reason},
};
use crate::period::{Interval, Month};
use gpuwise_units::Nanoseconds;
use std::collections::BTreeMap;

/// The state of metering: a function of the records, of the grid and of when each record came.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Meter {
    limits: Limits,
    grid: Grid,
    series: Vec<Series>,
    /// By lease; places in `series`, in the order of devices.
    leases: BTreeMap<String, Vec<u32>>,
    /// By device; places in `series`.
    devices: BTreeMap<String, Vec<u32>>,
    /// By tenant; places in `series`.
    tenants: BTreeMap<String, Vec<u32>>,
    counted: Counted,
    aside: BTreeMap<RecordKey, Aside>,
    duplicates: BTreeMap<String, u64>,
}

impl Meter {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    pub const fn limits(&self) -> Limits {
        self.limits
    }

    /// Takes a record at a moment of the broker's clock.
    pub fn record(&mut self, now: Nanoseconds, record: &UsageRecord) -> Outcome {
        self.take(now, record, true)
    }

    /// Takes what was used alone: the record grants nothing, however long it is, and stands beside what
    /// others grant of the same part.
    pub fn measure(&mut self, now: Nanoseconds, record: &UsageRecord) -> Outcome {
        self.take(now, record, false)
    }

    /// Takes what is held and is not over, into a meter that is not kept: its id is not counted. Granted time counts
    /// even where amounts would leave 64 bits.
    pub fn hold(&mut self, record: &UsageRecord) {
        let interval = Interval::new(record.start, record.end);
        let place = self.place(record);
        let series = &mut self.series[place];
        if !series.add(interval, record.used, &self.grid, true) {
            series.grant(interval);
        }
    }

    /// Keeps a record aside that its taker finds impossible.
    pub fn put_aside(&mut self, now: Nanoseconds, record: &UsageRecord, reason: Reason) -> Outcome {
        self.set_aside(now, record, reason)
    }

    fn take(&mut self, now: Nanoseconds, record: &UsageRecord, grants: bool) -> Outcome {
        if self.counted.contains(record) {
            self.count_duplicate(&record.source);
            return Outcome::Duplicate;
        }
        if let Some(reason) = self.fault(now, record) {
            return self.set_aside(now, record, reason);
        }
        let interval = Interval::new(record.start, record.end);
        let place = self.place(record);
        if !self.series[place].add(interval, record.used, &self.grid, grants) {
            return self.set_aside(now, record, Reason::TooLarge);
        }
        self.counted.insert(record);
        if !self.aside.is_empty() {
            self.aside.remove(&RecordKey::of(record));
        }
        let begun = Month::of(record.start);
        if self.is_closed(begun, now) {
            Outcome::Correction(begun)
        } else {
            Outcome::Counted
        }
    }

    /// What would become of a record, without taking it.
    pub fn look(&self, now: Nanoseconds, record: &UsageRecord) -> Outcome {
        if self.counted.contains(record) {
            return Outcome::Duplicate;
        }
        if let Some(reason) = self.fault(now, record) {
            return Outcome::Aside(reason);
        }
        let begun = Month::of(record.start);
        if self.is_closed(begun, now) {
            Outcome::Correction(begun)
        } else {
            Outcome::Counted
        }
    }

    /// Whether a month's grace is over.
    pub fn is_closed(&self, month: Month, now: Nanoseconds) -> bool {
        month.interval().end + self.limits.grace <= now
    }

    fn fault(&self, now: Nanoseconds, record: &UsageRecord) -> Option<Reason> {
        let names = [&record.source, &record.id, &record.tenant, &record.lease];
        let length = record.end.0.saturating_sub(record.start.0);
        [
            (names.iter().any(|name| name.is_empty()), Reason::Nameless),
            (record.end < record.start, Reason::Negative),
            (record.end > now + self.limits.ahead, Reason::Ahead),
            (record.end + self.limits.behind < now, Reason::TooOld),
            (length > self.limits.longest.0, Reason::TooLong),
            (!record.granted.is_possible(), Reason::Impossible),
        ]
        .into_iter()
        .find_map(|(is, reason)| is.then_some(reason))
    }

    fn set_aside(&mut self, at: Nanoseconds, record: &UsageRecord, reason: Reason) -> Outcome {
        let key = RecordKey::of(record);
        let record = record.clone();
        self.aside.insert(key, Aside { record, reason, at });
        Outcome::Aside(reason)
    }

    fn count_duplicate(&mut self, source: &str) {
        match self.duplicates.get_mut(source) {
            Some(count) => *count += 1,
            None => {
                self.duplicates.insert(source.into(), 1);
            }
        }
    }

    /// Where a record's series lies; it is made if it is not there.
    fn place(&mut self, record: &UsageRecord) -> usize {
        if let Some(places) = self.leases.get(&record.lease) {
            let of_device = places[self.first_of(places, &record.device)..].iter();
            let found = of_device
                .map(|place| *place as usize)
                .take_while(|place| self.series[*place].device == record.device)
                .find(|place| self.series[*place].holds(record));
            if let Some(place) = found {
                return place;
            }
        }
        let place = self.series.len();
        self.series.push(Series::new(record));
        self.index(place);
        place
    }

    /// Where, in a lease's places, those of a device begin.
    fn first_of(&self, places: &[u32], device: &str) -> usize {
        places.partition_point(|place| self.series[*place as usize].device.as_str() < device)
    }

    fn index(&mut self, place: usize) {
        let series = &self.series[place];
        let own = self.leases.get(&series.lease);
        let order = own.map_or(0, |places| self.first_of(places, &series.device));
        let places = self.leases.entry(series.lease.clone()).or_default();
        places.insert(order, place as u32);
        let places = self.devices.entry(series.device.clone()).or_default();
        places.push(place as u32);
        let places = self.tenants.entry(series.tenant.clone()).or_default();
        places.push(place as u32);
    }

    /// Keeps amounts apart at these moments too, besides those at which it does already.
    pub fn regrid(&mut self, finer: &Grid) {
        let mut grid = self.grid.clone();
        grid.cuts.extend(&finer.cuts);
        grid.daily.extend(&finer.daily);
        if grid == self.grid {
            return;
        }
        for series in &mut self.series {
            series.regrid(&self.grid, &grid);
        }
        self.grid = grid;
    }

    /// Forgets what ended before a month, once its statements are kept elsewhere. Ids are kept as long
    /// as records of their time are taken.
    pub fn forget(&mut self, before: Month, now: Nanoseconds) {
        let start = before.start();
        for series in &mut self.series {
            series.forget(start);
        }
        self.series.retain(|series| !series.is_empty());
        self.leases.clear();
        self.devices.clear();
        self.tenants.clear();
        for place in 0..self.series.len() {
            self.index(place);
        }
        self.counted.forget(now, self.limits.behind);
    }

    /// All series, in the order in which they began to be known.
    pub fn series(&self) -> &[Series] {
        &self.series
    }

    /// Tenants that have any.
    pub fn tenants(&self) -> impl Iterator<Item = &str> {
        self.tenants.keys().map(String::as_str)
    }

    /// A tenant's series.
    pub fn of_tenant(&self, tenant: &str) -> impl Iterator<Item = &Series> {
        let places = self.tenants.get(tenant).into_iter().flatten();
        places.map(|place| &self.series[*place as usize])
    }

    /// What a lease was granted and used.
    pub fn of_lease(&self, lease: &str) -> impl Iterator<Item = &Series> {
        let places = self.leases.get(lease).into_iter().flatten();
        places.map(|place| &self.series[*place as usize])
    }

    /// What was granted of a device, with each one's place in [`Meter::series`].
    pub fn of_device(&self, device: &str) -> impl Iterator<Item = (usize, &Series)> {
        let places = self.devices.get(device).into_iter().flatten();
        places.map(|place| (*place as usize, &self.series[*place as usize]))
    }

    /// Some of the series, and nothing of what came or was refused before.
    #[must_use]
    pub fn only<'m>(&self, series: impl Iterator<Item = &'m Series>) -> Self {
        let mut only = Self {
            limits: self.limits,
            grid: self.grid.clone(),
            ..Self::default()
        };
        for (place, series) in series.enumerate() {
            only.series.push(series.clone());
            only.index(place);
        }
        only
    }

    /// Records that do not count, by principal, lease, source and id.
    pub fn aside(&self) -> impl Iterator<Item = &Aside> {
        self.aside.values()
    }

    /// How many records of each reason do not count.
    pub fn aside_counts(&self) -> BTreeMap<Reason, u64> {
        let mut counts = BTreeMap::new();
        for aside in self.aside.values() {
            *counts.entry(aside.reason).or_default() += 1;
        }
        counts
    }

    /// How many records came again, by source.
    pub const fn duplicates(&self) -> &BTreeMap<String, u64> {
        &self.duplicates
    }
}
