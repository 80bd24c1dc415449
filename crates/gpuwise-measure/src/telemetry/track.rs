//! One quantity of one thing over the last minutes.

use std::collections::VecDeque;

/// Samples kept of one track; when there are more, every second one is left out.
const MOST: usize = 8192;

/// What became of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    Taken,
    /// It is older than the newest.
    Late,
    /// It is of the same time as the newest, with another value; the first counts.
    Duplicate,
    /// It is the newest once more.
    Same,
    /// A counter went back: it began again, and the sample counts.
    Reset,
}

/// Samples of a window, oldest first.
#[derive(Debug, Clone, Default)]
pub struct Track {
    samples: VecDeque<(f64, f64)>,
    newest: Option<(f64, f64)>,
    resets: VecDeque<f64>,
}

impl Track {
    /// Takes a sample of a time in seconds; `counter` tells whether it only goes up.
    pub fn take(&mut self, at: f64, value: f64, counter: bool) -> Arrival {
        let mut arrival = Arrival::Taken;
        if let Some((newest, last)) = self.newest {
            if at < newest {
                return Arrival::Late;
            }
            if at <= newest {
                return if value.to_bits() == last.to_bits() {
                    Arrival::Same
                } else {
                    Arrival::Duplicate
                };
            }
            if counter && value < last {
                arrival = Arrival::Reset;
                self.resets.push_back(at);
            }
        }
        self.newest = Some((at, value));
        self.samples.push_back((at, value));
        if self.samples.len() > MOST {
            self.thin();
        }
        arrival
    }

    /// Leaves every second sample out, the first, the last and those on both sides of a reset apart.
    fn thin(&mut self) {
        let last = self.samples.len().saturating_sub(1);
        let beside: Vec<bool> = (0..=last)
            .map(|place| {
                [place, place + 1]
                    .into_iter()
                    .filter_map(|one| self.samples.get(one))
                    .any(|(at, _)| self.resets.contains(at))
            })
            .collect();
        let mut place = 0;
        self.samples.retain(|_| {
            let keep = place % 2 == 0 || place == last || beside.get(place) == Some(&true);
            place += 1;
            keep
        });
    }

    /// Forgets what is older than a time.
    pub fn forget(&mut self, before: f64) {
        while self.samples.front().is_some_and(|(at, _)| *at < before) {
            self.samples.pop_front();
        }
        while self.resets.front().is_some_and(|at| *at < before) {
            self.resets.pop_front();
        }
    }

    /// The newest value, though it may have left the window.
    pub fn last(&self) -> Option<f64> {
        self.newest.map(|(_, value)| value)
    }

    /// When the newest was taken.
    pub fn last_at(&self) -> Option<f64> {
        self.newest.map(|(at, _)| at)
    }

    /// Samples in the window.
    pub fn len(&self) -> usize {
        self.samples.len()
    }

    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// Values with their times, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (f64, f64)> + '_ {
        self.samples.iter().copied()
    }

    /// Seconds from the oldest to the newest.
    pub fn span(&self) -> f64 {
        match (self.samples.front(), self.samples.back()) {
            (Some((first, _)), Some((last, _))) => last - first,
            _ => 0.0,
        }
    }

    pub fn mean(&self) -> Option<f64> {
        (!self.samples.is_empty()).then(|| {
            self.samples.iter().map(|(_, value)| value).sum::<f64>() / self.samples.len() as f64
        })
    }

    pub fn max(&self) -> Option<f64> {
        self.samples
            .iter()
            .map(|(_, value)| *value)
            .reduce(f64::max)
    }

    /// A quantile by the nearest rank: the smallest value that at least this share of samples does not
    /// exceed.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let mut values: Vec<f64> = self.samples.iter().map(|(_, value)| *value).collect();
        let rank = (share * values.len() as f64).ceil().max(1.0) as usize - 1;
        if rank >= values.len() {
            return None;
        }
        let (_, value, _) = values.select_nth_unstable_by(rank, f64::total_cmp);
        Some(*value)
    }

    /// What a counter gained in the window; after a reset it began at 0.
    pub fn increase(&self) -> Option<f64> {
        if self.samples.len() < 2 {
            return None;
        }
        let mut gained = 0.0;
        for ((_, before), (at, after)) in self.samples.iter().zip(self.samples.iter().skip(1)) {
            gained += if after < before || self.resets.contains(at) {
                *after
            } else {
                after - before
            };
        }
        Some(gained)
    }
}
