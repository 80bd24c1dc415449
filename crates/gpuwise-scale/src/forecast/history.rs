//! The last values of a series, of which the oldest give way.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct History {
    values: Vec<f64>,
    /// Where the next one goes.
    next: usize,
    most: usize,
}

impl History {
    pub(super) fn new(most: usize) -> Self {
        Self {
            values: Vec::new(),
            next: 0,
            most: most.max(1),
        }
    }

    pub(super) fn push(&mut self, value: f64) {
        match self.values.get_mut(self.next) {
            Some(oldest) => *oldest = value,
            None => self.values.push(value),
        }
        self.next = (self.next + 1) % self.most;
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// The value so many periods ago; 0 is the last.
    pub(super) fn back(&self, ago: usize) -> Option<f64> {
        if ago >= self.values.len() {
            return None;
        }
        let at = (self.next + self.most - 1 - ago) % self.most;
        self.values.get(at).copied()
    }
}
