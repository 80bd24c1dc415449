//! Whether more comes than is served, seen while it happens: a run that only grows its queue is ended.

/// Points that must be seen, and for so long, in seconds.
const FEWEST: f64 = 25.0;
const SHORTEST: f64 = 10.0;
/// Requests that must have answered.
const ANSWERED: f64 = 30.0;

/// What is in flight, and how long first tokens took, over time: sums alone, however long it lasts.
#[derive(Debug, Clone, Default)]
pub(super) struct Growth {
    /// What is before, in seconds, is left out.
    from: f64,
    concurrent: Line,
    ttft: Line,
}

impl Growth {
    /// Nothing yet; what is before `from`, in seconds, is left out.
    pub(super) fn since(from: f64) -> Self {
        Self {
            from,
            ..Self::default()
        }
    }

    /// So many are in flight at a time, in seconds.
    pub(super) fn concurrent(&mut self, at: f64, count: f64) {
        if at >= self.from {
            self.concurrent.add(at, count);
        }
    }

    /// A request that was due at a time had its first token after so many seconds.
    pub(super) fn first_token(&mut self, due: f64, after: f64) {
        if due >= self.from {
            self.ttft.add(due, after);
        }
    }

    /// Whether both rose beyond chance and at least doubled.
    pub(super) fn saturated(&self) -> bool {
        self.concurrent.count >= FEWEST
            && self.ttft.count >= ANSWERED
            && self.concurrent.span() >= SHORTEST
            && self.concurrent.rises()
            && self.ttft.rises()
    }
}

/// A line of least squares through points, by their means and what they differ from these (Welford's
/// sums), so that no point is kept.
#[derive(Debug, Clone, Copy, Default)]
struct Line {
    count: f64,
    low: f64,
    high: f64,
    mean_time: f64,
    mean: f64,
    spread: f64,
    squares: f64,
    together: f64,
}

impl Line {
    fn add(&mut self, at: f64, value: f64) {
        let first = self.count == 0.0;
        self.low = if first { at } else { self.low.min(at) };
        self.high = if first { at } else { self.high.max(at) };
        self.count += 1.0;
        let (time, off) = (at - self.mean_time, value - self.mean);
        self.mean_time += time / self.count;
        self.mean += off / self.count;
        self.spread += time * (at - self.mean_time);
        self.squares += off * (value - self.mean);
        self.together += time * (value - self.mean);
    }

    fn span(&self) -> f64 {
        self.high - self.low
    }

    /// Whether the line rises beyond chance, and by as much as its mean.
    fn rises(&self) -> bool {
        if self.spread <= 0.0 || self.count < 3.0 {
            return false;
        }
        let slope = self.together / self.spread;
        let rest = (self.squares - slope * self.together).max(0.0);
        let error = (rest / (self.count - 2.0) / self.spread).sqrt();
        // Neighbours are alike, so that chance is wider than the line says.
        slope > 6.0 * error && slope * self.span() > self.mean
    }
}

#[cfg(test)]
mod tests {
    use super::Growth;

    fn seen(value: impl Fn(f64) -> f64) -> bool {
        let mut growth = Growth::since(2.0);
        // What is before does not count, however steep.
        growth.concurrent(0.0, 1e6);
        for tick in 0..100 {
            let at = f64::from(tick) * 0.2;
            growth.concurrent(at, value(at));
            growth.first_token(at, value(at) / 10.0);
        }
        growth.saturated()
    }

    #[test]
    fn a_queue_that_grows_is_told_from_one_that_swings() {
        assert!(seen(|at| 5.0 + 4.0 * at));
        assert!(!seen(|at| 20.0 + 5.0 * (at * 3.0).sin()));
        assert!(!seen(|_| 20.0));
        assert!(!seen(|at| 100.0 + at));
    }
}
