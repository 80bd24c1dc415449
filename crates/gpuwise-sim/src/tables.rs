//! An engine as tables of its step times: for simulations of weeks, in which steps are not run one by one.

use crate::{
    cost::{StepCost, StepWork},
    engine::{Policy, Role, Settings},
};
use gpuwise_scale::step::{Engine, Grid};

/// What requests are like, as far as step times ask.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usual {
    /// Mean tokens of a prompt, and the share of prompts that is in the cache already.
    pub prompt: f64,
    pub cached: f64,
}

/// Picoseconds of a second.
const SECOND: f64 = 1e12;
/// The mean context at which tables begin; each further one is twice as long.
const CONTEXT: u32 = 64;

/// Why an engine has no tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoTables {
    #[error("prompts are computed on machines of their own, which one table does not hold")]
    Disaggregated,
}

/// The tables of an engine, for all of its ranks together.
///
/// With speculation a step is divided by the tokens that it yields in the mean, so that each sequence decodes one token
/// a step. SGLang computes prompts in steps of their own: they add what they take alone.
///
/// # Errors
/// When prompts are computed elsewhere.
pub fn tables(
    settings: &Settings,
    cost: &mut dyn StepCost,
    usual: Usual,
) -> Result<Engine, NoTables> {
    if settings.role != Role::Whole {
        return Err(NoTables::Disaggregated);
    }
    let ranks = settings.ranks.max(1);
    let (drafts, yields) = settings.speculation.as_ref().map_or((0, 1.0), |one| {
        let each = (0..=one.drafts).map(|at| libm::pow(one.acceptance, f64::from(at)));
        (one.drafts, each.sum())
    });
    let most = settings.max_sequences.max(1);
    let mut asked = Asked {
        cost,
        ranks,
        drafts,
        prompt: usual.prompt.max(1.0),
        apart: matches!(settings.policy, Policy::Sglang(_)),
    };
    let sequences: Vec<u32> = doubled(1, most);
    let contexts = doubled(CONTEXT, settings.max_context.max(CONTEXT));
    let step_tokens = settings.max_batched_tokens.max(1);
    let chunks = doubled(16.min(step_tokens), step_tokens);
    let decode = |asked: &mut Asked<'_>, count: u32| {
        let each = contexts.iter().map(|context| match count {
            0 => 0.0,
            count => asked.decode(count, *context) / yields,
        });
        each.collect::<Vec<f64>>()
    };
    let prompts = |asked: &mut Asked<'_>, count: u32| {
        let none = std::iter::once(0.0);
        let each = chunks.iter().map(|tokens| asked.prompts(count, *tokens));
        none.chain(each).collect::<Vec<f64>>()
    };
    let all = |count: u32| f64::from(count * ranks);
    let none = std::iter::once(0);
    let rows: Vec<u32> = none.chain(sequences).collect();
    Ok(Engine {
        decode: Grid {
            rows: rows.iter().map(|count| all(*count)).collect(),
            columns: contexts.iter().map(|context| f64::from(*context)).collect(),
            values: rows
                .iter()
                .map(|count| decode(&mut asked, *count))
                .collect(),
        },
        prompts: Grid {
            rows: rows.iter().map(|count| all(*count)).collect(),
            columns: std::iter::once(0.0)
                .chain(chunks.iter().map(|tokens| all(*tokens)))
                .collect(),
            values: rows
                .iter()
                .map(|count| prompts(&mut asked, *count))
                .collect(),
        },
        cache: settings.cache.blocks as f64
            * f64::from(settings.cache.block_tokens)
            * f64::from(ranks),
        sequences: most.saturating_mul(ranks),
        step_tokens: all(step_tokens),
        cached: usual.cached,
    })
}

/// Rising, each twice the one before, the last one included.
fn doubled(first: u32, last: u32) -> Vec<u32> {
    let mut all = Vec::new();
    let mut next = first;
    while next < last {
        all.push(next);
        next = next.saturating_mul(2);
    }
    all.push(last);
    all
}

/// Step times are asked of one rank, whose others do as much.
struct Asked<'a> {
    cost: &'a mut dyn StepCost,
    ranks: u32,
    drafts: u32,
    prompt: f64,
    apart: bool,
}

impl Asked<'_> {
    /// Seconds of a step in which so many sequences of a rank decode.
    fn decode(&mut self, count: u32, context: u32) -> f64 {
        let tokens = count.saturating_mul(1 + self.drafts);
        let all = u64::from(count) * u64::from(context);
        let replica = u64::from(tokens) * u64::from(self.ranks);
        let step = self.cost.decode(tokens, all, replica).at(all);
        step.get() as f64 / SECOND
    }

    /// Seconds that so many tokens of prompts add to it.
    fn prompts(&mut self, count: u32, tokens: u32) -> f64 {
        let count = if self.apart { 0 } else { count };
        let decodes = count.saturating_mul(1 + self.drafts);
        // The mean context of who decodes beside prompts hardly matters for what these add.
        let context = u64::from(count) * self.prompt as u64;
        let work = StepWork {
            decodes,
            context,
            prefill: tokens,
            prefill_context: (f64::from(tokens) * self.prompt / 2.0) as u64,
            finished: (f64::from(tokens) / self.prompt).ceil() as u32,
        };
        let replica = u64::from(decodes + tokens) * u64::from(self.ranks);
        let with = self.cost.mixed(&work, replica).get() as f64 / SECOND;
        if decodes == 0 {
            return with;
        }
        let replica = u64::from(decodes) * u64::from(self.ranks);
        let alone = self.cost.decode(decodes, context, replica);
        (with - alone.at(context).get() as f64 / SECOND).max(0.0)
    }
}
