//! Interpolation between neighbours (ordinary kriging with an exponential kernel).
//!
//! The value at a place is a weighted mean of its neighbours' values, weights from how values at
//! distances go together: exp(−distance), with a share of noise of their own (Rasmussen and Williams,
//! *Gaussian Processes for Machine Learning*, 2006, equations 2.23 and 4.18).

use gpuwise_size::solve::solve_symmetric;

/// How neighbours are weighed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NearbySettings {
    /// Distance in each direction at which values go together by 1/e.
    pub lengths: [f64; 3],
    /// Share of a value that is noise.
    pub noise: f64,
    pub neighbours: usize,
}

/// A known value at a place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KnownPoint {
    pub place: [f64; 3],
    pub value: f64,
}

/// The value at a place from its neighbours among `known`, the one at index `without` left out, with
/// the indices of the neighbours, nearest first. `None` where there is nothing to go by.
pub fn interpolate(
    known: &[KnownPoint],
    place: &[f64; 3],
    without: Option<usize>,
    settings: &NearbySettings,
) -> Option<(f64, Vec<usize>)> {
    let mut near: Vec<(f64, usize)> = known
        .iter()
        .enumerate()
        .filter(|(at, _)| Some(*at) != without)
        .map(|(at, known)| (distance(&known.place, place, settings), at))
        .collect();
    let count = settings.neighbours.min(near.len());
    if count == 0 {
        return None;
    }
    let nearer = |a: &(f64, usize), b: &(f64, usize)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
    near.select_nth_unstable_by(count - 1, nearer);
    near.truncate(count);
    near.sort_unstable_by(nearer);
    let values: Vec<f64> = near.iter().map(|(_, at)| known[*at].value).collect();
    let middle = super::median(&values);
    let mut matrix = vec![0.0; count * count];
    for row in 0..count {
        for column in 0..=row {
            let apart = distance(
                &known[near[row].1].place,
                &known[near[column].1].place,
                settings,
            );
            let together = libm::exp(-apart) + if row == column { settings.noise } else { 0.0 };
            matrix[row * count + column] = together;
        }
    }
    let right: Vec<f64> = values.iter().map(|value| value - middle).collect();
    let weights = solve_symmetric(matrix, right);
    let value = near
        .iter()
        .zip(&weights)
        .map(|((apart, _), weight)| libm::exp(-apart) * weight)
        .sum::<f64>();
    Some((middle + value, near.into_iter().map(|(_, at)| at).collect()))
}

fn distance(a: &[f64; 3], b: &[f64; 3], settings: &NearbySettings) -> f64 {
    let mut sum = 0.0;
    for ((a, b), length) in a.iter().zip(b).zip(&settings.lengths) {
        let apart = (a - b) / length;
        sum += apart * apart;
    }
    sum.sqrt()
}
