//! Backtests forecasts on series of a table `category,model,t_s,rate_rps`, or `category,model,client,t_s,rate_rps,…`,
//! that comes on standard input.
//!
//!     zcat servegen_total_rates_10min.csv.gz | cargo run --release -p gpuwise-scale --example backtest -- 600 1,2,3

#![allow(clippy::print_stdout, reason = "what it prints is what it is for")]
#![allow(
    clippy::disallowed_methods,
    reason = "an example is a program: it reads arguments and standard input"
)]

use gpuwise_scale::forecast::{LEVELS, Settings, backtest::backtest, series::regular};
use gpuwise_units::Nanoseconds;
use std::{collections::BTreeMap, env, io};

fn main() {
    let mut arguments = env::args().skip(1);
    let period: u64 = arguments
        .next()
        .and_then(|text| text.parse().ok())
        .unwrap_or(600);
    let horizons = arguments.next().unwrap_or_else(|| "1,2,3".into());
    let horizons: Vec<u32> = horizons
        .split(',')
        .filter_map(|text| text.parse().ok())
        .collect();
    let mut series: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    let mut clients: BTreeMap<(String, String), Vec<(f64, f64)>> = BTreeMap::new();
    for line in io::stdin().lines().skip(1).map_while(Result::ok) {
        let cells: Vec<&str> = line.split(',').collect();
        let number = |text: &str| text.parse().unwrap_or(f64::NAN);
        match cells.as_slice() {
            [_, model, at, rate] => series
                .entry((*model).to_owned())
                .or_default()
                .push((number(at), number(rate))),
            [_, model, client, at, rate, ..] => clients
                .entry(((*model).to_owned(), (*client).to_owned()))
                .or_default()
                .push((number(at), number(rate))),
            _ => {}
        }
    }
    let settings = Settings {
        period: Nanoseconds(period * 1_000_000_000),
        horizons,
    };
    for ((model, _), readings) in &clients {
        let all = series.entry(model.clone()).or_default();
        for (at, rate) in readings {
            match all
                .iter_mut()
                .find(|(known, _)| known.total_cmp(at).is_eq())
            {
                Some((_, sum)) => *sum += rate,
                None => all.push((*at, *rate)),
            }
        }
    }
    for (name, readings) in &series {
        let Ok(series) = regular(readings, Some(settings.period)) else {
            continue;
        };
        let of = clients.iter().filter(|((model, _), _)| model == name);
        let of: Vec<(String, Vec<f64>)> = of
            .map(|((_, client), readings)| (client.clone(), series.along(readings)))
            .collect();
        for from in [0, series.readings.len() / 2] {
            for one in backtest(&settings, &series, &of, from) {
                let percent = |share: f64| format!("{:5.1}", share * 100.0);
                let covered: Vec<String> = one.covered.iter().map(|one| percent(*one)).collect();
                let highest: Vec<String> = one
                    .covered_highest
                    .iter()
                    .map(|one| percent(*one))
                    .collect();
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
