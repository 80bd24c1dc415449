//! Figures of rows over the window: for the database, for JSON, and for whole GPUs divided by MIG.

use super::{
    facts::DeviceFacts,
    state::{Row, State},
};
use gpuwise_domain::{
    profile::figure::{Figure, Scope, Value},
    telemetry::{MetricType, Quantity},
};

/// Figures of every row: of what goes up and down the mean, the 95th percentile and the largest
/// (`sm_active_mean`, `_p95`, `_max`); of counters what they gained (`energy_increase`); of the rest the
/// newest value under the quantity's own name. What a source names and does not tell is unknown, with
/// the reason.
pub fn figures(state: &State) -> Vec<Figure> {
    let mut out = Vec::new();
    for row in state.rows() {
        let part = label(row);
        let mut push = |name: String, value: Option<f64>, quantity: Quantity| {
            let value = match value {
                Some(value) => Value::Real(value),
                None => Value::Unknown(row.missing(quantity).map_or_else(
                    || "too few samples in the window".into(),
                    |why| why.to_string(),
                )),
            };
            out.push(Figure {
                name,
                scope: Scope {
                    part: Some(part.clone()),
                    ..Scope::default()
                },
                value,
            });
        };
        for quantity in Quantity::ALL {
            let Some(track) = row.track(*quantity) else {
                if row.missing(*quantity).is_some() {
                    push(quantity.name().into(), None, *quantity);
                }
                continue;
            };
            let name = quantity.name();
            match quantity.course() {
                MetricType::Gauge => {
                    push(format!("{name}_mean"), track.mean(), *quantity);
                    push(format!("{name}_p95"), track.quantile(0.95), *quantity);
                    push(format!("{name}_max"), track.max(), *quantity);
                }
                MetricType::Counter => {
                    push(format!("{name}_increase"), track.increase(), *quantity);
                }
                MetricType::State => push(name.into(), track.last(), *quantity),
            }
        }
    }
    out
}

/// A row's name in figures and findings: the GPU, then slice and holder where there are any.
pub(super) fn label(row: &Row) -> String {
    let mut text = row.subject.short();
    if let Some(instance) = &row.subject.instance {
        text = format!("{text} {instance}");
    }
    if !row.subject.holder.is_unknown() {
        text = format!("{text} {}", row.subject.holder);
    }
    text
}

/// A share of a whole GPU that is divided by MIG: that of each instance, weighed by its share of the
/// GPU's multiprocessors.
///
/// # Errors
/// Why it cannot be told: no instance, an unknown size, or an instance that does not say.
pub fn weighed(
    state: &State,
    row: &Row,
    quantity: Quantity,
    facts: Option<&DeviceFacts>,
) -> Result<f64, String> {
    let whole = facts
        .and_then(|facts| facts.multiprocessors)
        .filter(|count| *count > 0)
        .ok_or("the catalogue does not know how many multiprocessors the GPU has")?;
    let mut sum = 0.0;
    let mut seen = 0;
    for instance in state.instances_of(row) {
        seen += 1;
        let profile = instance
            .subject
            .instance
            .as_ref()
            .and_then(|one| one.profile.as_deref());
        let units = instance
            .last(Quantity::Multiprocessors)
            .or_else(|| {
                facts?
                    .profiles
                    .iter()
                    .find(|known| Some(known.profile.as_str()) == profile)
                    .map(|known| f64::from(known.units))
            })
            .ok_or_else(|| format!("{} does not say how large it is", label(instance)))?;
        let used = instance
            .track(quantity)
            .and_then(super::track::Track::mean)
            .ok_or_else(|| format!("{} does not tell {}", label(instance), quantity.name()))?;
        sum += used * units / f64::from(whole);
    }
    if seen == 0 {
        return Err("no instance is told of".into());
    }
    Ok(sum)
}
