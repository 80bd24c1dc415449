//! What files other than traces say, as pictures.

use super::counters::words;
use crate::{
    figures::{TimeUnit, bytes, number, seconds},
    html::figure,
    profile::kernel_name,
    svg::{self, Spot, Stacked},
};
use gpuwise_domain::profile::{
    memory_snapshot::MemoryCategory,
    sources::{
        CategoryFigures, CountersSource, HangSource, MemorySource, OwnedMemory, OwnedMoment,
        PlanesSource, SourceContent, TraceFigures,
    },
};
use gpuwise_units::Bytes;
use std::cmp::Reverse;

/// Devices of which pictures are drawn.
const DEVICES: usize = 4;

/// The pictures of a file, and the title of the part they stand in; empty where there is nothing to
/// draw.
pub(super) fn of(content: &SourceContent, id: &str) -> (&'static str, String) {
    match content {
        SourceContent::Memory(memory) => ("Memory over time", owners(memory, id)),
        SourceContent::Categories(figures) => ("Memory over time", categories(figures, id)),
        SourceContent::Counters(counters) => ("Kernels on their roofline", kernels(counters, id)),
        SourceContent::Planes(planes) => ("Steps", steps(planes, id)),
        SourceContent::Hangs(source) => ("Who was late", arrivals(source, id)),
        SourceContent::Nsight(_) => ("", String::new()),
    }
}

/// Bytes in units that suit the largest.
struct Scale {
    unit: &'static str,
    bytes: f64,
}

impl Scale {
    fn of(most: i64) -> Self {
        let (unit, bytes) = if most >= 1 << 30 {
            ("GiB", 1073741824.0)
        } else {
            ("MiB", 1048576.0)
        };
        Self { unit, bytes }
    }

    fn of_bytes(&self, bytes: i64) -> f64 {
        bytes.max(0) as f64 / self.bytes
    }
}

fn size(amount: i64) -> String {
    bytes(Bytes::new(u64::try_from(amount).unwrap_or(0)))
}

fn owners(memory: &MemorySource, id: &str) -> String {
    let traces = memory
        .figures
        .traces
        .iter()
        .zip(&memory.owned)
        .take(DEVICES);
    let pictures = traces.filter_map(|(trace, owned)| {
        let picture = owned_over_time(trace, owned, &format!("{id}-{}", trace.device))?;
        Some(figure(&picture, "By who asked for it, each stretch of the history at its fullest; beside the names what they hold at the peak."))
    });
    pictures.collect()
}

fn owned_over_time(trace: &TraceFigures, owned: &OwnedMemory, id: &str) -> Option<svg::Picture> {
    let scale = Scale::of(trace.peak_reserved.max(trace.peak_live));
    let first = owned.moments.first()?;
    let last = owned.moments.last()?;
    let begin = first.at_us;
    let span = begin.zip(last.at_us).map(|(from, to)| to - from);
    let unit = span
        .filter(|span| *span > 0)
        .map(|span| TimeUnit::of([span as f64 * 1e-6]));
    // Without times the history counts in events.
    let at = |at_us: Option<i64>, event: usize| match (unit, at_us, begin) {
        (Some(unit), Some(at), Some(begin)) => (at - begin) as f64 * 1e-6 * unit.per_second(),
        _ => event as f64,
    };
    let level = match unit {
        Some(unit) => format!("{} from the beginning of the history", unit.symbol()),
        None => "events of the allocator".to_owned(),
    };
    let peak = owned.moments.iter().max_by_key(|moment| moment.live)?;
    let before = |moment: &OwnedMoment| {
        (moment.live - moment.held.iter().sum::<i64>() - moment.others).max(0)
    };
    let mut layers: Vec<(String, String)> = owned
        .owners
        .iter()
        .zip(&peak.held)
        .map(|(owner, held)| (owner.clone(), size(*held)))
        .collect();
    layers.push(("smaller owners".into(), size(peak.others)));
    layers.push(("before the recording began".into(), size(before(peak))));
    let moments = owned.moments.iter().map(|moment| {
        let held = moment.held.iter().map(|held| scale.of_bytes(*held));
        let others = [moment.others, before(moment)].map(|bytes| scale.of_bytes(bytes));
        (at(moment.at_us, moment.event), held.chain(others).collect())
    });
    let reserved = owned
        .moments
        .iter()
        .map(|moment| scale.of_bytes(moment.reserved));
    Stacked {
        title: "Memory in use over time",
        axes: [
            &level,
            &format!("memory of device {}, {}", trace.device, scale.unit),
        ],
        layers,
        greys: 2,
        moments: moments.collect(),
        end: at(last.at_us, last.event),
        over: Some(("taken from the driver", reserved.collect())),
    }
    .picture(id)
}

fn categories(figures: &CategoryFigures, id: &str) -> String {
    let (Some((begin, _)), Some((end, _))) = (figures.moments.first(), figures.moments.last())
    else {
        return String::new();
    };
    let scale = Scale::of(figures.peak_live);
    let unit = TimeUnit::of([(end - begin) as f64 * 1e-9]);
    let at = |at: i64| (at - begin) as f64 * 1e-9 * unit.per_second();
    let held = |category: MemoryCategory| {
        let mut peaks = figures.categories_at_peak.iter();
        let held = peaks.find(|(known, _)| *known == category);
        held.map_or(0, |(_, bytes)| *bytes)
    };
    // Those that hold most at the peak below; what the profiler could not tell is grey, on top.
    let mut order: Vec<(usize, MemoryCategory)> =
        MemoryCategory::ALL.into_iter().enumerate().collect();
    order.sort_by_key(|(_, category)| {
        (
            *category == MemoryCategory::Unknown,
            Reverse(held(*category)),
        )
    });
    let layers = order
        .iter()
        .map(|(_, category)| (category.name().replace('_', " "), size(held(*category))));
    let moments = figures.moments.iter().map(|(moment, live)| {
        let layer =
            |(place, _): &(usize, _)| scale.of_bytes(live.get(*place).copied().unwrap_or(0));
        (at(*moment), order.iter().map(layer).collect())
    });
    let picture = Stacked {
        title: "Memory by what it is used for",
        axes: [
            &format!("{} from the beginning", unit.symbol()),
            &format!("memory, {}", scale.unit),
        ],
        layers: layers.collect(),
        greys: 1,
        moments: moments.collect(),
        end: at(*end),
        over: None,
    }
    .picture(id);
    picture.map_or_else(String::new, |picture| {
        figure(
            &picture,
            "What each category holds at the peak stands beside its name.",
        )
    })
}

fn kernels(source: &CountersSource, id: &str) -> String {
    let mut all: Vec<_> = source
        .counters
        .launches
        .iter()
        .zip(&source.figures)
        .collect();
    all.sort_by(|a, b| {
        let time = |figures: Option<f64>| figures.unwrap_or(0.0);
        time(b.1.duration_ns).total_cmp(&time(a.1.duration_ns))
    });
    let spots =
        |at: fn(&gpuwise_domain::profile::sources::CountedFigures) -> Option<(f64, f64)>| {
            let spots = all.iter().filter_map(|(launch, figures)| {
                let time = figures
                    .duration_ns
                    .map_or_else(String::new, |ns| format!(", {}", seconds(ns * 1e-9)));
                let bound = figures.bound.map_or_else(String::new, |bound| {
                    format!(", limited by {}", words(bound))
                });
                let at = at(figures)?;
                Some(Spot {
                    name: format!("{}{time}", without_namespace(&kernel_name(&launch.kernel))),
                    hint: format!(
                        "{}{time}{bound}: {}, {}",
                        launch.kernel,
                        number(at.0),
                        number(at.1)
                    ),
                    at,
                })
            });
            spots.collect::<Vec<_>>()
        };
    let on_roofline = spots(|figures| {
        Some((
            figures.arithmetic_intensity()?,
            figures.operations_per_second()?,
        ))
    });
    let against_peaks = spots(|figures| Some((figures.memory_percent?, figures.compute_percent?)));
    let roofs = source.roofs;
    let caption = match (roofs.memory, roofs.fp32) {
        (Some(_), Some(_)) => "Operations outside tensor cores; roofs as the counters state them.",
        (Some(_), None) => {
            "The slope is what device memory gives; the peak of compute is not among the counters: name the GPU with `--gpu`."
        }
        _ => {
            "The counters do not tell the roofs: name the GPU with `--gpu`, or collect `--set roofline`."
        }
    };
    let pictures = [
        svg::roofline(&on_roofline, roofs.memory, roofs.fp32, &format!("{id}-roofline")).map(|picture| figure(&picture, caption)),
        svg::speed_of_light(&against_peaks, &format!("{id}-peaks")).map(|picture| figure(&picture, "Below 60 % in both a kernel waits for results; else the larger of the two limits it (rule SOLBottleneck of Nsight Compute).")),
    ];
    pictures.into_iter().flatten().collect()
}

/// A kernel's name as narrow as a picture needs it.
fn without_namespace(name: &str) -> &str {
    let base = name.find('<').unwrap_or(name.len());
    let from = name.get(..base).and_then(|base| base.rfind("::"));
    from.and_then(|at| name.get(at + 2..)).unwrap_or(name)
}

fn steps(planes: &PlanesSource, id: &str) -> String {
    let devices = planes
        .planes
        .iter()
        .filter(|plane| plane.steps.len() > 1)
        .take(DEVICES);
    let pictures = devices.enumerate().filter_map(|(index, plane)| {
        let nanoseconds = |ps: i128| i64::try_from(ps / 1000).unwrap_or(i64::MAX);
        let bars: Vec<(u64, i64, i64)> = plane
            .steps
            .iter()
            .enumerate()
            .map(|(at, step)| {
                let number = step.name.parse().ok();
                let (long, busy) = (nanoseconds(step.duration_ps), nanoseconds(step.busy_ps));
                (number.unwrap_or(at as u64), long, busy)
            })
            .collect();
        let mut lengths: Vec<i64> = bars.iter().map(|bar| bar.1).collect();
        lengths.sort_unstable();
        let median = lengths.get(lengths.len() / 2).copied()?;
        let picture = svg::steps(&bars, median, &format!("{id}-{index}"))?;
        let device = plane.name.trim_start_matches("/device:");
        let busy: i64 = bars.iter().map(|bar| bar.2).sum();
        let share = busy as f64 / lengths.iter().sum::<i64>().max(1) as f64;
        let caption = format!(
            "{device}: {} steps, median {}; operations take {} of them.",
            bars.len(),
            seconds(median as f64 * 1e-9),
            crate::figures::percent(share)
        );
        Some(figure(&picture, &caption))
    });
    pictures.collect()
}

fn arrivals(source: &HangSource, id: &str) -> String {
    let picture = svg::arrivals(&source.hangs, id);
    picture.map_or_else(String::new, |picture| {
        figure(
            &picture,
            "Collectives in which ranks wait, the cause before what it causes.",
        )
    })
}
