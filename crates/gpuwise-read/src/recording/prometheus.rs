//! Series of a Prometheus server's answer to `query_range`: exporters' readings, and what counts up as
//! what it gains a second. Names are node_exporter's (1.8).

use super::{RecordingError, gathered::Gathered, names, time};
use crate::{
    metrics::QuerySeries,
    telemetry::{FieldNames, subject, value_of},
};
use gpuwise_domain::profile::joined::{
    HostQuantity, RecordedGroup, RecordedMetric, RecordedSample, RecordedSeries, Recording,
    RecordingClock,
};
use std::collections::BTreeMap;

/// Counters of node_exporter whose growth a second is a quantity, each of a device.
const RATES: &[(&str, HostQuantity)] = &[
    ("node_disk_io_time_seconds_total", HostQuantity::DiskUtil),
    ("node_disk_read_bytes_total", HostQuantity::DiskRead),
    ("node_disk_written_bytes_total", HostQuantity::DiskWrite),
    (
        "node_network_receive_bytes_total",
        HostQuantity::NetworkReceive,
    ),
    (
        "node_network_transmit_bytes_total",
        HostQuantity::NetworkTransmit,
    ),
    ("node_memory_numa_numa_miss_total", HostQuantity::NumaMiss),
];

/// Nanoseconds as keys of moments, with the sum and count of what was there.
type Moments = BTreeMap<i64, (f64, u32)>;

pub(super) fn series(
    answer: Vec<QuerySeries>,
    known: &FieldNames,
) -> Result<Recording, RecordingError> {
    let mut all = Gathered::default();
    all.clock(None, "", RecordingClock::Wall { zoneless: false })?;
    let mut cores = Cores::new();
    let mut memory: BTreeMap<String, [Moments; 2]> = BTreeMap::new();
    let mut looks = 0;
    for one in answer {
        let label = |name: &str| one.labels.get(name).map_or("", String::as_str);
        let (name, host) = (label("__name__").to_owned(), label("instance").to_owned());
        let points = one.points.iter();
        let points: Vec<(i64, f64)> = points
            .map(|(at, value)| (time::of_number(*at, false).0, *value))
            .collect();
        looks += u32::from(points.len() < 2);
        if let Some(field) = known.metric(&name) {
            let labels: Vec<(&str, &str)> = one
                .labels
                .iter()
                .map(|(k, v)| (k.as_str(), v.as_str()))
                .collect();
            let subject = subject(&labels);
            for (at_ns, value) in points {
                if let Some(value) = value_of(value, field).known() {
                    all.push_gpu(
                        RecordedMetric::Gpu(field.quantity),
                        &subject,
                        at_ns,
                        value,
                        None,
                    )?;
                }
            }
            continue;
        }
        if name == "node_cpu_seconds_total" {
            let mode = match label("mode") {
                "idle" => "idle",
                "iowait" => "iowait",
                _ => continue,
            };
            add(cores.entry((host, mode)).or_default(), rates(&points));
            continue;
        }
        if let Some(place) = [
            "node_memory_MemAvailable_bytes",
            "node_memory_MemTotal_bytes",
        ]
        .iter()
        .position(|known| *known == name)
        {
            if let Some(moments) = memory.entry(host).or_default().get_mut(place) {
                add(moments, points);
            }
            continue;
        }
        let rate = RATES.iter().find(|row| row.0 == name);
        if rate.is_some() && label("device") == "lo" {
            continue;
        }
        let (metric, points) = match rate {
            Some((_, quantity)) => (RecordedMetric::Host(*quantity), rates(&points)),
            None => otherwise(&name, points),
        };
        let of = of_labels(&one.labels);
        all.whole(made(metric, of, points));
    }
    derived(&mut all, &cores, memory);
    let recording = all.finish("Prometheus query_range".into());
    if recording.series.is_empty() && looks > 0 {
        return Err(
            RecordingError::whole("its series have one point each: one look is no series")
                .hint("ask for query_range with a step, over the time of the trace"),
        );
    }
    Ok(recording)
}

/// Cores by mode, of each host.
type Cores = BTreeMap<(String, &'static str), Moments>;

/// What several series say together: use of all cores, waiting for disks, memory in use.
fn derived(all: &mut Gathered, cores: &Cores, memory: BTreeMap<String, [Moments; 2]>) {
    for (host, idle) in cores
        .iter()
        .filter(|((_, mode), _)| *mode == "idle")
        .map(|((host, _), idle)| (host, idle))
    {
        let waits = cores.get(&(host.clone(), "iowait"));
        let mean = |moments: Option<&Moments>, at: i64| {
            moments
                .and_then(|m| m.get(&at))
                .map(|(sum, count)| sum / f64::from(*count))
        };
        let used = idle.keys().filter_map(|at| {
            let busy = 1.0 - mean(Some(idle), *at)? - mean(waits, *at).unwrap_or(0.0);
            Some((*at, busy.clamp(0.0, 1.0)))
        });
        let used = used.collect();
        all.whole(made(
            RecordedMetric::Host(HostQuantity::CpuUtil),
            host.clone(),
            used,
        ));
        let waits = waits.into_iter().flat_map(|waits| {
            waits
                .keys()
                .filter_map(|at| Some((*at, mean(Some(waits), *at)?)))
        });
        let waits = waits.collect();
        all.whole(made(
            RecordedMetric::Host(HostQuantity::CpuIowait),
            host.clone(),
            waits,
        ));
    }
    for (host, [available, total]) in memory {
        let used = available
            .iter()
            .filter_map(|(at, (free, _))| Some((*at, 1.0 - free / total.get(at)?.0)));
        let used = used.collect();
        all.whole(made(
            RecordedMetric::Host(HostQuantity::MemoryUsed),
            host,
            used,
        ));
    }
}

fn made(metric: RecordedMetric, of: String, mut points: Vec<(i64, f64)>) -> RecordedSeries {
    points.retain(|point| point.1.is_finite());
    points.sort_by_key(|point| point.0);
    RecordedSeries {
        metric,
        gpu: None,
        of,
        samples: points
            .into_iter()
            .map(|(at_ns, value)| RecordedSample { at_ns, value })
            .collect(),
    }
}

fn add(moments: &mut Moments, points: Vec<(i64, f64)>) {
    for (at, value) in points {
        let moment = moments.entry(at).or_insert((0.0, 0));
        moment.0 += value;
        moment.1 += 1;
    }
}

/// What a counter gains a second up to each of its points; where it began again nothing is known.
fn rates(points: &[(i64, f64)]) -> Vec<(i64, f64)> {
    let pairs = points.iter().zip(points.iter().skip(1));
    pairs
        .filter(|((before, first), (at, then))| at > before && then >= first)
        .map(|((before, first), (at, then))| {
            (
                *at,
                (then - first) / (at.saturating_sub(*before) as f64 * 1e-9),
            )
        })
        .collect()
}

/// A metric of an application or of another exporter.
fn otherwise(name: &str, points: Vec<(i64, f64)>) -> (RecordedMetric, Vec<(i64, f64)>) {
    let group = if name.starts_with("node_") {
        RecordedGroup::Host
    } else {
        RecordedGroup::Application
    };
    if name.ends_with("_total") {
        let metric = RecordedMetric::Other(group, format!("{name} a second"));
        return (metric, rates(&points));
    }
    let named = if name.is_empty() { "value" } else { name };
    let known = names::known(named, "").unwrap_or_else(|| names::other(named, group));
    (known.metric, points)
}

fn of_labels(labels: &BTreeMap<String, String>) -> String {
    let told = labels
        .iter()
        .filter(|(name, _)| !matches!(name.as_str(), "__name__" | "job"));
    // The host first, whatever its name.
    let mut told: Vec<(&String, &String)> = told.collect();
    told.sort_by_key(|(name, _)| {
        !matches!(name.as_str(), "instance" | "host" | "hostname" | "node")
    });
    let values: Vec<&str> = told
        .iter()
        .take(3)
        .map(|(_, value)| value.as_str())
        .collect();
    values.join(" ")
}
