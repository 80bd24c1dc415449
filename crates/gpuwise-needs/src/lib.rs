//! What tests need from outside, and a line that says so where it is not there.
//!
//! A test without its sample data or its program passes: that must be seen. Each says
//! `SKIPPED <crate> <test>: <what is missing>` once, on the standard error itself, which the test
//! harness does not capture as it does `eprintln!`; `.ci/run` counts these lines.

pub mod nvml;
pub mod postgres;

use std::{
    collections::BTreeSet,
    io::Write as _,
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// A file or folder of the sample data, which `GPUWISE_DATA` names; an empty `below` is its root.
/// `None`, said aloud, where it is not there.
pub fn data(below: &str) -> Option<PathBuf> {
    let place = std::env::var_os("GPUWISE_DATA").map(|root| PathBuf::from(root).join(below));
    let found = place.filter(|place| place.exists());
    if found.is_none() {
        let what = if below.is_empty() {
            "a folder of sample data"
        } else {
            below
        };
        skipped(&format!("GPUWISE_DATA does not name {what}"));
    }
    found
}

/// Says that the test that calls this does not run, or not all of it, and what it misses.
pub fn skipped(missing: &str) {
    let thread = std::thread::current();
    // The harness names the thread of each test after it; cargo says whose test it is.
    let test = thread.name().unwrap_or("a test");
    let of = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if said.insert(test.to_owned()) {
        // One piece, so that lines of tests side by side stay whole; nobody reads a failure here.
        let line = format!("SKIPPED {of} {test}: {missing}\n");
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
}
