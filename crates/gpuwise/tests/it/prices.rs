//! One layout has one price, whichever command is asked.

use crate::support::Place;
use serde_json::Value;
use std::collections::BTreeMap;

/// Replicas and tensor-parallel ranks of each.
type Layout = (u64, u64);

const MODELS: [&str; 2] = ["llama-3.1-8b", "llama-3.1-70b"];
const GPUS: [&str; 3] = ["H100 SXM5 80GB", "L40S", "A100 SXM4 80GB"];

/// What `plan` asks for each layout that it finds at these rates.
fn planned(place: &Place, model: &str, gpu: &str) -> BTreeMap<Layout, f64> {
    let mut prices = BTreeMap::new();
    for (rate, ranks) in [("1", "4"), ("12", "2"), ("30", "1"), ("30", "4")] {
        let sizing = place.json(&[
            "plan",
            model,
            "--gpu",
            gpu,
            "--rate",
            rate,
            "--tp",
            ranks,
            "--no-slices",
        ]);
        let Some(deployments) = sizing["deployments"].as_array() else {
            continue;
        };
        for deployment in deployments {
            let layout = &deployment["layout"];
            let count = |key: &str| layout[key].as_u64().expect("a count");
            let plain = ["pipeline", "attention_data", "expert"]
                .iter()
                .all(|key| count(key) == 1);
            if let Some(price) = deployment["cost"]["price_per_hour"]["amount"].as_f64()
                && plain
            {
                prices.insert((count("replicas"), count("tensor")), price);
            }
        }
    }
    prices
}

/// What `table` asks for each layout of its rows.
fn tabled(place: &Place, model: &str, gpu: &str) -> BTreeMap<Layout, f64> {
    let table = place.json(&[
        "table",
        "--models",
        model,
        "--gpu",
        gpu,
        "--concurrency",
        "1,64,200,500",
        "--method",
        "none",
    ]);
    let rows = table["rows"].as_array().expect("rows");
    let priced = rows.iter().filter_map(|row| {
        let (gpus, layout) = (row["gpus"].as_u64()?, row["layout"].as_str()?);
        let ranks: u64 = match layout.rsplit_once("TP") {
            Some((_, ranks)) => ranks.parse().ok()?,
            None if layout.contains("PP") => return None,
            None => 1,
        };
        Some(((gpus / ranks, ranks), row["usd_per_hour"].as_f64()?))
    });
    priced.collect()
}

/// What `check` says that a layout costs which runs.
fn checked(place: &Place, model: &str, gpu: &str, (replicas, ranks): Layout) -> Option<f64> {
    let current = format!("{}x{gpu}", replicas * ranks);
    let verdict = place.json(&[
        "check",
        model,
        "--current",
        &current,
        "--tp",
        &ranks.to_string(),
        "--rate",
        "1",
        "--gpu",
        gpu,
    ]);
    verdict["current"]["price_per_hour"]["amount"].as_f64()
}

#[test]
fn a_layout_costs_the_same_in_plan_table_and_check() {
    let place = Place::new();
    let (mut compared, mut several, mut plans) = (0, 0, 0);
    for model in MODELS {
        for gpu in GPUS {
            let (plan, table) = (planned(&place, model, gpu), tabled(&place, model, gpu));
            plans += plan.len();
            for (layout, price) in plan.iter().chain(&table) {
                // Hosts that are not full are no hosts that `check` counts.
                if layout.0 * layout.1 > 8 && !(layout.0 * layout.1).is_multiple_of(8) {
                    continue;
                }
                for (command, other) in [
                    ("plan", plan.get(layout).copied()),
                    ("table", table.get(layout).copied()),
                    ("check", checked(&place, model, gpu, *layout)),
                ] {
                    let Some(other) = other else { continue };
                    assert!(
                        (other / price - 1.0).abs() < 1e-6,
                        "{model} as {layout:?} on {gpu}: {price} and, by {command}, {other}"
                    );
                    compared += 1;
                }
                several += usize::from(layout.0 > 1);
            }
        }
    }
    assert!(
        compared > 40 && several > 5 && plans > 8,
        "{compared} prices, {several} of several replicas, {plans} of plans"
    );
}

#[test]
fn a_saved_deployment_costs_what_it_was_planned_at() {
    let place = Place::new();
    let asked = ["plan", "llama-3.1-8b", "--gpu", "H100", "--rate", "80"];
    let saved = ["--tp", "1", "--no-slices", "--save", "saved.json"];
    let sizing = place.json(&[&asked[..], &saved].concat());
    let planned = &sizing["deployments"][0];
    assert!(
        planned["rental"]["instances"].as_u64() > Some(1),
        "several instances: {planned}"
    );
    let price = |of: &Value| of["price_per_hour"]["amount"].as_f64();
    let planned = &planned["cost"];
    let verdict = place.json(&["check", "--deployment", "saved.json", "--gpu", "H100"]);
    assert_eq!(price(&verdict["current"]), price(planned));
    assert!(price(planned).is_some());
}
