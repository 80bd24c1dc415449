//! Figures of profiles, exact in integer nanoseconds.
//!
//! Definitions stand in [`definitions`]; what is measured here is typed in
//! [`gpuwise_domain::profile::figures`].

mod classes;
mod collectives;
pub mod definitions;
mod device;

pub mod flops;
mod host;
mod idle;
pub mod intervals;
mod kernels;
mod lacks;
mod memory;
pub mod names;
mod ordered;
mod path;
mod sequence;
mod steps;
pub mod summary;

pub use collectives::{RankCollective, stragglers};
pub(crate) use kernels::launch_of;
pub(crate) use lacks::lacks;
pub use lacks::sentence as lack_sentence;
pub use names::Classifier;

use device::Times;
use gpuwise_domain::{
    gpu::PeakRates,
    profile::{
        figures::{DeviceFigures, Gap, ProfileFigures, RankFigures, Window},
        joined::Joined,
        timeline::{Needed, Timeline, Work},
    },
};
use host::HostTimes;
use ordered::Ordered;
use std::collections::BTreeMap;

/// What is to be measured, and by which rules.
#[derive(Debug, Clone, Copy)]
pub struct Settings<'a> {
    pub names: &'a Classifier,
    /// Only what happened within it; everything when absent.
    pub window: Option<Window>,
    /// Only the device of this number; all when absent.
    pub device: Option<i64>,
    /// Dense peaks of devices, by their name as files state it.
    pub peaks: &'a BTreeMap<String, PeakRates>,
}

impl Settings<'_> {
    /// Whether a piece of work is of the device and began within the window.
    pub(crate) fn holds(&self, timeline: &Timeline, work: &Work) -> bool {
        let number = timeline.device_of(work).map(|device| device.number);
        self.holds_time(work.start_ns) && (self.device.is_none() || self.device == number)
    }

    pub(crate) fn holds_time(&self, at_ns: i64) -> bool {
        let window = self.window;
        window.is_none_or(|window| (window.start_ns..window.end_ns).contains(&at_ns))
    }
}

/// One file to be measured.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// The file as the user named it.
    pub file: &'a str,
    /// Its rank, where the user or the file's name says so.
    pub rank: Option<u32>,
    pub timeline: &'a Timeline,
}

/// What one file says: its figures, and what is laid beside other ranks.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Measured {
    pub figures: RankFigures,
    /// Its communication kernels in order of time.
    pub collectives: Vec<RankCollective>,
}

pub fn of_rank(input: &Input<'_>, settings: &Settings<'_>) -> Measured {
    let timeline = input.timeline;
    let host = HostTimes::new(timeline, settings.names);
    let ordered = Ordered::new(timeline, settings);
    let mut devices: Vec<(DeviceFigures, Times)> = Vec::new();
    for device in ordered.devices(timeline) {
        let part = ordered.of_device(timeline, device);
        let (mut figures, times) = device::figures(timeline, &part, &host, settings);
        if let Some(known) = timeline.devices.get(usize::from(device)) {
            figures.device = Some(known.number);
            figures.name.clone_from(&known.name);
        }
        devices.push((figures, times));
    }
    let (whole, times) = match devices.as_slice() {
        [(only, times)] => (
            DeviceFigures {
                device: None,
                ..only.clone()
            },
            times.clone(),
        ),
        _ => device::figures(timeline, &ordered, &host, settings),
    };
    let (source, marked) = steps::marked(timeline, settings.names);
    let stepping = steps::union(&marked);
    let collectives = collectives::of_rank(timeline, &ordered, &host.overhead);
    let mut figures = RankFigures {
        file: input.file.to_owned(),
        format: timeline.format,
        lacks: lacks(timeline),
        rank: timeline
            .rank
            .as_ref()
            .map_or(input.rank, |rank| Some(rank.number)),
        file_bytes: timeline.bytes,
        event_count: timeline.event_count,
        categories: by_count(&timeline.categories),
        whole,
        devices: devices.into_iter().map(|(figures, _)| figures).collect(),
        host: host::figures(timeline, &host, stepping.as_ref(), settings.names),
        steps: steps::figures(source, marked, &times, &host),
        sequence: sequence::figures(timeline, &ordered),
        flops: flops::figures(timeline, &ordered, &host, settings),
        memory: memory::figures(timeline),
        collectives: collectives::kinds(&collectives),
        critical_path: path::of(timeline, &ordered, &host, settings),
    };
    lacks::without_kernels(&mut figures);
    let mut collectives = collectives;
    if figures.lack(Needed::Names).is_some() {
        // Which kernels communicate is told by their names.
        figures.collectives.clear();
        figures.sequence = None;
        collectives.clear();
    }
    Measured {
        figures,
        collectives,
    }
}

/// The most frequent first, equal ones in order of appearance.
fn by_count(categories: &[(String, u64)]) -> Vec<(String, u64)> {
    let mut categories = categories.to_vec();
    categories.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    categories
}

/// Every gap of each device, by its number in the file, in order of time: what a timeline shows of
/// idle time, where figures keep the longest alone.
pub fn gaps(timeline: &Timeline, settings: &Settings<'_>) -> Vec<(i64, Vec<Gap>)> {
    let host = HostTimes::new(timeline, settings.names);
    let ordered = Ordered::new(timeline, settings);
    let of = |device: u16| {
        let number = timeline.devices.get(usize::from(device))?.number;
        let part = ordered.of_device(timeline, device);
        Some((number, device::gaps(timeline, &part, &host)))
    };
    let devices = ordered.devices(timeline);
    devices.into_iter().filter_map(of).collect()
}

/// Puts ranks beside one another.
pub fn of_profile(measured: Vec<Measured>) -> ProfileFigures {
    let numbered: Vec<(u32, &[RankCollective])> = (0..)
        .zip(&measured)
        .map(|(place, one)| {
            (
                one.figures.rank.unwrap_or(place),
                one.collectives.as_slice(),
            )
        })
        .collect();
    let stragglers = stragglers(&numbered);
    ProfileFigures {
        ranks: measured.into_iter().map(|one| one.figures).collect(),
        stragglers,
        joined: Joined::default(),
        layouts: None,
        missing: Vec::new(),
    }
}
