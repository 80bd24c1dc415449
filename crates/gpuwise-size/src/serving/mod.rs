//! From step times to what a user sees: time to first token, time per token, throughput.

mod closed;
mod disaggregated;
mod flow;
mod least;
mod mixed;
mod open;
mod run;
mod single;
mod stat;

pub use closed::{ClosedLoop, Latency};
pub use disaggregated::DisaggregatedLoad;
pub use flow::Gather;
pub use least::Least;
pub use open::{Largest, OpenLoop, Quantiles, RouterPeers, normal_quantile};
pub use stat::StaticBatch;

use crate::{
    constants::{Constants, Parameter as P},
    derive::{Amount, Term, TermLabel},
    knowledge::{Corrections, MeasuredPlace},
    setup::Setup,
    speed::{Batch, Peers, StepModel, StepShape},
};
use alloc::sync::Arc;
use gpuwise_domain::{derivation::Unit, layout::Layout};

/// Tokens of a decode step and sequence, and drafted tokens that a step checks beside them.
/// Where published recipes switch prediction layers on for models that have them, tables do not say
/// so; sweeps of some releases do throughout (`docs/decisions/0003-reading-rows.md`, rule 14).
fn drafting(setup: &Setup<'_>, unstated: f64, swept: f64) -> (f64, f64) {
    if let Some(draft) = setup.draft {
        return (draft.tokens_per_step(), f64::from(draft.tokens));
    }
    if setup.architecture.prediction.is_empty() || !setup.engine_model().recipes_draft() {
        return (1.0, 0.0);
    }
    let tokens = if setup.bucket.drafting_sweeps {
        swept
    } else {
        unstated
    };
    (tokens, 0.0)
}

/// How the tokens of a step are told.
const YIELDED: &str =
    "(1 − α^(k + 1)) ÷ (1 − α) of k drafted tokens that are accepted with probability α each";

/// Tokens of the requests that a group serves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lengths {
    /// Prompt tokens to compute (without cached ones).
    pub input: f64,
    /// Prompt tokens found in the prefix cache.
    pub cached: f64,
    pub output: f64,
}

impl Lengths {
    /// Mean context of a sequence while it decodes.
    pub(crate) fn context(&self) -> f64 {
        self.cached + self.input + self.output / 2.0
    }

    /// Tokens that take decode steps: all but the first.
    pub(crate) fn after_first(&self) -> f64 {
        (self.output - 1.0).max(0.0)
    }
}

/// The engine's cycle: steps, and how prompts enter them.
#[derive(Debug, Clone)]
pub struct Cycle {
    pub steps: StepModel,
    /// Prompt tokens of a step at most.
    chunk: f64,
    /// Whether prompts run in steps of their own, while decoding waits.
    prefill_first: bool,
    /// Seconds of a request outside of queues and steps: tokenizing, transport.
    front: f64,
    /// The same per prompt token.
    front_token: f64,
    /// Steps that a new request waits for where others decode.
    admit: f64,
    /// Seconds from a prefill worker to a decode worker, beside the cache's bytes.
    hand_over: f64,
    /// Rounds of a published sweep whose harness does not say.
    rounds: f64,
    /// Over which share of a cycle requests end that started together, one round after.
    scatter: f64,
    mixed: f64,
    /// Tokens that a sequence gains in a decode step.
    tokens_per_step: f64,
    /// Drafted tokens that a step checks for each sequence.
    drafted: f64,
    /// What a drafted token costs as a share of the model's step: one of its layers, where
    /// prediction layers draft.
    layer_share: f64,
    /// Steps of the model that drafts, where one does.
    draft_model: Option<StepModel>,
    /// What the user measured of its steps.
    corrections: Corrections,
    /// Sequences per GPU for each of a group.
    per_gpu: f64,
}

impl Cycle {
    pub fn new(setup: &Setup<'_>, shape: Arc<StepShape>, constants: &Constants) -> Self {
        let place = constants.place(&setup.silicon(), setup.bucket.key);
        let get = |parameter| constants.get(parameter, place);
        let (tokens_per_step, drafted) =
            drafting(setup, get(P::UnstatedSpeculation), get(P::SweptSpeculation));
        let draft_model = setup.drafter().map(|setup| {
            let shape = Arc::new(StepShape::new(&setup));
            StepModel::new(&setup, shape, constants)
        });
        Self {
            steps: StepModel::new(setup, shape, constants),
            chunk: setup.settings.batched_tokens as f64,
            prefill_first: setup.engine_model().prefills_first(),
            front: get(P::FrontEnd) * 1e-3,
            front_token: get(P::FrontToken) * 1e-6,
            admit: get(P::AdmitSteps),
            hand_over: get(P::HandOver) * 1e-3,
            rounds: get(P::Rounds).max(1.0),
            scatter: get(P::Scatter).min(1.0),
            mixed: get(P::MixedFactor),
            tokens_per_step,
            drafted,
            layer_share: if draft_model.is_some() {
                0.0
            } else {
                1.0 / (setup.architecture.layer_count() as f64).max(1.0)
            },
            draft_model,
            corrections: setup.corrections.clone(),
            per_gpu: f64::from(setup.layout.attention_data.max(1))
                / f64::from(setup.layout.replica_gpus().max(1)),
        }
    }

    /// The same with other factors on its steps.
    #[must_use]
    pub fn corrected(self, corrections: Corrections) -> Self {
        Self {
            corrections,
            ..self
        }
    }

    /// A place among the user's own rows, of a group in which so many decode.
    fn measured_at(&self, decodes: Option<f64>) -> MeasuredPlace {
        MeasuredPlace {
            load: decodes.map(|decodes| decodes.max(1.0) * self.per_gpu),
            ..MeasuredPlace::unknown(Layout::tensor(1))
        }
    }

    /// What the user's own rows make of a step that decodes so many sequences over a mean context, as a
    /// factor.
    pub(crate) fn measured_steps(&self, decodes: f64, context: f64) -> f64 {
        self.corrections.of_steps(&MeasuredPlace {
            context: Some(context),
            ..self.measured_at(Some(decodes))
        })
    }

    /// What they make of what prompts add to steps, by the context that their tokens attend to.
    pub(crate) fn measured_prompts(&self, context: f64) -> f64 {
        self.corrections.of_prompts(&MeasuredPlace {
            prompt_context: Some(context),
            ..self.measured_at(None)
        })
    }

    /// What they make of a wait for a first token that steps make so long.
    pub(crate) fn measured_waits(&self, modelled: &Latency, lengths: &Lengths) -> f64 {
        self.corrections.of_waits(&MeasuredPlace {
            prompt_context: Some(lengths.cached + lengths.input / 2.0),
            first: Some(modelled.ttft),
            ..self.measured_at(Some(modelled.running))
        })
    }

    /// A latency with its time to first token as they say; none beats the silicon.
    pub(crate) fn as_waited(&self, latency: Latency, lengths: &Lengths) -> Latency {
        let factor = self.measured_waits(&latency, lengths);
        let least = if factor < 1.0 {
            self.least(lengths).ttft.min(latency.ttft)
        } else {
            0.0
        };
        Latency {
            ttft: (latency.ttft * factor).max(least),
            ..latency
        }
    }

    /// Seconds of a decode step of `sequences` at a mean `context`.
    pub fn decode(&self, sequences: f64, context: f64) -> f64 {
        let step = self.step(&Batch {
            decodes: sequences,
            context,
            ..Batch::default()
        });
        self.per_token(step)
    }

    /// Seconds of a step that decodes: drafts, then the model that checks them.
    fn step(&self, batch: &Batch) -> f64 {
        let (step, least) = self.modelled(batch);
        (step * self.measured_steps(batch.decodes, batch.context)).max(least)
    }

    /// Seconds of a step of a batch as they are modelled, whatever was measured, and those that silicon
    /// takes for it at least.
    fn modelled(&self, batch: &Batch) -> (f64, f64) {
        let checked = Batch {
            decodes: batch.decodes * (1.0 + self.drafted),
            ..*batch
        };
        let (step, least) = self.bounded(&checked);
        (step + self.drafts(batch), least)
    }

    /// Seconds of a step of the model alone, and those that silicon takes for it at least.
    fn bounded(&self, batch: &Batch) -> (f64, f64) {
        let least = self.steps.roofline(batch);
        (self.steps.time(batch).total().max(least), least)
    }

    /// Seconds of a step that the model which drafts takes: it reads prompts with the first token
    /// that it drafts, and takes a step of its own for each further one.
    fn drafts(&self, batch: &Batch) -> f64 {
        let Some(model) = &self.draft_model else {
            return 0.0;
        };
        let further = Batch {
            decodes: batch.decodes,
            context: batch.context,
            ..Batch::default()
        };
        model.time(batch).total() + (self.drafted - 1.0) * model.time(&further).total()
    }

    /// Seconds of a decode step of `sequences` at a mean `context` that the model which drafts
    /// takes; `None` where none does.
    pub(crate) fn drafting(&self, sequences: f64, context: f64) -> Option<f64> {
        let batch = Batch {
            decodes: sequences,
            context,
            ..Batch::default()
        };
        self.draft_model.as_ref().map(|_| self.drafts(&batch))
    }

    /// Seconds of a step over the tokens that it yields; each drafted token passes one prediction
    /// layer first, where no other model drafts.
    fn per_token(&self, step: f64) -> f64 {
        self.token_of(step)
    }

    /// The same, computed or explained.
    pub(crate) fn token_of<A: Amount>(&self, step: A) -> A {
        let input = |value: f64, name: &'static str, source: &'static str| {
            A::input(value, || {
                TermLabel::new(name, Unit::Number).digits(4).from(source)
            })
        };
        let yielded = match self.tokens_per_step {
            tokens if tokens <= 1.0 => A::number(1.0),
            tokens => input(tokens, "tokens a step", YIELDED),
        };
        if self.drafted * self.layer_share <= 0.0 {
            return step / yielded;
        }
        let drafted = input(self.drafted, "drafted tokens a step", "as asked");
        let layer = input(
            self.layer_share,
            "share of a prediction layer",
            "one of the model's layers",
        );
        step * (A::number(1.0) + drafted * layer) / yielded
    }

    /// Seconds to compute `tokens` of prompts, `context` of them cached before, with no decoding.
    pub fn prefill(&self, prompts: f64, tokens: f64, cached: f64) -> f64 {
        let all = prompts * tokens;
        let steps = libm::ceil(all / self.chunk).max(1.0);
        let chunk = Batch {
            prefill: all / steps,
            prefill_context: cached + tokens / 2.0,
            finished: prompts / steps,
            ..Batch::default()
        };
        self.prefill_in(&chunk, steps)
    }

    /// Seconds to compute one prompt while the other attention groups of the replica have none.
    pub(crate) fn prefill_alone(&self, tokens: f64, cached: f64) -> f64 {
        let (chunk, steps) = self.alone(tokens, cached);
        self.prefill_in(&chunk, steps)
    }

    /// The chunks of such a prompt, and how many they are.
    fn alone(&self, tokens: f64, cached: f64) -> (Batch, f64) {
        let steps = libm::ceil(tokens / self.chunk).max(1.0);
        let chunk = Batch {
            prefill: tokens / steps,
            prefill_context: cached + tokens / 2.0,
            finished: 1.0 / steps,
            peers: Peers::Tokens(tokens / steps),
            ..Batch::default()
        };
        (chunk, steps)
    }

    /// Seconds of so many equal chunks.
    fn prefill_in(&self, chunk: &Batch, steps: f64) -> f64 {
        let through = |model: &StepModel| model.through(chunk, steps);
        let all = through(&self.steps) + self.draft_model.as_ref().map_or(0.0, through);
        let measured = self.measured_prompts(chunk.prefill_context);
        if measured >= 1.0 {
            return all * measured;
        }
        let least = self.steps.computing_at_peak(chunk) * steps;
        (all * measured).max(least.min(all))
    }

    /// Seconds that a request with so many prompt tokens spends outside of queues and steps.
    pub fn fronted(&self, tokens: f64) -> f64 {
        self.front_of(tokens)
    }

    /// The same, computed or explained.
    pub(crate) fn front_of<A: Amount>(&self, tokens: f64) -> A {
        let tokens = A::input(tokens, || {
            TermLabel::new("prompt tokens", Unit::Tokens)
                .digits(6)
                .from("the mean request, without what is cached")
        });
        self.steps.constant::<A>(P::FrontEnd, self.front)
            + self.steps.constant::<A>(P::FrontToken, self.front_token) * tokens
    }

    /// [`Self::prefill_alone`] with how it comes about.
    pub(crate) fn prefill_explained(&self, tokens: f64, cached: f64) -> Term {
        let (chunk, steps) = self.alone(tokens, cached);
        let own = self.steps.through_explained(&chunk, steps);
        let all = match &self.draft_model {
            Some(model) => {
                let seconds = model.through(&chunk, steps);
                let said = TermLabel::new("prefill by the draft model", Unit::Seconds);
                own + Term::input(seconds, || said.digits(4).from("its own steps"))
            }
            None => own,
        };
        as_measured(all, self.measured_prompts(chunk.prefill_context))
    }

    /// Seconds that a request takes from a prefill worker to a decode worker, beside the bytes of its
    /// cache.
    pub fn hand_over(&self) -> f64 {
        self.hand_over
    }

    /// Requests of a published sweep over those in flight, where its harness does not say.
    pub fn rounds(&self) -> f64 {
        self.rounds
    }

    /// Whether prompts have steps of their own, before any answer goes on.
    pub(crate) fn prefills_first(&self) -> bool {
        self.prefill_first
    }
}

/// A time by what the user's own rows make of it, as it is explained.
pub(crate) fn as_measured(derived: Term, factor: f64) -> Term {
    if factor.to_bits() == 1.0_f64.to_bits() {
        return derived;
    }
    derived
        * Term::input(factor, || {
            TermLabel::new("your measured rows", Unit::Number)
                .digits(6)
                .from("rows near this deployment, over what was derived")
        })
}
