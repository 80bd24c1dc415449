use alloc::vec::Vec;

/// Coordinates of a point at most.
const COORDINATES: usize = 8;

/// Where a work lies.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Point([f64; COORDINATES]);

impl Point {
    /// The point of these coordinates; the rest are not used.
    pub(crate) fn new<const N: usize>(first: [f64; N]) -> Self {
        let mut all = [0.0; COORDINATES];
        for (to, from) in all.iter_mut().zip(first) {
            *to = from;
        }
        Self(all)
    }
}

/// A coordinate's number and the knots on it.
pub(crate) type Axis = (usize, &'static [f64]);
/// Tensors that add up, by their axes.
pub(crate) type Tensors = &'static [&'static [Axis]];

/// A sum of tensor grids: each with hat functions over the knots of its axes, constant beyond the
/// ends. One tensor holds what goes together; tensors over few axes each, what adds up.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Grid {
    blocks: Vec<Block>,
    len: usize,
}

#[derive(Debug, Clone, PartialEq)]
struct Block {
    axes: &'static [Axis],
    strides: Vec<usize>,
    offset: usize,
    len: usize,
}

/// The knots around a point, with their weights.
#[derive(Debug, Clone, Default)]
pub(crate) struct Corners {
    items: Vec<(usize, f64)>,
}

impl Corners {
    pub(crate) fn items(&self) -> &[(usize, f64)] {
        &self.items
    }
}

impl Grid {
    pub(crate) fn new(tensors: Tensors) -> Self {
        let mut grid = Self {
            blocks: Vec::new(),
            len: 0,
        };
        for axes in tensors {
            let mut strides = alloc::vec![1; axes.len()];
            for i in (1..axes.len()).rev() {
                strides[i - 1] = strides[i] * axes[i].1.len();
            }
            let len = axes.iter().map(|(_, knots)| knots.len()).product();
            grid.blocks.push(Block {
                axes,
                strides,
                offset: grid.len,
                len,
            });
            grid.len += len;
        }
        grid
    }

    /// How many knots it has.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Lines of knots along an axis: the knots' places, where each starts, and how far neighbours are
    /// apart.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (&'static [f64], usize, usize)> {
        self.blocks.iter().flat_map(|block| {
            let axes = block.axes.iter().zip(&block.strides);
            axes.flat_map(move |((_, knots), stride)| {
                let starts = (0..block.len).filter(move |i| i / stride % knots.len() == 0);
                starts.map(|start| (*knots, block.offset + start, *stride))
            })
        })
    }

    /// How far apart knots are that one row or one penalty joins.
    pub(crate) fn bandwidth(&self) -> usize {
        let most = self.len.saturating_sub(1);
        match self.blocks.as_slice() {
            [block] => {
                let hat: usize = block.strides.iter().sum();
                let second = block.strides.first().map_or(0, |stride| 2 * stride);
                hat.max(second).min(most)
            }
            _ => most,
        }
    }

    /// What values at the knots make at a point.
    pub(crate) fn value(&self, at: &Point, values: &[f32], corners: &mut Corners) -> f64 {
        self.corners(at, corners);
        let parts = corners.items().iter();
        parts.map(|(i, w)| w * f64::from(values[*i])).sum()
    }

    /// The knots around a point, into a buffer.
    pub(crate) fn corners(&self, at: &Point, into: &mut Corners) {
        let items = &mut into.items;
        items.clear();
        for block in &self.blocks {
            let first = items.len();
            items.push((block.offset, 1.0));
            for ((axis, knots), stride) in block.axes.iter().zip(&block.strides) {
                let (lower, share) = between(knots, at.0[*axis]);
                for i in first..items.len() {
                    let (index, weight) = items[i];
                    items[i] = (index + lower * stride, weight * (1.0 - share));
                    items.push((index + (lower + 1) * stride, weight * share));
                }
            }
        }
    }
}

/// The knot below and the share of the way to the next.
fn between(knots: &[f64], x: f64) -> (usize, f64) {
    let last = knots.len().saturating_sub(2);
    let lower = knots
        .partition_point(|knot| *knot <= x)
        .saturating_sub(1)
        .min(last);
    let (from, to) = (knots[lower], knots[lower + 1]);
    (lower, ((x - from) / (to - from)).clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &[f64] = &[0.0, 1.0, 3.0];
    const B: &[f64] = &[0.0, 2.0, 5.0, 6.0];

    fn value(grid: &Grid, values: &[f64], at: [f64; 3]) -> f64 {
        let mut corners = Corners::default();
        grid.corners(&Point::new(at), &mut corners);
        corners.items().iter().map(|(i, w)| w * values[*i]).sum()
    }

    #[test]
    fn corners_weigh_one_and_hold_a_plane() {
        let grid = Grid::new(&[&[(0, A), (1, B)]]);
        let plane: Vec<f64> = A
            .iter()
            .flat_map(|a| B.iter().map(move |b| 2.0 * a - b))
            .collect();
        for (a, b) in [(0.5, 5.5), (2.9, 0.1), (0.0, 6.0)] {
            assert!((value(&grid, &plane, [a, b, 0.0]) - (2.0 * a - b)).abs() < 1e-12);
        }
        assert!((value(&grid, &plane, [99.0, -9.0, 0.0]) - 6.0).abs() < 1e-12);
    }

    #[test]
    fn blocks_add_up() {
        let grid = Grid::new(&[&[(0, A), (1, B)], &[(2, A)]]);
        let mut values = alloc::vec![2.0; 12];
        values.extend(A);
        assert_eq!(grid.len(), 15);
        assert!((value(&grid, &values, [0.5, 5.5, 2.5]) - 4.5).abs() < 1e-12);
        assert_eq!(grid.lines().count(), 4 + 3 + 1);
    }
}
