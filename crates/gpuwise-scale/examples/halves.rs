//! Our controller on half of each service's clients, drawn anew by each seed: what it costs beside the bound that
//! knows what will come, and what it keeps. A table `category,model,client,t_s,rate_rps,…` comes on standard input.
//!
//!     zcat servegen_client_rates_10min.csv.gz | cargo run --release -p gpuwise-scale --example halves -- 101 102

#![allow(clippy::print_stdout, reason = "what it prints is what it is for")]
#![allow(
    clippy::disallowed_methods,
    reason = "an example is a program: it reads arguments and standard input"
)]

use gpuwise_scale::{
    compare::{Policy, compare},
    fluid::{Demand, Service},
};
use gpuwise_units::RandomStream;
use std::{
    collections::{BTreeMap, BTreeSet},
    env, io,
};

/// Rates by model, client and time in seconds.
type Rates = BTreeMap<String, BTreeMap<String, BTreeMap<u64, f64>>>;

fn read() -> Rates {
    let mut rates = Rates::new();
    for line in io::stdin().lines().skip(1).map_while(Result::ok) {
        let cells: Vec<&str> = line.split(',').collect();
        if let [_, model, client, at, rate, ..] = cells.as_slice() {
            let of = rates.entry((*model).to_owned()).or_default();
            let of = of.entry((*client).to_owned()).or_default();
            let rate = rate.parse().unwrap_or(0.0);
            *of.entry(at.parse().unwrap_or(0)).or_default() += rate;
        }
    }
    rates
}

/// The sum of half of the clients, every ten minutes from the first to the last.
fn half(clients: &BTreeMap<String, BTreeMap<u64, f64>>, seed: u64) -> Vec<f64> {
    let mut stream = RandomStream::new(seed, "half of the clients", 0);
    let mut all: Vec<&String> = clients.keys().collect();
    let mut kept = BTreeSet::new();
    for _ in 0..all.len() / 2 {
        let drawn = stream.below(all.len() as u64) as usize;
        kept.insert(all.swap_remove(drawn));
    }
    let last = clients.values().flat_map(BTreeMap::keys).max();
    let mut sums = vec![0.0; last.map_or(0, |last| (*last / 600) as usize + 1)];
    for (client, rates) in clients {
        for (at, rate) in rates.iter().filter(|_| kept.contains(client)) {
            sums[(*at / 600) as usize] += rate;
        }
    }
    sums
}

fn main() {
    let seeds: Vec<u64> = env::args()
        .skip(1)
        .map_while(|one| one.parse().ok())
        .collect();
    println!("half of, seed, start-up s, objective: cost / bound, kept, changes");
    for (model, clients) in read() {
        for &seed in &seeds {
            let demand = Demand {
                period: 600.0,
                rates: half(&clients, seed),
            };
            let demand = demand.scaled_to(100.0);
            for start in [180.0, 600.0] {
                let service = Service {
                    start,
                    ..Service::default()
                };
                for objective in [0.99, 0.999] {
                    let out = compare(Policy::Gpuwise, &demand, &service, objective, seed).outcome;
                    let (ratio, kept) = (out.ratio(), out.kept());
                    println!(
                        "{model} {seed} {start} {objective}: {ratio:.3} {kept:.4} {}",
                        out.changes
                    );
                }
            }
        }
    }
}
