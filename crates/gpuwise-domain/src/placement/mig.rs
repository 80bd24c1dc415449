//! How a GPU can be cut into MIG instances.
//!
//! The rules are those of the driver (NVIDIA's MIG user guide): an instance takes a run of memory
//! slices that begins at a listed start, instances share no memory slice, together they take no more
//! compute slices than the board has, of each profile there are at most so many, and at most one
//! instance has the board's media engines. Nothing here knows a board: all comes from rows.

use alloc::{string::String, vec::Vec};

/// The geometry of a board: which instances there are and where each may start.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct MigGeometry {
    pub compute_slices: u8,
    /// Memory slices of the board; at most 16.
    pub memory_slices: u8,
    /// Profiles; at most [`MigGeometry::MOST_SHAPES`].
    pub shapes: Vec<MigShape>,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct MigShape {
    /// Its name, such as `3g.40gb`.
    pub profile: String,
    /// Memory in MiB as a driver printed it; `None`: no driver was seen to print it.
    pub memory_mib: Option<u32>,
    /// Streaming multiprocessors; `None`: unknown.
    pub units: Option<u32>,
    /// Compute slices that it takes.
    pub compute: u8,
    /// Memory slices that it takes, from its start on.
    pub size: u8,
    /// Memory slices where it may start, as bits.
    pub starts: u16,
    /// How many a board has at most; 1 to 15.
    pub most: u8,
    /// Whether it has the board's media engines (`+me`): one instance of a board at most.
    pub media: bool,
}

/// The geometry of boards that the catalogue calls by these names.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct MigBoard {
    /// Catalogue names of the GPUs that are cut alike.
    pub gpus: Vec<String>,
    pub geometry: MigGeometry,
}

/// What instances take of a board.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Default,
    PartialOrd,
    Ord,
    Hash,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct Occupancy {
    /// Memory slices taken, as bits.
    pub memory: u16,
    pub compute: u8,
    /// Instances of each shape, four bits each, the first shape lowest.
    pub counts: u64,
}

/// Which profiles of a board are looked at.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub enum ProfileSet {
    /// Of plain profiles with equally many compute slices, the one with the fewest memory slices: on
    /// most boards 1g, 2g, 3g, 4g and 7g.
    Five,
    /// All plain profiles: those and the 1g with twice the memory.
    Base,
    /// Variants with media engines and graphics too.
    All,
}

/// Why rows do not make a geometry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GeometryFault {
    /// The board has no slices, or more than can be told apart.
    #[error(
        "a board has 1 to 16 memory slices and 1 to 16 compute slices, not {memory} and {compute}"
    )]
    Board { memory: u8, compute: u8 },
    #[error("a board has at most 16 profiles, not {0}")]
    Shapes(usize),
    #[error("profile {0} is there twice")]
    Twice(String),
    /// A profile takes nothing, or more than the board has.
    #[error("profile {0} takes no slice, or more than the board has")]
    Size(String),
    /// A profile can start nowhere, or would reach past the board's end.
    #[error(
        "profile {0} has no start, or one from which it reaches past the board's last memory slice"
    )]
    Starts(String),
    /// A profile's greatest number is out of range.
    #[error("profile {0}: a board has 1 to 15 instances of a profile at most")]
    Most(String),
}

impl MigShape {
    /// The memory slices of an instance that starts here, as bits; `None` where it may not start.
    pub const fn mask(&self, start: u8) -> Option<u16> {
        if start >= 16 || self.starts & (1 << start) == 0 || start + self.size > 16 {
            return None;
        }
        Some((((1_u32 << self.size) - 1) << start) as u16)
    }

    /// Whether its name has no variant: neither `+me` nor `-me` nor `+gfx`.
    pub fn is_plain(&self) -> bool {
        !self.profile.contains(['+', '-'])
    }
}

impl Occupancy {
    pub const fn count(self, shape: u8) -> u8 {
        if shape >= 16 {
            return 0;
        }
        ((self.counts >> (4 * shape)) & 15) as u8
    }

    /// Whether the board is uncut.
    pub const fn is_empty(self) -> bool {
        self.memory == 0
    }
}

impl MigGeometry {
    /// Profiles that a board has at most.
    pub const MOST_SHAPES: usize = 16;

    /// Holds the rows against what a board can be.
    ///
    /// # Errors
    /// When no board can be like this.
    pub fn check(&self) -> Result<(), GeometryFault> {
        let (memory, compute) = (self.memory_slices, self.compute_slices);
        if memory == 0 || memory > 16 || compute == 0 || compute > 16 {
            return Err(GeometryFault::Board { memory, compute });
        }
        if self.shapes.len() > Self::MOST_SHAPES {
            return Err(GeometryFault::Shapes(self.shapes.len()));
        }
        for (at, shape) in self.shapes.iter().enumerate() {
            let name = || shape.profile.clone();
            if self
                .shapes
                .iter()
                .take(at)
                .any(|s| s.profile == shape.profile)
            {
                return Err(GeometryFault::Twice(name()));
            }
            if shape.size == 0
                || shape.size > memory
                || shape.compute == 0
                || shape.compute > compute
            {
                return Err(GeometryFault::Size(name()));
            }
            let last = memory - shape.size;
            if shape.starts == 0 || u32::from(shape.starts) >> (last + 1) != 0 {
                return Err(GeometryFault::Starts(name()));
            }
            if shape.most == 0 || shape.most > 15 {
                return Err(GeometryFault::Most(name()));
            }
        }
        Ok(())
    }

    pub fn named(&self, profile: &str) -> Option<u8> {
        let at = self.shapes.iter().position(|s| s.profile == profile)?;
        u8::try_from(at).ok()
    }

    pub fn shape(&self, shape: u8) -> Option<&MigShape> {
        self.shapes.get(usize::from(shape))
    }

    /// What is taken once this instance is created, too; `None` where the driver would refuse it.
    pub fn created(&self, taken: Occupancy, shape: u8, start: u8) -> Option<Occupancy> {
        let row = self.shape(shape)?;
        let mask = row.mask(start)?;
        let room = taken.memory & mask == 0
            && taken.compute + row.compute <= self.compute_slices
            && taken.count(shape) < row.most.min(15);
        if !room || (row.media && self.has_media(taken)) {
            return None;
        }
        Some(Occupancy {
            memory: taken.memory | mask,
            compute: taken.compute + row.compute,
            counts: taken.counts + (1 << (4 * shape)),
        })
    }

    /// What is taken once this instance is destroyed; `None` where there can be none such.
    pub fn destroyed(&self, taken: Occupancy, shape: u8, start: u8) -> Option<Occupancy> {
        let row = self.shape(shape)?;
        let mask = row.mask(start)?;
        if taken.memory & mask != mask || taken.count(shape) == 0 {
            return None;
        }
        Some(Occupancy {
            memory: taken.memory & !mask,
            compute: taken.compute.checked_sub(row.compute)?,
            counts: taken.counts - (1 << (4 * shape)),
        })
    }

    /// Where an instance can be created beside what is taken, with what is taken then; lowest first.
    pub fn starts(
        &self,
        taken: Occupancy,
        shape: u8,
    ) -> impl Iterator<Item = (u8, Occupancy)> + use<'_> {
        let listed = self.shape(shape).map_or(0, |row| row.starts);
        (0..16_u8)
            .filter(move |start| listed & (1 << start) != 0)
            .filter_map(move |start| Some((start, self.created(taken, shape, start)?)))
    }

    /// What these instances take, each a shape and its start; `None` where they cannot be together.
    /// In which order they are created makes no difference once starts are named.
    pub fn together(&self, instances: impl IntoIterator<Item = (u8, u8)>) -> Option<Occupancy> {
        let mut taken = Occupancy::default();
        for (shape, start) in instances {
            taken = self.created(taken, shape, start)?;
        }
        Some(taken)
    }

    /// Whether an instance of this profile can be created here beside those present, each as its
    /// profile's place and its start.
    pub fn has_room(&self, present: &[(u8, u8)], shape: u8, start: u8) -> bool {
        let taken = self.together(present.iter().copied());
        taken.is_some_and(|taken| self.created(taken, shape, start).is_some())
    }

    #[must_use]
    pub fn only(&self, set: ProfileSet) -> Self {
        let least = |shape: &MigShape| {
            let alike = self.shapes.iter().filter(|s| s.is_plain());
            let mut alike = alike.filter(|s| s.compute == shape.compute);
            alike.all(|s| s.size >= shape.size)
        };
        let keep = |shape: &&MigShape| match set {
            ProfileSet::Five => shape.is_plain() && least(shape),
            ProfileSet::Base => shape.is_plain(),
            ProfileSet::All => true,
        };
        Self {
            shapes: self.shapes.iter().filter(keep).cloned().collect(),
            ..*self
        }
    }

    fn has_media(&self, taken: Occupancy) -> bool {
        let mut shapes = self.shapes.iter().zip(0_u8..);
        shapes.any(|(row, shape)| row.media && taken.count(shape) > 0)
    }
}
