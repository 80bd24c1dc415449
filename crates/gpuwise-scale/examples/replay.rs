//! Controllers along series of a table `model,t_s,rate_rps` that comes on standard input.

#![allow(clippy::print_stdout, reason = "what it prints is what it is for")]

use gpuwise_scale::{
    controller::{Controller, Gpuwise, Rules},
    fluid::{Demand, Outcome, Service, run},
    peers::{Hpa, Kpa, Metric},
};
use gpuwise_units::Nanoseconds;
use std::{collections::BTreeMap, io};

fn seconds(seconds: f64) -> Nanoseconds {
    Nanoseconds((seconds * 1e9) as u64)
}

fn main() {
    let mut series: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for line in io::stdin().lines().skip(1).map_while(Result::ok) {
        let cells: Vec<&str> = line.split(',').collect();
        if let ["language", model, _, rate] = cells.as_slice() {
            series.entry((*model).to_owned()).or_default().push(rate.parse().unwrap_or(0.0));
        }
    }
    let only = std::env::args().nth(1).unwrap_or_default();
    for (name, rates) in series {
        let demand = Demand { period: 600.0, rates }.scaled_to(100.0);
        for start in [180.0, 600.0] {
            let service = Service {
                rate: 5.0,
                service: 4.0,
                wait: 2.0,
                start,
                wake: 5.0,
                sleep: 10.0,
                warm_cost: 0.1,
                dispersion: 3.0,
                bin: 5.0,
            };
            let targets = [0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6, 0.55, 0.5, 0.45, 0.4, 0.35, 0.3, 0.25, 0.2];
            let best = |what: &str, make: &dyn Fn(f64) -> Box<dyn Controller>| {
                let all: Vec<Outcome> = targets.iter().map(|target| run(&demand, &service, &mut *make(*target), 1)).collect();
                for kept in [0.99, 0.999] {
                    let fits = all.iter().filter(|one| one.kept() >= kept);
                    let least = fits.min_by(|a, b| a.cost.total_cmp(&b.cost));
                    match least {
                        Some(one) => println!("{name} {start} {what} {kept}: {:.2}, {} changes", one.ratio(), one.changes),
                        None => println!("{name} {start} {what} {kept}: none"),
                    }
                }
            };
            if only.is_empty() || only == "peers" {
                best("hpa rate", &|target| Box::new(Hpa::new(Metric::Rate, 5.0 * target)));
                best("hpa concurrency", &|target| Box::new(Hpa::new(Metric::Concurrency, 20.0 * target)));
                best("kpa", &|target| Box::new(Kpa::new(20.0 * target)));
            }
            if only.is_empty() || only == "ours" {
                for hold in [120.0, 240.0] { for (band, extra, objective, margin) in [(1.5, 0.25, 0.99, 0.5), (2.0, 0.5, 0.99, 0.3), (2.0, 0.5, 0.99, 0.0), (2.5, 0.75, 0.99, 0.0), (2.5, 1.0, 0.99, 0.0), (2.0, 0.5, 0.999, 1.0)] {
                    let (keep, level, far) = (1.0, 0.99, 600);
                    let rules = Rules {
                        period: seconds(15.0),
                        rate: 5.0,
                        objective,
                        start: seconds(start),
                        wake: seconds(5.0),
                        wait: 2.0,
                        hold: seconds(hold),
                        warms: true,
                        warm_cost: 0.1,
                        level,
                        keep,
                        far,
                        band,
                        extra,
                        margin,
                    };
                    let one = run(&demand, &service, &mut Gpuwise::new(rules), 1);
                    println!("{name} {start} ours {objective} hold {hold} band {band} extra {extra} margin {margin}: {:.3}, kept {:.4}, {} changes, busy {:.3} warm {:.3}", one.ratio(), one.kept(), one.changes, one.busy / one.bound, one.warm / one.bound);
                } }
            }
        }
    }
}
