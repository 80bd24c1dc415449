//! Granted, idle and the system's are the whole: by hand, and against each second looked at alone.

use crate::support::{SECOND, at, record, taken, usd};
use gpuwise_account::{
    conserve::{Balance, Device, Holder, Part, Resource, Standing, balances, divide_cost},
    period::Interval,
    usage::{Granted, Limits, Meter, Share, Sharing, Spans, UsageRecord},
};
use gpuwise_units::HourlyPrice;
use proptest::prelude::*;

fn slice(compute: u8, memory: u8) -> Granted {
    Granted::Slice {
        profile: format!("{compute}g"),
        compute,
        of_compute: 7,
        memory,
        of_memory: 8,
    }
}

fn device() -> Device {
    let mut present = Spans::default();
    present.insert(Interval::new(at(1, 0), at(3, 0)));
    Device {
        id: "GPU-0".into(),
        present,
        system: Part::NOTHING,
        standing: Vec::new(),
        lent: Spans::default(),
    }
}

fn held(id: &str, granted: Granted, start: u64, end: u64) -> UsageRecord {
    UsageRecord {
        lease: format!("L-{id}"),
        granted,
        isolation: Sharing::Mig,
        ..record(id, at(1, start), at(1, end))
    }
}

fn meter(records: &[UsageRecord]) -> Meter {
    let mut meter = Meter::new(Limits::default());
    for record in records {
        taken(meter.record(at(5, 0), record));
    }
    meter
}

fn hour() -> Interval {
    Interval::new(at(1, 0), at(1, 3600))
}

#[test]
fn an_hour_of_slices_by_hand() {
    // All hour 3g of 7 and 4 of 8; for its second half 1g with a quarter of the memory; an empty 2g.
    let meter = meter(&[
        held("a", slice(3, 4), 0, 3600),
        held("b", slice(1, 2), 1800, 3600),
    ]);
    let mut device = device();
    device.standing.push(Standing {
        interval: hour(),
        part: Part {
            compute: Share { part: 2, of: 7 },
            memory: Share { part: 1, of: 8 },
        },
    });
    let balances = balances(&meter, &device, hour()).unwrap();
    let [
        Balance {
            unit,
            compute,
            memory,
            ..
        },
    ] = balances.as_slice()
    else {
        panic!("one hour: {balances:?}");
    };
    // 56ths of the GPU, times half an hour.
    assert_eq!(*unit, 56);
    let half = 1800 * u128::from(SECOND);
    let shown = |parts: &gpuwise_account::conserve::Parts| {
        [
            parts.granted,
            parts.free,
            parts.stranded,
            parts.held,
            parts.whole,
        ]
        .map(|of| of / half)
    };
    // First half: 2/7 of the compute and 3/8 of the memory are idle, 16 and 21 56ths: 16 are free.
    // Second half: 1/7 and 1/8: 8 and 7.
    assert_eq!(shown(compute), [24 + 32, 16 + 7, 1, 2 * 16, 112]);
    assert_eq!(shown(memory), [28 + 42, 16 + 7, 5, 2 * 7, 112]);
    assert!(compute.holds() && memory.holds());
    let costs = divide_cost(&meter, &balances[0], usd("2.00"), Resource::Compute);
    let sum: i64 = costs.iter().map(|part| part.cost.micros).sum();
    assert_eq!(sum, 2_000_000);
    let held = costs.iter().find(|part| part.holder == Holder::Held);
    assert_eq!(held.unwrap().cost, usd("0.571429"));
    // Half an hour more, of which nothing is granted: a dollar that is free and held.
    let longer = Interval::new(at(1, 0), at(1, 5400));
    let price = HourlyPrice(usd("2.00"));
    let costs = gpuwise_account::conserve::costs(&meter, &device, price, longer, Resource::Memory);
    assert_eq!(costs.unwrap().values().sum::<i128>(), 3_000_000);
}

#[test]
fn what_is_granted_twice_is_named() {
    let meter = meter(&[
        held("a", Granted::Whole, 0, 1200),
        held("b", slice(1, 1), 900, 1800),
    ]);
    let error = balances(&meter, &device(), hour()).unwrap_err();
    assert_eq!((error.at, error.over, error.unit), (at(1, 900), 8, 56));
    // Or granted while it was not there.
    let mut gone = device();
    gone.present = Spans::default();
    assert!(balances(&meter, &gone, hour()).is_err());
}

fn part() -> impl Strategy<Value = Granted> {
    prop_oneof![
        (1_u8..3, 1_u8..3).prop_map(|(compute, memory)| slice(compute, memory)),
        (1_u32..300, 1_u32..27_000).prop_map(|(compute_milli, memory_mib)| Granted::Fraction {
            compute_milli,
            memory_mib,
            of_mib: 81_559,
        }),
    ]
}

proptest! {
    /// An oracle that knows nothing of intervals: each second on its own, in reals.
    #[test]
    fn hours_are_what_their_seconds_are(
        leases in proptest::collection::vec((part(), 0_u64..7000, 1_u64..4000), 0..4),
        present in (0_u64..3000, 3000_u64..7200),
        standing in (0_u64..7200, 0_u64..7200),
        system in 0_u32..50,
    ) {
        let shift = present.0;
        let clipped: Vec<(Granted, u64, u64)> = leases
            .into_iter()
            .map(|(granted, start, length)| {
                let start = start.clamp(shift, present.1 - 1);
                (granted, start, (start + length).min(present.1))
            })
            .collect();
        let records: Vec<UsageRecord> = clipped
            .iter()
            .enumerate()
            .map(|(n, (granted, start, end))| held(&format!("{n}"), granted.clone(), *start, *end))
            .collect();
        let meter = meter(&records);
        let stands = standing.0.clamp(shift, present.1)..standing.1.clamp(shift, present.1);
        let share = |part, of| Share { part, of };
        let mut spans = Spans::default();
        spans.insert(Interval::new(at(1, present.0), at(1, present.1)));
        let device = Device {
            present: spans,
            system: Part { compute: share(system, 1000), memory: share(system, 1000) },
            standing: vec![Standing {
                interval: Interval::new(at(1, stands.start), at(1, stands.end)),
                part: Part { compute: share(1, 7), memory: share(1, 8) },
            }],
            ..device()
        };
        let balances = balances(&meter, &device, Interval::new(at(1, 0), at(1, 7200))).unwrap();
        prop_assert_eq!(balances.len(), 2);
        for (hour, balance) in balances.iter().enumerate() {
            let mut wanted = [[0.0_f64; 6]; 2];
            for second in hour as u64 * 3600..(hour as u64 + 1) * 3600 {
                let there = (present.0..present.1).contains(&second);
                let mut granted = [0.0; 2];
                for (part, start, end) in &clipped {
                    if (*start..*end).contains(&second) {
                        let of = |share: Share| f64::from(share.part) / f64::from(share.of);
                        granted[0] += of(part.compute());
                        granted[1] += of(part.memory());
                    }
                }
                let own = if there { f64::from(system) / 1000.0 } else { 0.0 };
                let held = if stands.contains(&second) { [1.0 / 7.0, 1.0 / 8.0] } else { [0.0; 2] };
                let whole = if there { 1.0 } else { 0.0 };
                let idle = [0, 1].map(|place| whole - granted[place] - own - held[place]);
                let free = idle[0].min(idle[1]);
                for place in [0, 1] {
                    let parts = [whole, granted[place], own, free, idle[place] - free, held[place]];
                    for (sum, part) in wanted[place].iter_mut().zip(parts) {
                        *sum += part;
                    }
                }
            }
            for (place, parts) in [balance.compute, balance.memory].into_iter().enumerate() {
                prop_assert!(parts.holds());
                let found = [
                    parts.whole, parts.granted, parts.system, parts.free, parts.stranded, parts.held,
                ];
                for (found, wanted) in found.iter().zip(wanted[place]) {
                    let found = *found as f64 / balance.unit as f64 / SECOND as f64;
                    prop_assert!((found - wanted).abs() < 1e-6, "{} is not {}", found, wanted);
                }
            }
        }
    }
}

/// Workers of one lease, each with an equal part of the device: how many, which part, and when.
type Gang = (u32, Granted, u64, u64);

fn gangs() -> impl Strategy<Value = Vec<Gang>> {
    let slices = (1_u32..8, Just(slice(1, 1)));
    let fractions = (1_u32..11, 1_u32..11).prop_map(|(workers, tenths)| {
        let granted = Granted::Fraction {
            compute_milli: tenths * 10,
            memory_mib: tenths * 700,
            of_mib: 81_559,
        };
        (workers, granted)
    });
    let gang = prop_oneof![slices, fractions];
    let timed = (gang, 0_u64..5000, 1_u64..5000);
    proptest::collection::vec(timed, 1..3).prop_map(|gangs| {
        let each = gangs.into_iter();
        each.map(|((workers, granted), start, length)| (workers, granted, start, start + length))
            .collect()
    })
}

proptest! {
    /// What is granted is what is charged, by compute and by memory, in each hour: all workers' parts count, however
    /// many of them one lease has of one device. The oracle adds up grants, second by second.
    #[test]
    fn parts_of_one_lease_are_each_granted_and_charged(gangs in gangs()) {
        let mut records = Vec::new();
        for (lease, (workers, granted, start, end)) in gangs.iter().enumerate() {
            for part in 0..*workers {
                records.push(UsageRecord {
                    part,
                    lease: format!("L-{lease}"),
                    id: format!("{lease}/{part}"),
                    ..held("x", granted.clone(), *start, *end)
                });
            }
        }
        let meter = meter(&records);
        let mut device = device();
        device.present.insert(Interval::new(at(1, 0), at(1, 4 * 3600)));
        // Some mixes are more than the whole: they are told, and not charged.
        let within = Interval::new(at(1, 0), at(1, 3 * 3600));
        let found = balances(&meter, &device, within);
        let at_once = |second: u64, of: fn(&Granted) -> Share| -> f64 {
            let held = gangs.iter().filter(|gang| (gang.2..gang.3).contains(&second));
            held.map(|(workers, granted, ..)| {
                let share = of(granted);
                f64::from(*workers) * f64::from(share.part) / f64::from(share.of)
            })
            .sum()
        };
        let most = (0..10_000).map(|second| {
            at_once(second, Granted::compute).max(at_once(second, Granted::memory))
        });
        let Ok(found) = found else {
            prop_assert!(most.fold(0.0, f64::max) > 1.0 - 1e-9);
            return Ok(());
        };
        for (hour, balance) in (0..).zip(&found) {
            for (resource, of) in [
                (Resource::Compute, Granted::compute as fn(&Granted) -> Share),
                (Resource::Memory, Granted::memory),
            ] {
                let seconds = hour * 3600..(hour + 1) * 3600;
                let wanted: f64 = seconds.map(|second| at_once(second, of)).sum();
                let parts = balance.of(resource);
                let granted = parts.granted as f64 / balance.unit as f64 / SECOND as f64;
                prop_assert!((granted - wanted).abs() < 1e-6, "{granted} is not {wanted}");
                prop_assert!(parts.holds());
            }
        }
    }
}
