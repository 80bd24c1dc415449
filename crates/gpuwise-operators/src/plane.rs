use alloc::{vec, vec::Vec};

/// Seconds against two sizes: never falls with either, nor, where it is `swept`, when the first
/// doubles as the second halves.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plane {
    /// log2 of the first knot of each size.
    first: [i32; 2],
    columns: usize,
    /// Seconds below which nothing is; knots hold logarithms of what is above.
    floor: f64,
    knots: Vec<f64>,
}

/// What knots are asked for: log2 of the sizes of the first and the last.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    pub(crate) first: [i32; 2],
    pub(crate) last: [i32; 2],
    /// Whether doubling the first size and halving the second must not save time either.
    pub(crate) swept: bool,
}

/// Of the least time, what counts as the floor.
const FLOOR: f64 = 0.9;

impl Plane {
    /// The plane of a function of both sizes, raised where it would fall.
    pub(crate) fn new(extent: Extent, seconds: impl Fn(f64, f64) -> f64) -> Self {
        let [rows, columns] =
            [0, 1].map(|i| (extent.last[i] - extent.first[i] + 1).max(2) as usize);
        let mut times = vec![0.0_f64; rows * columns];
        for row in 0..rows {
            for column in 0..columns {
                let x = f64::from(extent.first[0]) + row as f64;
                let y = f64::from(extent.first[1]) + column as f64;
                // Less than one element in all: never asked.
                let mut time = if x + y < -1.0 {
                    0.0
                } else {
                    seconds(libm::exp2(x), libm::exp2(y))
                };
                let at = row * columns + column;
                if row > 0 {
                    time = time.max(times[at - columns]);
                    if extent.swept && column + 1 < columns {
                        time = time.max(times[at - columns + 1]);
                    }
                }
                if column > 0 {
                    time = time.max(times[at - 1]);
                }
                times[at] = time;
            }
        }
        let asked = times.iter().copied().filter(|time| *time > 0.0);
        let floor = FLOOR * asked.fold(f64::INFINITY, f64::min);
        Self {
            first: extent.first,
            columns,
            floor,
            knots: times
                .iter()
                .map(|time| libm::log((time - floor).max(floor * 0.01)))
                .collect(),
        }
    }

    /// Seconds at both sizes. Below the first knots as there; beyond the last in proportion: to the
    /// second size, and to that power of the first.
    pub(crate) fn at(&self, sizes: [f64; 2], power: f64) -> f64 {
        let rows = self.knots.len() / self.columns;
        let [mut x, mut y] = [0, 1].map(|i| libm::log2(sizes[i]) - f64::from(self.first[i]));
        let over = (x - (rows - 1) as f64).max(0.0);
        y += power * over;
        let beyond = (y - (self.columns - 1) as f64).max(0.0);
        x = x.clamp(0.0, (rows - 1) as f64);
        y = y.clamp(0.0, (self.columns - 1) as f64);
        let (row, column) = (
            (x as usize).min(rows - 2),
            (y as usize).min(self.columns - 2),
        );
        let (x, y) = (x - row as f64, y - column as f64);
        let knot = |r: usize, c: usize| self.knots[(row + r) * self.columns + column + c];
        let (across, down) = (knot(0, 1), knot(1, 0));
        // Two triangles, so that what holds at the knots holds between them.
        let log = if x + y <= 1.0 {
            let corner = knot(0, 0);
            corner + x * (down - corner) + y * (across - corner)
        } else {
            let corner = knot(1, 1);
            corner + (1.0 - x) * (across - corner) + (1.0 - y) * (down - corner)
        };
        (libm::exp(log) + self.floor) * libm::exp2(beyond)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const EXTENT: Extent = Extent {
        first: [0, -4],
        last: [8, 4],
        swept: true,
    };

    /// A function that falls in places.
    fn bumpy(a: f64, b: f64) -> f64 {
        1.0 + a * b * (1.5 + libm::sin(a) + libm::cos(3.0 * b)) / 3.0
    }

    #[test]
    fn a_constant_and_a_power_are_met_between_knots_and_beyond() {
        let wanted = |a: f64, b: f64| 1000.0 + a * a * b;
        let plane = Plane::new(EXTENT, wanted);
        for (a, b) in [(3.0, 0.7), (100.0, 0.3), (200.0, 11.0), (1000.0, 50.0)] {
            let found = plane.at([a, b], 2.0) / wanted(a, b);
            assert!((found - 1.0).abs() < 0.03, "{a} {b}: {found}");
        }
    }

    proptest! {
        #[test]
        fn it_never_falls(x in -1.0..12.0_f64, y in -5.0..7.0_f64, step in 0.0..3.0_f64) {
            let plane = Plane::new(EXTENT, bumpy);
            let at = |x: f64, y: f64| plane.at([libm::exp2(x), libm::exp2(y)], 2.0);
            let here = at(x, y) * (1.0 - 1e-12);
            prop_assert!(at(x + step, y) >= here);
            prop_assert!(at(x, y + step) >= here);
        }

        #[test]
        fn trading_the_second_for_the_first_never_saves(
            x in 0.0..8.0_f64, y in -1.0..4.0_f64, step in 0.0..2.0_f64,
        ) {
            let plane = Plane::new(EXTENT, bumpy);
            let at = |x: f64, y: f64| plane.at([libm::exp2(x), libm::exp2(y)], 2.0);
            prop_assert!(at(x + step, y - step) >= at(x, y) * (1.0 - 1e-12));
        }
    }
}
