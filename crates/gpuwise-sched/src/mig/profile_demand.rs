//! Where to start one instance, so that what may be asked next still fits.
//!
//! The worth of a board is the compute that it could still take, by kinds of request and how often
//! each is asked: Σ over profiles of frequency × compute slices × how many of them still fit. An
//! instance goes where it takes the least worth, and of like places rather on a board of which much
//! is taken. That keeps whole aligned halves free, and free boards whole.

use gpuwise_domain::placement::{MigGeometry, Occupancy};

/// How often each profile of a board is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileDemand<'g> {
    geometry: &'g MigGeometry,
    /// By the profile's place; their unit makes no difference.
    asked: Vec<i64>,
}

/// Where an instance goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spot {
    /// On which board: its place in the list that was given.
    pub board: usize,
    /// At which memory slice.
    pub start: u8,
    /// What is taken of the board then.
    pub after: Occupancy,
    /// What was weighed: lower is better.
    pub score: i64,
}

/// What a compute slice that is taken already counts against one of worth that would be lost: 3 in 20.
/// Chosen on random mixes of eight boards: 0 leaves more whole boards cut, 1 is best fit.
const FULLNESS: (i64, i64) = (3, 20);

impl<'g> ProfileDemand<'g> {
    /// With these frequencies by the profile's place; those left out are never asked.
    pub fn new(geometry: &'g MigGeometry, asked: &[u32]) -> Self {
        let mut asked: Vec<i64> = asked.iter().map(|often| i64::from(*often)).collect();
        asked.resize(geometry.shapes.len(), 0);
        Self { geometry, asked }
    }

    /// Every plain profile asked alike.
    pub fn even(geometry: &'g MigGeometry) -> Self {
        let plain = geometry
            .shapes
            .iter()
            .map(|shape| u32::from(shape.is_plain()));
        Self::new(geometry, &plain.collect::<Vec<_>>())
    }

    pub fn of(&self, taken: Occupancy) -> i64 {
        let shapes = self.geometry.shapes.iter().zip(0_u8..);
        shapes
            .zip(&self.asked)
            .filter(|(_, often)| **often > 0)
            .map(|((row, shape), often)| {
                often * i64::from(row.compute) * i64::from(most(self.geometry, taken, shape))
            })
            .sum()
    }

    /// How bad it is to create an instance here: lower is better.
    pub fn score(&self, taken: Occupancy, after: Occupancy) -> i64 {
        let unit: i64 = self.asked.iter().sum();
        FULLNESS.1 * (self.of(taken) - self.of(after))
            - FULLNESS.0 * unit * i64::from(taken.compute)
    }

    /// The best board and start for an instance of this profile; of equals the first board, and there
    /// the lowest start. `None`: none has room.
    pub fn best(&self, boards: impl IntoIterator<Item = Occupancy>, shape: u8) -> Option<Spot> {
        let mut best: Option<Spot> = None;
        for (board, taken) in boards.into_iter().enumerate() {
            for (start, after) in self.geometry.starts(taken, shape) {
                let score = self.score(taken, after);
                if best.is_none_or(|found| score < found.score) {
                    best = Some(Spot {
                        board,
                        start,
                        after,
                        score,
                    });
                }
            }
        }
        best
    }
}

/// How many instances of this profile still fit. Runs of one length: taking the lowest start that is
/// free, again and again, gives the most.
pub fn most(geometry: &MigGeometry, taken: Occupancy, shape: u8) -> u8 {
    let (mut now, mut count) = (taken, 0);
    for start in 0..16 {
        if let Some(after) = geometry.created(now, shape, start) {
            now = after;
            count += 1;
        }
    }
    count
}

/// First fit in index order, as a plain operator does it: the first board with room, its lowest start.
pub fn first_fit(
    geometry: &MigGeometry,
    boards: impl IntoIterator<Item = Occupancy>,
    shape: u8,
) -> Option<Spot> {
    let mut boards = boards.into_iter().enumerate();
    boards.find_map(|(board, taken)| {
        let (start, after) = geometry.starts(taken, shape).next()?;
        Some(Spot {
            board,
            start,
            after,
            score: 0,
        })
    })
}
