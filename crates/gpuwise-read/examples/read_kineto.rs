//! Reads traces of the PyTorch profiler and says what they hold: for timing the reader alone.
//!
//! `cargo run --release -p gpuwise-read --example read_kineto -- TRACE…`

// The crate itself opens nothing; this program does.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout
)]

use gpuwise_read::kineto::{Limits, Vocabulary, open, read};
use std::{env, error::Error, fs::File};

fn main() -> Result<(), Box<dyn Error>> {
    for path in env::args_os().skip(1) {
        let timeline = read(
            open(File::open(&path)?),
            &Vocabulary::default(),
            &Limits::default(),
        )?;
        let linked = timeline
            .work
            .iter()
            .filter(|work| work.call.get().is_some());
        let of_operator = timeline
            .work
            .iter()
            .filter(|work| work.operator.get().is_some());
        println!(
            "{}: {} bytes, {} events, {} pieces of work ({} with a call, {} with an operator), {} names, {} details, {} operands",
            path.display(),
            timeline.bytes,
            timeline.event_count,
            timeline.work.len(),
            linked.count(),
            of_operator.count(),
            timeline.names.len(),
            timeline.details.len(),
            timeline.operands.len(),
        );
        for loss in &timeline.losses {
            println!("  {} × {} {:?}", loss.count, loss.what, loss.first);
        }
    }
    Ok(())
}
