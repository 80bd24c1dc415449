//! What a client does after an error.

use gpuwise_domain::request::Outcome;
use gpuwise_units::{Nanoseconds, RandomStream};

/// A client that sends again, later each time.
#[derive(Debug, Clone, PartialEq)]
pub struct Retry {
    /// Most times that a request is sent again.
    pub most: u16,
    /// Wait before the first time.
    pub first: Nanoseconds,
    /// Each wait is so many times the one before.
    pub factor: f64,
    pub longest: Nanoseconds,
    /// Share of the wait that is left to chance: 0 waits exactly, 1 waits anything from 0 to all of it.
    pub jitter: f64,
    /// What a refusal tells the client to wait at least (`Retry-After`), where it is heeded.
    pub retry_after: Option<Nanoseconds>,
    /// Whether a refusal is retried (429, 503).
    pub refused: bool,
    /// Whether an error or a broken stream is retried.
    pub failed: bool,
    /// Whether a time-out is retried.
    pub timed_out: bool,
    /// Most retries for each request that is sent for the first time, ten in advance; `None`: no limit.
    pub budget: Option<f64>,
}

impl Default for Retry {
    /// Two more times after half a second and a second, as common clients of these services do.
    fn default() -> Self {
        Self {
            most: 2,
            first: Nanoseconds(500_000_000),
            factor: 2.0,
            longest: Nanoseconds(8_000_000_000),
            jitter: 0.25,
            retry_after: None,
            refused: true,
            failed: true,
            timed_out: true,
            budget: None,
        }
    }
}

impl Retry {
    /// How long a request of this number waits before it is sent for the `again`-th time more, after
    /// an end of this kind; `None` if it is not sent again.
    pub fn wait(
        &self,
        seed: u64,
        number: u64,
        again: u16,
        outcome: Outcome,
    ) -> Option<Nanoseconds> {
        let retried = match outcome {
            Outcome::Rejected => self.refused,
            Outcome::Failed => self.failed,
            Outcome::TimedOut => self.timed_out,
            Outcome::Completed | Outcome::Impossible | Outcome::Unfinished => false,
        };
        if !retried || again == 0 || again > self.most {
            return None;
        }
        let longest = self.longest.0 as f64;
        let wait = self.first.0 as f64 * libm::pow(self.factor, f64::from(again - 1));
        let mut chance = RandomStream::new(seed, "retry", number);
        let mut part = 0.0;
        for _ in 0..again {
            part = chance.uniform();
        }
        let wait = libm::round(wait.min(longest) * (1.0 - self.jitter * part)) as u64;
        let told = match outcome {
            Outcome::Rejected => self.retry_after.map_or(0, |told| told.0),
            _ => 0,
        };
        Some(Nanoseconds(wait.max(told)))
    }

    /// Whether one more retry is within the budget, after so many requests and retries.
    pub(super) fn affords(&self, requests: u64, retries: u64) -> bool {
        self.budget
            .is_none_or(|share| (retries as f64) < 10.0 + share * requests as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn waits_double_up_to_the_longest() {
        let retry = Retry {
            most: 5,
            jitter: 0.0,
            longest: Nanoseconds(3 * SECOND),
            ..Retry::default()
        };
        let waits: Vec<Option<u64>> = (0..=6)
            .map(|again| retry.wait(1, 0, again, Outcome::Failed).map(|wait| wait.0))
            .collect();
        let half = SECOND / 2;
        let expected = [
            None,
            Some(half),
            Some(SECOND),
            Some(2 * SECOND),
            Some(3 * SECOND),
        ];
        assert_eq!(waits[..5], expected);
        assert_eq!(waits[5..], [Some(3 * SECOND), None]);
    }

    #[test]
    fn what_is_retried_is_said() {
        let retry = Retry {
            timed_out: false,
            jitter: 0.0,
            retry_after: Some(Nanoseconds(4 * SECOND)),
            ..Retry::default()
        };
        for (outcome, wait) in [
            (Outcome::Rejected, Some(4 * SECOND)),
            (Outcome::Failed, Some(SECOND / 2)),
            (Outcome::TimedOut, None),
            (Outcome::Completed, None),
            (Outcome::Impossible, None),
        ] {
            assert_eq!(
                retry.wait(1, 5, 1, outcome).map(|wait| wait.0),
                wait,
                "{outcome:?}"
            );
        }
    }

    #[test]
    fn jitter_is_within_its_share_and_differs_by_request() {
        let retry = Retry {
            jitter: 0.5,
            ..Retry::default()
        };
        let mut waits = Vec::new();
        for number in 0..1_000 {
            let wait = retry
                .wait(9, number, 2, Outcome::Failed)
                .map_or(0, |wait| wait.0);
            assert!((SECOND / 2..=SECOND).contains(&wait), "{wait}");
            assert_eq!(
                retry.wait(9, number, 2, Outcome::Failed),
                Some(Nanoseconds(wait))
            );
            waits.push(wait);
        }
        waits.sort_unstable();
        waits.dedup();
        assert!(waits.len() > 990);
    }

    #[test]
    fn a_budget_bounds_the_storm() {
        let retry = Retry {
            budget: Some(0.1),
            ..Retry::default()
        };
        assert!(retry.affords(0, 9) && !retry.affords(0, 10));
        assert!(retry.affords(1_000, 109) && !retry.affords(1_000, 110));
        assert!(Retry::default().affords(0, u64::MAX));
    }
}
