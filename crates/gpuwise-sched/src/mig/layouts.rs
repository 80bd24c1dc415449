//! Every way in which a board can be cut.

use gpuwise_domain::placement::{MigGeometry, Occupancy};
use std::collections::BTreeSet;

/// Layouts that are looked at before giving up: boards in use have a few thousand.
const MOST_LAYOUTS: usize = 200_000;

/// Instances of one board, each a profile's place in the geometry and its start; by start.
pub type Layout = Vec<(u8, u8)>;

/// A board has more layouts than anybody can look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this geometry has more than {MOST_LAYOUTS} layouts: leave profiles out")]
pub struct TooMany;

/// How many layouts a board has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// All, the uncut board among them; told apart by profiles and starts.
    pub valid: usize,
    /// Those to which nothing can be added.
    pub maximal: usize,
    /// Those as sets of profiles, wherever they start.
    pub multisets: usize,
}

/// Maximal layouts of an uncut board: those to which nothing can be added. Most instances first, then
/// by what starts lowest.
///
/// # Errors
/// When there are too many.
pub fn maximal(geometry: &MigGeometry) -> Result<Vec<Layout>, TooMany> {
    let mut found = walk(geometry, Occupancy::default())?.maximal;
    found.sort_by_cached_key(|layout| {
        let by_start: Vec<(u8, u8)> = layout.iter().map(|(shape, at)| (*at, *shape)).collect();
        (usize::MAX - layout.len(), by_start)
    });
    Ok(found)
}

/// Counts the layouts of an uncut board.
///
/// # Errors
/// When there are too many.
pub fn counts(geometry: &MigGeometry) -> Result<Counts, TooMany> {
    let walked = walk(geometry, Occupancy::default())?;
    Ok(Counts {
        valid: walked.valid,
        maximal: walked.maximal.len(),
        multisets: walked
            .maximal
            .iter()
            .map(shapes_of)
            .collect::<BTreeSet<_>>()
            .len(),
    })
}

/// What can be added to a board of which this is taken until nothing more can, one layout for each
/// set of profiles; sets that are within another are left out.
///
/// # Errors
/// When there are too many.
pub fn completions(geometry: &MigGeometry, taken: Occupancy) -> Result<Vec<Layout>, TooMany> {
    let mut sets = BTreeSet::new();
    let mut found = walk(geometry, taken)?.maximal;
    found.retain(|layout| sets.insert(shapes_of(layout)));
    let counted: Vec<Vec<u8>> = found.iter().map(|l| tally(geometry, l)).collect();
    let within = |a: &[u8], b: &[u8]| a != b && a.iter().zip(b).all(|(a, b)| a <= b);
    let mut keep = counted
        .iter()
        .map(|one| !counted.iter().any(|other| within(one, other)));
    found.retain(|_| keep.next().unwrap_or(false));
    Ok(found)
}

/// Instances of each profile.
pub fn tally(geometry: &MigGeometry, layout: &Layout) -> Vec<u8> {
    let mut counts = vec![0; geometry.shapes.len()];
    for (shape, _) in layout {
        if let Some(count) = counts.get_mut(usize::from(*shape)) {
            *count += 1;
        }
    }
    counts
}

fn shapes_of(layout: &Layout) -> Vec<u8> {
    let mut shapes: Vec<u8> = layout.iter().map(|(shape, _)| *shape).collect();
    shapes.sort_unstable();
    shapes
}

struct Walked {
    valid: usize,
    maximal: Vec<Layout>,
}

fn walk(geometry: &MigGeometry, taken: Occupancy) -> Result<Walked, TooMany> {
    let mut places: Vec<(u8, u8)> = Vec::new();
    for start in 0..geometry.memory_slices.min(16) {
        let shapes = geometry.shapes.iter().zip(0_u8..);
        let here = shapes.filter(|(row, _)| row.mask(start).is_some());
        places.extend(here.map(|(_, shape)| (shape, start)));
    }
    let mut walked = Walked {
        valid: 0,
        maximal: Vec::new(),
    };
    step(geometry, &places, taken, &mut Vec::new(), &mut walked)?;
    Ok(walked)
}

/// Goes on with places behind the last one, so that each layout is met once.
fn step(
    geometry: &MigGeometry,
    behind: &[(u8, u8)],
    taken: Occupancy,
    layout: &mut Layout,
    walked: &mut Walked,
) -> Result<(), TooMany> {
    walked.valid += 1;
    if walked.valid > MOST_LAYOUTS {
        return Err(TooMany);
    }
    let mut shapes = 0..geometry.shapes.len() as u8;
    if shapes.all(|shape| geometry.starts(taken, shape).next().is_none()) {
        walked.maximal.push(layout.clone());
        return Ok(());
    }
    for (at, (shape, start)) in behind.iter().enumerate() {
        if let Some(after) = geometry.created(taken, *shape, *start) {
            layout.push((*shape, *start));
            let rest = behind.get(at + 1..).unwrap_or_default();
            step(geometry, rest, after, layout, walked)?;
            layout.pop();
        }
    }
    Ok(())
}
