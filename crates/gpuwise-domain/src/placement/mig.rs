//! How a GPU can be cut into MIG instances.

use alloc::{string::String, vec::Vec};

/// The geometry of a board: which instances there are and where each may start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MigGeometry {
    /// Compute slices of the board.
    pub compute_slices: u8,
    /// Memory slices of the board; at most 16.
    pub memory_slices: u8,
    /// Profiles.
    pub shapes: Vec<MigShape>,
}

/// A profile of a board.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigShape {
    /// Its name, such as `3g.40gb`.
    pub profile: String,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Streaming multiprocessors.
    pub units: u32,
    /// Compute slices that it takes.
    pub compute: u8,
    /// Memory slices that it takes, from its start on.
    pub size: u8,
    /// Memory slices where it may start, as bits.
    pub starts: u16,
    /// How many a board has at most.
    pub most: u8,
    /// Whether it has the board's media engines (`+me`): one instance of a board at most.
    pub media: bool,
}

/// What instances take of a board.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord, Hash)]
pub struct Occupancy {
    /// Memory slices taken, as bits.
    pub memory: u16,
    /// Compute slices taken.
    pub compute: u8,
}

impl MigShape {
    /// The memory slices of an instance that starts here, as bits; `None` where it may not start.
    pub const fn mask(&self, start: u8) -> Option<u16> {
        if start >= 16 || self.starts & (1 << start) == 0 || start + self.size > 16 {
            return None;
        }
        Some((((1_u32 << self.size) - 1) << start) as u16)
    }
}

impl MigGeometry {
    /// Whether an instance of this profile can be created here beside those present, each as its
    /// profile's place and its start.
    pub fn has_room(&self, present: &[(u8, u8)], shape: u8, start: u8) -> bool {
        let Some(wanted) = self.shapes.get(usize::from(shape)) else {
            return false;
        };
        let Some(mask) = wanted.mask(start) else {
            return false;
        };
        let (mut compute, mut alike, mut media) = (u32::from(wanted.compute), 0, false);
        for (other, at) in present {
            let Some(there) = self.shapes.get(usize::from(*other)) else {
                return false;
            };
            if there.mask(*at).is_none_or(|taken| taken & mask != 0) {
                return false;
            }
            compute += u32::from(there.compute);
            alike += u32::from(*other == shape);
            media |= there.media;
        }
        compute <= u32::from(self.compute_slices)
            && alike < u32::from(wanted.most)
            && !(media && wanted.media)
            && u32::from(start) + u32::from(wanted.size) <= u32::from(self.memory_slices)
    }
}
