//! Rows of published benchmarks about diffusion, vision and embedding models: what ran, under rules that are written in
//! `docs/decisions/0018-rows-of-diffusion-vision-embedding.md`.

use gpuwise_domain::{
    catalogue::Catalogue,
    gpu::Device,
    media::MediaBenchmark,
    network::Walk,
    precision::Compute,
    question::{Load, Question},
};
use gpuwise_size::media::{
    Constants, Machine, Numbers, Parameter, batch,
    memory::{Residence, largest_batch, memory, usable},
};

/// Inputs of a batch at most where a row does not say.
const MOST: u32 = 256;

/// The benchmark that a question is about; `None` where it is of another kind.
pub fn benchmark<'a>(
    question: &Question,
    benchmarks: &'a [MediaBenchmark],
) -> Option<&'a MediaBenchmark> {
    let named = question.extra("benchmark").unwrap_or(&question.model);
    benchmarks
        .iter()
        .filter(|benchmark| named.starts_with(benchmark.prefix.as_str()))
        .max_by_key(|benchmark| benchmark.prefix.len())
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Objective {
    /// Samples a second of all devices, as many at once as is best.
    Samples,
    /// The same under the benchmark's bound on latency.
    Served,
    /// Tokens a second that a decoder writes.
    Tokens {
        /// Tokens of a sample.
        each: f64,
    },
    /// Seconds of so many samples alone.
    Alone { samples: f64 },
}

/// A run understood: enough to predict its figure.
#[derive(Debug, Clone)]
pub struct Run<'a> {
    /// What one input costs.
    pub walk: &'a Walk,
    pub inputs: f64,
    pub device: Device<'a>,
    pub devices: u32,
    /// GPUs over which tables are spread.
    pub shards: u32,
    /// Inputs of a batch.
    pub batch: f64,
    pub numbers: Numbers,
    pub wanted: Objective,
}

/// A row as it is read, with what was read into it.
#[derive(Debug, Clone)]
pub struct Reading<'a> {
    pub run: Run<'a>,
    /// Why the row is answered and not fitted; empty where it is fitted.
    pub set_aside: String,
    /// Readings applied, in words.
    pub notes: Vec<String>,
}

/// Reads a row.
///
/// # Errors
/// In words, when its GPU is unknown, or its metric or scenario is not answered.
pub fn read<'a>(
    question: &Question,
    benchmark: &MediaBenchmark,
    walk: &'a Walk,
    catalogue: &'a Catalogue,
) -> Result<Reading<'a>, String> {
    let gpu = catalogue.gpu(&question.gpu).ok_or_else(|| {
        let like = catalogue.gpus_like(&question.gpu).join(", ");
        format!(
            "GPU {:?} is not in the catalogue; did you mean {like}?",
            question.gpu
        )
    })?;
    let wanted = wanted(question, benchmark)?;
    let mut notes = Vec::new();
    let mut numbers = numbers(question, benchmark, &mut notes);
    // A decoder in single precision is a reference implementation: one window after another.
    let reference = is_reference(numbers, wanted);
    numbers.compiled &= !reference;
    if gpu.peak.of(numbers.main).is_none() && gpu.peak.of(Compute::Half).is_none() {
        return Err(format!("the peak rates of {} are not known", gpu.name));
    }
    let set_aside = set_aside(question, numbers, wanted).unwrap_or_default();
    let format = numbers.main.name();
    notes.push(format!("{} multiplies in {format}", benchmark.network));
    let mut run = Run {
        walk,
        inputs: benchmark.inputs.max(1.0),
        device: Device::whole(gpu),
        devices: question.gpus.unwrap_or(1).max(1),
        shards: 1,
        batch: 1.0,
        numbers,
        wanted,
    };
    if reference {
        run.devices = 1;
        notes.push("a reference implementation: one window after another, on one GPU".into());
    } else {
        run.lay_out();
    }
    Ok(Reading {
        run,
        set_aside: set_aside.to_string(),
        notes,
    })
}

fn is_reference(numbers: Numbers, wanted: Objective) -> bool {
    matches!(wanted, Objective::Tokens { .. }) && numbers.main == Compute::Full
}

fn wanted(question: &Question, benchmark: &MediaBenchmark) -> Result<Objective, String> {
    let scenario = question
        .extra("scenario")
        .unwrap_or("offline")
        .to_ascii_lowercase();
    let samples = match scenario.as_str() {
        "singlestream" => 1.0,
        // A query of eight is dealt out to the GPUs.
        "multistream" => libm::ceil(8.0 / f64::from(question.gpus.unwrap_or(1).max(1))),
        _ => 0.0,
    };
    match question.metric.as_str() {
        "latency_p90" | "latency_p99" if benchmark.input.windows.is_some() => Err(
            "volumes differ in size, and how is not known: only the mean is told".into(),
        ),
        "latency_mean" | "latency_p90" | "latency_p99" if samples > 0.0 => {
            Ok(Objective::Alone { samples })
        }
        metric if metric.starts_with("latency") => Err(
            "the latency of a queue that was driven up to its bound says how it was driven, not what the GPU does"
                .into(),
        ),
        "sample_throughput" if scenario == "server" => Ok(Objective::Served),
        "sample_throughput" if question.load == Load::Unstated => Ok(Objective::Samples),
        "output_throughput" => question
            .output
            .map(|each| Objective::Tokens { each })
            .ok_or_else(|| "the row states no osl".into()),
        metric => Err(format!("{metric} is not answered for diffusion, vision and embedding models")),
    }
}

/// Compilers of networks; what else runs them is a framework.
const COMPILERS: [&str; 7] = [
    "tensorrt", "flax", "shark", "stage", "vllm", "untether", "jetpack",
];

fn numbers(question: &Question, benchmark: &MediaBenchmark, notes: &mut Vec<String>) -> Numbers {
    let label = question.precision.to_ascii_lowercase();
    // Labels of pipelines name the denoiser (`'unet': 'fp8'`) among others.
    let label = label
        .split([',', '{', '}'])
        .find_map(|part| {
            part.split_once("unet")
                .map(|(_, format)| format.to_string())
        })
        .unwrap_or(label);
    let labelled = if label.contains("fp8") || label.contains("float8") {
        Compute::Fp8
    } else if label.contains("int8") {
        Compute::Int8
    } else if label.contains("fp4") {
        Compute::Fp4
    } else if label.contains("fp32") {
        Compute::Full
    } else {
        Compute::Half
    };
    let main = match benchmark.compute {
        // A row that says single precision is no tuned submission.
        Some(compute) if labelled != Compute::Full => compute,
        _ => labelled,
    };
    if main != labelled {
        notes.push(format!(
            "labelled {}; the benchmark's bound on accuracy is kept in {}",
            labelled.name(),
            main.name()
        ));
    }
    let engine = question.engine.to_ascii_lowercase();
    Numbers {
        compiled: COMPILERS.iter().any(|name| engine.contains(name)) || engine.is_empty(),
        ..Numbers::of(main)
    }
}

/// Why a row is not fitted.
fn set_aside(question: &Question, numbers: Numbers, wanted: Objective) -> Option<&'static str> {
    if question.extra("division") == Some("open") {
        return Some("the open division may change the network");
    }
    if is_reference(numbers, wanted) {
        return Some("a decoder in single precision");
    }
    match wanted {
        Objective::Alone { .. } if question.metric != "latency_mean" => {
            Some("the tail of one stream is the host's")
        }
        _ => None,
    }
}

impl Run<'_> {
    /// The figure that is asked for, in SI units; `None` where there is none.
    pub fn figure(&self, constants: &Constants) -> Option<f64> {
        let mut machine = Machine::new(self.device, constants);
        machine.devices = self.shards;
        let seconds = batch(self.walk, self.batch, self.numbers, &machine);
        let samples = self.batch / self.inputs / seconds * f64::from(self.devices);
        let figure = match self.wanted {
            Objective::Samples => samples,
            Objective::Served => samples * constants.get(Parameter::Served, ""),
            Objective::Tokens { each } => samples * each,
            Objective::Alone { .. } => seconds,
        };
        (figure.is_finite() && figure > 0.0).then_some(figure)
    }

    /// Chooses the batch, and over how many devices tables are spread.
    fn lay_out(&mut self) {
        if let Objective::Alone { samples } = self.wanted {
            self.batch = samples * self.inputs;
            return;
        }
        let usable = usable(&self.device);
        let residence = Residence::default();
        let fits =
            |shards: u32| memory(self.walk, 1.0, self.numbers, shards, residence).total() <= usable;
        let mut shards = 1;
        while shards < self.devices && !fits(shards) {
            shards *= 2;
        }
        self.shards = shards.min(self.devices);
        let most = (f64::from(MOST) * self.inputs) as u32;
        let batch = largest_batch(
            self.walk,
            self.numbers,
            self.shards,
            residence,
            usable,
            most,
        );
        // Somebody ran it: where our sum says that it does not fit, batches are of one.
        self.batch = batch.map_or(1.0, f64::from);
    }
}
