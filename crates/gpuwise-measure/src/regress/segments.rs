//! The cheapest cut of a series into stretches: PELT over squared distances from means.

/// Sums of values and of squares before each index, for the cost of any stretch in constant time.
struct Sums {
    values: Vec<f64>,
    squares: Vec<f64>,
}

impl Sums {
    fn new(values: &[f64]) -> Self {
        // Around the first value, so that squares of large levels do not swallow small noise.
        let origin = values.first().copied().unwrap_or_default();
        let mut sums = Self {
            values: vec![0.0],
            squares: vec![0.0],
        };
        let (mut value_sum, mut square_sum) = (0.0, 0.0);
        for value in values {
            let value = value - origin;
            value_sum += value;
            square_sum += value * value;
            sums.values.push(value_sum);
            sums.squares.push(square_sum);
        }
        sums
    }

    /// Squared distances of `[from, to)` from its mean.
    fn cost(&self, from: usize, to: usize) -> f64 {
        let sum = self.values[to] - self.values[from];
        let squares = self.squares[to] - self.squares[from];
        (squares - sum * sum / (to - from) as f64).max(0.0)
    }
}

/// Where stretches start, 0 first, so that the costs of all and `penalty` for each cut are least.
/// Every stretch has at least `shortest` values; `values` has at least as many.
pub(super) fn starts(values: &[f64], penalty: f64, shortest: usize) -> Vec<usize> {
    let count = values.len();
    let sums = Sums::new(values);
    let mut least = vec![f64::INFINITY; count + 1];
    let mut from_where = vec![0; count + 1];
    least[0] = -penalty;
    // Starts of a last stretch, each with the end at which it was seen to be beaten.
    let mut candidates: Vec<(usize, Option<usize>)> = vec![(0, None)];
    for end in shortest..=count {
        // Beaten by a stretch that starts at some end, it is of no use as soon as that one is long
        // enough to be one.
        candidates.retain(|(_, beaten)| beaten.is_none_or(|at| end < at + shortest));
        for (from, _) in &candidates {
            let cost = least[*from] + sums.cost(*from, end) + penalty;
            if cost < least[end] {
                least[end] = cost;
                from_where[end] = *from;
            }
        }
        for (from, beaten) in &mut candidates {
            if beaten.is_none() && least[*from] + sums.cost(*from, end) > least[end] {
                *beaten = Some(end);
            }
        }
        let next = end + 1 - shortest;
        if next >= shortest {
            candidates.push((next, None));
        }
    }
    let mut found = vec![from_where[count]];
    while let Some(&start) = found.last()
        && start > 0
    {
        found.push(from_where[start]);
    }
    found.reverse();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every way to cut, one by one.
    fn cheapest(values: &[f64], penalty: f64, shortest: usize) -> f64 {
        let whole = Sums::new(values).cost(0, values.len());
        (shortest..values.len().saturating_sub(shortest - 1))
            .map(|cut| {
                let mean = values[..cut].iter().sum::<f64>() / cut as f64;
                let first: f64 = values[..cut]
                    .iter()
                    .map(|value| (value - mean).powi(2))
                    .sum();
                first + penalty + cheapest(&values[cut..], penalty, shortest)
            })
            .fold(whole, f64::min)
    }

    fn cost(values: &[f64], starts: &[usize], penalty: f64) -> f64 {
        let sums = Sums::new(values);
        let ends = starts.iter().skip(1).copied().chain([values.len()]);
        let stretches: f64 = starts
            .iter()
            .zip(ends)
            .map(|(from, to)| sums.cost(*from, to))
            .sum();
        stretches + penalty * (starts.len() - 1) as f64
    }

    proptest! {
        #[test]
        fn no_other_cut_is_cheaper(
            values in prop::collection::vec(-4.0..4.0_f64, 3..14),
            penalty in 0.1..20.0_f64,
            shortest in 1_usize..4,
        ) {
            let found = starts(&values, penalty, shortest);
            let lengths = found.iter().skip(1).copied().chain([values.len()]);
            for (from, to) in found.iter().zip(lengths) {
                prop_assert!(to - from >= shortest);
            }
            let best = cheapest(&values, penalty, shortest);
            prop_assert!((cost(&values, &found, penalty) - best).abs() < 1e-9);
        }
    }
}
