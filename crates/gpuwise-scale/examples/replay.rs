//! Controllers along series of a table `category,model,t_s,rate_rps` that comes on standard input: `replay [POLICY]`.

#![allow(clippy::print_stdout, reason = "what it prints is what it is for")]

use gpuwise_scale::{
    compare::{POLICIES, compare},
    fluid::{Demand, Service},
};
use std::{collections::BTreeMap, io};

fn main() {
    let mut series: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for line in io::stdin().lines().skip(1).map_while(Result::ok) {
        let cells: Vec<&str> = line.split(',').collect();
        if let [_, model, _, rate] = cells.as_slice() {
            series
                .entry((*model).to_owned())
                .or_default()
                .push(rate.parse().unwrap_or(0.0));
        }
    }
    let only = std::env::args().nth(1);
    let seed = std::env::args()
        .nth(2)
        .and_then(|one| one.parse().ok())
        .unwrap_or(1);
    for (name, rates) in series {
        let demand = Demand {
            period: 600.0,
            rates,
        }
        .scaled_to(100.0);
        for start in [180.0, 600.0] {
            let service = Service {
                start,
                ..Service::default()
            };
            for policy in POLICIES {
                if only.as_deref().is_some_and(|only| only != policy.name()) {
                    continue;
                }
                for kept in [0.99, 0.999] {
                    let one = compare(policy, &demand, &service, kept, seed);
                    let out = one.outcome;
                    let fits = if out.kept() >= kept { "" } else { "NOT " };
                    println!(
                        "{name} {start} {} {kept}: {:.3} {fits}kept {:.4} changes {} warm {:.3} target {:?}",
                        policy.name(),
                        out.ratio(),
                        out.kept(),
                        out.changes,
                        out.warm / out.bound,
                        one.target
                    );
                }
            }
        }
    }
}
