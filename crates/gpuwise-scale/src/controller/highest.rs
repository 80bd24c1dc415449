//! The highest of what was wanted within a window.

use gpuwise_units::Nanoseconds;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Values that fall, the oldest first: a value is dropped once a later one is no lower.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Highest(VecDeque<(Nanoseconds, u32)>);

impl Highest {
    /// The highest of this value and of those of the last `window`.
    pub(super) fn of(&mut self, now: Nanoseconds, window: Nanoseconds, value: u32) -> u32 {
        while self.0.back().is_some_and(|(_, one)| *one <= value) {
            self.0.pop_back();
        }
        self.0.push_back((now, value));
        while self
            .0
            .front()
            .is_some_and(|(at, _)| at.0.saturating_add(window.0) < now.0)
        {
            self.0.pop_front();
        }
        self.0.front().map_or(value, |(_, one)| *one)
    }
}
