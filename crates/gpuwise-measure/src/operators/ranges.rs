//! Ranges of the host, projected to the work that was launched within them, and their pace.

use super::scopes::without_number;
use crate::figures::Settings;
use gpuwise_domain::profile::timeline::{HostSpan, Timeline, WorkClass};
use gpuwise_units::math;
use std::collections::BTreeMap;

/// All instances of a range by name on one rank; a number that counts instances is a `*`.
#[derive(Debug, Clone, PartialEq)]
pub struct RangeUse {
    pub name: String,
    /// Instances that launched work.
    pub count: u64,
    /// Median time of an instance on the host.
    pub host_median_ns: f64,
    /// Median time from the first start to the last end of the work that an instance launched.
    pub device_median_ns: f64,
    /// Sum of the durations of its kernels.
    pub kernel_ns: i64,
    pub kernels: u64,
    /// Median time from the first start of an instance's work to that of the next on the same thread.
    pub pace_median_ns: Option<f64>,
    /// From the 10th to the 90th percentile of that time.
    pub pace_spread_ns: Option<f64>,
}

/// What one instance launched.
#[derive(Debug, Clone, Copy)]
struct Instance {
    span: HostSpan,
    first_ns: i64,
    last_ns: i64,
    kernel_ns: i64,
    kernels: u64,
}

/// Ranges of a file that launched kernels, those with most kernel time first. Work lies in every range
/// that was open on its thread when it was launched.
pub fn ranges(timeline: &Timeline, settings: &Settings<'_>) -> Vec<RangeUse> {
    let mut spans: Vec<HostSpan> = timeline.annotations.clone();
    spans.sort_by_key(|span| (span.thread, span.start_ns, std::cmp::Reverse(span.end_ns)));
    let mut launches: Vec<(u32, i64, usize)> = Vec::new();
    for (place, work) in timeline.work.iter().enumerate() {
        if work.class == WorkClass::Kernel && settings.holds(timeline, work) {
            let call = timeline
                .call_of(work)
                .or_else(|| timeline.operator_of(work));
            launches.extend(call.map(|call| (call.thread, call.start_ns, place)));
        }
    }
    launches.sort_unstable();
    let mut found: Vec<Option<Instance>> = vec![None; spans.len()];
    let mut open: Vec<usize> = Vec::new();
    let mut next = 0;
    for (thread, at, place) in launches {
        while let Some(span) = spans.get(next)
            && (span.thread, span.start_ns) <= (thread, at)
        {
            open.retain(|one| {
                spans[*one].thread == span.thread && spans[*one].end_ns > span.start_ns
            });
            open.push(next);
            next += 1;
        }
        open.retain(|one| spans[*one].thread == thread && spans[*one].end_ns > at);
        let Some(work) = timeline.work.get(place) else {
            continue;
        };
        for one in &open {
            let instance = found[*one].get_or_insert(Instance {
                span: spans[*one],
                first_ns: work.start_ns,
                last_ns: work.end_ns,
                kernel_ns: 0,
                kernels: 0,
            });
            instance.first_ns = instance.first_ns.min(work.start_ns);
            instance.last_ns = instance.last_ns.max(work.end_ns);
            instance.kernel_ns += work.end_ns - work.start_ns;
            instance.kernels += 1;
        }
    }
    let mut by_name: BTreeMap<String, Vec<Instance>> = BTreeMap::new();
    for instance in found.into_iter().flatten() {
        let name = without_number(timeline.names.text(instance.span.name));
        by_name.entry(name).or_default().push(instance);
    }
    let mut all: Vec<RangeUse> = by_name
        .into_iter()
        .map(|(name, instances)| of_name(name, &instances))
        .collect();
    all.sort_by_key(|range| std::cmp::Reverse(range.kernel_ns));
    all
}

fn of_name(name: String, instances: &[Instance]) -> RangeUse {
    let sorted = |values: Vec<i64>| {
        let mut values: Vec<f64> = values.into_iter().map(|value| value as f64).collect();
        values.sort_unstable_by(f64::total_cmp);
        values
    };
    let of = |value: fn(&Instance) -> i64| sorted(instances.iter().map(value).collect());
    let mut by_thread: BTreeMap<u32, Vec<i64>> = BTreeMap::new();
    for instance in instances {
        by_thread
            .entry(instance.span.thread)
            .or_default()
            .push(instance.first_ns);
    }
    let pace = by_thread.into_values().flat_map(|mut starts| {
        starts.sort_unstable();
        starts
            .windows(2)
            .map(|pair| pair[1] - pair[0])
            .collect::<Vec<_>>()
    });
    let pace = sorted(pace.collect());
    let at = |share| math::quantile(&pace, share);
    RangeUse {
        name,
        count: instances.len() as u64,
        host_median_ns: math::median(&of(|one| one.span.end_ns - one.span.start_ns)).unwrap_or(0.0),
        device_median_ns: math::median(&of(|one| one.last_ns - one.first_ns)).unwrap_or(0.0),
        kernel_ns: instances.iter().map(|one| one.kernel_ns).sum(),
        kernels: instances.iter().map(|one| one.kernels).sum(),
        pace_median_ns: math::median(&pace),
        pace_spread_ns: at(0.9).zip(at(0.1)).map(|(high, low)| high - low),
    }
}
