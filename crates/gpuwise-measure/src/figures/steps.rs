//! Steps of a loop: marked by `ProfilerStep#n`, or by ranges that users name.

use super::{
    device::Times,
    host::HostTimes,
    intervals::Intervals,
    names::{Classifier, Remembered},
};
use gpuwise_domain::profile::{
    figures::{Step, StepFigures, StepSource},
    timeline::Timeline,
};

/// How the PyTorch profiler marks steps.
const PROFILER_STEP: &str = "ProfilerStep#";
/// A step this much longer than the others is an outlier: Tukey's fences (Exploratory Data
/// Analysis, 1977), and at least 5 % so that steady loops have none.
const FENCE: f64 = 1.5;
const FENCE_SHARE: f64 = 0.05;

/// What a name says of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    No,
    Profiler(Option<u64>),
    Annotation(Option<u64>),
}

/// When there were steps, and of which kind; steps within steps are left out.
pub(super) fn marked(timeline: &Timeline, names: &Classifier) -> (StepSource, Vec<Step>) {
    let mut marks = Remembered::new(&timeline.names);
    let (mut profiler, mut other) = (Vec::new(), Vec::new());
    for span in timeline.annotations.iter().chain(&timeline.operators) {
        let step = |number| Step {
            number,
            start_ns: span.start_ns,
            end_ns: span.end_ns,
            ..Step::default()
        };
        match marks.of(span.name, |name| mark(name, names)) {
            Mark::No => {}
            Mark::Profiler(number) => profiler.push(step(number)),
            Mark::Annotation(number) => other.push(step(number)),
        }
    }
    let (source, mut steps) = if profiler.is_empty() {
        (StepSource::Annotation, other)
    } else {
        (StepSource::ProfilerStep, profiler)
    };
    steps.sort_by_key(|step| (step.start_ns, std::cmp::Reverse(step.end_ns)));
    let mut outermost: Vec<Step> = Vec::with_capacity(steps.len());
    for step in steps {
        if outermost
            .last()
            .is_none_or(|last| step.end_ns > last.end_ns)
        {
            outermost.push(step);
        }
    }
    (source, outermost)
}

fn mark(name: &str, names: &Classifier) -> Mark {
    if let Some(number) = name.strip_prefix(PROFILER_STEP) {
        Mark::Profiler(number.parse().ok())
    } else if names.is_step(name) {
        let digits = name.trim_end_matches(|c: char| !c.is_ascii_digit());
        let from = digits
            .rfind(|c: char| !c.is_ascii_digit())
            .map_or(0, |at| at + 1);
        Mark::Annotation(digits.get(from..).and_then(|digits| digits.parse().ok()))
    } else {
        Mark::No
    }
}

/// When there was any step.
pub(super) fn union(steps: &[Step]) -> Option<Intervals> {
    (!steps.is_empty())
        .then(|| Intervals::union(steps.iter().map(|step| (step.start_ns, step.end_ns))))
}

/// Figures of steps, from when devices and host did what.
pub(super) fn figures(
    source: StepSource,
    mut steps: Vec<Step>,
    devices: &Times,
    host: &HostTimes,
) -> Option<StepFigures> {
    let waits = devices.host_waits.intersection(&host.synchronisation);
    for step in &mut steps {
        let within = |times: &Intervals| times.overlap_range(step.start_ns, step.end_ns);
        (
            step.busy_ns,
            step.loader_ns,
            step.synchronisation_ns,
            step.exposed_communication_ns,
        ) = (
            within(&devices.busy),
            within(&host.loader),
            within(&waits),
            within(&devices.exposed_communication),
        );
    }
    let mut durations: Vec<i64> = steps.iter().map(duration).collect();
    durations.sort_unstable();
    let median_ns = median(&durations)?;
    let quartiles = (durations.len() >= 4)
        .then(|| Some((at(&durations, 0.25)?, at(&durations, 0.75)?)))
        .flatten();
    let spread = quartiles
        .filter(|_| median_ns > 0)
        .map(|(first, third)| (third - first) / median_ns as f64);
    let outliers = quartiles.map_or_else(Vec::new, |(first, third)| {
        let fence = third + (FENCE * (third - first)).max(FENCE_SHARE * third);
        (0..)
            .zip(&steps)
            .filter_map(|(index, step)| (duration(step) as f64 > fence).then_some(index))
            .collect()
    });
    Some(StepFigures {
        source,
        steps,
        median_ns,
        spread,
        outliers,
    })
}

fn duration(step: &Step) -> i64 {
    step.end_ns.saturating_sub(step.start_ns)
}

/// The median of sorted values; of an even number the mean of the middle two, rounded down.
fn median(sorted: &[i64]) -> Option<i64> {
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = *sorted.get(middle.checked_sub(1)?)?;
    Some(lower + (upper - lower) / 2)
}

/// A quantile of sorted values by linear interpolation.
fn at(sorted: &[i64], share: f64) -> Option<f64> {
    let place = share * (sorted.len().checked_sub(1)?) as f64;
    let lower = *sorted.get(place as usize)? as f64;
    let upper = *sorted.get((place as usize + 1).min(sorted.len() - 1))? as f64;
    Some(lower + (upper - lower) * (place - libm::floor(place)))
}
