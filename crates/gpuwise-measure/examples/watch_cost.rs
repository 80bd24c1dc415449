//! What a look costs: reading an exporter's page of eight GPUs, taking it, and once a second looking for
//! findings; at ten looks a second over ten minutes of pretended time.

// It measures time and prints, as an example may.
#![allow(
    clippy::print_stdout,
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::unwrap_used
)]

use gpuwise_domain::telemetry::Quantity;
use gpuwise_measure::telemetry::{Changes, Facts, State, findings};
use gpuwise_read::telemetry::{FieldNames, read, read_thresholds};
use std::{fmt::Write as _, time::Instant};

const GPUS: u32 = 8;
const LOOKS: u32 = 6000;

fn main() {
    let catalogue = |file: &str| {
        std::fs::read_to_string(format!(
            "{}/../../catalogue/{file}",
            env!("CARGO_MANIFEST_DIR")
        ))
        .unwrap()
    };
    let mut names = FieldNames::default();
    names
        .add_fields("fields", &catalogue("telemetry_fields.csv"))
        .unwrap();
    names
        .add_dcgm("dcgm", &catalogue("telemetry_dcgm.csv"))
        .unwrap();
    let limits = read_thresholds("telemetry.toml", &catalogue("telemetry.toml")).unwrap();
    let quantities: Vec<(&str, Quantity)> = Quantity::ALL
        .iter()
        .filter_map(|quantity| Some((*names.metrics_of(*quantity).first()?, *quantity)))
        .collect();
    let mut state = State::new(300.0);
    let mut changes = Changes::new(60.0);
    let (mut reading, mut taking, mut finding) = (0.0, 0.0, 0.0);
    let mut found = 0;
    for look in 0..LOOKS {
        let mut page = String::new();
        for (metric, _) in &quantities {
            for gpu in 0..GPUS {
                let value = f64::from((look * 7 + gpu) % 100) / 100.0;
                let _ = writeln!(
                    page,
                    "{metric}{{gpu=\"{gpu}\",UUID=\"GPU-{gpu}\",modelName=\"NVIDIA H100 80GB HBM3\",Hostname=\"a\",pod=\"p\",namespace=\"n\"}} {value}"
                );
            }
        }
        let now = 1000.0 + f64::from(look) * 0.1;
        let begun = Instant::now();
        let said = read(&page, &names).unwrap();
        reading += begun.elapsed().as_secs_f64();
        let begun = Instant::now();
        for one in &said {
            state.take(one, now);
        }
        taking += begun.elapsed().as_secs_f64();
        if look % 10 == 0 {
            let begun = Instant::now();
            state.forget(now);
            found = findings(&state, &limits, &Facts::default(), None).len();
            changes.take(now, Vec::new());
            finding += begun.elapsed().as_secs_f64();
        }
    }
    let pretended = f64::from(LOOKS) * 0.1;
    let share = |seconds: f64| 100.0 * seconds / pretended / f64::from(GPUS);
    println!(
        "{} series a GPU, {GPUS} GPUs, {LOOKS} looks: reading {:.4} %, taking {:.4} %, findings {:.4} % of a core a GPU at 10 Hz; together {:.4} % ({found} findings at the end)",
        quantities.len(),
        share(reading),
        share(taking),
        share(finding),
        share(reading + taking + finding)
    );
}
