//! What serving engines say of themselves on a page of metrics, replica by replica.

use crate::metrics::{Exposition, Quantity, Sample, VOCABULARIES, Vocabulary};
use gpuwise_domain::telemetry::{ServingSample, UnusedField};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// The engines that speak on a page.
pub(super) struct Engines {
    spoken: Vec<&'static Vocabulary>,
}

/// Labels that tell replicas apart.
const REPLICA: &[&str] = &[
    "instance",
    "exported_pod",
    "pod",
    "engine",
    "dp_rank",
    "engine_type",
    "version",
];

impl Engines {
    pub(super) fn of(page: &Exposition<'_>) -> Self {
        let spoken = VOCABULARIES
            .iter()
            .filter(|vocabulary| {
                page.samples
                    .iter()
                    .any(|sample| vocabulary.owns(&sample.name))
            })
            .collect();
        Self { spoken }
    }

    /// Whether a metric is one of an engine's.
    pub(super) fn own(&self, metric: &str) -> bool {
        self.spoken.iter().any(|one| one.owns(metric))
    }

    /// What they say, and their metrics that are not used here.
    pub(super) fn samples(&self, page: &Exposition<'_>) -> (Vec<ServingSample>, Vec<UnusedField>) {
        let mut found = BTreeMap::new();
        let mut unread: BTreeMap<&str, (u64, f64)> = BTreeMap::new();
        for vocabulary in &self.spoken {
            let spellings = Spellings::of(vocabulary);
            for sample in &page.samples {
                if !vocabulary.owns(&sample.name) {
                    continue;
                }
                let Some((quantity, part, rank)) = spellings.find(sample) else {
                    unread
                        .entry(family(&sample.name))
                        .or_insert((0, sample.value))
                        .0 += 1;
                    continue;
                };
                let key = (
                    vocabulary.engine,
                    model(sample, vocabulary),
                    replica(sample),
                );
                let group: &mut Group = found.entry(key).or_default();
                group.add(quantity, part, rank, sample);
            }
        }
        let samples = found
            .into_iter()
            .map(|((engine, model, replica), group)| group.sample(engine, model, replica))
            .collect();
        let unread = unread
            .into_iter()
            .map(|(field, (count, example))| UnusedField {
                field: field.into(),
                count,
                example: example.to_string(),
                problem: None,
            })
            .collect();
        (samples, unread)
    }
}

/// Whether a metric is a serving engine's.
pub fn is_engine_metric(metric: &str) -> bool {
    VOCABULARIES.iter().any(|one| one.owns(metric))
}

/// What serving engines say of themselves among these samples, replica by replica.
pub fn serving_samples(page: &Exposition<'_>) -> Vec<ServingSample> {
    Engines::of(page).samples(page).0
}

/// All names under which an engine may tell what is read here; for queries.
pub fn engine_metrics() -> Vec<String> {
    let mut names = Vec::new();
    for vocabulary in VOCABULARIES {
        for quantity in READ {
            for named in vocabulary.spelled(*quantity) {
                if *quantity == Quantity::Queue {
                    names.push(format!("{}_sum", named.name));
                    names.push(format!("{}_count", named.name));
                } else {
                    names.push(named.name);
                }
            }
        }
    }
    names.sort_unstable();
    names.dedup();
    names
}

/// A histogram's name without `_bucket`, so that its buckets are listed once.
pub(super) fn family(name: &str) -> &str {
    name.strip_suffix("_bucket").unwrap_or(name)
}

fn model(sample: &Sample<'_>, vocabulary: &Vocabulary) -> Option<String> {
    vocabulary
        .model_labels
        .iter()
        .find_map(|label| sample.label(label))
        .map(str::to_owned)
}

fn replica(sample: &Sample<'_>) -> String {
    let parts: Vec<&str> = REPLICA
        .iter()
        .filter_map(|label| sample.label(label))
        .filter(|text| !text.is_empty())
        .collect();
    parts.join(" ")
}

/// Which part of a quantity a sample is: a plain value, or a histogram's sum or count.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Value,
    Sum,
    Count,
}

/// Every spelling of an engine's quantities, with its rank: the first of several that is there counts.
struct Spellings {
    names: FxHashMap<String, Vec<Spelling>>,
}

/// A quantity, the label that picks it where it needs one, and the rank of the spelling.
type Spelling = (Quantity, Option<(&'static str, &'static str)>, usize);

const READ: &[Quantity] = &[
    Quantity::Running,
    Quantity::Waiting,
    Quantity::CacheUse,
    Quantity::PrefixQueries,
    Quantity::PrefixHits,
    Quantity::PrefixHitRate,
    Quantity::PromptTokens,
    Quantity::OutputTokens,
    Quantity::Finished,
    Quantity::Preempted,
    Quantity::Evicted,
    Quantity::EmptySlots,
    Quantity::FullSlots,
    Quantity::Queue,
];

impl Spellings {
    fn of(vocabulary: &'static Vocabulary) -> Self {
        let mut names: FxHashMap<String, Vec<_>> = FxHashMap::default();
        for quantity in READ {
            for (rank, named) in vocabulary.spelled(*quantity).into_iter().enumerate() {
                names
                    .entry(named.name)
                    .or_default()
                    .push((*quantity, named.label, rank));
            }
        }
        Self { names }
    }

    fn find(&self, sample: &Sample<'_>) -> Option<(Quantity, Part, usize)> {
        let of = |name: &str, part: Part| {
            self.names
                .get(name)?
                .iter()
                .find_map(|(quantity, label, rank)| {
                    let is_histogram = *quantity == Quantity::Queue;
                    let right = label.is_none_or(|(key, text)| sample.label(key) == Some(text))
                        && is_histogram == (part != Part::Value);
                    right.then_some((*quantity, part, *rank))
                })
        };
        let name = sample.name.as_ref();
        of(name, Part::Value)
            .or_else(|| of(name.strip_suffix("_sum")?, Part::Sum))
            .or_else(|| of(name.strip_suffix("_count")?, Part::Count))
    }
}

/// Samples of one replica.
#[derive(Default)]
struct Group {
    /// By quantity and part: rank of the spelling, and sum of the samples under it.
    values: BTreeMap<(Quantity, Part), (usize, f64)>,
    at: Option<f64>,
}

impl Group {
    fn add(&mut self, quantity: Quantity, part: Part, rank: usize, sample: &Sample<'_>) {
        if !sample.value.is_finite() {
            return;
        }
        self.at = self.at.or(sample.seconds);
        let slot = self.values.entry((quantity, part)).or_insert((rank, 0.0));
        match rank.cmp(&slot.0) {
            // Several samples under one name: reasons of ends, ranks of a group.
            core::cmp::Ordering::Equal => slot.1 += sample.value,
            core::cmp::Ordering::Less => *slot = (rank, sample.value),
            core::cmp::Ordering::Greater => {}
        }
    }

    fn sample(&self, engine: &str, model: Option<String>, replica: String) -> ServingSample {
        let of = |quantity, part| self.values.get(&(quantity, part)).map(|(_, value)| *value);
        let value = |quantity| of(quantity, Part::Value);
        let queued = of(Quantity::Queue, Part::Sum).zip(of(Quantity::Queue, Part::Count));
        ServingSample {
            engine: engine.into(),
            model,
            replica,
            at: self.at,
            running: value(Quantity::Running),
            waiting: value(Quantity::Waiting),
            cache_use: value(Quantity::CacheUse),
            prefix_queries: value(Quantity::PrefixQueries),
            prefix_hits: value(Quantity::PrefixHits),
            prefix_hit_rate: value(Quantity::PrefixHitRate),
            preempted: value(Quantity::Preempted),
            evicted: value(Quantity::Evicted),
            prompt_tokens: value(Quantity::PromptTokens),
            output_tokens: value(Quantity::OutputTokens),
            finished: value(Quantity::Finished),
            queued,
            padding: value(Quantity::EmptySlots)
                .zip(value(Quantity::FullSlots))
                .map(|(empty, full)| (empty, empty + full)),
        }
    }
}
