//! What recordings beside a trace say to findings.

use gpuwise_domain::{
    profile::{
        figure::Scope,
        finding::Finding,
        joined::{ApplicationQuantity, Joined, JoinedSeries, RecordedMetric, RecordedSample},
    },
    telemetry::Quantity,
};
use gpuwise_units::math;

/// NVML's clock event reasons (`nvmlClocksEventReason…` in nvml.h): hardware and software slowdown by heat.
pub(super) const HEAT: u64 = 0x20 | 0x40;
/// The power limit, and the external power brake.
pub(super) const POWER: u64 = 0x04 | 0x80;
/// A slowdown by the hardware, whatever its reason.
pub(super) const HARDWARE: u64 = 0x08;

/// Series of a quantity, of GPUs that are the trace's.
pub(super) fn of_devices(joined: &Joined, quantity: Quantity) -> Vec<&JoinedSeries> {
    let metric = RecordedMetric::Gpu(quantity);
    joined
        .series()
        .filter(|one| one.series.metric == metric && one.device.is_some())
        .collect()
}

/// The mean over those devices, within the span.
pub(super) fn device_mean(joined: &Joined, quantity: Quantity) -> Option<f64> {
    let means: Vec<f64> = of_devices(joined, quantity)
        .iter()
        .filter_map(|one| Some(one.within?.mean))
        .collect();
    (!means.is_empty()).then(|| means.iter().sum::<f64>() / means.len() as f64)
}

/// The share of samples within the span of which any of these bits is set; between two samples both count.
pub(super) fn share_with(joined: &Joined, bits: u64) -> Option<f64> {
    let (mut with, mut all) = (0_u32, 0_u32);
    let told = of_devices(joined, Quantity::ClockReasons).into_iter();
    for one in told.filter(|one| one.within.is_some()) {
        let samples = &one.series.samples;
        let first = samples.partition_point(|sample| sample.at_ns < 0);
        let after = samples.partition_point(|sample| sample.at_ns <= joined.span_ns);
        let within = samples
            .get(first..after)
            .filter(|within| !within.is_empty());
        let around = || samples.get(first.saturating_sub(1)..(after + 1).min(samples.len()));
        for sample in within.or_else(around).unwrap_or_default() {
            all += 1;
            with += u32::from(sample.value as u64 & bits != 0);
        }
    }
    (all > 0).then(|| f64::from(with) / f64::from(all))
}

/// All series of what an application says of itself.
pub(super) fn of_application(
    joined: &Joined,
    quantity: ApplicationQuantity,
) -> impl Iterator<Item = &JoinedSeries> {
    joined
        .series()
        .filter(move |one| one.series.metric == RecordedMetric::Application(quantity))
}

/// The median of values, NaN left out.
pub(super) fn median(samples: &[RecordedSample]) -> Option<f64> {
    let mut values: Vec<f64> = samples
        .iter()
        .map(|one| one.value)
        .filter(|value| value.is_finite())
        .collect();
    values.sort_unstable_by(f64::total_cmp);
    math::median(&values)
}

/// A finding of the whole profile, which nothing places in a timeline.
pub(super) fn finding(class: &str, statement: String, advice: &[&str]) -> Finding {
    Finding {
        class: class.to_owned(),
        scope: Scope::default(),
        statement,
        evidence: Vec::new(),
        places: Vec::new(),
        gain: gpuwise_domain::profile::finding::Gain::Unknown,
        advice: advice.iter().map(|text| (*text).to_owned()).collect(),
    }
}

/// A moment of the axis as people say it.
pub(super) fn moment(at_ns: i64) -> String {
    let seconds = at_ns as f64 * 1e-9;
    let shown = gpuwise_units::significant(seconds.abs(), 3);
    match at_ns {
        ..0 => format!("{shown} s before the trace"),
        _ => format!("{shown} s after its first GPU work"),
    }
}
