//! A mix of requests on few boards, or as much of it as given boards can take.
//!
//! Choosing for each board one of its completions is a covering problem with few columns: an A100 has
//! 14 of them, 38 with the double-memory 1g. Its linear relaxation gives a bound and most of the
//! answer; what is left when fractions of boards are cut off is searched by branch and bound.

use super::layouts::{Layout, TooMany, completions, tally};
use crate::linear::{Optimum, Steps, maximise};
use gpuwise_domain::placement::{MigGeometry, Occupancy};

/// Boards of which the same is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Boards {
    /// What is taken, and stays.
    pub taken: Occupancy,
    pub count: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// Of which boards: their place in the list.
    pub boards: usize,
    pub count: u32,
    /// What is created on each beside what is taken.
    pub layout: Layout,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Packed {
    /// How boards are cut; those not named stay as they are.
    pub cuts: Vec<Cut>,
    /// Requests that found an instance, by profile.
    pub placed: Vec<u32>,
    pub worth: u64,
    /// No packing is worth more: the linear relaxation, or all that was wanted.
    pub bound: u64,
    /// Steps that the search took.
    pub steps: u64,
}

struct Column {
    boards: usize,
    counts: Vec<u32>,
    layout: Layout,
}

/// As much worth as possible of what is wanted, on these boards. `wanted` and `worth` go by the
/// profile's place. The search takes at most `effort` steps: then the best found is given.
///
/// # Errors
/// When the geometry has too many layouts.
pub fn fill(
    geometry: &MigGeometry,
    boards: &[Boards],
    wanted: &[u32],
    worth: &[u32],
    effort: u64,
) -> Result<Packed, TooMany> {
    let shapes = geometry.shapes.len();
    let pad = |list: &[u32]| {
        let mut list = list.to_vec();
        list.resize(shapes, 0);
        list
    };
    let (wanted, worth) = (pad(wanted), pad(worth));
    let mut columns = Vec::new();
    for (at, class) in boards.iter().enumerate() {
        for layout in completions(geometry, class.taken)? {
            let counts = tally(geometry, &layout)
                .into_iter()
                .map(u32::from)
                .collect();
            columns.push(Column {
                boards: at,
                counts,
                layout,
            });
        }
    }
    let all = worth_of(&wanted, &worth);
    let relaxed = relaxation(&columns, boards, &wanted, &worth);
    let bound = relaxed
        .as_ref()
        .map_or(all, |best| all.min((best.value + 1e-6).max(0.0) as u64));
    let floors: Vec<u32> = relaxed.map_or_else(
        || vec![0; columns.len()],
        |best| {
            best.x
                .iter()
                .take(columns.len())
                .map(|x| (x + 1e-6).max(0.0) as u32)
                .collect()
        },
    );
    let mut search = Search {
        columns: &columns,
        worth: &worth,
        left: effort,
        goal: bound,
        best: None,
    };
    search.from(&floors, boards, &wanted);
    // What was fixed too early: one board fewer of each cut in turn, then of all.
    for at in 0..columns.len() {
        if search.is_done() {
            break;
        }
        let mut fewer = floors.clone();
        if let Some(count) = fewer.get_mut(at).filter(|count| **count > 0) {
            *count -= 1;
            search.from(&fewer, boards, &wanted);
        }
    }
    if !search.is_done() {
        let fewer: Vec<u32> = floors.iter().map(|count| count.saturating_sub(1)).collect();
        search.from(&fewer, boards, &wanted);
    }
    Ok(search.packed(&wanted, bound, effort))
}

/// All that is wanted on as few uncut boards as possible: `bound` of the answer is the number of boards
/// below which no packing goes, `worth` the boards that are taken.
///
/// # Errors
/// When the geometry has too many layouts.
pub fn fewest(geometry: &MigGeometry, wanted: &[u32], effort: u64) -> Result<Packed, TooMany> {
    let rows: Vec<Vec<f64>> = completions(geometry, Occupancy::default())?
        .iter()
        .map(|layout| tally(geometry, layout).into_iter().map(f64::from).collect())
        .collect();
    let mut goal: Vec<f64> = wanted.iter().map(|count| f64::from(*count)).collect();
    goal.resize(geometry.shapes.len(), 0.0);
    // The dual of covering: prices of profiles such that no board is worth more than one.
    let dual = maximise(&goal, &rows, &vec![1.0; rows.len()], STEPS);
    let least = dual.map_or(0, |best| (best.value - 1e-6).ceil().max(0.0) as u32);
    let worth: Vec<u32> = geometry
        .shapes
        .iter()
        .map(|shape| u32::from(shape.size))
        .collect();
    let most: u32 = wanted
        .iter()
        .fold(0, |sum, count| sum.saturating_add(*count));
    let mut count = least;
    loop {
        let boards = [Boards {
            taken: Occupancy::default(),
            count,
        }];
        let packed = fill(geometry, &boards, wanted, &worth, effort)?;
        if count >= most
            || packed
                .placed
                .iter()
                .zip(wanted)
                .all(|(placed, w)| placed >= w)
        {
            return Ok(Packed {
                bound: u64::from(least),
                worth: packed.cuts.iter().map(|cut| u64::from(cut.count)).sum(),
                ..packed
            });
        }
        count += 1;
    }
}

/// Steps of the simplex: far more than columns.
const STEPS: Steps = Steps::bland(20_000);

fn worth_of(counts: &[u32], worth: &[u32]) -> u64 {
    let each = counts.iter().zip(worth);
    each.map(|(count, worth)| u64::from(*count) * u64::from(*worth))
        .sum()
}

/// Boards by column, then requests by profile: most worth of requests, which are no more than wanted
/// and than the columns hold, with no more boards than there are.
fn relaxation(
    columns: &[Column],
    boards: &[Boards],
    wanted: &[u32],
    worth: &[u32],
) -> Option<Optimum> {
    let (cuts, shapes) = (columns.len(), wanted.len());
    let mut goal = vec![0.0; cuts];
    goal.extend(worth.iter().map(|worth| f64::from(*worth)));
    let mut rows = Vec::new();
    let mut limits = Vec::new();
    for (shape, count) in wanted.iter().enumerate() {
        let one = |at: usize| f64::from(u8::from(at == shape));
        let mut at_most = vec![0.0; cuts];
        at_most.extend((0..shapes).map(one));
        rows.push(at_most);
        limits.push(f64::from(*count));
        let held = |column: &Column| column.counts.get(shape).map_or(0.0, |n| -f64::from(*n));
        let mut held: Vec<f64> = columns.iter().map(held).collect();
        held.extend((0..shapes).map(one));
        rows.push(held);
        limits.push(0.0);
    }
    for (at, class) in boards.iter().enumerate() {
        let of = columns
            .iter()
            .map(|column| f64::from(u8::from(column.boards == at)));
        let mut row: Vec<f64> = of.collect();
        row.resize(cuts + shapes, 0.0);
        rows.push(row);
        limits.push(f64::from(class.count));
    }
    maximise(&goal, &rows, &limits, STEPS)
}

struct Search<'a> {
    columns: &'a [Column],
    worth: &'a [u32],
    left: u64,
    goal: u64,
    best: Option<(u64, Vec<u32>)>,
}

impl Search<'_> {
    fn is_done(&self) -> bool {
        self.left == 0
            || self
                .best
                .as_ref()
                .is_some_and(|(worth, _)| *worth >= self.goal)
    }

    /// Searches with these boards cut already.
    fn from(&mut self, fixed: &[u32], boards: &[Boards], wanted: &[u32]) {
        let mut free: Vec<u32> = boards.iter().map(|class| class.count).collect();
        let mut missing = wanted.to_vec();
        let mut worth = 0;
        let mut cuts = fixed.to_vec();
        for (column, count) in self.columns.iter().zip(&mut cuts) {
            let Some(free) = free.get_mut(column.boards) else {
                continue;
            };
            *count = (*count).min(*free);
            *free -= *count;
            for _ in 0..*count {
                worth += self.take(column, &mut missing);
            }
        }
        self.greedy(cuts.clone(), free.clone(), missing.clone(), worth);
        self.branch(0, &mut cuts, &mut free, &missing, worth);
    }

    fn gain(&self, column: &Column, missing: &[u32]) -> u64 {
        let each = column.counts.iter().zip(missing).zip(self.worth);
        each.map(|((has, missing), worth)| u64::from(*has.min(missing)) * u64::from(*worth))
            .sum()
    }

    fn take(&self, column: &Column, missing: &mut [u32]) -> u64 {
        let gain = self.gain(column, missing);
        for (has, missing) in column.counts.iter().zip(missing) {
            *missing = missing.saturating_sub(*has);
        }
        gain
    }

    /// Again and again the column that gains most.
    fn greedy(
        &mut self,
        mut cuts: Vec<u32>,
        mut free: Vec<u32>,
        mut missing: Vec<u32>,
        worth: u64,
    ) {
        let mut worth = worth;
        loop {
            let mut best: Option<(u64, usize)> = None;
            for (at, column) in self.columns.iter().enumerate() {
                let gain = self.gain(column, &missing);
                let room = free.get(column.boards).is_some_and(|free| *free > 0);
                if room && gain > best.map_or(0, |(most, _)| most) {
                    best = Some((gain, at));
                }
            }
            let Some((_, at)) = best else { break };
            let (Some(column), Some(count)) = (self.columns.get(at), cuts.get_mut(at)) else {
                break;
            };
            *count += 1;
            if let Some(free) = free.get_mut(column.boards) {
                *free -= 1;
            }
            worth += self.take(column, &mut missing);
        }
        self.keep(worth, &cuts);
    }

    fn keep(&mut self, worth: u64, cuts: &[u32]) {
        if self.best.as_ref().is_none_or(|(most, _)| worth > *most) {
            self.best = Some((worth, cuts.to_vec()));
        }
    }

    /// Goes on with this column or a later one, so that each set of cuts is met once.
    fn branch(
        &mut self,
        first: usize,
        cuts: &mut [u32],
        free: &mut [u32],
        missing: &[u32],
        worth: u64,
    ) {
        self.keep(worth, cuts);
        if self.is_done() {
            return;
        }
        self.left -= 1;
        let mut most = vec![0_u64; free.len()];
        let mut gains = vec![0_u64; self.columns.len()];
        let later = self.columns.iter().enumerate().skip(first);
        for (at, column) in later {
            let gain = self.gain(column, missing);
            if let (Some(most), Some(slot)) = (most.get_mut(column.boards), gains.get_mut(at)) {
                *most = gain.max(*most);
                *slot = gain;
            }
        }
        let reach: u64 = most
            .iter()
            .zip(&*free)
            .map(|(gain, free)| gain * u64::from(*free))
            .sum();
        let reach = reach.min(worth_of(missing, self.worth));
        if self
            .best
            .as_ref()
            .is_some_and(|(best, _)| worth + reach <= *best)
        {
            return;
        }
        for at in first..self.columns.len() {
            let Some(column) = self.columns.get(at) else {
                return;
            };
            let room = free.get(column.boards).is_some_and(|free| *free > 0);
            if !room || gains.get(at).is_none_or(|gain| *gain == 0) {
                continue;
            }
            change(free, column.boards, false);
            change(cuts, at, true);
            let mut left = missing.to_vec();
            let gain = self.take(column, &mut left);
            self.branch(at, cuts, free, &left, worth + gain);
            change(cuts, at, false);
            change(free, column.boards, true);
            if self.is_done() {
                return;
            }
        }
    }

    /// The best that was found, with no instance that nobody wanted.
    fn packed(self, wanted: &[u32], bound: u64, effort: u64) -> Packed {
        let (worth, counts) = self.best.unwrap_or_default();
        let mut missing = wanted.to_vec();
        let mut cuts: Vec<Cut> = Vec::new();
        for (column, count) in self.columns.iter().zip(counts) {
            for _ in 0..count {
                let mut layout = column.layout.clone();
                layout.retain(|(shape, _)| {
                    let left = missing.get_mut(usize::from(*shape));
                    left.is_some_and(|left| {
                        let wanted = *left > 0;
                        *left = left.saturating_sub(1);
                        wanted
                    })
                });
                match cuts.last_mut() {
                    Some(last) if last.boards == column.boards && last.layout == layout => {
                        last.count += 1;
                    }
                    _ if layout.is_empty() => {}
                    _ => cuts.push(Cut {
                        boards: column.boards,
                        count: 1,
                        layout,
                    }),
                }
            }
        }
        let placed = wanted
            .iter()
            .zip(&missing)
            .map(|(w, left)| w - left)
            .collect();
        Packed {
            cuts,
            placed,
            worth,
            bound,
            steps: effort - self.left,
        }
    }
}

fn change(counts: &mut [u32], at: usize, up: bool) {
    if let Some(count) = counts.get_mut(at) {
        *count = if up {
            *count + 1
        } else {
            count.saturating_sub(1)
        };
    }
}
