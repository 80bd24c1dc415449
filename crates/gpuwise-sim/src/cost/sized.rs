//! Step times of a setup by the sizing model, in pieces that are affine in the context.
//!
//! The model's time of a decode step is a smooth curve over the mean context (windows, latent
//! attention and the maximum of memory and compute bend it). Between knots an eighth of an octave
//! apart it is taken as a straight line, so that a run of steps has a closed sum. What a chunk of a
//! prompt adds is computed once for each pair of decodes and tokens, and is affine in the context
//! that the chunk attends to.

use super::{Around, Graphs, Piece, StepCost, StepWork};
use gpuwise_size::{serving::Cycle, speed::Batch};
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

/// Picoseconds of a second.
const SECOND: f64 = 1e12;
/// Knots lie this far apart: eight to an octave keep a curve within 0.1 % of its chords.
const KNOTS_PER_OCTAVE: i32 = 8;
/// Below this mean context one piece is enough.
const FIRST_KNOT: f64 = 64.0;
/// What is remembered is dropped beyond so many entries; it is computed again when asked for.
const MOST_REMEMBERED: usize = 1 << 19;

/// Step times of one attention group of a setup.
#[derive(Debug, Clone)]
pub struct Sized {
    cycle: Cycle,
    /// Seconds that a request spends outside of queues and steps.
    front: f64,
    /// Factor on every step, and on what prompts add beyond that.
    corrections: [f64; 2],
    graphs: Graphs,
    pieces: IndexMap<(u32, i32), Piece, FxBuildHasher>,
    chunks: IndexMap<ChunkKey, Chunk, FxBuildHasher>,
}

/// Decodes, prompt tokens, prompts that end, and the knots of both mean contexts.
type ChunkKey = (u32, u32, u32, i32, i32);

/// What prompts add to a step: picoseconds, affine in the mean context that their tokens attend to.
#[derive(Debug, Clone, Copy)]
struct Chunk {
    base: f64,
    slope: f64,
}

impl Sized {
    /// The step times of a setup's cycle; a request spends `front` seconds on its way to the queue.
    pub fn new(cycle: Cycle, front: f64) -> Self {
        Self {
            cycle,
            front,
            corrections: [1.0; 2],
            graphs: Graphs::default(),
            pieces: IndexMap::default(),
            chunks: IndexMap::default(),
        }
    }

    /// The same with every step `steps` times as long, and with what prompts add to steps `prompts`
    /// times as long beyond that.
    #[must_use]
    pub fn corrected(self, steps: f64, prompts: f64) -> Self {
        Self {
            corrections: [steps, prompts],
            pieces: IndexMap::default(),
            chunks: IndexMap::default(),
            ..self
        }
    }

    /// The same with decode steps padded to the sizes of captured graphs.
    #[must_use]
    pub fn captured(self, graphs: Graphs) -> Self {
        Self {
            graphs,
            pieces: IndexMap::default(),
            chunks: IndexMap::default(),
            ..self
        }
    }

    fn piece(&self, sequences: u32, knot: i32) -> Piece {
        let count = f64::from(sequences);
        let (low, high) = (context_of(knot), context_of(knot + 1));
        let scale = self.corrections[0] * SECOND;
        let padded = f64::from(self.graphs.padded(sequences));
        // Rows that pad attend to nothing.
        let at = |context: f64| self.cycle.padded_step(count, padded, context) * scale;
        let (first, last) = (at(low), at(high));
        let (from, until) = (
            libm::ceil(low * count) as u64,
            libm::ceil(high * count) as u64,
        );
        // The line through both knots, in whole picoseconds per token.
        let slope = ((last - first) / ((high - low) * count)).max(0.0);
        let slope = libm::round(slope) as u64;
        let base = libm::round(first) as i64
            - i64::try_from(u128::from(slope) * u128::from(from)).unwrap_or(0);
        Piece { base, slope, until }
    }

    fn chunk(&self, key: ChunkKey) -> Chunk {
        let (decodes, prefill, finished, knot, prefill_knot) = key;
        // The mean context of decodes is taken in the middle of its piece.
        let context = 0.5 * (context_of(knot) + context_of(knot + 1));
        let scale = self.corrections[0] * self.corrections[1] * SECOND;
        let step = |prefill_context: f64| {
            let batch = Batch {
                decodes: f64::from(decodes),
                context: if decodes > 0 { context } else { 0.0 },
                prefill: f64::from(prefill),
                prefill_context,
                finished: f64::from(finished),
            };
            let alone = if decodes > 0 {
                self.cycle.decode_step(f64::from(decodes), context)
            } else {
                0.0
            };
            (self.cycle.mixed_step(&batch) - alone) * scale
        };
        let (low, high) = (context_of(prefill_knot), context_of(prefill_knot + 1));
        let (first, last) = (step(low), step(high));
        let slope = (last - first) / (high - low);
        Chunk {
            base: first - slope * low,
            slope,
        }
    }
}

/// The knot at or below a mean context.
fn knot_of(context: f64) -> i32 {
    if context < FIRST_KNOT {
        return -1;
    }
    // Powers of two are exact; within an octave knots are evenly apart.
    let (fraction, exponent) = libm::frexp(context / FIRST_KNOT);
    let within = libm::floor((fraction * 2.0 - 1.0) * f64::from(KNOTS_PER_OCTAVE)) as i32;
    (exponent - 1) * KNOTS_PER_OCTAVE + within
}

/// The mean context of a knot.
fn context_of(knot: i32) -> f64 {
    if knot < 0 {
        return 0.0;
    }
    let (octave, within) = (knot / KNOTS_PER_OCTAVE, knot % KNOTS_PER_OCTAVE);
    let part = 1.0 + f64::from(within) / f64::from(KNOTS_PER_OCTAVE);
    libm::ldexp(FIRST_KNOT * part, octave)
}

impl StepCost for Sized {
    fn decode(&mut self, sequences: u32, context: u64) -> Piece {
        let sequences = sequences.max(1);
        let mut knot = knot_of(context as f64 / f64::from(sequences));
        // The end of a piece is rounded up to whole tokens, so the total may lie just before it.
        if knot >= 0 && (context as f64) < libm::ceil(context_of(knot) * f64::from(sequences)) {
            knot -= 1;
        }
        if let Some(piece) = self.pieces.get(&(sequences, knot)) {
            return *piece;
        }
        if self.pieces.len() >= MOST_REMEMBERED {
            self.pieces.clear();
        }
        let piece = self.piece(sequences, knot);
        self.pieces.insert((sequences, knot), piece);
        piece
    }

    fn mixed(&mut self, work: &StepWork) -> u64 {
        let alone = if work.decodes > 0 {
            self.decode(work.decodes, work.context).at(work.context)
        } else {
            0
        };
        if work.prefill == 0 {
            return alone;
        }
        let mean = work.context as f64 / f64::from(work.decodes.max(1));
        let prefill_mean = work.prefill_context as f64 / f64::from(work.prefill);
        let key = (
            work.decodes,
            work.prefill,
            work.finished,
            if work.decodes > 0 { knot_of(mean) } else { -1 },
            knot_of(prefill_mean),
        );
        let chunk = if let Some(chunk) = self.chunks.get(&key) {
            *chunk
        } else {
            if self.chunks.len() >= MOST_REMEMBERED {
                self.chunks.clear();
            }
            let chunk = self.chunk(key);
            self.chunks.insert(key, chunk);
            chunk
        };
        alone + libm::round((chunk.base + chunk.slope * prefill_mean).max(1.0)) as u64
    }

    fn around(&self, _input: u32) -> Around {
        Around {
            before: libm::round(self.front * 1e9) as u64,
            after: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knots_and_contexts_are_inverse() {
        for knot in 0..200 {
            let context = context_of(knot);
            assert_eq!(knot_of(context), knot, "{context}");
            assert_eq!(knot_of(context * 1.001), knot, "{context}");
        }
        assert_eq!(knot_of(63.9), -1);
        assert!(context_of(0) > context_of(-1));
    }
}
