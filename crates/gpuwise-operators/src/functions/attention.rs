//! Attention with its shape fixed, ready to be asked for sizes.

use super::{Basis, Bound, COMPUTE_SHARE, Functions, MEMORY_SHARE, Spread, floor};
use crate::{
    Curve, Lane, OperatorError, Silicon,
    plane::{Extent, Plane},
    tables::{
        Weights, Work,
        attention::{
            Heads, KvFormat,
            context::{self, CONTEXT, Formats, alike, pairs},
            encoder::{self, ENCODER},
            generation::{self, GENERATION},
            latent::{self, LATENT_ATTENTION},
        },
    },
};
use gpuwise_domain::engine::EngineKind;

/// Attention over prompts of one shape.
#[derive(Debug, Clone, PartialEq)]
pub struct Context {
    plane: Plane,
    limit: f64,
    /// Seconds per pair of query and key that it does not undercut, and that nothing does.
    pair: f64,
    least: f64,
    /// Seconds per cached token that nothing undercuts.
    cached: f64,
    spread: Spread,
}

impl Context {
    /// Seconds of sequences of new tokens, each after cached ones.
    pub fn at(&self, sequences: f64, new: f64, cached: f64) -> f64 {
        let size = alike([sequences, new, cached], self.limit);
        let asked = sequences * pairs(new, cached, self.limit);
        let power = if self.limit.is_finite() { 1.0 } else { 2.0 };
        self.plane
            .at(size, power)
            .max(asked * self.pair)
            .max(sequences * cached.min(self.limit) * self.cached)
    }

    /// Low and high end of the 80 % range; the low end keeps to what silicon can do.
    pub fn range(&self, sequences: f64, new: f64, cached: f64) -> (f64, f64) {
        let seconds = self.at(sequences, new, cached);
        let asked = sequences * pairs(new, cached, self.limit);
        let read = sequences * cached.min(self.limit) * self.cached;
        let least = (asked * self.least).max(read).min(seconds);
        (
            (seconds * self.spread.low).max(least),
            seconds * self.spread.high,
        )
    }

    /// How far it may be off, as factors that know no floor.
    pub fn spread(&self) -> Spread {
        self.spread
    }
}

/// Attention of one token per sequence of one shape.
#[derive(Debug, Clone, PartialEq)]
pub struct Generation {
    plane: Plane,
    limit: f64,
    /// Seconds per token seen that it does not undercut, and that nothing does.
    token: f64,
    least: f64,
    spread: Spread,
}

impl Generation {
    /// Seconds of sequences that each attend this many tokens, the new one included.
    pub fn at(&self, sequences: f64, length: f64) -> f64 {
        let power = if length > self.limit { 0.0 } else { 1.0 };
        let seen = sequences * length.min(self.limit);
        self.plane
            .at([length, sequences], power)
            .max(seen * self.token)
    }

    /// Low and high end of the 80 % range; the low end keeps to what silicon can do.
    pub fn range(&self, sequences: f64, length: f64) -> (f64, f64) {
        let seconds = self.at(sequences, length);
        let least = (sequences * length.min(self.limit) * self.least).min(seconds);
        (
            (seconds * self.spread.low).max(least),
            seconds * self.spread.high,
        )
    }

    /// How far it may be off, as factors that know no floor.
    pub fn spread(&self) -> Spread {
        self.spread
    }
}

/// Prompts from 8 tokens to two million; from 8,000 parts of one sequence to 2,000 sequences.
const PROMPTS: Extent = Extent {
    first: [3, -13],
    last: [21, 11],
    swept: true,
};
/// Lengths from 16 tokens to two million; sequences from 1 to 4,000.
const STEPS: Extent = Extent {
    first: [4, 0],
    last: [21, 12],
    swept: false,
};
/// Seconds of a work that nothing undercuts.
fn least(bound: &Bound<'_>, work: &Work) -> f64 {
    (work.compute / bound.share).max(work.memory / MEMORY_SHARE)
}

fn plane(bound: &Bound<'_>, extent: Extent, work: impl Fn(f64, f64) -> Work) -> Plane {
    Plane::new(extent, |x, y| bound.seconds(&work(x, y)))
}

impl Functions {
    /// Causal attention over prompts; heads are those of one GPU. Keys and values cached before come
    /// from memory.
    ///
    /// # Errors
    /// When nothing is known of attention over prompts within this basis.
    pub fn context(
        &self,
        silicon: &Silicon,
        engine: EngineKind,
        compute: KvFormat,
        cache: KvFormat,
        heads: &Heads,
        within: Basis,
    ) -> Result<Context, OperatorError> {
        let formats = Formats::of(compute, cache, engine.name(), silicon);
        let lane = Lane::new(formats.label(), engine.name(), "", "", silicon);
        let bound = self.bound_within((CONTEXT.name, ""), &lane, within)?;
        let work = |sequences, new| context::work(silicon, formats, heads, [sequences, new]);
        let token = heads.width * 2.0 * heads.keys * cache.bytes();
        Ok(Context {
            plane: plane(&bound, PROMPTS, |new, sequences| work(sequences, new)),
            limit: heads.limit(),
            pair: work(1.0, 1.0).compute / bound.share,
            least: work(1.0, 1.0).compute / COMPUTE_SHARE,
            cached: token / silicon.bandwidth / MEMORY_SHARE,
            spread: bound.spread,
        })
    }

    /// Attention of one token per sequence; heads are those of one GPU. The cache comes from memory.
    ///
    /// # Errors
    /// When nothing is known of it within this basis.
    pub fn generation(
        &self,
        silicon: &Silicon,
        engine: EngineKind,
        cache: KvFormat,
        heads: &Heads,
        within: Basis,
    ) -> Result<Generation, OperatorError> {
        let lane = Lane::new(cache.label(), engine.name(), "", "", silicon);
        let bound = self.bound_within((GENERATION.name, ""), &lane, within)?;
        let as_cached = generation::as_cached(engine.name(), silicon);
        let work = |length, sequences| {
            let size = [sequences, length];
            generation::work(silicon, Weights::Cold, cache, as_cached, heads, size)
        };
        Ok(Generation {
            plane: plane(&bound, STEPS, work),
            limit: heads.limit(),
            token: least(&bound, &work(1.0, 1.0)),
            least: floor(&work(1.0, 1.0)),
            spread: bound.spread,
        })
    }

    /// Latent attention (MLA) over prompts, the kernel alone; heads are those of one GPU.
    ///
    /// # Errors
    /// When nothing is known of latent attention within this basis.
    pub fn latent_context(
        &self,
        silicon: &Silicon,
        engine: EngineKind,
        cache: KvFormat,
        heads: f64,
        within: Basis,
    ) -> Result<Context, OperatorError> {
        let label = latent::label("context", cache);
        let lane = Lane::new(&label, engine.name(), "", "", silicon);
        let bound = self.bound_within((LATENT_ATTENTION.name, ""), &lane, within)?;
        let work = |sequences, new| latent::context_work(silicon, cache, heads, [sequences, new]);
        Ok(Context {
            plane: plane(&bound, PROMPTS, |new, sequences| work(sequences, new)),
            limit: f64::INFINITY,
            pair: work(1.0, 1.0).compute / bound.share,
            least: work(1.0, 1.0).compute / COMPUTE_SHARE,
            cached: latent::row_bytes(cache) / silicon.bandwidth / MEMORY_SHARE,
            spread: bound.spread,
        })
    }

    /// Latent attention (MLA) of one token per sequence, the kernel alone; heads are those of one GPU.
    ///
    /// # Errors
    /// When nothing is known of latent attention within this basis.
    pub fn latent_generation(
        &self,
        silicon: &Silicon,
        engine: EngineKind,
        cache: KvFormat,
        heads: f64,
        within: Basis,
    ) -> Result<Generation, OperatorError> {
        let label = latent::label("generation", cache);
        let lane = Lane::new(&label, engine.name(), "", "", silicon);
        let bound = self.bound_within((LATENT_ATTENTION.name, ""), &lane, within)?;
        let work = |length, sequences| {
            let size = [sequences, length];
            latent::generation_work(silicon, Weights::Cold, cache, heads, size)
        };
        Ok(Generation {
            plane: plane(&bound, STEPS, work),
            limit: f64::INFINITY,
            token: least(&bound, &work(1.0, 1.0)),
            least: floor(&work(1.0, 1.0)),
            spread: bound.spread,
        })
    }

    /// Attention that looks both ways over sequences of so many tokens, against sequences.
    ///
    /// # Errors
    /// When nothing is known of it.
    pub fn encoder(
        &self,
        silicon: &Silicon,
        engine: EngineKind,
        heads: f64,
        width: f64,
        tokens: f64,
    ) -> Result<Curve, OperatorError> {
        let lane = Lane::new("bfloat16", engine.name(), "", "", silicon);
        let bound = self.bound(ENCODER.name, &lane, "")?;
        Ok(Curve::new(1.0, bound.spread, |sequences| {
            bound.timed(&encoder::work(silicon, [heads, width], [sequences, tokens]))
        }))
    }
}
