//! How fast a month of interval events is taken and stated.
//! `cargo run --release -p gpuwise-account --example month -- 10000000`
#![allow(
    clippy::print_stdout,
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "it measures, and says what it measured"
)]

use gpuwise_account::{
    books::Books,
    period::{DAY, HOUR, Interval, Month},
    prices::{Applies, Basis, Metered, PriceBook, PriceEntry},
    usage::{Granted, Limits, Outcome, Principal, Sharing, UsageRecord, Used},
};
use gpuwise_domain::offer::Terms;
use gpuwise_units::{Currency, Money, Nanoseconds};
use std::{error::Error, fmt::Write, time::Instant};

const GPUS: u64 = 5_000;
const GPUS_A_LEASE: u64 = 5;

fn price(id: &str, micros: i64, valid: Interval, metered: Metered) -> PriceEntry {
    PriceEntry {
        id: id.into(),
        sku: "gpu-h100".into(),
        metered,
        basis: Basis::Compute,
        applies: Applies::default(),
        valid,
        window: None,
        amount: Money {
            micros,
            currency: Currency::USD,
        },
        per: metered.unit(),
        minimum_ns: 0,
        granularity_ns: 0,
        lent_milli: 500,
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let events: u64 = (std::env::args().nth(1)).map_or(Ok(1_000_000), |text| text.parse())?;
    let month: Month = "2026-11".parse()?;
    let start = month.start().0;
    let mut books = Books::new(Limits::default());
    let change = Nanoseconds(start + 14 * DAY + HOUR / 2);
    books.set_prices(PriceBook::new(vec![
        price(
            "old",
            2_400_000,
            Interval::new(Nanoseconds(0), change),
            Metered::GpuTime,
        ),
        price("new", 2_100_000, Interval::since(change), Metered::GpuTime),
        price(
            "energy",
            90_000,
            Interval::since(Nanoseconds(0)),
            Metered::Energy,
        ),
    ])?);
    let each = events / GPUS;
    let step = 30 * DAY / each;
    let now = Nanoseconds(start + 31 * DAY);
    let mut record = UsageRecord {
        principal: Principal::Broker,
        source: String::new(),
        id: String::new(),
        sequence: 0,
        tenant: "vision".into(),
        lease: String::new(),
        device: String::new(),
        part: 0,
        kind: "H100-SXM-80GB".into(),
        granted: Granted::Whole,
        isolation: Sharing::Exclusive,
        class: Terms::OnDemand,
        start: Nanoseconds(0),
        end: Nanoseconds(0),
        used: Used::default(),
    };
    let began = Instant::now();
    // As they come: all GPUs of one time after those of the one before.
    for sequence in 0..each {
        for gpu in 0..GPUS {
            let at = start + sequence * step;
            for (text, name, number) in [
                (&mut record.source, "node", gpu / 8),
                (&mut record.lease, "L", gpu / GPUS_A_LEASE),
                (&mut record.device, "GPU-5f1c0d1e-0000-4000-8000", gpu),
                (&mut record.id, "usage", sequence * GPUS + gpu),
            ] {
                text.clear();
                write!(text, "{name}-{number}")?;
            }
            record.sequence = sequence;
            (record.start, record.end) = (Nanoseconds(at), Nanoseconds(at + step));
            record.used = Used {
                sm_ns: Some(step / 3),
                byte_seconds: Some(step),
                energy_mj: Some(step / 2_000_000),
                ..Used::default()
            };
            let outcome = books.record(now, &record);
            if matches!(outcome, Outcome::Aside(_)) {
                return Err(format!("{}: {outcome:?}", record.id).into());
            }
        }
    }
    let took = began.elapsed().as_secs_f64();
    let taken = each * GPUS;
    println!(
        "{taken} events taken in {took:.2} s: {:.0} a second",
        taken as f64 / took
    );
    let began = Instant::now();
    let statement = books.statement("vision", month);
    let took = began.elapsed().as_secs_f64();
    let total = statement.totals()[&Currency::USD];
    println!(
        "statement of {} lines over {} USD in {took:.3} s",
        statement.lines.len(),
        total.micros as f64 / 1e6
    );
    Ok(())
}
