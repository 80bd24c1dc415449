//! Where instances start whose profiles alone were said.

use gpuwise_domain::placement::{MigGeometry, Occupancy};

/// Instances of a board at most: more were mistyped.
const MOST: usize = 15;

/// A start for each of these profiles so that all go together on one board, largest first; `None`: they do
/// not.
pub(super) fn assignments(board: &MigGeometry, shapes: &[u8]) -> Option<Vec<(u8, u8)>> {
    if shapes.len() > MOST {
        return None;
    }
    let mut left = shapes.to_vec();
    left.sort_by_key(|shape| {
        let row = board.shape(*shape);
        let size = row.map_or((0, 0), |row| (row.size, row.compute));
        (std::cmp::Reverse(size), *shape)
    });
    let mut out = Vec::with_capacity(left.len());
    search(board, &left, Occupancy::default(), &mut out).then_some(out)
}

/// Whether each finds a place at the first start that is free, one after the other.
pub(super) fn in_turn(board: &MigGeometry, shapes: &[u8]) -> bool {
    let mut taken = Occupancy::default();
    shapes.iter().all(|shape| {
        let first = board.starts(taken, *shape).next();
        first.is_some_and(|(_, after)| {
            taken = after;
            true
        })
    })
}

/// Of equal ones the later starts after the earlier, so that no set is tried twice.
fn search(board: &MigGeometry, left: &[u8], taken: Occupancy, out: &mut Vec<(u8, u8)>) -> bool {
    let Some((shape, rest)) = left.split_first() else {
        return true;
    };
    let after = out.last().filter(|(last, _)| last == shape);
    let from = after.map_or(0, |(_, start)| start + 1);
    let starts: Vec<(u8, Occupancy)> = board
        .starts(taken, *shape)
        .filter(|(start, _)| *start >= from)
        .collect();
    for (start, then) in starts {
        out.push((*shape, start));
        if search(board, rest, then, out) {
            return true;
        }
        out.pop();
    }
    false
}
