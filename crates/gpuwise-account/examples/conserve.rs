//! Money and time conserved over random leases: parts of GPUs, price changes, records late, twice and out
//! of order, corrections, a leap day, currencies of 0, 2 and 3 decimals.
//! `cargo run --release -p gpuwise-account --example conserve -- 1000000`
#![allow(
    clippy::print_stdout,
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "it measures, and says what it measured"
)]

use gpuwise_account::{
    books::Books,
    conserve::{Device, Part, Resource, balances, divide_cost},
    ledger::{Ledger, of_statement},
    period::{DAY, HOUR, Interval, Month},
    prices::{Applies, Basis, Metered, PriceBook, PriceEntry},
    usage::{Granted, Limits, Outcome, Principal, Sharing, Spans, UsageRecord, Used},
};
use gpuwise_domain::offer::Terms;
use gpuwise_units::{Currency, Money, Nanoseconds, RandomStream};
use std::{collections::BTreeMap, error::Error, time::Instant};

const CURRENCIES: [&str; 3] = ["USD", "JPY", "KWD"];
const TENANTS: u64 = 300;
const LEASES_A_DEVICE: u64 = 500;
const MONTHS: [&str; 3] = ["2028-01", "2028-02", "2028-03"];

/// Prices of a currency's GPUs: from when on, and µ-units an hour.
type Changes = Vec<(u64, i64)>;

struct World {
    start: u64,
    end: u64,
    changes: [Changes; 3],
    records: Vec<UsageRecord>,
    /// What all leases come to, by currency, in exact sums of lines that were rounded once.
    wanted: BTreeMap<&'static str, i128>,
    devices: u64,
}

/// Half to even, not by the crate's own function.
fn rounded(numerator: i128, denominator: i128) -> i128 {
    let (whole, rest) = (numerator / denominator, numerator % denominator);
    whole + i128::from(rest * 2 > denominator || (rest * 2 == denominator && whole % 2 == 1))
}

/// Parts that lie on a device at once, with their share of compute.
fn parts(stream: &mut RandomStream) -> Vec<(Granted, i128, i128)> {
    match stream.below(3) {
        0 => vec![(Granted::Whole, 1, 1)],
        1 => {
            let fraction = |compute_milli: u32| {
                let granted = Granted::Fraction {
                    compute_milli,
                    memory_mib: 20_000,
                    of_mib: 81_559,
                };
                (granted, i128::from(compute_milli), 1000)
            };
            let first = 1 + stream.below(600) as u32;
            vec![fraction(first), fraction(137), fraction(1000 - 137 - first)]
        }
        _ => [(1, 2), (2, 2), (4, 4)]
            .into_iter()
            .map(|(compute, memory)| {
                let granted = Granted::Slice {
                    profile: format!("{compute}g"),
                    compute,
                    of_compute: 7,
                    memory,
                    of_memory: 8,
                };
                (granted, i128::from(compute), 7)
            })
            .collect(),
    }
}

impl World {
    fn new(leases: u64) -> Result<Self, Box<dyn Error>> {
        let first: Month = MONTHS[0].parse()?;
        let last: Month = MONTHS[2].parse()?;
        let (start, end) = (first.start().0, last.interval().end.0);
        let mut stream = RandomStream::new(17, "prices", 0);
        let changes = [0, 1, 2].map(|_| {
            let mut changes = vec![(0, 1 + stream.below(9_000_000).cast_signed())];
            for _ in 0..5 {
                let at = start + stream.below(end - start);
                changes.push((at, 1 + stream.below(9_000_000).cast_signed()));
            }
            changes.sort_unstable();
            changes
        });
        let mut world = Self {
            start,
            end,
            changes,
            records: Vec::new(),
            wanted: BTreeMap::new(),
            devices: leases.div_ceil(LEASES_A_DEVICE),
        };
        for device in 0..world.devices {
            world.fill(device)?;
        }
        Ok(world)
    }

    /// Leases of one device, one block of parts after the other.
    fn fill(&mut self, device: u64) -> Result<(), Box<dyn Error>> {
        let mut stream = RandomStream::new(17, "leases", device);
        let mut at = self.start;
        let mut count = 0;
        let longest = (self.end - self.start) / LEASES_A_DEVICE * 3;
        while count < LEASES_A_DEVICE && at < self.end {
            let block = (at + 1 + stream.below(longest)).min(self.end);
            for (granted, part, of) in parts(&mut stream) {
                let from = at + stream.below(1 + (block - at) / 4);
                let to = block - stream.below(1 + (block - from) / 4);
                // A block may go over by two.
                let number = device * (LEASES_A_DEVICE + 2) + count;
                self.lease(&mut stream, device, number, &granted, from, to);
                self.expect(device, part, of, from, to)?;
                count += 1;
            }
            at = block;
        }
        Ok(())
    }

    /// In one to four records, of which some come twice.
    fn lease(
        &mut self,
        stream: &mut RandomStream,
        device: u64,
        number: u64,
        granted: &Granted,
        from: u64,
        to: u64,
    ) {
        let mut cuts = vec![from, to];
        for _ in 0..stream.below(4) {
            cuts.push(from + stream.below(1 + to - from));
        }
        cuts.sort_unstable();
        for (place, pair) in cuts.windows(2).enumerate() {
            let record = UsageRecord {
                principal: Principal::Broker,
                source: format!("node-{}", device / 8),
                id: format!("{number}/{place}"),
                sequence: place as u64,
                tenant: format!("tenant-{}", number % TENANTS),
                lease: format!("L-{number}"),
                device: format!("GPU-{device}"),
                part: 0,
                kind: CURRENCIES[(device % 3) as usize].into(),
                granted: granted.clone(),
                isolation: Sharing::Mig,
                class: Terms::OnDemand,
                start: Nanoseconds(pair[0]),
                end: Nanoseconds(pair[1]),
                used: Used {
                    sm_ns: Some((pair[1] - pair[0]) / 2),
                    ..Used::default()
                },
            };
            if stream.below(20) == 0 {
                self.records.push(record.clone());
            }
            self.records.push(record);
        }
    }

    /// Adds what a lease comes to: one line for each price and month.
    fn expect(
        &mut self,
        device: u64,
        part: i128,
        of: i128,
        from: u64,
        to: u64,
    ) -> Result<(), Box<dyn Error>> {
        let changes = &self.changes[(device % 3) as usize];
        for month in MONTHS {
            let month = month.parse::<Month>()?.interval();
            for (place, (since, micros)) in changes.iter().enumerate() {
                let until = changes.get(place + 1).map_or(u64::MAX, |next| next.0);
                let begins = from.max(*since).max(month.start.0);
                let ends = to.min(until).min(month.end.0);
                if begins < ends {
                    let product = i128::from(ends - begins) * i128::from(*micros) * part;
                    let line = rounded(product, of * i128::from(HOUR));
                    *self
                        .wanted
                        .entry(CURRENCIES[(device % 3) as usize])
                        .or_default() += line;
                }
            }
        }
        Ok(())
    }

    fn prices(&self) -> Result<PriceBook, Box<dyn Error>> {
        let mut entries = Vec::new();
        for (changes, currency) in self.changes.iter().zip(CURRENCIES) {
            for (place, (since, micros)) in changes.iter().enumerate() {
                let until = changes.get(place + 1).map_or(u64::MAX, |next| next.0);
                entries.push(PriceEntry {
                    id: format!("{currency}-{place}"),
                    sku: currency.into(),
                    metered: Metered::GpuTime,
                    basis: Basis::Compute,
                    applies: Applies {
                        kind: Some(currency.into()),
                        ..Applies::default()
                    },
                    valid: Interval::new(Nanoseconds(*since), Nanoseconds(until)),
                    window: None,
                    amount: Money {
                        micros: *micros,
                        currency: currency.parse()?,
                    },
                    per: HOUR,
                    minimum_ns: 0,
                    granularity_ns: 0,
                    lent_milli: 500,
                });
            }
        }
        Ok(PriceBook::new(entries)?)
    }

    /// Takes the records month by month in random order, some after their month was closed: the seconds that
    /// closing took.
    fn take(&mut self, books: &mut Books) -> Result<f64, Box<dyn Error>> {
        let mut stream = RandomStream::new(17, "order", 0);
        for place in (1..self.records.len()).rev() {
            self.records
                .swap(place, stream.below(place as u64 + 1) as usize);
        }
        let mut closing = 0.0;
        for month in MONTHS {
            let month: Month = month.parse()?;
            let end = month.interval().end;
            let last = |record: &UsageRecord| Nanoseconds(record.end.0 - 1);
            let ends_here = |record: &&UsageRecord| Month::of(last(record)) == month;
            let late = |record: &UsageRecord| record.id.ends_with("7/0");
            let records = self.records.iter().filter(ends_here);
            for record in records.clone().filter(|record| !late(record)) {
                taken(books.record(Nanoseconds(end.0 + DAY), record))?;
            }
            let began = Instant::now();
            books.close(month);
            closing += began.elapsed().as_secs_f64();
            for record in records.filter(|record| late(record)) {
                taken(books.record(Nanoseconds(end.0 + 5 * DAY), record))?;
            }
        }
        Ok(closing)
    }
}

/// A record that is aside is not charged.
fn taken(outcome: Outcome) -> Result<(), Box<dyn Error>> {
    match outcome {
        Outcome::Aside(reason) => Err(reason.sentence().into()),
        _ => Ok(()),
    }
}

/// What tenants owe, by currency, and by how many lines.
struct Owed {
    by_currency: BTreeMap<String, i128>,
    lines: usize,
    corrections: usize,
}

/// All statements in a ledger.
fn owed(books: &Books) -> Result<Owed, Box<dyn Error>> {
    let mut ledger = Ledger::default();
    let (mut lines, mut corrections) = (0, 0);
    for month in MONTHS.into_iter().chain(["2028-04"]) {
        for tenant in books.meter().tenants() {
            let statement = books.statement(tenant, month.parse()?);
            lines += statement.lines.len();
            corrections += (statement.lines.iter().filter(|line| line.is_correction())).count();
            let id = format!("{month}/{tenant}");
            let transaction = of_statement(&statement, &id, Nanoseconds(0));
            transaction.map_or(Ok(()), |transaction| ledger.post(transaction))?;
        }
    }
    ledger.check()?;
    let mut owed: BTreeMap<String, i128> = BTreeMap::new();
    let mut zero: BTreeMap<Currency, i128> = BTreeMap::new();
    for (account, currency, micros) in ledger.balances() {
        *zero.entry(currency).or_default() += micros;
        if account.starts_with("receivable:") {
            *owed.entry(currency.code().into()).or_default() += micros;
        }
    }
    assert!(zero.values().all(|micros| *micros == 0), "{zero:?}");
    Ok(Owed {
        by_currency: owed,
        lines,
        corrections,
    })
}

/// Every hour of every device, and its cost divided: how many hours, and how many µ-units of cost.
fn hours(world: &World, books: &Books) -> Result<(u64, i128), Box<dyn Error>> {
    let within = Interval::new(Nanoseconds(world.start), Nanoseconds(world.end));
    let mut present = Spans::default();
    present.insert(within);
    let (mut hours, mut divided) = (0, 0);
    for device in 0..world.devices {
        let device = Device {
            id: format!("GPU-{device}"),
            present: present.clone(),
            system: Part::NOTHING,
            standing: Vec::new(),
            lent: Spans::default(),
        };
        for balance in balances(books.meter(), &device, within)? {
            assert!(balance.compute.holds() && balance.memory.holds());
            let cost = Money {
                micros: 1_234_567,
                currency: Currency::USD,
            };
            for resource in Resource::ALL {
                let parts = divide_cost(books.meter(), &balance, cost, resource);
                let sum: i64 = parts.iter().map(|part| part.cost.micros).sum();
                assert_eq!(sum, cost.micros);
                divided += i128::from(sum);
            }
            hours += 1;
        }
    }
    Ok((hours, divided))
}

fn main() -> Result<(), Box<dyn Error>> {
    let leases: u64 = (std::env::args().nth(1)).map_or(Ok(100_000), |text| text.parse())?;
    let began = Instant::now();
    let mut world = World::new(leases)?;
    println!(
        "{} records of about {leases} leases on {} GPUs made in {:.1} s",
        world.records.len(),
        world.devices,
        began.elapsed().as_secs_f64()
    );
    let mut books = Books::new(Limits::default());
    books.set_prices(world.prices()?);
    let began = Instant::now();
    let closing = world.take(&mut books)?;
    let taken = began.elapsed().as_secs_f64() - closing;
    println!("taken in random order in {taken:.1} s; three months closed in {closing:.1} s");
    let duplicates: u64 = books.meter().duplicates().values().sum();
    let aside = books.meter().aside().count();
    let began = Instant::now();
    let Owed {
        by_currency,
        lines,
        corrections,
    } = owed(&books)?;
    println!(
        "{lines} lines, {corrections} of them corrections; {duplicates} records came twice, {aside} are aside; stated and posted in {:.1} s",
        began.elapsed().as_secs_f64()
    );
    for (currency, wanted) in &world.wanted {
        let found = by_currency.get(*currency).copied().unwrap_or(0);
        println!("{currency}: {found} µ-units owed, {wanted} expected");
        assert_eq!(found, *wanted);
    }
    let began = Instant::now();
    let (hours, divided) = hours(&world, &books)?;
    println!(
        "{hours} hours of GPUs hold in compute and memory; {divided} µ-units of cost divided; {:.1} s",
        began.elapsed().as_secs_f64()
    );
    Ok(())
}
