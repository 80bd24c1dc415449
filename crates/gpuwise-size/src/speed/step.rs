//! A step by its operators' times.

use super::{
    collective::Links,
    local::Local,
    measured::Measured,
    rates::{Fitted, Rates, TileUse},
    roofline::Peaks,
    work::StepShape,
};
use crate::{
    constants::{Constants, Parameter},
    derive::{Amount, Term, TermLabel},
    setup::Setup,
};
use alloc::sync::Arc;
use gpuwise_domain::{derivation::Unit, layout::Layout};

/// The work of one step on one attention group (all of a replica without attention DP).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Batch {
    /// Sequences that decode one token.
    pub decodes: f64,
    /// Their mean context in tokens.
    pub context: f64,
    pub prefill: f64,
    /// Mean context that a prompt token attends to.
    pub prefill_context: f64,
    /// Prompts that end in this step, so that a token is sampled for them.
    pub finished: f64,
    /// What the other attention groups of the replica compute meanwhile, whose tokens meet this
    /// group's at the experts.
    pub peers: Peers,
}

/// The other attention groups of a replica during a step (attention DP).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Peers {
    /// Each computes as many tokens as this one.
    #[default]
    Alike,
    /// All groups together, this one included, compute so many tokens.
    Tokens(f64),
}

impl Peers {
    fn divided(self, parts: f64) -> Self {
        match self {
            Self::Alike => Self::Alike,
            Self::Tokens(tokens) => Self::Tokens(tokens / parts),
        }
    }
}

impl Batch {
    /// One of `parts` equal parts that pass through pipeline stages one after the other.
    ///
    /// A prompt is not torn apart: one that ends in this step passes all stages with all its tokens,
    /// several are shared out, and the chunks of a longer one, of no more than `chunk` tokens, follow
    /// each other a stage behind.
    pub(super) fn divided(&self, parts: f64, chunk: f64) -> Self {
        let whole = if self.finished <= 1.0 {
            parts / (1.0 + (parts - 1.0) * self.finished)
        } else {
            self.finished.min(parts)
        };
        let prompts = whole.max(self.prefill / chunk).min(parts).max(1.0);
        Self {
            decodes: self.decodes / parts,
            prefill: self.prefill / prompts,
            finished: self.finished / prompts,
            peers: self.peers.divided(parts),
            ..*self
        }
    }

    /// Tokens that meet at the experts of a replica of so many attention groups.
    pub(super) fn at_experts(&self, groups: f64) -> f64 {
        let own = self.decodes + self.prefill;
        match self.peers {
            Peers::Alike => own * groups,
            Peers::Tokens(tokens) => tokens.max(own),
        }
    }
}

/// Seconds of a step by cause, on the slowest rank.
pub type StepTime = Parts<f64>;

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Parts<A> {
    /// Matmuls of attention, dense feed-forwards and head.
    pub dense: A,
    /// Grouped matmuls of experts.
    pub experts: A,
    /// Attention over the cache, and recurrent mixers.
    pub attention: A,
    pub communication: A,
    /// Small kernels, launches and the host.
    pub overhead: A,
}

impl StepTime {
    pub fn total(&self) -> f64 {
        self.sum()
    }

    /// Each cause as an input that is told from this source.
    fn told(&self, source: &'static str) -> Parts<Term> {
        let input = |seconds: f64, name: &'static str| {
            if seconds <= 0.0 {
                return Term::number(0.0);
            }
            let said = TermLabel::new(name, Unit::Seconds).digits(4);
            Term::input(seconds, || said.from(source))
        };
        let [dense, experts, attention, communication, overhead] = CAUSES;
        Parts {
            dense: input(self.dense, dense),
            experts: input(self.experts, experts),
            attention: input(self.attention, attention),
            communication: input(self.communication, communication),
            overhead: input(self.overhead, overhead),
        }
    }
}

/// The causes of a step's time, as people read them.
const CAUSES: [&str; 5] = [
    "matmuls of attention and MLP",
    "experts",
    "attention over the KV cache",
    "collectives",
    "kernels, scheduling, sampling",
];
const LOCAL: &str = "llama.cpp's operators at fitted shares of the GPU's peaks";
/// How the causes of a prefill are.
const OPERATORS: &str = "operator by operator, as in a decode step";

impl<A: Amount> Parts<A> {
    pub(super) fn none() -> Self {
        let none = || A::number(0.0);
        Self {
            dense: none(),
            experts: none(),
            attention: none(),
            communication: none(),
            overhead: none(),
        }
    }

    pub(crate) fn sum(&self) -> A {
        self.dense.clone()
            + self.experts.clone()
            + self.attention.clone()
            + self.communication.clone()
            + self.overhead.clone()
    }

    /// With another so many times.
    pub(super) fn plus(self, other: Self, times: A) -> Self {
        Self {
            dense: self.dense + other.dense * times.clone(),
            experts: self.experts + other.experts * times.clone(),
            attention: self.attention + other.attention * times.clone(),
            communication: self.communication + other.communication * times.clone(),
            overhead: self.overhead + other.overhead * times,
        }
    }

    pub(crate) fn named(self) -> Self {
        let called = |of: A, name: &'static str| of.called(|| TermLabel::new(name, Unit::Seconds));
        let [dense, experts, attention, communication, overhead] = CAUSES;
        Self {
            dense: called(self.dense, dense),
            experts: called(self.experts, experts),
            attention: called(self.attention, attention),
            communication: called(self.communication, communication),
            overhead: called(self.overhead, overhead),
        }
    }
}

/// Evaluates step times of one setup.
#[derive(Debug, Clone)]
pub struct StepModel {
    pub(super) shape: Arc<StepShape>,
    /// Curves of its operators that were measured.
    pub(super) measured: Option<Arc<Measured>>,
    pub(super) rates: Rates,
    /// From what its constants were fitted.
    pub(super) fitted: Fitted,
    pub(super) peaks: Peaks,
    pub(super) links: Links,
    pub(super) layout: Layout,
    pub(super) hidden: f64,
    pub(super) tile_use: TileUse,
    /// Prompt tokens that engines pass to the first stage at once.
    pub(super) chunk: f64,
    pub(super) eager: bool,
    /// Steps of llama.cpp, which are made otherwise.
    local: Option<Local>,
}

impl StepModel {
    /// A setup's operators with the constants of its generation and engine version bucket.
    pub fn new(setup: &Setup<'_>, shape: Arc<StepShape>, constants: &Constants) -> Self {
        let place = constants.place_in(&setup.silicon(), setup.bucket.key, &shape.joint);
        let rates = Rates::new(setup, constants, place);
        let layout = setup.layout;
        let measured = shape.measured(setup, constants);
        Self {
            shape,
            measured,
            rates,
            fitted: Fitted::new(setup, place),
            peaks: Peaks::new(setup),
            links: Links::new(setup, constants, place),
            layout,
            hidden: setup.architecture.hidden as f64,
            tile_use: TileUse::new(
                f64::from(setup.device.units().unwrap_or(100)),
                rates.tile_exponent,
            ),
            chunk: setup.settings.batched_tokens.max(1) as f64,
            eager: setup.settings.eager,
            local: setup
                .engine_model()
                .is_local()
                .then(|| Local::new(setup, constants, place)),
        }
    }

    /// Seconds of a step; pipeline stages follow each other with their share of the batch.
    pub fn time(&self, batch: &Batch) -> StepTime {
        if let Some(local) = &self.local {
            return local.time(batch);
        }
        self.in_parts(batch, self.parts(), self.runs())
    }

    /// The time of a step with how it comes about: by operators, or by cause where steps are
    /// llama.cpp's, whose operators are timed as wholes.
    pub(crate) fn explained(&self, batch: &Batch) -> Parts<Term> {
        match &self.local {
            Some(local) => local.time(batch).told(LOCAL),
            None => self
                .in_parts(batch, self.parts(), self.kinds().into_iter())
                .named(),
        }
    }

    /// [`Self::through`] with how it comes about, by cause.
    pub(crate) fn through_explained(&self, batch: &Batch, chunks: f64) -> Term {
        if self.local.is_some() {
            let said = TermLabel::new("prefill in chunks", Unit::Seconds).digits(4);
            return Term::input(self.through(batch, chunks), || said.from(LOCAL));
        }
        let fitted = self.in_parts::<f64>(batch, 1.0, self.runs());
        self.piped(fitted.told(OPERATORS).sum(), batch, chunks)
    }

    /// Chunks that follow each other through all stages, each never faster than the device's peaks.
    fn piped<A: Amount>(&self, one: A, batch: &Batch, chunks: f64) -> A {
        let least = A::input(self.roofline_in_parts(batch, 1.0), || {
            TermLabel::new("least of the silicon", Unit::Seconds)
                .digits(4)
                .from("roofline of the chunk")
        });
        let factor = self.constant(Parameter::PrefillFactor, self.rates.prefill_factor);
        let one = (one * factor).or_more(least);
        let count = |value: f64, name: &'static str| {
            A::input(value, || {
                TermLabel::new(name, Unit::Number)
                    .digits(5)
                    .from("the layout and its batched tokens")
            })
        };
        if self.stages() <= 1.0 {
            return one * count(chunks, "chunks");
        }
        let stages = || count(self.stages(), "stages");
        one * (count(chunks, "chunks") + stages() - A::number(1.0)) / stages()
    }

    /// Seconds for `chunks` equal chunks of prompts to pass through all stages: the first passes
    /// them one by one, the others follow it a stage behind. Never faster than the device's peaks.
    pub fn through(&self, batch: &Batch, chunks: f64) -> f64 {
        if let Some(local) = &self.local {
            let least = self.roofline_in_parts(batch, 1.0);
            let piped = least * (chunks + self.stages() - 1.0) / self.stages();
            return local.through(batch, chunks).max(piped);
        }
        let one = self.in_parts::<f64>(batch, 1.0, self.runs()).total();
        self.piped(one, batch, chunks)
    }

    /// Engines that keep all stages busy work on a part of the batch in each; llama.cpp passes the
    /// whole batch from stage to stage.
    pub(crate) fn parts(&self) -> f64 {
        if self.local.is_none() {
            self.stages()
        } else {
            1.0
        }
    }

    /// Groups that compute attention for requests of their own.
    pub fn attention_groups(&self) -> u32 {
        self.layout.attention_data.max(1)
    }

    pub(super) fn stages(&self) -> f64 {
        f64::from(self.layout.pipeline.max(1))
    }

    pub fn sequence_seconds(&self) -> f64 {
        self.rates.step_sequence
    }

    /// Factor on prefill for what its parts do not show.
    pub fn prefill_factor(&self) -> f64 {
        self.rates.prefill_factor
    }
}
