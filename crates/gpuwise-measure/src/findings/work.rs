//! Work of a rank in order of time, and when it did what.

use crate::figures::{
    Settings,
    intervals::Intervals,
    names::{Remembered, WorkTraits},
};
use gpuwise_domain::profile::timeline::{
    Detail, LaunchShape, MemoryKind, Timeline, Work, WorkClass,
};

/// One piece: start, end, index into the timeline's work.
pub(super) type Piece = (i64, i64, u32);

/// Work in order of start, and its unions.
#[derive(Debug, Default)]
pub(super) struct Ordered {
    pub(super) pieces: Vec<Piece>,
    pub(super) traits: Vec<Option<WorkTraits>>,
    pub(super) busy: Intervals,
    pub(super) computing: Intervals,
    pub(super) communicating: Intervals,
    /// Communication under which nothing was computed.
    pub(super) only_communicating: Intervals,
}

impl Ordered {
    /// The work within the window and on the device that were asked for.
    pub(super) fn new(timeline: &Timeline, settings: &Settings<'_>) -> Self {
        let mut known = Remembered::new(&timeline.names);
        let mut ordered = Self {
            traits: vec![None; timeline.names.len()],
            ..Self::default()
        };
        for (index, work) in timeline.work.iter().enumerate() {
            let Ok(index) = u32::try_from(index) else {
                break;
            };
            let device = timeline.device_of(work).map(|device| device.number);
            if settings.device.is_some() && settings.device != device {
                continue;
            }
            let (from, to) = settings
                .window
                .map_or((i64::MIN, i64::MAX), |w| (w.start_ns, w.end_ns));
            let (start, end) = (work.start_ns.max(from), work.end_ns.min(to));
            if start <= end {
                ordered.pieces.push((start, end, index));
            }
        }
        ordered.pieces.sort_unstable();
        let (mut computing, mut communicating) = (Vec::new(), Vec::new());
        for &(start, end, index) in &ordered.pieces {
            ordered.busy.extend(start, end);
            let Some(work) = timeline.work.get(index as usize) else {
                continue;
            };
            if work.class != WorkClass::Kernel {
                continue;
            }
            let traits = known.of(work.name, |name| settings.names.kernel(name));
            if let Some(slot) = ordered.traits.get_mut(work.name.0 as usize) {
                *slot = Some(traits);
            }
            if traits.communication {
                communicating.push((start, end));
            } else {
                computing.push((start, end));
            }
        }
        ordered.computing = Intervals::union(computing);
        ordered.communicating = Intervals::union(communicating);
        ordered.only_communicating = ordered.communicating.without(&ordered.computing);
        ordered
    }

    /// What the name of a kernel says.
    pub(super) fn traits_of(&self, work: &Work) -> Option<WorkTraits> {
        self.traits.get(work.name.0 as usize).copied().flatten()
    }

    /// From the first start to the last end.
    pub(super) fn span(&self) -> i64 {
        self.busy.hull().map_or(0, |(start, end)| end - start)
    }

    /// Kernels that compute, in order of start.
    pub(super) fn kernels<'a>(
        &'a self,
        timeline: &'a Timeline,
    ) -> impl Iterator<Item = (&'a Work, WorkTraits)> + 'a {
        self.pieces.iter().filter_map(|piece| {
            let work = timeline.work.get(piece.2 as usize)?;
            let traits = self.traits_of(work)?;
            (work.class == WorkClass::Kernel && !traits.communication).then_some((work, traits))
        })
    }
}

/// How a kernel was launched, where that is stated.
pub(super) fn launch_of<'a>(timeline: &'a Timeline, work: &Work) -> Option<&'a LaunchShape> {
    match timeline.detail_of(work)? {
        Detail::Launch(launch) => Some(launch),
        _ => None,
    }
}

/// Whether a kind of memory lies on the host.
pub(super) fn on_host(kind: MemoryKind) -> bool {
    matches!(kind, MemoryKind::Pageable | MemoryKind::Pinned)
}
