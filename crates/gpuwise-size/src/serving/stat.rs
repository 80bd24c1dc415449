//! A static batch: all prompts at once, all answers of one length.

use super::Cycle;

/// A batch that is computed from start to end on one attention group.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StaticBatch {
    pub size: f64,
    /// Prompt tokens of each.
    pub input: f64,
    pub output: f64,
    /// Sequences that fit at once; more run in waves.
    pub capacity: f64,
}

impl StaticBatch {
    /// Seconds until every request has its first token.
    pub fn first_token(&self, cycle: &Cycle) -> f64 {
        let size = self.size.min(self.capacity.max(1.0));
        cycle.prefill(size, self.input, 0.0) + cycle.fronted(self.input)
    }

    /// Seconds until the last request ends.
    pub fn total(&self, cycle: &Cycle) -> f64 {
        let capacity = self.capacity.max(1.0);
        let waves = libm::ceil(self.size / capacity).max(1.0);
        let size = self.size / waves;
        let steps = (self.output - 1.0).max(0.0);
        let decode = |part: f64| cycle.decode(size, self.input + self.output * part);
        // Step time is nearly linear in the context: two points integrate it.
        let decoding = steps * 0.5 * (decode(0.2113) + decode(0.7887));
        waves * (cycle.prefill(size, self.input, 0.0) + decoding) + cycle.fronted(self.input)
    }
}
