//! Backtests forecasts on series of a table `model,t_s,rate_rps` that comes on standard input.
//!
//!     zcat servegen_total_rates_10min.csv.gz | cargo run --release -p gpuwise-scale --example backtest -- 600 1,2,3

#![allow(clippy::print_stdout, reason = "what it prints is what it is for")]

use gpuwise_scale::forecast::{LEVELS, Settings, backtest::backtest};
use gpuwise_units::Nanoseconds;
use std::{collections::BTreeMap, env, io};

fn main() {
    let mut arguments = env::args().skip(1);
    let period: u64 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(600);
    let horizons = arguments.next().unwrap_or_else(|| "1,2,3".into());
    let horizons: Vec<u32> = horizons.split(',').filter_map(|text| text.parse().ok()).collect();
    let mut series: BTreeMap<String, Vec<Option<f64>>> = BTreeMap::new();
    for line in io::stdin().lines().skip(1).map_while(Result::ok) {
        let cells: Vec<&str> = line.split(',').collect();
        if let [_, model, _, rate] = cells.as_slice() {
            series.entry((*model).to_owned()).or_default().push(rate.parse().ok());
        }
    }
    let settings = Settings {
        period: Nanoseconds(period * 1_000_000_000),
        horizons,
    };
    for (name, series) in &series {
        for from in [0, series.len() / 2] {
            for one in backtest(&settings, series, from) {
                let percent = |share: f64| format!("{:5.1}", share * 100.0);
                let covered: Vec<String> = one.covered.iter().map(|one| percent(*one)).collect();
                let highest: Vec<String> = one.covered_highest.iter().map(|one| percent(*one)).collect();
                println!(
                    "{name:<12} from {from:<5} {:>2} ahead: WAPE {} last {} day {}; below {LEVELS:?}: {} highest: {}",
                    one.horizon,
                    percent(one.wape),
                    percent(one.wape_last),
                    one.wape_day.map_or_else(|| "–".into(), percent),
                    covered.join(" "),
                    highest.join(" "),
                );
            }
        }
    }
}
