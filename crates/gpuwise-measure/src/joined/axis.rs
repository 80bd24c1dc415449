//! The time axis, and how files are laid on it.

use gpuwise_domain::profile::{
    figures::RankFigures,
    joined::{
        JoinedBy, JoinedFile, JoinedSeries, RecordedMean, RecordedSample, RecordedSeries,
        Recording, RecordingClock,
    },
    timeline::Timeline,
};

/// Time zones lie at most so far from UTC, and differ by quarters of an hour.
const FARTHEST_ZONE_NS: i64 = 14 * 3600 * 1_000_000_000;
/// Between two samples that lie so many usual gaps apart nothing is known.
const HOLE: i64 = 4;
const ZONE_NS: i64 = 900 * 1_000_000_000;

/// Nanoseconds from the first GPU work of a trace.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Axis {
    /// Its zero, in nanoseconds since 1970, where the trace says it.
    pub started_at_ns: Option<i64>,
    /// Up to the last GPU work.
    pub span_ns: i64,
    /// Numbered steps of the trace, and when each began.
    steps: Vec<(i64, i64)>,
    /// The median step.
    step_ns: i64,
}

/// From and to, in nanoseconds since 1970.
pub type UtcSpan = (i64, i64);

/// Why a file cannot be laid beside a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JoinError {
    /// The trace does not say when it was taken.
    NoStart,
    /// The file's times count from a beginning of its own.
    NoDate,
    /// The file has step numbers alone, and the trace has none.
    NoSteps,
    /// The two have no moment in common.
    Apart {
        file: UtcSpan,
        trace: UtcSpan,
        /// What would lay them beside one another if the file's times are of another time zone, in
        /// nanoseconds.
        zone_ns: Option<i64>,
    },
    /// The same from the first GPU work of the trace on, in nanoseconds.
    ApartFromStart { file: (i64, i64), span_ns: i64 },
    /// The file's steps, and those of the trace.
    ApartInSteps { file: (i64, i64), trace: (i64, i64) },
}

impl Axis {
    /// That of timelines with their figures, in the same order. `started_at_ns` where it is told
    /// and not read.
    pub fn of(
        timelines: &[&Timeline],
        figures: &[&RankFigures],
        started_at_ns: Option<i64>,
    ) -> Self {
        let mut walls: Vec<(i64, i64)> = Vec::new();
        let mut longest = 0;
        let mut steps = (Vec::new(), 0);
        for (timeline, rank) in timelines.iter().zip(figures) {
            let Some(window) = rank.whole.window else {
                continue;
            };
            longest = longest.max(window.length());
            let wall = timeline
                .epoch_ns
                .and_then(|epoch| epoch.checked_add(window.start_ns));
            if let Some(from) = wall {
                walls.push((from, from.saturating_add(window.length())));
            }
            if steps.0.is_empty()
                && let Some(known) = &rank.steps
            {
                let numbered = known.steps.iter().filter_map(|step| {
                    let number = i64::try_from(step.number?).ok()?;
                    Some((number, step.start_ns - window.start_ns))
                });
                steps = (numbered.collect(), known.median_ns);
            }
        }
        let first = walls.iter().map(|wall| wall.0).min();
        let last = walls.iter().map(|wall| wall.1).max();
        // Clocks that do not agree give no common span.
        let together = first
            .zip(last)
            .map(|(first, last)| last.saturating_sub(first));
        let together = together.filter(|together| *together <= longest.saturating_mul(3));
        Self {
            started_at_ns: started_at_ns.or(first),
            span_ns: together.unwrap_or(longest),
            steps: steps.0,
            step_ns: steps.1,
        }
    }

    /// When a step began, those outside of the trace by its median step.
    fn step(&self, number: i64) -> Option<i64> {
        let (first, last) = (self.steps.first()?, self.steps.last()?);
        if number <= first.0 {
            return Some(
                first
                    .1
                    .saturating_sub(first.0.saturating_sub(number).saturating_mul(self.step_ns)),
            );
        }
        if number >= last.0 {
            return Some(
                last.1
                    .saturating_add(number.saturating_sub(last.0).saturating_mul(self.step_ns)),
            );
        }
        let after = self.steps.partition_point(|step| step.0 < number);
        self.steps.get(after).map(|step| step.1)
    }
}

/// Lays a file on the axis; `offset_ns` is added to its times.
///
/// # Errors
/// When its clock and the trace's cannot be brought together, or the two have no moment in common.
pub fn join(
    axis: &Axis,
    file: &str,
    recording: Recording,
    offset_ns: Option<i64>,
) -> Result<JoinedFile, JoinError> {
    let Recording {
        form,
        clock,
        mut series,
        mut notes,
    } = recording;
    let offset = offset_ns.unwrap_or(0);
    let extent = extent(&series);
    let by = match (clock, axis.started_at_ns, offset_ns) {
        (RecordingClock::Steps, _, _) => {
            steps(axis, extent, &mut series)?;
            notes.push("it has no times: it is laid beside the trace by numbers of steps, those outside of the trace by its median step".into());
            JoinedBy::Steps
        }
        (RecordingClock::Wall { .. }, Some(start), None) => {
            moved(&mut series, start.saturating_neg());
            JoinedBy::WallClock
        }
        (RecordingClock::Wall { .. }, Some(start), Some(offset)) => {
            moved(&mut series, offset.saturating_sub(start));
            JoinedBy::Offset
        }
        (RecordingClock::Wall { .. }, None, None) => return Err(JoinError::NoStart),
        (RecordingClock::Start, _, None) => return Err(JoinError::NoDate),
        (_, _, Some(offset)) => {
            moved(&mut series, offset);
            JoinedBy::Offset
        }
    };
    let (start_ns, end_ns) = self::extent(&series);
    if start_ns > axis.span_ns || end_ns < 0 {
        return Err(apart(axis, clock, (start_ns, end_ns)));
    }
    let seen = |one: &RecordedSeries| {
        let inside = one.samples.iter();
        let inside = inside.filter(|sample| (0..=axis.span_ns).contains(&sample.at_ns));
        inside.count() > 0 || mean(&one.samples, axis.span_ns).is_some()
    };
    if !series.iter().any(seen) {
        return Err(apart(axis, clock, (start_ns, end_ns)));
    }
    let series = series.into_iter().map(|series| JoinedSeries {
        within: mean(&series.samples, axis.span_ns),
        device: None,
        series,
    });
    Ok(JoinedFile {
        file: file.to_owned(),
        form,
        by,
        offset_ns: offset,
        start_ns,
        end_ns,
        overlap_ns: end_ns.min(axis.span_ns) - start_ns.max(0),
        series: series.collect(),
        notes,
    })
}

fn steps(axis: &Axis, file: (i64, i64), series: &mut [RecordedSeries]) -> Result<(), JoinError> {
    let (Some(first), Some(last)) = (axis.steps.first(), axis.steps.last()) else {
        return Err(JoinError::NoSteps);
    };
    let trace = (first.0, last.0);
    if file.0 > trace.1 || file.1 < trace.0 {
        return Err(JoinError::ApartInSteps { file, trace });
    }
    for sample in series.iter_mut().flat_map(|one| &mut one.samples) {
        sample.at_ns = axis.step(sample.at_ns).ok_or(JoinError::NoSteps)?;
    }
    Ok(())
}

fn apart(axis: &Axis, clock: RecordingClock, (from, to): (i64, i64)) -> JoinError {
    let (RecordingClock::Wall { zoneless }, Some(start)) = (clock, axis.started_at_ns) else {
        return JoinError::ApartFromStart {
            file: (from, to),
            span_ns: axis.span_ns,
        };
    };
    let middle = i64::midpoint(from, to);
    let quarters = (axis.span_ns / 2)
        .saturating_sub(middle)
        .saturating_add(ZONE_NS / 2)
        .div_euclid(ZONE_NS);
    let shift = quarters.saturating_mul(ZONE_NS);
    let near = (-FARTHEST_ZONE_NS..=FARTHEST_ZONE_NS).contains(&shift);
    let fits = near && from.saturating_add(shift) <= axis.span_ns && to.saturating_add(shift) >= 0;
    JoinError::Apart {
        file: (start.saturating_add(from), start.saturating_add(to)),
        trace: (start, start.saturating_add(axis.span_ns)),
        zone_ns: (zoneless && fits).then_some(shift),
    }
}

fn moved(series: &mut [RecordedSeries], by_ns: i64) {
    for sample in series.iter_mut().flat_map(|one| &mut one.samples) {
        sample.at_ns = sample.at_ns.saturating_add(by_ns);
    }
}

/// From the first sample of all to the last.
fn extent(series: &[RecordedSeries]) -> (i64, i64) {
    let first = series
        .iter()
        .filter_map(|one| Some(one.samples.first()?.at_ns))
        .min();
    let last = series
        .iter()
        .filter_map(|one| Some(one.samples.last()?.at_ns))
        .max();
    (first.unwrap_or(0), last.unwrap_or(0))
}

/// What a series was from 0 to the end of the span: its finite samples there, each alike; where it lies
/// between two samples, what the line between them is in its middle.
fn mean(samples: &[RecordedSample], span_ns: i64) -> Option<RecordedMean> {
    let finite = |sample: &&RecordedSample| sample.value.is_finite();
    let inside = samples.iter().filter(finite);
    let inside: Vec<f64> = inside
        .filter(|sample| (0..=span_ns).contains(&sample.at_ns))
        .map(|sample| sample.value)
        .collect();
    if !inside.is_empty() {
        return Some(RecordedMean {
            samples: inside.len() as u64,
            mean: inside.iter().sum::<f64>() / inside.len() as f64,
            least: inside.iter().copied().fold(f64::INFINITY, f64::min),
            most: inside.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        });
    }
    let before = samples
        .iter()
        .filter(finite)
        .rfind(|sample| sample.at_ns < 0)?;
    let usual = usual_gap(samples)?;
    let after = samples
        .iter()
        .filter(finite)
        .find(|sample| sample.at_ns > span_ns)?;
    // A hole in the recording says nothing of what lies in it.
    if after.at_ns.saturating_sub(before.at_ns) > usual.saturating_mul(HOLE) {
        return None;
    }
    let share = (span_ns / 2).saturating_sub(before.at_ns) as f64
        / after.at_ns.saturating_sub(before.at_ns) as f64;
    let mean = before.value + (after.value - before.value) * share;
    Some(RecordedMean {
        samples: 0,
        mean,
        least: before.value.min(after.value),
        most: before.value.max(after.value),
    })
}

/// The median time from one sample to the next.
fn usual_gap(samples: &[RecordedSample]) -> Option<i64> {
    let pairs = samples.iter().zip(samples.iter().skip(1));
    let mut gaps: Vec<i64> = pairs
        .map(|(one, next)| next.at_ns.saturating_sub(one.at_ns))
        .collect();
    gaps.sort_unstable();
    gaps.get(gaps.len() / 2).copied()
}
