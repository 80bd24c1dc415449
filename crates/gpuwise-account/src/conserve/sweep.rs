//! Through a device's time from change to change.

use super::{Balance, Device, Overcommitted, Part, Parts, Resource};
use crate::{
    period::{HOUR, Interval},
    usage::{Meter, Share},
};
use gpuwise_units::Nanoseconds;

/// What takes of a device, and how much of compute and memory, in units.
#[derive(Debug, Clone, Copy)]
enum Taker {
    Present,
    Lent,
    Series(usize),
    Standing,
}

/// From a moment on there is so much more or less of something.
struct Change {
    at: Nanoseconds,
    taker: Taker,
    units: [u64; 2],
    begins: bool,
}

/// The hours of a device over an interval: each as an equation that holds.
///
/// # Errors
/// When more was granted at some moment than there is.
pub fn balances(
    meter: &Meter,
    device: &Device,
    within: Interval,
) -> Result<Vec<Balance>, Overcommitted> {
    let unit = common_unit(meter, device);
    let changes = changes(meter, device, within, unit);
    let mut sweep = Sweep {
        device,
        unit,
        system: units(device.system, unit),
        present: 0,
        lent: 0,
        taken: [0; 2],
        held: [0; 2],
        holders: Vec::new(),
    };
    let mut balances: Vec<Balance> = Vec::new();
    let mut changes = changes.into_iter().peekable();
    let mut at = within.start;
    while at < within.end {
        while let Some(change) = changes.next_if(|change| change.at <= at) {
            sweep.take(&change);
        }
        let hour_end = Nanoseconds((at.0 / HOUR + 1).saturating_mul(HOUR));
        let next = changes.peek().map_or(within.end, |change| change.at);
        let end = next.min(hour_end).min(within.end);
        if balances.last().is_none_or(|last| last.hour.end <= at) {
            balances.push(Balance {
                device: device.id.clone(),
                hour: Interval::new(at, hour_end.min(within.end)),
                unit,
                compute: Parts::default(),
                memory: Parts::default(),
                granted: Vec::new(),
            });
        }
        if let Some(balance) = balances.last_mut() {
            sweep.add(Interval::new(at, end), balance)?;
        }
        at = end;
    }
    Ok(balances)
}

struct Sweep<'d> {
    device: &'d Device,
    unit: u64,
    system: [u64; 2],
    /// How many of the spans in which it is there hold this moment.
    present: u64,
    /// How many of the spans in which it is lent do.
    lent: u64,
    taken: [u64; 2],
    held: [u64; 2],
    /// Series that hold something now, with what.
    holders: Vec<(usize, [u64; 2])>,
}

impl Sweep<'_> {
    fn take(&mut self, change: &Change) {
        let change_by = |sums: &mut [u64; 2]| {
            for (sum, units) in sums.iter_mut().zip(change.units) {
                *sum = if change.begins {
                    *sum + units
                } else {
                    *sum - units
                };
            }
        };
        match (change.taker, change.begins) {
            (Taker::Lent, true) => self.lent += 1,
            (Taker::Lent, false) => self.lent -= 1,
            (Taker::Present, true) => self.present += 1,
            (Taker::Present, false) => self.present -= 1,
            (Taker::Standing, _) => change_by(&mut self.held),
            (Taker::Series(place), begins) => {
                change_by(&mut self.taken);
                if begins {
                    self.holders.push((place, change.units));
                } else {
                    self.holders.retain(|(holder, _)| *holder != place);
                }
            }
        }
    }

    fn add(&self, time: Interval, balance: &mut Balance) -> Result<(), Overcommitted> {
        let length = u128::from(time.length());
        // What is granted or stands while the device is not there is granted of nothing.
        let whole = if self.present > 0 { self.unit } else { 0 };
        let system = if self.present > 0 {
            self.system
        } else {
            [0; 2]
        };
        let mut idle = [0; 2];
        for resource in Resource::ALL {
            let place = resource as usize;
            let taken = self.taken[place] + self.held[place] + system[place];
            idle[place] = whole.checked_sub(taken).ok_or_else(|| Overcommitted {
                device: self.device.id.clone(),
                resource,
                at: time.start,
                over: u128::from(taken - whole),
                unit: self.unit,
            })?;
        }
        let free = idle[0].min(idle[1]);
        for (place, parts) in [&mut balance.compute, &mut balance.memory]
            .into_iter()
            .enumerate()
        {
            parts.whole += u128::from(whole) * length;
            let taken = u128::from(self.taken[place]) * length;
            if self.lent > 0 {
                parts.lent += taken;
            } else {
                parts.granted += taken;
            }
            parts.system += u128::from(system[place]) * length;
            parts.held += u128::from(self.held[place]) * length;
            parts.free += u128::from(free) * length;
            parts.stranded += u128::from(idle[place] - free) * length;
        }
        for (place, units) in &self.holders {
            let parts = units.map(|units| u128::from(units) * length);
            match balance.granted.iter_mut().find(|(of, _)| of == place) {
                Some((_, sums)) => {
                    for (sum, part) in sums.iter_mut().zip(parts) {
                        *sum += part;
                    }
                }
                None => balance.granted.push((*place, parts)),
            }
        }
        Ok(())
    }
}

/// The smallest unit of which all parts of the device are whole numbers.
fn common_unit(meter: &Meter, device: &Device) -> u64 {
    let granted = meter
        .of_device(&device.id)
        .flat_map(|(_, series)| [series.granted.compute(), series.granted.memory()]);
    let parts = (device.standing.iter().map(|standing| standing.part))
        .chain([device.system])
        .flat_map(|part| [part.compute, part.memory]);
    granted.chain(parts).fold(1, |unit, share| {
        let of = u64::from(share.of.max(1));
        // Slices are few, thousandths one, and a device's MiB one number: far below 64 bits.
        unit.saturating_mul(of / common_divisor(unit, of))
    })
}

const fn common_divisor(left: u64, right: u64) -> u64 {
    let (mut left, mut right) = (left, right);
    while right != 0 {
        (left, right) = (right, left % right);
    }
    left
}

fn units(part: Part, unit: u64) -> [u64; 2] {
    let of = |share: Share| unit / u64::from(share.of.max(1)) * u64::from(share.part);
    [of(part.compute), of(part.memory)]
}

fn changes(meter: &Meter, device: &Device, within: Interval, unit: u64) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut add = |time: Interval, taker: Taker, units: [u64; 2]| {
        let time = time.within(within);
        if time.is_empty() {
            return;
        }
        for (at, begins) in [(time.start, true), (time.end, false)] {
            changes.push(Change {
                at,
                taker,
                units,
                begins,
            });
        }
    };
    for span in device.present.touching(within) {
        add(span, Taker::Present, [0; 2]);
    }
    for span in device.lent.touching(within) {
        add(span, Taker::Lent, [0; 2]);
    }
    for standing in &device.standing {
        add(
            standing.interval,
            Taker::Standing,
            units(standing.part, unit),
        );
    }
    for (place, series) in meter.of_device(&device.id) {
        let part = Part {
            compute: series.granted.compute(),
            memory: series.granted.memory(),
        };
        for span in series.spans.touching(within) {
            add(span, Taker::Series(place), units(part, unit));
        }
    }
    // What ends at a moment makes room for what begins then.
    changes.sort_by_key(|change| (change.at, change.begins));
    changes
}
