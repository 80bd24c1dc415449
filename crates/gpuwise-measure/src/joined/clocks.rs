//! Recorded clocks as samples of a timeline, where findings look for them.

use gpuwise_domain::{
    profile::{
        figures::RankFigures,
        joined::{Joined, JoinedSeries, RecordedMetric, RecordedSample},
        timeline::{CounterSample, Timeline},
    },
    telemetry::Quantity,
};

/// As many as findings cut a rank into parts, twice over.
const POINTS: i64 = 48;
/// Samples that a rank's span must hold for changes within it to be seen.
const ENOUGH: usize = 4;

/// Adds the recorded clock of the multiprocessors of each device of a timeline, where it was sampled
/// often enough to say how it went within the trace. Each point has the value of the sample nearest to
/// it. Whether there are any.
pub fn give_clocks(
    joined: &Joined,
    place: usize,
    timeline: &mut Timeline,
    rank: &RankFigures,
) -> bool {
    let Some(window) = rank.whole.window else {
        return false;
    };
    let metric = RecordedMetric::Gpu(Quantity::SmClock);
    let wanted = |one: &&JoinedSeries| one.device.is_some_and(|device| device.timeline == place);
    let clocks: Vec<&JoinedSeries> = joined.of(&metric).filter(wanted).collect();
    // On the axis, which begins with the first work of all ranks.
    let wall = timeline.epoch_ns.zip(joined.started_at_ns);
    let from = wall.map_or(0, |(epoch, start)| window.start_ns + epoch - start);
    let mut name = None;
    for one in clocks {
        let Some(device) = one.device else { continue };
        let samples = &one.series.samples;
        let inside = samples
            .iter()
            .filter(|sample| (from..=from + window.length()).contains(&sample.at_ns));
        if inside.count() < ENOUGH {
            continue;
        }
        let name = *name.get_or_insert_with(|| timeline.names.add("recorded SM clock [MHz]"));
        for point in 0..POINTS {
            let at = window.length() * (2 * point + 1) / (2 * POINTS);
            if let Some(value) = nearest(samples, from + at) {
                timeline.samples.push(CounterSample {
                    at_ns: window.start_ns + at,
                    device: device.device,
                    name,
                    value,
                });
            }
        }
    }
    name.is_some()
}

fn nearest(samples: &[RecordedSample], at: i64) -> Option<f64> {
    let after = samples.partition_point(|sample| sample.at_ns < at);
    let around = [after.checked_sub(1), Some(after)];
    let around = around
        .into_iter()
        .flatten()
        .filter_map(|place| samples.get(place));
    around
        .min_by_key(|sample| sample.at_ns.abs_diff(at))
        .map(|sample| sample.value)
}
