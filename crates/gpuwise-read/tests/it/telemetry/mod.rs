//! Telemetry of GPUs and engines: every form, broken input, and the sample data as a whole.

// Tests may fail loudly, say what they skip, and compare numbers that are exact.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::float_cmp,
    clippy::unnecessary_wraps
)]

mod forms;
mod hostile;
mod page;
mod samples;

use gpuwise_domain::telemetry::{Missing, Quantity, ReadingValue, Telemetry};
use gpuwise_read::telemetry::{FieldNames, read};
use std::path::PathBuf;

/// The names of the catalogue.
fn names() -> FieldNames {
    let mut names = FieldNames::default();
    names
        .add_fields(
            "telemetry_fields.csv",
            include_str!("../../../../../catalogue/telemetry_fields.csv"),
        )
        .unwrap();
    names
        .add_dcgm(
            "telemetry_dcgm.csv",
            include_str!("../../../../../catalogue/telemetry_dcgm.csv"),
        )
        .unwrap();
    names
}

fn only(text: &str) -> Telemetry {
    let mut found = read(text, &names()).unwrap();
    assert_eq!(found.len(), 1);
    found.remove(0)
}

/// What is read of a quantity of a subject, last first.
fn value(found: &Telemetry, subject: usize, quantity: Quantity) -> Option<ReadingValue> {
    found
        .readings
        .iter()
        .rev()
        .find(|reading| reading.subject as usize == subject && reading.quantity == quantity)
        .map(|reading| reading.value)
}

fn known(number: f64) -> Option<ReadingValue> {
    Some(ReadingValue::Known(number))
}

fn unknown(why: Missing) -> Option<ReadingValue> {
    Some(ReadingValue::Unknown(why))
}

/// A folder of the sample data, where there is one.
fn data(folder: &str) -> Option<PathBuf> {
    gpuwise_needs::data(&format!("profile/{folder}"))
}
