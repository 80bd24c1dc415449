//! What columns and keys are, by their names.

use super::names::{GPUS, HOSTS, Known, PARTS, SKIPPED, STEPS, TIMES, known, other};
use crate::telemetry::FieldNames;
use gpuwise_domain::{
    profile::joined::{RecordedGroup, RecordedMetric},
    telemetry::{MetricType, Quantity},
};

/// What a field of a name is.
#[derive(Debug, Clone)]
pub(super) enum Meaning {
    Time,
    /// A date, whose time of day stands in the column beside it.
    Date,
    Step,
    Gpu,
    Uuid,
    Host,
    Part,
    /// The number of a core, where rows are of single cores.
    Core,
    /// Idle time in percent: what is left is use.
    Idle,
    Reading(crate::telemetry::Field),
    Known(Known),
    Skipped,
}

/// What a field of a name is; `sysstat` where columns are those of `sadf -d`.
pub(super) fn of(name: &str, names: &FieldNames, sysstat: bool) -> Meaning {
    let (bare, unit) = without_unit(name);
    let lower = bare.to_ascii_lowercase();
    let among = |list: &[&str]| list.contains(&lower.as_str());
    if lower == "date" {
        return Meaning::Date;
    }
    if among(TIMES) {
        return Meaning::Time;
    }
    if among(STEPS) {
        return Meaning::Step;
    }
    if sysstat && lower == "cpu" {
        return Meaning::Core;
    }
    if lower == "%idle" {
        return Meaning::Idle;
    }
    if let Some(field) = names.metric(bare) {
        return Meaning::Reading(field.clone());
    }
    if among(GPUS) {
        return Meaning::Gpu;
    }
    if matches!(lower.as_str(), "uuid" | "gpu_uuid") {
        return Meaning::Uuid;
    }
    if among(HOSTS) {
        return Meaning::Host;
    }
    if among(PARTS) {
        return Meaning::Part;
    }
    if among(SKIPPED) {
        return Meaning::Skipped;
    }
    if let Some(quantity) = Quantity::named(&lower).filter(|q| q.course() != MetricType::Counter) {
        let percent = unit == "%";
        return Meaning::Known(Known {
            metric: RecordedMetric::Gpu(quantity),
            scale: if percent { 0.01 } else { 1.0 },
            guessed: !percent && quantity.unit() == "ratio",
        });
    }
    let group = if sysstat {
        RecordedGroup::Host
    } else {
        RecordedGroup::Application
    };
    // `tps` is of a disk there.
    let known = known(bare, unit).filter(|known| !sysstat || known.metric.group() == group);
    Meaning::Known(known.unwrap_or_else(|| other(bare, group)))
}

/// `power.draw [W]` and `cpu (%)`: a name, and its unit.
fn without_unit(name: &str) -> (&str, &str) {
    let name = name.trim();
    for (open, close) in [(" [", ']'), (" (", ')')] {
        if let Some((bare, unit)) = name.split_once(open) {
            return (bare.trim(), unit.trim_end_matches(close).trim());
        }
    }
    (name, "")
}

/// Whether a name is known as anything but a column of numbers.
pub(super) fn says_when(name: &str) -> bool {
    let lower = without_unit(name).0.to_ascii_lowercase();
    let lower = lower.as_str();
    lower == "date" || TIMES.contains(&lower) || STEPS.contains(&lower)
}
