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
    let mut last = vec![0; count + 1];
    least[0] = -penalty;
    let mut candidates = vec![0];
    for end in shortest..=count {
        for from in &candidates {
            if end - from >= shortest {
                let cost = least[*from] + sums.cost(*from, end) + penalty;
                if cost < least[end] {
                    least[end] = cost;
                    last[end] = *from;
                }
            }
        }
        // What is dearer than the best even without its penalty can begin no later stretch; one too
        // short to be judged yet stays.
        candidates.retain(|from| {
            end - from < shortest || least[*from] + sums.cost(*from, end) <= least[end]
        });
        let next = end + 1 - shortest;
        if next > 0 && least[next].is_finite() {
            candidates.push(next);
        }
    }
    let mut found = vec![last[count]];
    while let Some(&start) = found.last()
        && start > 0
    {
        found.push(last[start]);
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
                let first: f64 = values[..cut].iter().map(|value| (value - mean).powi(2)).sum();
                first + penalty + cheapest(&values[cut..], penalty, shortest)
            })
            .fold(whole, f64::min)
    }

    fn cost(values: &[f64], starts: &[usize], penalty: f64) -> f64 {
        let sums = Sums::new(values);
        let ends = starts.iter().skip(1).copied().chain([values.len()]);
        let stretches: f64 = starts.iter().zip(ends).map(|(from, to)| sums.cost(*from, to)).sum();
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
