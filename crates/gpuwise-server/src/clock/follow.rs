//! Following a wall clock without ever going back.

use super::{ClockError, ClockLimits};
use gpuwise_units::Nanoseconds;

/// What was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) now: Nanoseconds,
    /// Why the wall clock is not believed; the time goes on by the steady clock meanwhile.
    pub(super) wrong: Option<ClockError>,
}

/// How far a wall clock may leap ahead of the steady clock while it is followed: time that a clock invents is money that
/// leases pay, and a budget's. A machine that was suspended has no leap, since the steady clock counts that.
const LEAP: u64 = 60 * 1_000_000_000;

/// Leaps are forgotten at one part in so many of what passes: a wall clock that gains by many small ones is no better
/// than one that leaps once.
const FORGOTTEN: u64 = 1000;

/// Time that follows a wall clock: forward at once, back by running at half its pace until the wall clock has
/// caught up. A wall clock that is further away than the limits, or leaps ahead of the steady clock, is not followed.
#[derive(Debug)]
pub(super) struct Follower {
    now: u64,
    /// The steady clock when it was.
    steady: u64,
    /// How far it stays ahead of the wall clock.
    shift: u64,
    /// How far the wall clock has leapt ahead of the steady clock of late.
    leapt: u64,
    limits: ClockLimits,
}

impl Follower {
    pub(super) const fn new(now: u64, steady: u64, shift: u64, limits: ClockLimits) -> Self {
        Self {
            now,
            steady,
            shift,
            leapt: 0,
            limits,
        }
    }

    pub(super) const fn shift(&self) -> u64 {
        self.shift
    }

    /// What has passed since the last reading, at some pace.
    pub(super) fn passed(&mut self, steady: u64, pace: f64) -> Nanoseconds {
        let passed = steady.saturating_sub(self.steady) as f64 * pace;
        self.steady = self.steady.max(steady);
        self.now = self.now.saturating_add(passed as u64);
        Nanoseconds(self.now)
    }

    pub(super) fn read(&mut self, wall: u64, steady: u64) -> Reading {
        let passed = steady.saturating_sub(self.steady);
        self.steady = self.steady.max(steady);
        let alone = self.now.saturating_add(passed);
        self.leapt = self.leapt.saturating_sub(passed / FORGOTTEN);
        let wall = wall.saturating_add(self.shift);
        let mut wrong = None;
        self.now = if wall > alone {
            let by = wall - alone;
            let leapt = self.leapt.saturating_add(by);
            if leapt > LEAP.min(self.limits.forward.0) {
                wrong = Some(ClockError::SetForward {
                    wall: Nanoseconds(wall),
                    now: Nanoseconds(alone),
                });
                alone
            } else {
                self.leapt = leapt;
                wall
            }
        } else {
            let by = alone - wall;
            if by > self.limits.back.0.saturating_add(passed / 2) {
                wrong = Some(ClockError::SetBack {
                    wall: Nanoseconds(wall),
                    now: Nanoseconds(alone),
                });
                alone
            } else {
                alone - by.min(passed / 2)
            }
        };
        Reading {
            now: Nanoseconds(self.now),
            wrong,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;
    /// The same, of a wall clock that is set.
    const STEP: i64 = 1_000_000_000;

    /// What a machine's clock does between two readings.
    #[derive(Debug, Clone, Copy)]
    enum Step {
        /// So much time passes.
        Runs(u64),
        /// The wall clock is set forward or back.
        Set(i64),
        /// A virtual machine stands still: the wall clock alone goes on.
        Stands(u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let hour = 3_600 * SECOND;
        let step = prop_oneof![
            4 => (0..hour).prop_map(Step::Runs),
            2 => (0..SECOND).prop_map(Step::Runs),
            1 => (-(200 * 86_400 * STEP)..200 * 86_400 * STEP).prop_map(Step::Set),
            2 => (-(500 * STEP)..500 * STEP).prop_map(Step::Set),
            1 => (0..200 * 86_400 * SECOND).prop_map(Step::Stands),
        ];
        proptest::collection::vec(step, 1..60)
    }

    proptest! {
        /// Whatever a wall clock does, time never goes back, and where it is believed it is within the limits
        /// of the wall clock, and equal to it once it ran twice as long as it was set back.
        #[test]
        fn time_never_goes_back_and_comes_to_be_the_wall_clock(steps in steps()) {
            let limits = ClockLimits::USUAL;
            let begun = 1_800_000_000 * SECOND;
            let (mut wall, mut steady) = (begun, 5 * SECOND);
            let mut follower = Follower::new(wall, steady, 0, limits);
            let mut before = Reading { now: Nanoseconds(wall), wrong: None };
            for step in steps {
                match step {
                    Step::Runs(time) => { wall += time; steady += time; }
                    Step::Set(by) => wall = wall.saturating_add_signed(by),
                    Step::Stands(time) => wall += time,
                }
                let read = follower.read(wall, steady);
                prop_assert!(read.now >= before.now, "{before:?} {read:?}");
                if read.wrong.is_none() {
                    prop_assert!(read.now.0.abs_diff(wall) <= limits.back.0, "{wall} {read:?}");
                    prop_assert!(read.now.0 >= wall);
                } else if let Step::Runs(time) = step {
                    // It is not poisoned: it goes on as long as time does.
                    prop_assert!(read.now.0 - before.now.0 <= time);
                }
                before = read;
            }
            if before.wrong.is_none() {
                let ahead = before.now.0 - wall;
                // Each step takes back half of what it lasts, rounded down.
                for part in [ahead + 1, ahead + 1] {
                    wall += part;
                    steady += part;
                    follower.read(wall, steady);
                }
                prop_assert_eq!(follower.read(wall, steady).now.0, wall);
            }
        }
    }

    #[test]
    fn corrections_are_followed_and_leaps_are_not() {
        let begun = 1_800_000_000 * SECOND;
        let check = |set: i64, wanted: i64, is_wrong: bool| {
            let mut follower = Follower::new(begun, 0, 0, ClockLimits::USUAL);
            let wall = (begun + 60 * SECOND).saturating_add_signed(set * STEP);
            let read = follower.read(wall, 60 * SECOND);
            let wanted = begun.saturating_add_signed(wanted * STEP);
            assert_eq!(read.now.0, wanted, "set by {set} s");
            assert_eq!(read.wrong.is_some(), is_wrong, "set by {set} s");
        };
        check(0, 60, false);
        check(50, 110, false);
        // An hour that a clock invents is paid by nobody.
        check(3_600, 60, true);
        check(20 * 86_400, 60, true);
        check(-10, 50, false);
        check(-300, 30, false);
        check(-3_600, 60, true);
        check(8 * 365 * 86_400, 60, true);
    }

    #[test]
    fn a_machine_that_was_suspended_goes_on_at_once() {
        let begun = 1_800_000_000 * SECOND;
        let mut follower = Follower::new(begun, 0, 0, ClockLimits::USUAL);
        let month = 30 * 86_400 * SECOND;
        let read = follower.read(begun + month, month);
        assert_eq!((read.now.0, read.wrong), (begun + month, None));
    }

    #[test]
    fn small_leaps_are_a_large_one_and_a_clock_that_is_right_again_is_believed() {
        let begun = 1_800_000_000 * SECOND;
        let mut follower = Follower::new(begun, 0, 0, ClockLimits::USUAL);
        let (mut ahead, mut steady) = (0, 0);
        let mut reads = Vec::new();
        for _ in 0..10 {
            steady += SECOND;
            ahead += 20 * SECOND;
            reads.push(follower.read(begun + steady + ahead, steady));
        }
        let believed = reads.iter().filter(|read| read.wrong.is_none());
        assert_eq!(believed.count(), 3);
        let last = reads.last().expect("ten were made").now.0;
        assert!(last <= begun + steady + LEAP, "{last}");
        steady += SECOND;
        let right = follower.read(begun + steady, steady);
        assert_eq!(right.wrong, None);
        assert!(right.now.0 >= last && right.now.0 <= last + SECOND);
    }
}
