//! Work of a timeline in order of time, clipped to the window that was asked for.

use super::{
    Settings,
    names::{Classifier, Remembered, WorkTraits},
};
use gpuwise_domain::profile::{
    figures::Window,
    timeline::{Timeline, Work, WorkClass},
};

/// One piece of work, clipped.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    pub(super) start: i64,
    pub(super) end: i64,
    /// Index into the timeline's work.
    pub(super) index: u32,
    pub(super) traits: WorkTraits,
}

impl Piece {
    pub(super) fn work<'a>(&self, timeline: &'a Timeline) -> Option<&'a Work> {
        timeline.work.get(self.index as usize)
    }

    pub(super) fn duration(&self) -> i64 {
        self.end.saturating_sub(self.start)
    }
}

/// Work in order of start, then end, then place in the file.
#[derive(Debug, Clone, Default)]
pub(super) struct Ordered {
    pub(super) pieces: Vec<Piece>,
    pub(super) asked: Option<Window>,
}

impl Ordered {
    /// The work that lies within the window and on the device that were asked for.
    pub(super) fn new(timeline: &Timeline, settings: &Settings<'_>) -> Self {
        let mut traits = Remembered::new(&timeline.names);
        let mut pieces = Vec::with_capacity(timeline.work.len());
        for (index, work) in timeline.work.iter().enumerate() {
            let (Ok(index), Some((start, end))) =
                (u32::try_from(index), clipped(work, settings.window))
            else {
                continue;
            };
            let device = timeline.device_of(work).map(|device| device.number);
            if settings.device.is_some() && settings.device != device {
                continue;
            }
            let traits = match work.class {
                WorkClass::Kernel => traits.of(work.name, |name| settings.names.kernel(name)),
                WorkClass::Copy => Classifier::memory(false),
                WorkClass::Set => Classifier::memory(true),
            };
            pieces.push(Piece {
                start,
                end,
                index,
                traits,
            });
        }
        // Stable, and quick where streams follow one another.
        pieces.sort_by_key(|piece| (piece.start, piece.end));
        Self {
            pieces,
            asked: settings.window,
        }
    }

    /// Indices of devices that have work, ascending.
    pub(super) fn devices(&self, timeline: &Timeline) -> Vec<u16> {
        let mut seen = vec![false; timeline.devices.len()];
        for piece in &self.pieces {
            let device = device_index(timeline, piece);
            if let Some(seen) = device.and_then(|device| seen.get_mut(usize::from(device))) {
                *seen = true;
            }
        }
        (0..)
            .zip(seen)
            .filter_map(|(device, seen)| seen.then_some(device))
            .collect()
    }

    /// The work of one device, by its index in the timeline.
    pub(super) fn of_device(&self, timeline: &Timeline, device: u16) -> Self {
        let pieces = self.pieces.iter().copied();
        Self {
            pieces: pieces
                .filter(|piece| device_index(timeline, piece) == Some(device))
                .collect(),
            asked: self.asked,
        }
    }
}

fn device_index(timeline: &Timeline, piece: &Piece) -> Option<u16> {
    let stream = piece.work(timeline)?.stream;
    Some(timeline.streams.get(stream as usize)?.device)
}

/// The part of a piece of work within a window; work without length belongs to a window that
/// holds its start.
fn clipped(work: &Work, window: Option<Window>) -> Option<(i64, i64)> {
    let Some(window) = window else {
        return Some((work.start_ns, work.end_ns));
    };
    let (start, end) = (
        work.start_ns.max(window.start_ns),
        work.end_ns.min(window.end_ns),
    );
    let instant =
        work.start_ns == work.end_ns && (window.start_ns..window.end_ns).contains(&work.start_ns);
    (start < end || instant).then_some((start, end))
}
