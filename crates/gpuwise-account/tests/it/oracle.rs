//! Statements against an oracle that shares no code with them: each second on its own, prices looked up
//! entry by entry, amounts as one quotient of whole numbers per line.

use crate::support::{SECOND, price, record, taken};
use gpuwise_account::{
    books::Books,
    period::{Interval, Month},
    prices::{Basis, Part, PriceBook, PriceEntry, Window},
    statement::Statement,
    usage::{Granted, Limits, Sharing, UsageRecord},
};
use gpuwise_units::{Money, Nanoseconds};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// 2028-02-28T20:00:00Z: five hours that hold the start of a leap day, in seconds since 1970.
const START: u64 = 1835380800;
const LENGTH: u64 = 5 * 3600;

fn moment(second: u64) -> Nanoseconds {
    Nanoseconds((START + second) * SECOND)
}

/// Amounts in µ-units by lease, part's place and price: numerator and denominator of each, summed.
type Sums = BTreeMap<(String, usize, String), (i128, i128)>;

#[derive(Debug, Clone)]
struct Case {
    granted: Vec<Granted>,
    /// Lease, part, device, first second, length.
    holdings: Vec<(u8, usize, u8, u64, u64)>,
    entries: Vec<PriceEntry>,
}

fn parts() -> Vec<Granted> {
    vec![
        Granted::Whole,
        Granted::Fraction {
            compute_milli: 333,
            memory_mib: 40_000,
            of_mib: 81_559,
        },
        Granted::Slice {
            profile: "1g.20gb".into(),
            compute: 1,
            of_compute: 7,
            memory: 2,
            of_memory: 8,
        },
    ]
}

fn entries() -> impl Strategy<Value = Vec<PriceEntry>> {
    let cuts = proptest::collection::btree_set(1..LENGTH, 0..4);
    let amounts = proptest::collection::vec(0_i64..90_000_000_000, 12);
    let basis = proptest::sample::select(Basis::ALL.to_vec());
    let currency = proptest::sample::select(vec!["JPY", "USD", "KWD"]);
    let window = proptest::option::of((0_u8..128, 0_u16..1440, 0_u16..=1440, -720_i16..720));
    (cuts, amounts, basis, currency, window, any::<bool>()).prop_map(
        |(cuts, amounts, basis, currency, window, gap)| {
            let currency = currency.parse().unwrap();
            let mut entries = Vec::new();
            let mut bounds: Vec<u64> = cuts.into_iter().collect();
            bounds.insert(0, 0);
            bounds.push(LENGTH);
            for (place, pair) in bounds.windows(2).enumerate() {
                // In one case of two the second piece has no price.
                if gap && place == 1 {
                    continue;
                }
                let mut entry = price(&format!("p{place}"), "1");
                entry.amount = Money {
                    micros: amounts[place],
                    currency,
                };
                entry.basis = basis;
                entry.valid = Interval::new(moment(pair[0]), moment(pair[1]));
                entries.push(entry.clone());
                entry.id = format!("slice{place}");
                entry.amount.micros = amounts[place + 6];
                entry.applies.part = Some(Part::Profile("1g.20gb".into()));
                entries.push(entry);
            }
            if let Some((days, from, to, ahead_of_utc)) = window.filter(|window| window.0 > 0) {
                let mut entry = price("night", "1");
                entry.amount = Money {
                    micros: amounts[11],
                    currency,
                };
                entry.window = Some(Window {
                    days,
                    from,
                    to,
                    ahead_of_utc,
                });
                entries.push(entry);
            }
            entries
        },
    )
}

fn cases() -> impl Strategy<Value = Case> {
    let holding = (0_u8..3, 0_usize..3, 0_u8..2, 0..LENGTH, 1_u64..9000);
    (proptest::collection::vec(holding, 1..7), entries()).prop_map(|(holdings, entries)| Case {
        granted: parts(),
        holdings,
        entries,
    })
}

/// The entry of a second: the one for a profile before the one for all, one of some hours before both of
/// its kind.
fn entry_of(case: &Case, part: usize, second: u64) -> Option<&PriceEntry> {
    let at = (START + second) * SECOND;
    let slice = matches!(case.granted[part], Granted::Slice { .. });
    let mut found: Option<(u8, &PriceEntry)> = None;
    for entry in &case.entries {
        let for_slice = entry.applies.part.is_some();
        let within = match entry.window {
            None => entry.valid.start.0 <= at && at < entry.valid.end.0,
            Some(window) => is_open(window, START + second),
        };
        if !within || (for_slice && !slice) {
            continue;
        }
        let rank = u8::from(for_slice) * 2 + u8::from(entry.window.is_some());
        if found.is_none_or(|(best, _)| rank > best) {
            found = Some((rank, entry));
        }
    }
    found.map(|(_, entry)| entry)
}

/// Minute by minute: whether one of the last 1,440 began a window that is not over.
fn is_open(window: Window, second: u64) -> bool {
    let local = second.cast_signed() + i64::from(window.ahead_of_utc) * 60;
    let lasts = match i64::from(window.to) - i64::from(window.from) {
        minutes if minutes > 0 => minutes,
        minutes => minutes + 1440,
    };
    [0, 1].into_iter().any(|days_ago| {
        let day = local.div_euclid(86_400) - days_ago;
        // Day 4 of 1970 was a Monday, counted from 0 on the first.
        let weekday = (day - 4).rem_euclid(7);
        let begins = day * 86_400 + i64::from(window.from) * 60;
        window.days >> weekday & 1 == 1 && begins <= local && local < begins + lasts * 60
    })
}

fn share(basis: Basis, granted: &Granted) -> (i128, i128) {
    let (compute, memory) = match granted {
        Granted::Nothing => ((0, 1), (0, 1)),
        Granted::Whole => ((1, 1), (1, 1)),
        Granted::Fraction { .. } => ((333, 1000), (40_000, 81_559)),
        Granted::Slice { .. } => ((1, 7), (2, 8)),
    };
    match basis {
        Basis::Part => (1, 1),
        Basis::Compute => compute,
        Basis::Larger if compute.0 * memory.1 >= memory.0 * compute.1 => compute,
        Basis::Memory | Basis::Larger => memory,
    }
}

fn wanted(case: &Case) -> Sums {
    let mut sums = Sums::new();
    for lease in 0..3_u8 {
        for part in 0..3 {
            for device in 0..2_u8 {
                for second in 0..LENGTH + 9000 {
                    let held = case.holdings.iter().any(|(l, p, d, start, length)| {
                        (*l, *p, *d) == (lease, part, device)
                            && *start <= second
                            && second < start + length
                    });
                    let Some(entry) = held.then(|| entry_of(case, part, second)).flatten() else {
                        continue;
                    };
                    let (of, whole) = share(entry.basis, &case.granted[part]);
                    let key = (format!("L-{lease}"), part, entry.id.clone());
                    let sum = sums.entry(key).or_insert((0, 3600 * whole));
                    sum.0 += i128::from(entry.amount.micros) * of;
                }
            }
        }
    }
    sums
}

/// Half to even, by comparing twice the rest with the whole.
fn rounded((numerator, denominator): (i128, i128)) -> i64 {
    let (whole, rest) = (numerator / denominator, numerator % denominator);
    let up = rest * 2 > denominator || (rest * 2 == denominator && whole % 2 == 1);
    (whole + i128::from(up)) as i64
}

fn records(case: &Case) -> Vec<UsageRecord> {
    let record = |(place, holding): (usize, &(u8, usize, u8, u64, u64))| {
        let (lease, part, device, start, length) = *holding;
        let id = format!("r-{place}");
        UsageRecord {
            lease: format!("L-{lease}"),
            device: format!("GPU-{device}"),
            granted: case.granted[part].clone(),
            isolation: Sharing::Mig,
            ..record(&id, moment(start), moment(start + length))
        }
    };
    case.holdings.iter().enumerate().map(record).collect()
}

fn stated(statement: &Statement, case: &Case) -> BTreeMap<(String, usize, String), i64> {
    let mut lines = BTreeMap::new();
    for line in &statement.lines {
        let item = line.item.as_ref().unwrap();
        let part = case.granted.iter().position(|part| *part == item.granted);
        if let (Ok(charge), Some(price)) = (line.charge, &item.price) {
            let key = (item.lease.clone(), part.unwrap(), price.id.clone());
            assert!(lines.insert(key, charge.micros).is_none());
        }
    }
    lines
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn each_line_is_the_sum_of_its_seconds(case in cases(), backwards: bool) {
        // An entry for some hours is as close as one without a part: both may be there.
        let Ok(prices) = PriceBook::new(case.entries.clone()) else {
            return Err(TestCaseError::fail("the prices are not ambiguous"));
        };
        let mut books = Books::new(Limits::default());
        books.set_prices(prices);
        let mut records = records(&case);
        if backwards {
            records.reverse();
        }
        for record in &records {
            taken(books.record(moment(2 * LENGTH), record));
        }
        let month: Month = "2028-02".parse().unwrap();
        let statement = Statement::of(&books, "vision", month);
        let wanted: BTreeMap<_, _> = wanted(&case)
            .into_iter()
            .map(|(key, sum)| (key, rounded(sum)))
            .collect();
        prop_assert_eq!(stated(&statement, &case), wanted);
    }

    /// Records that come twice and in another order, with what was used: the same lines.
    #[test]
    fn order_and_repetition_change_nothing(
        case in cases(),
        used in proptest::collection::vec(proptest::option::of(0_u64..1 << 40), 7),
        order in proptest::collection::vec((0_usize..7, any::<bool>()), 0..30),
    ) {
        let mut records = records(&case);
        for (record, used) in records.iter_mut().zip(used) {
            record.used.sm_ns = used;
        }
        let lines = |order: &[usize]| {
            let mut books = Books::new(Limits::default());
            books.set_prices(PriceBook::new(case.entries.clone()).unwrap());
            for place in order.iter().filter(|place| **place < records.len()) {
                taken(books.record(moment(2 * LENGTH), &records[*place]));
            }
            Statement::of(&books, "vision", "2028-02".parse().unwrap()).lines
        };
        let straight: Vec<usize> = (0..records.len()).collect();
        let mut shuffled: Vec<usize> = Vec::new();
        for (place, front) in order {
            shuffled.insert(if front { 0 } else { shuffled.len() }, place);
        }
        shuffled.extend(straight.iter().rev());
        prop_assert_eq!(lines(&straight), lines(&shuffled));
    }
}
