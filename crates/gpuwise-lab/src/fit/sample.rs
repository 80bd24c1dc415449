//! Measured rows as samples: which are one question, what they weigh, and which belong together.

use super::Row;
use crate::answer::{Kind, Reading};
use gpuwise_domain::question::{Load, Question};
use gpuwise_size::{
    constants::Constants,
    knowledge::{Cell, MetricClass},
    memory::weight_kinds,
    metric::{Metric, Statistic},
};
use std::collections::BTreeMap;

/// A measured row and its reading.
#[derive(Debug, Clone)]
pub struct Sample<'a> {
    /// The table that it comes from.
    pub source: String,
    pub question: &'a Question,
    pub reading: Reading<'a>,
    /// The measured value in SI units.
    pub measured: f64,
}

gpuwise_units::named! {
    /// What is left out together.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
    pub enum LeaveOut:
        /// The word in flags and tables.
        name
    {
        /// All rows of a GPU
        Gpu = "gpu",
        /// All rows of an architecture family, quantized variants included
        Model = "model",
        /// All rows of an engine (as its constants are kept)
        Engine = "engine",
        /// A fifth of the configurations
        Configuration = "configuration",
        /// All rows of a table
        Source = "source",
    }
}

/// How many parts configurations are dealt into.
const CONFIGURATION_FOLDS: u64 = 5;
/// A deployment's rows weigh as much as this power of their number.
const CLUSTER_POWER: f64 = 0.3;
/// One row's weight against the priors: the inverse of the variance that rows are taken to have.
const ROW_PRECISION: f64 = 50.0;

impl Sample<'_> {
    /// Equal for rows that ask the same.
    pub fn identity(&self) -> String {
        format!("{}|{}", self.run(), self.question.metric)
    }

    /// Equal for rows that one run answers.
    pub fn run(&self) -> String {
        let kind = match self.reading.kind() {
            Kind::Batch => 'b',
            Kind::Prompt => 'p',
            Kind::Decode => 'd',
            Kind::Serving => 's',
        };
        let load = match &self.reading.load {
            Load::Unstated => String::from("-"),
            Load::InFlight(requests) => format!("{requests}"),
            Load::Rate(stages) => format!("{stages:?}"),
        };
        let q = self.question;
        format!(
            "{kind}|{}|{:?}|{:?}|{load}|{:?}",
            self.configuration(),
            self.reading.input,
            self.reading.output,
            q.extra
                .iter()
                .filter(|(key, _)| key != "note")
                .collect::<Vec<_>>()
        )
    }

    /// Equal for rows of one deployment.
    pub fn configuration(&self) -> String {
        let q = self.question;
        format!(
            "{}|{}|{:?}|{:?}|{:?}|{:?}|{}|{}|{:?}|{:?}|{:?}",
            q.model,
            q.gpu,
            q.gpus,
            q.tensor,
            q.pipeline,
            q.data,
            q.precision,
            q.engine,
            q.extra("moe_tp"),
            q.extra("moe_ep"),
            q.extra("mode"),
        )
    }

    /// The group in which it is left out.
    pub fn fold(&self, by: LeaveOut) -> String {
        match by {
            LeaveOut::Gpu => self.reading.setup.device.gpu.name.clone(),
            LeaveOut::Model => family(&self.reading.setup.architecture.model_type).to_string(),
            LeaveOut::Engine => self.reading.setup.bucket.key.into(),
            LeaveOut::Source => self.source.clone(),
            LeaveOut::Configuration => {
                let hash = self.configuration().bytes().fold(7u64, |hash, byte| {
                    hash.wrapping_mul(1_099_511_628_211) ^ u64::from(byte)
                });
                format!("part {}", (hash >> 7) % CONFIGURATION_FOLDS + 1)
            }
        }
    }

    /// Whether the measured time is shorter than reading the weights once for each step at the peak
    /// bandwidth, which no engine does without drafting.
    pub fn defies_physics(&self) -> bool {
        let setup = &self.reading.setup;
        let architecture = setup.architecture;
        if architecture.has_experts()
            || !architecture.prediction.is_empty()
            || setup.draft.is_some()
        {
            return false;
        }
        let steps = match self.reading.wanted {
            Metric::Tpot(Statistic::Mean) => 1.0,
            Metric::BatchLatency => (self.reading.output.unwrap_or(1.0) - 1.0).max(0.0),
            _ => return false,
        };
        let layers: f64 = weight_kinds(setup)
            .iter()
            .filter(|kind| matches!(kind.kind, "attention" | "MLP"))
            .map(|kind| kind.bytes)
            .sum();
        self.measured < steps * layers / setup.device.bandwidth().get()
    }

    /// What was measured together.
    pub fn cell(&self) -> Cell {
        Cell::of(&self.reading.setup, self.reading.regime())
    }

    pub fn class(&self) -> MetricClass {
        MetricClass::of(self.reading.wanted)
    }
}

/// The family of a `model_type`: what engines run by one implementation.
pub fn family(model_type: &str) -> &str {
    match model_type {
        "deepseek_v2" | "deepseek_v3" | "deepseek_v32" | "kimi_k2" => "deepseek",
        "llama" | "llama4" | "llama4_text" | "mistral" | "mixtral" => model_type,
        other => other.strip_suffix("_text").unwrap_or(other),
    }
}

/// What a row counts by its metric: what users set an SLO for and pay for counts most.
fn importance(class: MetricClass) -> f64 {
    match class {
        MetricClass::Tpot => 1.0,
        MetricClass::TpotTail => 0.7,
        MetricClass::Throughput | MetricClass::PromptSpeed | MetricClass::DecodeSpeed => 0.8,
        MetricClass::Ttft | MetricClass::BatchFirst => 0.4,
        MetricClass::TtftTail => 0.2,
        MetricClass::EndToEnd | MetricClass::Batch | MetricClass::BatchThroughput => 0.15,
    }
}

/// What a row counts by how it was made: static batches and submissions are not what users run.
fn likeness(sample: &Sample<'_>) -> f64 {
    match sample.reading.kind() {
        Kind::Batch => 0.35,
        Kind::Prompt | Kind::Decode => 0.4,
        Kind::Serving if sample.reading.slo.is_some() => 0.5,
        Kind::Serving if sample.question.extra("scenario").is_some() => 0.5,
        // Runs that state their engine, its settings and their load in full.
        Kind::Serving if sample.question.extra("multi_turn").is_some() => 4.0,
        Kind::Serving => 1.0,
    }
}

/// Rows for fitting, in the order of the samples.
pub fn rows(samples: &[Sample<'_>], constants: &Constants) -> Vec<Row> {
    let identities: Vec<String> = samples.iter().map(Sample::identity).collect();
    let clusters: Vec<String> = samples
        .iter()
        .map(|s| format!("{}|{}", s.configuration(), s.class().key()))
        .collect();
    let mut repeats: BTreeMap<&str, f64> = BTreeMap::new();
    for identity in &identities {
        *repeats.entry(identity).or_default() += 1.0;
    }
    let mut sizes: BTreeMap<&str, f64> = BTreeMap::new();
    for (cluster, identity) in clusters.iter().zip(&identities) {
        *sizes.entry(cluster).or_default() += 1.0 / repeats[identity.as_str()];
    }
    samples
        .iter()
        .enumerate()
        .map(|(at, sample)| {
            let setup = &sample.reading.setup;
            let joint = sample.cell().joint();
            let place = constants.place_in(&setup.silicon(), setup.bucket.key, &joint);
            let own = importance(sample.class()) * likeness(sample);
            let shared = repeats[identities[at].as_str()]
                * libm::pow(sizes[clusters[at].as_str()], CLUSTER_POWER);
            Row {
                generation: place.generation,
                bucket: place.bucket,
                joint: place.joint,
                weight: ROW_PRECISION * own / shared,
                target: libm::log(sample.measured),
            }
        })
        .collect()
}
