//! How long a replica takes from being asked for until it serves, and how often it dies.

use super::chance::{Duration, exponential, nanoseconds};
use gpuwise_units::{Nanoseconds, RandomStream};

/// The parts of a replica's start, one after the other. A part that nobody stated is left out of the
/// sum, and named by [`StartUp::unknown`].
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct StartUp {
    /// Until the machine is there.
    pub machine: Option<Duration>,
    /// Until the container image is there.
    pub image: Option<Duration>,
    /// Until the weights are in GPU memory.
    pub weights: Option<Duration>,
    /// Until the engine is initialised: processes, memory profile, compilation.
    pub engine: Option<Duration>,
    /// Until its graphs are captured.
    pub graphs: Option<Duration>,
}

impl StartUp {
    /// Everything takes no time.
    pub const INSTANT: Self = Self {
        machine: Some(Duration::fixed(0.0)),
        image: Some(Duration::fixed(0.0)),
        weights: Some(Duration::fixed(0.0)),
        engine: Some(Duration::fixed(0.0)),
        graphs: Some(Duration::fixed(0.0)),
    };

    /// The parts, in order, by their names.
    pub const fn parts(&self) -> [(&'static str, Option<Duration>); 5] {
        [
            ("machine", self.machine),
            ("image", self.image),
            ("weights", self.weights),
            ("engine", self.engine),
            ("graphs", self.graphs),
        ]
    }

    /// The parts that nobody stated: a start is at least as long as the others.
    pub fn unknown(&self) -> Vec<&'static str> {
        let unknown =
            |(name, part): (&'static str, Option<Duration>)| part.is_none().then_some(name);
        self.parts().into_iter().filter_map(unknown).collect()
    }

    /// Seconds on average of what is known.
    pub fn mean(&self) -> f64 {
        self.parts()
            .iter()
            .filter_map(|(_, part)| *part)
            .map(|part| part.mean)
            .sum()
    }

    /// A start of a replica, the `nth` of it, by chances of its own. After a failure the machine and
    /// its image are there already.
    pub(super) fn draw(&self, seed: u64, replica: u16, nth: u32, again: bool) -> u64 {
        let mut chance = RandomStream::new(seed, "replica start", entity(replica, nth));
        let mut seconds = 0.0;
        for (place, (_, part)) in self.parts().into_iter().enumerate() {
            let drawn = part.map_or(0.0, |part| part.draw(&mut chance));
            if !again || place >= 2 {
                seconds += drawn;
            }
        }
        nanoseconds(seconds)
    }
}

/// Weights read at a stated bandwidth, in seconds: `bytes` over `bytes_per_second`.
pub fn loading(bytes: u64, bytes_per_second: f64, variation: f64) -> Duration {
    Duration {
        mean: bytes as f64 / bytes_per_second,
        variation,
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
pub enum Failures {
    #[default]
    None,
    /// Each by itself, after exponential times.
    Random {
        /// Seconds of service between failures, on average.
        between: f64,
        /// Seconds until the repair begins, exponential, on average; a start comes after it.
        repair: f64,
    },
    Listed(Vec<Failure>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// The replica, counted from 0 in its pool.
    pub replica: u16,
    pub at: Nanoseconds,
    /// Whether it comes back, after a start.
    pub returns: bool,
}

impl Failures {
    /// How long a replica serves until its `nth` random failure, and how long it lies until its start
    /// begins; none if it does not die by chance.
    pub(super) fn draw(&self, seed: u64, replica: u16, nth: u32) -> Option<(u64, u64)> {
        let Self::Random { between, repair } = *self else {
            return None;
        };
        let mut chance = RandomStream::new(seed, "replica failure", entity(replica, nth));
        let life = exponential(&mut chance, between);
        let repair = exponential(&mut chance, repair);
        Some((nanoseconds(life), nanoseconds(repair)))
    }
}

fn entity(replica: u16, nth: u32) -> u64 {
    u64::from(replica) << 32 | u64::from(nth)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_is_the_sum_of_its_parts_and_names_what_is_unknown() {
        let start = StartUp {
            machine: Some(Duration::fixed(90.0)),
            weights: Some(loading(140_000_000_000, 2e9, 0.0)),
            graphs: Some(Duration::fixed(12.5)),
            ..StartUp::default()
        };
        assert_eq!(start.unknown(), ["image", "engine"]);
        assert_eq!(start.draw(1, 0, 0, false), 172_500_000_000);
        assert_eq!(
            start.draw(1, 0, 1, true),
            82_500_000_000,
            "the machine is there already"
        );
        assert_eq!(StartUp::INSTANT.draw(1, 0, 0, false), 0);
        assert!(StartUp::INSTANT.unknown().is_empty());
    }

    #[test]
    fn each_replica_and_each_start_has_its_own_chances() {
        let start = StartUp {
            engine: Some(Duration {
                mean: 40.0,
                variation: 0.3,
            }),
            ..StartUp::INSTANT
        };
        let draws = [
            start.draw(7, 0, 0, false),
            start.draw(7, 0, 1, false),
            start.draw(7, 1, 0, false),
        ];
        assert!(draws[0] != draws[1] && draws[1] != draws[2] && draws[0] != draws[2]);
        assert_eq!(draws[0], start.draw(7, 0, 0, false));
        let count = 5_000;
        let sum: f64 = (0..count)
            .map(|nth| start.draw(7, 3, nth, false) as f64 / 1e9)
            .sum();
        assert!((sum / f64::from(count) / 40.0 - 1.0).abs() < 0.02);
    }
}
