use super::Known;
use crate::{
    Lane,
    lane::{CLASS, ENGINE, GPU, KERNEL, MAJOR, MINOR, VERSION},
};

gpuwise_units::named! {
    /// What a time rests on, nearest first.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Basis: name {
        /// Shapes measured on this GPU under this engine.
        Measured = "measured",
        /// Shapes of a model of which nothing was measured, though the GPU and the engine were.
        NewShape = "measured for other models",
        /// Another GPU of the same compute capability.
        Architecture = "carried from its architecture",
        /// Another GPU of the same generation.
        Generation = "carried from its generation",
        /// Another GPU of the family.
        Family = "carried from its family",
        /// GPUs of another family.
        AnyGpu = "carried from another family",
        /// The same kind of silicon was measured, under another engine only.
        OtherEngine = "carried from another engine",
        OtherFormat = "carried from another format",
    }
}

impl Basis {
    /// Whether nothing of the kind was measured on this GPU under this engine in this format.
    pub const fn extrapolated(self) -> bool {
        !matches!(self, Self::Measured | Self::NewShape)
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|basis| basis.name() == name)
    }
}

/// The measured lane that answers, down to the level to which it does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found<'a> {
    pub(crate) lane: &'a Lane,
    pub(crate) level: usize,
    pub(crate) basis: Basis,
}

/// The nearest lane: by format, then family of GPUs, engine, kernel and generation; of equals the
/// newest version, then that of most rows.
pub(crate) fn resolve<'a>(known: &'a Known, asked: &Lane) -> Option<Found<'a>> {
    let like = (known.operator.like)(asked.part(0));
    let format = |lane: &Lane| {
        let part = lane.part(0);
        if part == asked.part(0) {
            return 0;
        }
        1 + like.iter().position(|f| *f == part).unwrap_or(like.len())
    };
    let differs = |lane: &Lane, level: usize| lane.part(level) != asked.part(level);
    let rank = |(lane, rows): &(&'a Lane, &usize)| {
        (
            format(lane),
            differs(lane, CLASS),
            differs(lane, ENGINE),
            differs(lane, KERNEL),
            (
                differs(lane, MAJOR),
                differs(lane, MINOR),
                differs(lane, GPU),
            ),
            differs(lane, VERSION),
            core::cmp::Reverse(release(lane.part(VERSION))),
            core::cmp::Reverse(**rows),
        )
    };
    let (lane, _) = known.lanes.iter().min_by_key(rank)?;
    let level = (CLASS..=VERSION)
        .find(|level| differs(lane, *level) && *level < VERSION)
        .map_or(VERSION, |level| level - 1);
    let level = if level == CLASS && alone(known, lane) {
        CLASS - 1
    } else {
        level
    };
    let basis = match () {
        () if differs(lane, 0) => Basis::OtherFormat,
        () if differs(lane, ENGINE) => Basis::OtherEngine,
        () => match level {
            GPU | VERSION => Basis::Measured,
            MINOR => Basis::Architecture,
            MAJOR => Basis::Generation,
            CLASS => Basis::Family,
            _ => Basis::AnyGpu,
        },
    };
    Some(Found { lane, level, basis })
}

/// Whether one generation is all that was seen of a family, and its surface is its own: it tells nothing
/// of the others.
fn alone(known: &Known, lane: &Lane) -> bool {
    let family = |other: &&Lane| (0..=CLASS).all(|level| other.part(level) == lane.part(level));
    let mut kin = known.lanes.keys().filter(family);
    kin.all(|other| other.part(MAJOR) == lane.part(MAJOR))
        && known.surfaces.contains_key(&lane.path(MAJOR))
        && !known.surfaces.contains_key(&lane.path(CLASS))
}

/// The numbers of a version, for which is newer.
fn release(version: &str) -> [u32; 4] {
    let mut numbers = version
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|part| part.parse().ok());
    [(); 4].map(|()| numbers.next().unwrap_or(0))
}
