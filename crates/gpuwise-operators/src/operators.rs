//! The functions with what was asked of them before.

use crate::{
    Basis, Class, Context, Curve, ExpertLoad, Experts, Functions, GemmFormat, Generation, Heads,
    KvFormat, MoeFormat, Silicon, memo::Memo,
};
use alloc::sync::Arc;
use gpuwise_domain::engine::EngineKind;

/// Operator functions that remember the curves that they made: a curve takes tens of microseconds to
/// make, and the same shapes are asked for again and again.
///
/// What is not measured on a GPU or one of its generation under an engine in a format has no curve.
#[derive(Debug, Default)]
pub struct Operators {
    functions: Functions,
    curves: Memo<Key, Option<Arc<Curve>>>,
    contexts: Memo<Key, Option<Arc<Context>>>,
    generations: Memo<Key, Option<Arc<Generation>>>,
}

/// All that a curve depends on.
#[derive(Debug, Clone, PartialEq)]
struct Key {
    silicon: Arc<Silicon>,
    engine: EngineKind,
    /// What is asked, in which format.
    operator: Operator,
    sizes: [u64; 8],
}

impl Key {
    fn new<const N: usize>(on: &On<'_>, operator: Operator, sizes: [f64; N]) -> Self {
        let mut bits = [0; 8];
        for (to, from) in bits.iter_mut().zip(sizes) {
            *to = from.to_bits();
        }
        Self {
            silicon: Arc::clone(on.silicon),
            engine: on.engine,
            operator,
            sizes: bits,
        }
    }

    /// FNV-1a, by words.
    fn hash(&self) -> u64 {
        let words = [
            self.silicon.bandwidth.to_bits(),
            self.silicon.half.to_bits(),
            self.engine as u64,
        ];
        let all = words.into_iter().chain(self.sizes);
        all.fold(gpuwise_units::math::FNV1A, |hash, word| {
            (hash ^ word ^ (word >> 29)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        })
    }
}

/// Which operator, with its formats.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Operator {
    Gemm(GemmFormat),
    /// Whether experts have a gate.
    Moe(MoeFormat, bool),
    Context(KvFormat, KvFormat),
    Generation(KvFormat),
    LatentContext(KvFormat),
    LatentGeneration(KvFormat),
}

#[derive(Debug, Clone, Copy)]
pub struct On<'a> {
    pub silicon: &'a Arc<Silicon>,
    pub engine: EngineKind,
}

impl PartialEq for Operators {
    fn eq(&self, other: &Self) -> bool {
        self.functions == other.functions
    }
}

impl From<Functions> for Operators {
    fn from(functions: Functions) -> Self {
        Self {
            functions,
            ..Self::default()
        }
    }
}

impl Operators {
    pub fn functions(&self) -> &Functions {
        &self.functions
    }

    /// [`Functions::gemm`] where it was measured.
    pub fn gemm(&self, on: &On<'_>, format: GemmFormat, n: f64, k: f64) -> Option<Arc<Curve>> {
        let key = Key::new(on, Operator::Gemm(format), [n, k]);
        self.curves.get(key.hash(), key, |_| {
            let made = self
                .functions
                .gemm(on.silicon, on.engine, format, [n, k], CARRIED);
            made.ok().map(Arc::new)
        })
    }

    /// [`Functions::moe`] where it was measured; of kernels between which the engine chooses, the
    /// fastest.
    pub fn moe(
        &self,
        on: &On<'_>,
        format: MoeFormat,
        layer: &Experts,
        load: ExpertLoad,
    ) -> Option<Arc<Curve>> {
        let exponent = match load {
            ExpertLoad::Balanced => 0.0,
            ExpertLoad::Random => -1.0,
            ExpertLoad::PowerLaw(exponent) => exponent,
        };
        let sizes = [
            layer.hidden,
            layer.inter,
            layer.topk,
            layer.experts,
            layer.tensor_parallel,
            layer.expert_parallel,
            exponent,
        ];
        let key = Key::new(on, Operator::Moe(format, layer.gated), sizes);
        self.curves.get(key.hash(), key, |_| {
            let under = |engine| {
                let made = self
                    .functions
                    .moe(on.silicon, engine, format, layer, load, CARRIED);
                made.ok().map(Arc::new)
            };
            let own = under(on.engine)?;
            match on.kernels_timed_elsewhere() {
                Some(engine) => Some(
                    under(engine).map_or(Arc::clone(&own), |other| Arc::new(own.faster(&other))),
                ),
                None => Some(own),
            }
        })
    }

    /// [`Functions::context`] where it was measured.
    pub fn context(
        &self,
        on: &On<'_>,
        compute: KvFormat,
        cache: KvFormat,
        heads: &Heads,
    ) -> Option<Arc<Context>> {
        let key = Key::new(on, Operator::Context(compute, cache), sizes(heads));
        self.contexts.get(key.hash(), key, |_| {
            let made = self
                .functions
                .context(on.silicon, on.engine, compute, cache, heads, CARRIED);
            made.ok().map(Arc::new)
        })
    }

    /// [`Functions::generation`] where it was measured.
    pub fn generation(
        &self,
        on: &On<'_>,
        cache: KvFormat,
        heads: &Heads,
    ) -> Option<Arc<Generation>> {
        let key = Key::new(on, Operator::Generation(cache), sizes(heads));
        self.generations.get(key.hash(), key, |_| {
            let made = self
                .functions
                .generation(on.silicon, on.engine, cache, heads, CARRIED);
            made.ok().map(Arc::new)
        })
    }

    /// [`Functions::latent_context`] where it was measured.
    pub fn latent_context(&self, on: &On<'_>, cache: KvFormat, heads: f64) -> Option<Arc<Context>> {
        let key = Key::new(on, Operator::LatentContext(cache), [heads]);
        self.contexts.get(key.hash(), key, |_| {
            let made = self
                .functions
                .latent_context(on.silicon, on.engine, cache, heads, CARRIED);
            made.ok().map(Arc::new)
        })
    }

    /// [`Functions::latent_generation`] where it was measured.
    pub fn latent_generation(
        &self,
        on: &On<'_>,
        cache: KvFormat,
        heads: f64,
    ) -> Option<Arc<Generation>> {
        let key = Key::new(on, Operator::LatentGeneration(cache), [heads]);
        self.generations.get(key.hash(), key, |_| {
            let made = self
                .functions
                .latent_generation(on.silicon, on.engine, cache, heads, CARRIED);
            made.ok().map(Arc::new)
        })
    }
}

impl On<'_> {
    /// The engine under which the rest of this one's expert kernels were timed: on data-centre
    /// Blackwell, TensorRT-LLM's table has CUTLASS and DeepGEMM alone, and its generated kernels,
    /// which it ships and FlashInfer took over, stand in SGLang's.
    fn kernels_timed_elsewhere(&self) -> Option<EngineKind> {
        let blackwell = self.silicon.class == Class::Hbm && self.silicon.architecture.0 == "sm10x";
        (self.engine == EngineKind::TensorRtLlm && blackwell).then_some(EngineKind::Sglang)
    }
}

/// What carries over: times of this GPU under the engine in the format, or of one of its generation.
/// Those of another generation of the family are off by as much as shares of peaks.
const CARRIED: Basis = Basis::Generation;

fn sizes(heads: &Heads) -> [f64; 4] {
    [heads.queries, heads.keys, heads.width, heads.window]
}
