//! Work of a rank in order of time, and when it did what.

use crate::figures::{
    Settings,
    intervals::Intervals,
    names::{Remembered, WorkTraits},
};
use gpuwise_domain::profile::{
    figure::Scope,
    figures::{MemoryFigures, ProfileFigures},
    finding::Place,
    timeline::{Detail, LaunchShape, Timeline, Work, WorkClass},
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
    /// How long work that finds the device idle takes from its launching call on, usually: one and a half
    /// times the median, 0 where too few did. 10 µs with CUDA, 35 with ROCm.
    pub(super) way_ns: i64,
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
        ordered.way_ns = usual_way(timeline, &ordered.pieces);
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

    /// Time in which anything was computed over the sum of kernels' durations.
    pub(super) fn alone(&self, timeline: &Timeline) -> f64 {
        let sum: i64 = self.kernels(timeline).map(|kernel| kernel.duration()).sum();
        if sum > 0 {
            self.computing.length() as f64 / sum as f64
        } else {
            0.0
        }
    }

    /// Kernels, with their places in the timeline.
    pub(super) fn works<'a>(&self, timeline: &'a Timeline) -> Vec<(usize, &'a Work)> {
        let places = self.pieces.iter().map(|piece| piece.2 as usize);
        let works = places.filter_map(|place| Some((place, timeline.work.get(place)?)));
        works
            .filter(|(_, work)| work.class == WorkClass::Kernel)
            .collect()
    }

    /// Kernels that compute, in order of start.
    pub(super) fn kernels<'a>(
        &'a self,
        timeline: &'a Timeline,
    ) -> impl Iterator<Item = Computing<'a>> + 'a {
        let pieces = self.pieces.iter().enumerate();
        pieces.filter_map(|(place, &(start, end, index))| {
            let work = timeline.work.get(index as usize)?;
            let traits = self.traits_of(work)?;
            (work.class == WorkClass::Kernel && !traits.communication).then_some(Computing {
                place,
                start,
                end,
                work,
                traits,
            })
        })
    }
}

fn usual_way(timeline: &Timeline, pieces: &[Piece]) -> i64 {
    const FEWEST: usize = 8;
    let mut ways = Vec::new();
    let mut busy_until = i64::MIN;
    for &(start, end, index) in pieces {
        let work = timeline.work.get(index as usize);
        let call = work.and_then(|work| timeline.call_of(work));
        let idle = call.filter(|call| busy_until < call.start_ns);
        ways.extend(idle.map(|call| start - call.start_ns));
        busy_until = busy_until.max(end);
    }
    ways.sort_unstable();
    let median = ways.get(ways.len() / 2).copied().unwrap_or(0);
    if ways.len() < FEWEST {
        0
    } else {
        median + median / 2
    }
}

/// A kernel that computes, within the window.
#[derive(Clone, Copy)]
pub(super) struct Computing<'a> {
    /// Its place among the pieces.
    pub(super) place: usize,
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) work: &'a Work,
    pub(super) traits: WorkTraits,
}

impl Computing<'_> {
    pub(super) fn duration(&self) -> i64 {
        self.end - self.start
    }
}

/// How a kernel was launched, where that is stated.
pub(super) fn launch_of<'a>(timeline: &'a Timeline, work: &Work) -> Option<&'a LaunchShape> {
    match timeline.detail_of(work)? {
        Detail::Launch(launch) => Some(launch),
        _ => None,
    }
}

/// What the allocator took of a device at its peak.
pub(super) struct DeviceMemory<'a> {
    pub(super) rank: Option<u32>,
    pub(super) memory: &'a MemoryFigures,
    pub(super) reserved: u64,
    pub(super) capacity: u64,
}

impl DeviceMemory<'_> {
    /// Reserved bytes, as a share of the device.
    pub(super) fn pressure(&self) -> f64 {
        self.reserved as f64 / self.capacity as f64
    }

    pub(super) fn scope(&self) -> Scope {
        Scope {
            rank: self.rank,
            device: self.memory.device,
            part: None,
        }
    }

    pub(super) fn place(&self) -> Place {
        Place {
            rank: self.rank,
            device: self.memory.device,
            start_ns: self.memory.peak_at_ns,
            end_ns: self.memory.peak_at_ns,
            lost_ns: None,
            what: "the peak".to_owned(),
        }
    }
}

/// Memory of devices of which peak and capacity are told.
pub(super) fn device_memory(figures: &ProfileFigures) -> impl Iterator<Item = DeviceMemory<'_>> {
    figures.ranks.iter().flat_map(|rank| {
        let devices = rank.memory.iter().filter(|memory| memory.device.is_some());
        devices.filter_map(|memory| {
            Some(DeviceMemory {
                rank: rank.rank,
                memory,
                reserved: memory.peak_reserved?,
                capacity: memory.capacity.filter(|capacity| *capacity > 0)?,
            })
        })
    })
}

/// Bytes of the smallest device.
pub(super) fn smallest_device(figures: &ProfileFigures) -> Option<u64> {
    device_memory(figures).map(|one| one.capacity).min()
}

/// Whether the next allocation may end the run.
pub(super) fn nearly_full(figures: &ProfileFigures) -> bool {
    device_memory(figures).any(|one| one.pressure() >= 0.8)
}
