//! How long a start takes: a snapshot, if there is one, and the events after it. `benches/log/grow.py` grows a log.
//!
//!     cargo run --release -p gpuwise-server --example restart -- sqlite://log.db

#![allow(clippy::print_stdout, reason = "what it prints is what it is for")]

use gpuwise_server::{Replay, keep_snapshot};
use gpuwise_store::Store;
use std::time::Instant;

fn main() {
    let address = std::env::args().nth(1).expect("a database");
    let store = Store::open(&address).expect("opens");
    let begun = Instant::now();
    let mut replay = Replay::open(&store).expect("reads");
    let (from, loaded) = (replay.from(), begun.elapsed());
    replay.catch_up(&store).expect("fits together");
    let (last, all) = (replay.last(), begun.elapsed());
    println!(
        "{last} events: {from} in a snapshot, read in {:.2} s; with {} read one by one {:.2} s",
        loaded.as_secs_f64(),
        last - from,
        all.as_secs_f64()
    );
    if from < last {
        let begun = Instant::now();
        let made = keep_snapshot(&store, &replay)
            .expect("is kept")
            .expect("a state");
        println!(
            "a snapshot of {} MB in {:.2} s",
            made.bytes / 1_000_000,
            begun.elapsed().as_secs_f64()
        );
    }
}
