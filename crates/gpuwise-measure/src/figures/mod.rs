//! Figures of profiles, exact in integer nanoseconds.
//!
//! Definitions stand in [`definitions`]; what is measured here is typed in
//! [`gpuwise_domain::profile::figures`].

mod classes;
mod device;
mod host;
mod idle;
pub mod intervals;
mod kernels;
pub mod names;
mod ordered;

pub use names::Classifier;

use gpuwise_domain::profile::{
    figures::{DeviceFigures, RankFigures, Window},
    timeline::Timeline,
};
use ordered::Ordered;

/// What is to be measured, and by which rules.
#[derive(Debug, Clone, Copy)]
pub struct Settings<'a> {
    /// What names say.
    pub names: &'a Classifier,
    /// Only what happened within it; everything when absent.
    pub window: Option<Window>,
    /// Only the device of this number; all when absent.
    pub device: Option<i64>,
}

/// One file to be measured.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// The file as the user named it.
    pub file: &'a str,
    /// Its bytes, unpacked.
    pub file_bytes: u64,
    /// What it holds.
    pub timeline: &'a Timeline,
}

/// Measures one file.
pub fn of_rank(input: &Input<'_>, settings: &Settings<'_>) -> RankFigures {
    let timeline = input.timeline;
    let host = host::HostTimes::new(timeline, settings.names);
    let ordered = Ordered::new(timeline, settings);
    let mut devices = Vec::new();
    let numbers = ordered.devices(timeline);
    for &device in &numbers {
        let part = ordered.of_device(timeline, device);
        let mut figures = device::figures(timeline, &part, &host, settings);
        if let Some(known) = timeline.devices.get(usize::from(device)) {
            figures.device = Some(known.number);
            figures.name.clone_from(&known.name);
        }
        devices.push(figures);
    }
    let whole = match devices.as_slice() {
        [only] => DeviceFigures {
            device: None,
            ..only.clone()
        },
        _ => device::figures(timeline, &ordered, &host, settings),
    };
    RankFigures {
        file: input.file.to_owned(),
        format: timeline.format,
        rank: timeline.rank.as_ref().map(|rank| rank.number),
        file_bytes: input.file_bytes,
        event_count: timeline.event_count,
        whole,
        devices,
        ..RankFigures::default()
    }
}
