//! Step times of a setup by the sizing model, in pieces that are affine in the context.
//!
//! The model's time of a decode step is a smooth curve over the mean context (windows, latent
//! attention and the maximum of memory and compute bend it). Between knots an eighth of an octave
//! apart it is taken as a straight line, so that a run of steps has a closed sum. What a chunk of a
//! prompt adds is computed once for each pair of decodes and tokens, and is affine in the context
//! that the chunk attends to.

use super::{CostSegment, Graphs, Picoseconds, RequestOverhead, StepCost, StepWork};
use gpuwise_size::{
    knowledge::Corrections,
    serving::Cycle,
    speed::{Batch, Peers},
};
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
    graphs: Graphs,
    pieces: IndexMap<PieceKey, CostSegment, FxBuildHasher>,
    chunks: IndexMap<ChunkKey, Chunk, FxBuildHasher>,
}

/// Tokens decoded, the knot of their sequences' mean context, and tokens of the replica where ranks share experts.
type PieceKey = (u32, i32, Option<u64>);

/// What the time of a step with prompts depends on, but for the context within its knots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct ChunkKey {
    decodes: u32,
    prefill: u32,
    finished: u32,
    /// Of the mean context of decodes.
    knot: i32,
    /// Of the mean context that prompt tokens attend to.
    prefill_knot: i32,
    /// Tokens of the replica where ranks share experts.
    replica: Option<u64>,
}

/// What prompts add to a step: picoseconds, affine in the mean context that their tokens attend to.
#[derive(Debug, Clone, Copy)]
struct Chunk {
    base: f64,
    slope: f64,
}

impl Sized {
    /// The step times of a setup's cycle.
    pub fn new(cycle: Cycle) -> Self {
        Self {
            cycle,
            graphs: Graphs::default(),
            pieces: IndexMap::default(),
            chunks: IndexMap::default(),
        }
    }

    /// The same with other factors on its steps.
    #[must_use]
    pub fn corrected(self, corrections: Corrections) -> Self {
        Self {
            cycle: self.cycle.corrected(corrections),
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

    /// Tokens of the replica, where they matter: one rank alone computes all of them.
    fn shared(&self, replica: u64) -> Option<u64> {
        (self.cycle.steps.attention_groups() > 1).then_some(replica)
    }

    /// Sequences that decode so many tokens: each verifies its drafts beside its next token.
    fn sequences(&self, tokens: u32) -> f64 {
        let (_, drafted) = self.cycle.yields();
        f64::from(tokens) / (1.0 + drafted)
    }

    fn piece(&self, (tokens, knot, replica): PieceKey) -> CostSegment {
        let count = self.sequences(tokens);
        let (low, high) = (context_of(knot), context_of(knot + 1));
        let padded = self.sequences(self.graphs.padded(tokens));
        // Rows that pad attend to nothing.
        let at = |context: f64| {
            let step = self
                .cycle
                .padded_step(count, padded, context, peers(replica));
            duration(step).get()
        };
        let (first, last) = (at(low), at(high));
        let (from, until) = (
            libm::ceil(low * count) as u64,
            libm::ceil(high * count) as u64,
        );
        // The line through both knots, in whole picoseconds per token.
        let slope = last.saturating_sub(first) as f64 / ((high - low) * count);
        let slope = libm::round(slope) as u64;
        let base = i64::try_from(first).unwrap_or(i64::MAX)
            - i64::try_from(u128::from(slope) * u128::from(from)).unwrap_or(0);
        CostSegment { base, slope, until }
    }

    fn chunk(&self, key: ChunkKey) -> Chunk {
        let decodes = self.sequences(key.decodes);
        // The mean context of decodes is taken in the middle of its piece.
        let context = if key.decodes > 0 {
            0.5 * (context_of(key.knot) + context_of(key.knot + 1))
        } else {
            0.0
        };
        let peers = peers(key.replica);
        let alone = if key.decodes > 0 {
            self.cycle.decode_step(decodes, context, peers)
        } else {
            0.0
        };
        let step = |prefill_context: f64| {
            let batch = Batch {
                decodes,
                context,
                prefill: f64::from(key.prefill),
                prefill_context,
                finished: f64::from(key.finished),
                peers,
            };
            let more = self.cycle.mixed_step(&batch) - alone;
            more * SECOND
        };
        let (low, high) = (
            context_of(key.prefill_knot),
            context_of(key.prefill_knot + 1),
        );
        let (first, last) = (step(low), step(high));
        let slope = (last - first) / (high - low);
        Chunk {
            base: first - slope * low,
            slope,
        }
    }
}

/// The other ranks of a replica that computes so many tokens.
fn peers(replica: Option<u64>) -> Peers {
    replica.map_or(Peers::Alike, |tokens| Peers::Tokens(tokens as f64))
}

/// The time of a step, which has one whatever its work is: operators take finite times that are not
/// negative, and every step has a kernel.
fn duration(seconds: f64) -> Picoseconds {
    Picoseconds::from_seconds(seconds).expect("a step takes time")
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
    fn decode(&mut self, tokens: u32, context: u64, replica: u64) -> CostSegment {
        let tokens = tokens.max(1);
        let count = self.sequences(tokens);
        let mut knot = knot_of(context as f64 / count);
        // The end of a piece is rounded up to whole tokens, so the total may lie just before it.
        if knot >= 0 && (context as f64) < libm::ceil(context_of(knot) * count) {
            knot -= 1;
        }
        let key = (tokens, knot, self.shared(replica));
        if let Some(piece) = self.pieces.get(&key) {
            return *piece;
        }
        if self.pieces.len() >= MOST_REMEMBERED {
            self.pieces.clear();
        }
        let piece = self.piece(key);
        self.pieces.insert(key, piece);
        piece
    }

    fn mixed(&mut self, work: &StepWork, replica: u64) -> Picoseconds {
        let decoding = (work.decodes > 0).then(|| {
            self.decode(work.decodes, work.context, replica)
                .at(work.context)
        });
        if work.prefill == 0
            && let Some(decoding) = decoding
        {
            return decoding;
        }
        let mean = work.context as f64 / self.sequences(work.decodes.max(1));
        let prefill_mean = work.prefill_context as f64 / f64::from(work.prefill.max(1));
        let key = ChunkKey {
            decodes: work.decodes,
            prefill: work.prefill.max(1),
            finished: work.finished,
            knot: if work.decodes > 0 { knot_of(mean) } else { -1 },
            prefill_knot: knot_of(prefill_mean),
            replica: self.shared(replica),
        };
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
        let prompts = chunk.base + chunk.slope * prefill_mean;
        match decoding {
            // Prompts never make a step shorter than its decodes alone.
            Some(decoding) => {
                let more = libm::round(prompts.max(0.0)) as u64;
                Picoseconds::at_least_one(decoding.get().saturating_add(more))
            }
            None => duration(prompts / SECOND),
        }
    }

    fn around(&self, input: u32) -> RequestOverhead {
        RequestOverhead {
            before: libm::round(self.cycle.fronted(f64::from(input)) * 1e9) as u64,
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
