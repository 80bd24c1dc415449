//! Whether more comes than is served, seen while it happens: a run that only grows its queue is ended.

/// Points that must be seen, and for so long, in seconds.
const FEWEST: usize = 25;
const SHORTEST: f64 = 10.0;
/// Requests that must have answered.
const ANSWERED: usize = 30;

/// What is in flight, and how long first tokens took, over time.
#[derive(Debug, Clone, Default)]
pub(super) struct Growth {
    in_flight: Vec<(f64, f64)>,
    ttft: Vec<(f64, f64)>,
}

impl Growth {
    /// So many are in flight at a time, in seconds.
    pub(super) fn in_flight(&mut self, at: f64, count: f64) {
        self.in_flight.push((at, count));
    }

    /// A request that was due at a time had its first token after so many seconds.
    pub(super) fn first_token(&mut self, due: f64, after: f64) {
        self.ttft.push((due, after));
    }

    /// Whether both rose beyond chance and at least doubled, since `from`.
    pub(super) fn saturated(&self, from: f64) -> bool {
        let since = |list: &[(f64, f64)]| -> Vec<(f64, f64)> {
            list.iter().copied().filter(|(at, _)| *at >= from).collect()
        };
        let (in_flight, ttft) = (since(&self.in_flight), since(&self.ttft));
        in_flight.len() >= FEWEST
            && ttft.len() >= ANSWERED
            && span(&in_flight) >= SHORTEST
            && rises(&in_flight)
            && rises(&ttft)
    }
}

fn span(points: &[(f64, f64)]) -> f64 {
    let times = points.iter().map(|(at, _)| *at);
    let (low, high) = times.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), at| {
        (low.min(at), high.max(at))
    });
    (high - low).max(0.0)
}

/// Whether the line of least squares rises beyond chance, and by as much as its mean.
fn rises(points: &[(f64, f64)]) -> bool {
    let count = points.len() as f64;
    let mean_time = points.iter().map(|(at, _)| at).sum::<f64>() / count;
    let mean = points.iter().map(|(_, value)| value).sum::<f64>() / count;
    let spread: f64 = points.iter().map(|(at, _)| (at - mean_time).powi(2)).sum();
    if spread <= 0.0 || count < 3.0 {
        return false;
    }
    let together: f64 = points
        .iter()
        .map(|(at, value)| (at - mean_time) * (value - mean))
        .sum();
    let slope = together / spread;
    let rest: f64 = points
        .iter()
        .map(|(at, value)| (value - mean - slope * (at - mean_time)).powi(2))
        .sum();
    let error = (rest / (count - 2.0) / spread).sqrt();
    // Neighbours are alike, so that chance is wider than the line says.
    slope > 6.0 * error && slope * span(points) > mean
}

#[cfg(test)]
mod tests {
    use super::Growth;

    fn seen(value: impl Fn(f64) -> f64) -> bool {
        let mut growth = Growth::default();
        for tick in 0..100 {
            let at = f64::from(tick) * 0.2;
            growth.in_flight(at, value(at));
            growth.first_token(at, value(at) / 10.0);
        }
        growth.saturated(0.0)
    }

    #[test]
    fn a_queue_that_grows_is_told_from_one_that_swings() {
        assert!(seen(|at| 5.0 + 4.0 * at));
        assert!(!seen(|at| 20.0 + 5.0 * (at * 3.0).sin()));
        assert!(!seen(|_| 20.0));
        assert!(!seen(|at| 100.0 + at));
    }
}
