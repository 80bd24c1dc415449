//! What a server's own metrics say of its traffic.

use super::{
    exposition::{Exposition, Sample},
    histogram::{Histogram, is_plausible},
    vocabulary::{Quantity, Vocabulary},
};
use std::collections::BTreeSet;

/// Why metrics say nothing of traffic.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ObservedError {
    /// No engine's metrics are among them.
    #[error(
        "no metric of a known engine is among the {0} that are there; looked for vllm:, sglang:, tgi_, nv_trt_llm_ and \
         llamacpp: (with `:` or `_`)"
    )]
    NoEngine(usize),
    #[error("these metrics are of {} models: {}; name one of them", .0.len(), .0.join(", "))]
    Models(Vec<String>),
    /// None of this model.
    #[error("these metrics say nothing of {wanted:?}; their models are {}", .known.join(", "))]
    NoModel { wanted: String, known: Vec<String> },
    /// The engine does not count requests or their lengths.
    #[error("{engine} counts no requests and no lengths here; {now}")]
    NoLengths {
        engine: &'static str,
        /// What it does say.
        now: String,
    },
    /// No request has ended.
    #[error("{engine} has served no request yet: every count is 0")]
    Idle { engine: &'static str },
}

/// A server's counts at one moment, or between two.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// The engine, as flags name it.
    pub engine: &'static str,
    /// The model, where it is told.
    pub model: Option<String>,
    pub requests: f64,
    /// Those that ended by reason, where told.
    pub reasons: Vec<(String, f64)>,
    /// Requests that failed, where counted.
    pub failed: Option<f64>,
    pub input: Option<Histogram>,
    pub output: Option<Histogram>,
    /// Mean tokens of prompts and outputs by counters alone, where there are no histograms.
    pub counted: (Option<f64>, Option<f64>),
    /// Tokens that requests allow at most.
    pub max_tokens: Option<Histogram>,
    /// Seconds to first token.
    pub ttft: Option<Histogram>,
    /// Seconds per output token after the first, by request.
    pub tpot: Option<Histogram>,
    /// Seconds between two tokens.
    pub itl: Option<Histogram>,
    /// Seconds from request to last token.
    pub end_to_end: Option<Histogram>,
    /// Seconds in the queue.
    pub queue: Option<Histogram>,
    /// Requests in batches now.
    pub running: Option<f64>,
    /// Requests in the queue now.
    pub waiting: Option<f64>,
    /// Share of the key-value cache in use now, mean over engines.
    pub cache_use: Option<f64>,
    /// Prompt tokens looked up and found in the prefix cache.
    pub prefix: Option<(f64, f64)>,
    /// Share of prompt tokens found there.
    pub prefix_hit: Option<f64>,
    /// Requests that lost their place.
    pub preempted: Option<f64>,
    /// Prompt tokens and generated tokens, of unfinished requests too.
    pub tokens: (Option<f64>, Option<f64>),
    /// The engine's longest context, where it says it.
    pub context: Option<f64>,
    /// When the server started, in seconds since 1970, where it says it.
    pub started: Option<f64>,
    /// When the page was taken, in seconds since 1970, where its samples say it.
    pub taken: Option<f64>,
}

/// Reads what a page says of one model's traffic.
///
/// # Errors
/// When no engine speaks, several models do and none is named, or there are no requests.
pub fn observe(page: &Exposition<'_>, model: Option<&str>) -> Result<Observed, ObservedError> {
    let engine = Vocabulary::spoken(page.samples.iter().map(|sample| sample.name.as_ref()))
        .ok_or(ObservedError::NoEngine(page.samples.len()))?;
    let model = chosen(page, engine, model)?;
    let reader = Reader {
        page,
        engine,
        model: model.as_deref(),
    };
    let observed = reader.all(model.clone());
    let counts_requests = observed.input.is_some()
        || observed.output.is_some()
        || reader.counter(Quantity::Finished).is_some();
    if !counts_requests {
        return Err(ObservedError::NoLengths {
            engine: engine.engine,
            now: now(&observed),
        });
    }
    if observed.requests <= 0.0 {
        return Err(ObservedError::Idle {
            engine: engine.engine,
        });
    }
    Ok(observed)
}

/// The model whose samples are read: the one that is named, or the only one.
fn chosen(
    page: &Exposition<'_>,
    engine: &Vocabulary,
    wanted: Option<&str>,
) -> Result<Option<String>, ObservedError> {
    let stem = engine.prefix.trim_end_matches([':', '_']);
    let of_engine = page.samples.iter().filter(|s| s.name.starts_with(stem));
    let known: BTreeSet<&str> = of_engine
        .filter_map(|sample| model_of(sample, engine))
        .collect();
    match wanted {
        Some(wanted) if known.contains(wanted) => Ok(Some(wanted.into())),
        Some(wanted) if !known.is_empty() => Err(ObservedError::NoModel {
            wanted: wanted.into(),
            known: known.into_iter().map(Into::into).collect(),
        }),
        Some(_) => Ok(None),
        None if known.len() > 1 => Err(ObservedError::Models(
            known.into_iter().map(Into::into).collect(),
        )),
        None => Ok(known.first().map(|name| (*name).into())),
    }
}

fn model_of<'a>(sample: &'a Sample<'_>, engine: &Vocabulary) -> Option<&'a str> {
    engine
        .model_labels
        .iter()
        .find_map(|label| sample.label(label))
        .filter(|name| !name.is_empty())
}

/// What the gauges say, in words.
fn now(observed: &Observed) -> String {
    let mut said = Vec::new();
    if let Some(running) = observed.running {
        said.push(format!("{running} running"));
    }
    if let Some(waiting) = observed.waiting {
        said.push(format!("{waiting} waiting"));
    }
    if let Some(share) = observed.cache_use {
        said.push(format!("{:.0} % of the KV cache in use", share * 100.0));
    }
    if said.is_empty() {
        "nothing else either".into()
    } else {
        format!("at that moment: {}", said.join(", "))
    }
}

struct Reader<'a, 'b> {
    page: &'a Exposition<'b>,
    engine: &'static Vocabulary,
    model: Option<&'a str>,
}

impl Reader<'_, '_> {
    fn is_wanted(&self, sample: &Sample<'_>) -> bool {
        match (self.model, model_of(sample, self.engine)) {
            (Some(wanted), Some(model)) => wanted == model,
            _ => true,
        }
    }

    fn histogram(&self, quantity: Quantity) -> Option<Histogram> {
        let named = self.engine.on_page(self.page, quantity, "_count")?;
        Histogram::of(self.page, &named.name, &|sample| self.is_wanted(sample))
    }

    fn samples(&self, quantity: Quantity) -> Option<Vec<&Sample<'_>>> {
        let named = self.engine.on_page(self.page, quantity, "")?;
        let samples: Vec<_> = self
            .page
            .samples
            .iter()
            .filter(|sample| {
                sample.name == named.name
                    && is_plausible(sample.value)
                    && self.is_wanted(sample)
                    && named
                        .label
                        .is_none_or(|(key, value)| sample.label(key) == Some(value))
            })
            .collect();
        (!samples.is_empty()).then_some(samples)
    }

    fn counter(&self, quantity: Quantity) -> Option<f64> {
        Some(self.samples(quantity)?.iter().map(|s| s.value).sum())
    }

    /// The mean over engines: a share does not add up.
    fn share(&self, quantity: Quantity) -> Option<f64> {
        let samples = self.samples(quantity)?;
        let mean = samples.iter().map(|s| s.value).sum::<f64>() / samples.len() as f64;
        // SGLang writes percent in some releases, a share in others.
        let share = if mean > 1.0 { mean / 100.0 } else { mean };
        (0.0..=1.0).contains(&share).then_some(share)
    }

    fn gauge(&self, name: &str) -> Option<f64> {
        let named = self.page.named(name);
        named
            .map(|sample| sample.value)
            .find(|value| is_plausible(*value) && *value > 0.0)
    }

    fn reasons(&self) -> Vec<(String, f64)> {
        let mut out: Vec<(String, f64)> = Vec::new();
        for sample in self.samples(Quantity::Finished).unwrap_or_default() {
            let Some(reason) = sample.label("finished_reason") else {
                continue;
            };
            match out.iter_mut().find(|(known, _)| known == reason) {
                Some((_, count)) => *count += sample.value,
                None => out.push((reason.into(), sample.value)),
            }
        }
        out
    }

    fn all(&self, model: Option<String>) -> Observed {
        let input = self.histogram(Quantity::PromptLength);
        let output = self.histogram(Quantity::OutputLength);
        let finished = self.counter(Quantity::Finished);
        let tokens = (
            self.counter(Quantity::PromptTokens),
            self.counter(Quantity::OutputTokens),
        );
        let end_to_end = self.histogram(Quantity::EndToEnd);
        let requests = [&input, &output, &end_to_end]
            .into_iter()
            .flatten()
            .map(|histogram| histogram.count)
            .next()
            .or(finished)
            .unwrap_or(0.0);
        let each = |tokens: Option<f64>| tokens.filter(|_| requests > 0.0).map(|t| t / requests);
        let queries = self
            .counter(Quantity::PrefixQueries)
            .or(tokens.0.filter(|_| self.engine.engine == "sglang"));
        let prefix = queries
            .zip(self.counter(Quantity::PrefixHits))
            .filter(|(queries, hits)| *queries > 0.0 && hits <= queries);
        Observed {
            engine: self.engine.engine,
            model,
            requests,
            reasons: self.reasons(),
            failed: self.counter(Quantity::Failed),
            counted: (each(tokens.0), each(tokens.1)),
            max_tokens: self.histogram(Quantity::MaxTokens),
            ttft: self.histogram(Quantity::Ttft),
            tpot: self.histogram(Quantity::Tpot),
            itl: self.histogram(Quantity::Itl),
            end_to_end,
            queue: self.histogram(Quantity::Queue),
            running: self.counter(Quantity::Running),
            waiting: self.counter(Quantity::Waiting),
            cache_use: self.share(Quantity::CacheUse),
            prefix_hit: prefix
                .map(|(queries, hits)| hits / queries)
                .or_else(|| self.share(Quantity::PrefixHitRate)),
            prefix,
            preempted: self.counter(Quantity::Preempted),
            tokens,
            context: self
                .gauge("sglang:context_len")
                .or_else(|| self.gauge("sglang_context_len")),
            started: self.gauge("process_start_time_seconds"),
            taken: self
                .page
                .samples
                .iter()
                .filter_map(|sample| sample.seconds.filter(|seconds| is_plausible(*seconds)))
                .reduce(f64::max),
            input,
            output,
        }
    }
}

impl Observed {
    /// What was counted since an earlier page of the same server. Gauges are those of now. `None`
    /// where the server started again between.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Option<Self> {
        let fewer = |now: Option<f64>, then: Option<f64>| match (now, then) {
            (Some(now), Some(then)) => Some((now - then).max(0.0)),
            (now, _) => now,
        };
        let histogram = |now: &Option<Histogram>, then: &Option<Histogram>| match (now, then) {
            (Some(now), Some(then)) => now.since(then),
            (now, _) => now.clone(),
        };
        let requests = self.requests - earlier.requests;
        let restarted = requests < 0.0
            || self
                .started
                .is_some_and(|now| earlier.started.is_some_and(|then| now > then + 1.0));
        if restarted || self.engine != earlier.engine {
            return None;
        }
        let tokens = (
            fewer(self.tokens.0, earlier.tokens.0),
            fewer(self.tokens.1, earlier.tokens.1),
        );
        let each = |tokens: Option<f64>| tokens.filter(|_| requests > 0.0).map(|t| t / requests);
        let prefix = match (self.prefix, earlier.prefix) {
            (Some((now, hits)), Some((then, before))) => Some((now - then, hits - before)),
            (now, _) => now,
        }
        .filter(|(queries, hits)| *queries > 0.0 && (0.0..=*queries).contains(hits));
        Some(Self {
            requests,
            reasons: self
                .reasons
                .iter()
                .map(|(reason, count)| {
                    let before = earlier.reasons.iter().find(|(known, _)| known == reason);
                    let before = before.map_or(0.0, |(_, count)| *count);
                    (reason.clone(), (count - before).max(0.0))
                })
                .collect(),
            failed: fewer(self.failed, earlier.failed),
            input: histogram(&self.input, &earlier.input),
            output: histogram(&self.output, &earlier.output),
            counted: (each(tokens.0), each(tokens.1)),
            max_tokens: histogram(&self.max_tokens, &earlier.max_tokens),
            ttft: histogram(&self.ttft, &earlier.ttft),
            tpot: histogram(&self.tpot, &earlier.tpot),
            itl: histogram(&self.itl, &earlier.itl),
            end_to_end: histogram(&self.end_to_end, &earlier.end_to_end),
            queue: histogram(&self.queue, &earlier.queue),
            prefix,
            prefix_hit: prefix.map_or(self.prefix_hit, |(queries, hits)| Some(hits / queries)),
            preempted: fewer(self.preempted, earlier.preempted),
            tokens,
            ..self.clone()
        })
    }
}
