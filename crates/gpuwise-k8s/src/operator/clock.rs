//! The time of the API server, whatever this machine's clock says.
//!
//! Graces, ages and phases are counted from times that the API server or another operator wrote: by a clock of this
//! machine that is minutes off they would be over at once, or never. Each answer says the API server's time to the
//! second (`Date`), which bounds how far we are off. All times that are written or compared are the API server's;
//! what is only waited for goes by a clock that nobody sets.

use gpuwise_units::Nanoseconds;
use http::{Response, header::DATE};
use jiff::{SignedDuration, Timestamp, fmt::rfc2822};
use std::{
    sync::{LazyLock, Mutex, PoisonError},
    time::Instant,
};

/// A clock that nobody has set drifts by less, in millionths.
const DRIFT: i64 = 200;
/// What is off by less is not said, in seconds: an answer tells no more than the second.
pub(super) const SAID: i64 = 2;

/// How far the API server is ahead of our own count, in milliseconds: no less and no more than this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bounds {
    least: i64,
    most: i64,
    /// By our own count, when it was told last.
    told: i64,
}

impl Bounds {
    /// An answer that was asked for and came at these moments of our own count says this second.
    const fn of(asked: i64, came: i64, second: i64) -> Self {
        Self {
            least: second * 1000 - came,
            most: second * 1000 + 1000 - asked,
            told: came,
        }
    }

    /// What both say; where they contradict each other somebody has set a clock, and the newer holds.
    fn and(self, newer: Self) -> Self {
        let drift = (newer.told - self.told).max(0) * DRIFT / 1_000_000 + 1;
        let least = newer.least.max(self.least - drift);
        let most = newer.most.min(self.most + drift);
        if least > most {
            return newer;
        }
        Self {
            least,
            most,
            ..newer
        }
    }

    /// The middle; 0 where nothing says that there is a difference.
    const fn offset(self) -> i64 {
        if self.least <= 0 && self.most >= 0 {
            0
        } else {
            self.least.midpoint(self.most)
        }
    }
}

/// Counts on from this machine's clock at its beginning, by a clock that nobody sets.
struct Clock {
    began: Instant,
    at: Timestamp,
    bounds: Mutex<Option<Bounds>>,
}

/// A process asks one API server.
static CLOCK: LazyLock<Clock> = LazyLock::new(|| Clock {
    began: Instant::now(),
    at: Timestamp::now(),
    bounds: Mutex::default(),
});

impl Clock {
    /// Our own count, in milliseconds since 1970.
    fn count(&self) -> i64 {
        let since = i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX);
        self.at.as_millisecond().saturating_add(since)
    }

    fn tell(&self, asked: i64, second: i64) {
        let newer = Bounds::of(asked, self.count(), second);
        let mut bounds = self.bounds.lock().unwrap_or_else(PoisonError::into_inner);
        *bounds = Some(bounds.map_or(newer, |older| older.and(newer)));
    }

    fn now(&self) -> Timestamp {
        let since = SignedDuration::try_from(self.began.elapsed()).unwrap_or(SignedDuration::MAX);
        let bounds = *self.bounds.lock().unwrap_or_else(PoisonError::into_inner);
        let offset = SignedDuration::from_millis(bounds.map_or(0, Bounds::offset));
        let moved = self.at.checked_add(since.saturating_add(offset));
        moved.unwrap_or(self.at)
    }
}

/// The present moment, as the API server has it.
pub(super) fn now() -> Timestamp {
    CLOCK.now()
}

/// The same, since 1970.
pub(super) fn now_since_1970() -> Nanoseconds {
    Nanoseconds(u64::try_from(now().as_nanosecond()).unwrap_or_default())
}

/// How many seconds the API server is ahead of this machine's clock; negative: behind.
pub(super) fn skew() -> i64 {
    now().duration_since(Timestamp::now()).as_secs()
}

/// What is said of a skew; `None`: it is no matter.
pub(super) fn words(skew: i64) -> Option<String> {
    (skew.abs() >= SAID).then(|| {
        let side = if skew > 0 { "behind" } else { "ahead of" };
        format!(
            "this machine's is about {} s {side} the API server's, by which all ages and graces are counted; see its NTP",
            skew.abs()
        )
    })
}

/// An answer, whose time is read when it comes.
pub(super) fn read<B, E>(
    answer: impl Future<Output = Result<Response<B>, E>>,
) -> impl Future<Output = Result<Response<B>, E>> {
    let asked = CLOCK.count();
    async move {
        let answer = answer.await?;
        let date = answer.headers().get(DATE);
        let date = date.and_then(|text| rfc2822::parse(text.to_str().ok()?).ok());
        if let Some(date) = date {
            CLOCK.tell(asked, date.timestamp().as_second());
        }
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::{Bounds, words};
    use proptest::prelude::*;

    proptest! {
        /// Whatever the server is ahead and however long answers take: what is said lies within a second of it, and a
        /// clock that is right is left alone.
        #[test]
        fn answers_bound_how_far_we_are_off(
            ahead in prop_oneof![Just(0), -10_000_000..10_000_000_i64],
            answers in prop::collection::vec((0..5_000_i64, 0..900_i64, 0..900_i64), 1..40),
        ) {
            let (mut now, mut known) = (1_800_000_000_000_i64, None::<Bounds>);
            for (pause, there, back) in answers {
                let asked = now + pause;
                let second = (asked + there + ahead).div_euclid(1000);
                now = asked + there + back;
                let newer = Bounds::of(asked, now, second);
                let bounds = known.map_or(newer, |older| older.and(newer));
                prop_assert!(bounds.least <= ahead && ahead <= bounds.most);
                prop_assert!(bounds.most - bounds.least <= 2800);
                if ahead == 0 {
                    prop_assert_eq!(bounds.offset(), 0);
                }
                prop_assert!((bounds.offset() - ahead).abs() <= 2800);
                known = Some(bounds);
            }
        }
    }

    #[test]
    fn a_clock_that_is_set_is_believed_anew() {
        let first = Bounds::of(1000, 1010, 601);
        assert!((599_000..=601_000).contains(&first.offset()), "{first:?}");
        let set = first.and(Bounds::of(3000, 3010, 3));
        assert_eq!(set.offset(), 0);
    }

    #[test]
    fn what_an_answer_cannot_tell_is_not_said() {
        assert_eq!(words(0), None);
        assert_eq!(words(-1), None);
        assert!(words(600).is_some_and(|said| said.contains("600 s behind")));
        assert!(words(-600).is_some_and(|said| said.contains("600 s ahead of")));
    }
}
