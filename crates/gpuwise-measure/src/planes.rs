//! Figures of planes of TensorFlow's and JAX's profiler, exact in integer picoseconds.

use gpuwise_domain::profile::planes::{Line, Plane, PlaneEvent, Planes};
use gpuwise_domain::profile::sources::{
    LineSummary, PlaneFigures, PlaneStep, PlaneSummary, PlanesSource,
};
use gpuwise_domain::profile::timeline::NameId;
use std::collections::BTreeMap;

/// Names that a plane's summary lists.
const NAMES_LISTED: usize = 5;

/// A file of planes, measured.
pub fn planes_source(planes: &Planes) -> PlanesSource {
    let summary = |plane: &Plane| PlaneSummary {
        id: plane.id,
        name: plane.name.clone(),
        is_device: plane.is_device(),
        line_count: plane.lines.len() as u64,
        event_name_count: plane.event_name_count,
        figures: plane_figures(plane),
        lines: plane
            .lines
            .iter()
            .map(|line| LineSummary {
                id: line.id,
                name: line.name.clone(),
                timestamp_ns: line.timestamp_ns,
                figures: line_figures(line),
            })
            .collect(),
        top: top_names(plane, NAMES_LISTED)
            .into_iter()
            .map(|(name, count, sum)| (name.to_owned(), count, sum))
            .collect(),
        steps: steps(plane),
    };
    PlanesSource {
        byte_count: planes.byte_count,
        planes: planes.planes.iter().map(summary).collect(),
        losses: planes.losses.clone(),
    }
}

/// Steps on the line of that name, else runs of compiled modules; and how much of each operations take.
fn steps(plane: &Plane) -> Vec<PlaneStep> {
    let line = |name: &str| plane.lines.iter().find(|line| line.name == name);
    let marked = line("Steps").or_else(|| line("XLA Modules"));
    let Some(marked) = marked else {
        return Vec::new();
    };
    let operations = line("XLA Ops").into_iter().flat_map(|line| {
        let events = line.events.iter();
        events.filter_map(|event| {
            let start = line.start_ps(event)?;
            Some((start, start + i128::from(event.duration_ps)))
        })
    });
    let mut operations: Vec<(i128, i128)> = operations.collect();
    operations.sort_unstable();
    let mut steps: Vec<PlaneStep> = marked
        .events
        .iter()
        .filter_map(|event| {
            let start_ps = marked.start_ps(event)?;
            let duration_ps = i128::from(event.duration_ps);
            Some(PlaneStep {
                name: plane.names.text(event.name).to_owned(),
                start_ps,
                duration_ps,
                busy_ps: covered(&operations, start_ps, start_ps + duration_ps),
            })
        })
        .collect();
    steps.sort_by_key(|step| step.start_ps);
    steps
}

/// How much of a range is covered by others, which are in order of their start.
fn covered(others: &[(i128, i128)], from: i128, to: i128) -> i128 {
    let (mut sum, mut until) = (0, from);
    for (start, end) in others.iter().take_while(|(start, _)| *start < to) {
        let start = (*start).max(until);
        let end = (*end).min(to);
        if end > start {
            sum += end - start;
            until = end;
        }
    }
    sum
}

pub fn line_figures(line: &Line) -> PlaneFigures {
    figures(&mut line.events.iter().map(|event| (line, event)))
}

/// Figures of all events of a plane. Lines of a TPU overlap by design: there, take lines one by one.
pub fn plane_figures(plane: &Plane) -> PlaneFigures {
    let lines = plane.lines.iter();
    figures(&mut lines.flat_map(|line| line.events.iter().map(move |event| (line, event))))
}

/// Names of work on streams of a GPU, or among the operations of a TPU, with how often and how long
/// they ran, the longest first.
pub fn top_names(plane: &Plane, most: usize) -> Vec<(&str, u64, i128)> {
    let mut sums: BTreeMap<NameId, (u64, i128)> = BTreeMap::new();
    let lines = plane.lines.iter();
    for line in lines.filter(|l| l.name.starts_with("Stream") || l.name == "XLA Ops") {
        for event in &line.events {
            let (count, sum) = sums.entry(event.name).or_default();
            *count += 1;
            *sum += i128::from(event.duration_ps);
        }
    }
    let named = sums.into_iter();
    let mut named: Vec<_> = named
        .map(|(name, (count, sum))| (plane.names.text(name), count, sum))
        .collect();
    named.sort_by(|a, b| b.2.cmp(&a.2).then(a.0.cmp(b.0)));
    named.truncate(most);
    named
}

fn figures<'p>(events: &mut dyn Iterator<Item = (&'p Line, &'p PlaneEvent)>) -> PlaneFigures {
    let mut figures = PlaneFigures::default();
    let mut spans = Vec::new();
    for (line, event) in events {
        let duration = i128::from(event.duration_ps);
        figures.event_count += 1;
        figures.zero_duration_count += u64::from(duration == 0);
        figures.sum_ps += duration;
        match line.start_ps(event) {
            Some(start) => spans.push((start, start + duration)),
            None => figures.without_start_count += 1,
        }
    }
    spans.sort_unstable();
    figures.first_start_ps = spans.first().map(|(start, _)| *start);
    let mut open: Option<(i128, i128)> = None;
    for (start, end) in &spans {
        match &mut open {
            Some((_, open_end)) if start <= open_end => *open_end = (*open_end).max(*end),
            _ => {
                figures.busy_ps += open.map_or(0, |(start, end)| end - start);
                open = Some((*start, *end));
            }
        }
    }
    figures.busy_ps += open.map_or(0, |(start, end)| end - start);
    let last = spans.iter().map(|(_, end)| *end).max();
    figures.span_ps = last
        .zip(figures.first_start_ps)
        .map_or(0, |(last, first)| last - first);
    figures
}
