//! Samples of this machine's GPUs while a job runs, ten a second.

use crate::error::Problem;
use gpuwise_domain::{
    profile::figure::{Figure, Scope, Value},
    telemetry::{MetricType, Quantity},
};
use gpuwise_probe::gpus::{Driver, GpuSample, Sampler};
use std::{
    collections::BTreeMap,
    process::Child,
    thread,
    time::{Duration, Instant},
};

/// Time from one sample to the next.
const EVERY: Duration = Duration::from_millis(100);

/// The driver's library.
///
/// # Errors
/// When this machine has no driver.
pub(super) fn sampler() -> anyhow::Result<Driver> {
    Driver::load().map_err(|error| {
        Problem::new("the GPUs of this machine cannot be sampled")
            .because(error)
            .into()
    })
}

/// Count, sum and largest value of one quantity of one GPU.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    count: u64,
    sum: f64,
    peak: f64,
}

/// Samples until a process has ended; figures of each GPU, and the GPUs' products.
pub(super) fn until_it_ends<S: Sampler>(
    mut sampler: S,
    child: &mut Child,
) -> (Vec<Figure>, Vec<String>) {
    let mut seen: BTreeMap<(i64, Quantity), Seen> = BTreeMap::new();
    let mut products = Vec::new();
    let mut due = Instant::now();
    while matches!(child.try_wait(), Ok(None)) {
        if let Ok(samples) = sampler.sample(false) {
            for sample in &samples {
                take(sample, &mut seen, &mut products);
            }
        }
        due += EVERY;
        let now = Instant::now();
        match due.checked_duration_since(now) {
            Some(left) => thread::sleep(left),
            // Late: what was missed is not made up for.
            None => due = now,
        }
    }
    (figures(&seen), products)
}

fn take(
    sample: &GpuSample,
    seen: &mut BTreeMap<(i64, Quantity), Seen>,
    products: &mut Vec<String>,
) {
    if let Some(product) = &sample.gpu.product
        && !products.contains(product)
    {
        products.push(product.clone());
    }
    // Slices of a GPU are not told apart here: `gpuwise watch` does.
    let (Some(index), None) = (sample.gpu.index, &sample.instance) else {
        return;
    };
    for (quantity, value) in &sample.values {
        if let Ok(value) = *value
            && quantity.course() == MetricType::Gauge
        {
            let seen = seen.entry((i64::from(index), *quantity)).or_default();
            seen.count += 1;
            seen.sum += value;
            seen.peak = seen.peak.max(value);
        }
    }
}

fn figures(seen: &BTreeMap<(i64, Quantity), Seen>) -> Vec<Figure> {
    let mut out = Vec::new();
    for ((device, quantity), seen) in seen {
        let mut add = |name: String, value: f64| {
            out.push(Figure {
                name,
                scope: Scope {
                    device: Some(*device),
                    ..Scope::default()
                },
                value: Value::Real(value),
            });
        };
        let name = quantity.name();
        add(format!("{name}_mean"), seen.sum / seen.count as f64);
        add(format!("{name}_peak"), seen.peak);
    }
    out
}
