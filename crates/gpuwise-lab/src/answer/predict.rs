//! The central figure of an answer.

use super::reading::{Pool, Reading};
use gpuwise_domain::question::Load;
use gpuwise_size::metric::{Metric, Statistic};
use gpuwise_size::{
    constants::{Constants, Parameter as P},
    knowledge::{Knowledge, Regime},
    serving::{
        ClosedLoop, Cycle, DisaggregatedLoad, Latency, Lengths, OpenLoop, Quantiles, StaticBatch,
    },
};

/// What a run comes to: every figure of one configuration and load follows from it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Outcome {
    /// A static batch: seconds to its first tokens, and to its end.
    Batch {
        /// Requests of one attention group.
        size: f64,
        /// Seconds until it has its first tokens.
        first: f64,
        /// Seconds until it is done.
        total: f64,
    },
    /// Tokens a second of one stream.
    Speed(f64),
    /// A closed loop's means, for one attention group.
    Closed(Latency),
    /// An open loop's distribution, for one attention group.
    Open(Quantiles),
    /// A run driven up to an SLO, and the share of it that the mean time per token takes.
    WithinSlo(Latency, f64),
}

/// How a reading is solved; readings of one configuration, load and kind share an [`Outcome`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Batch,
    Prompt,
    Decode,
    Serving,
}

impl Reading<'_> {
    /// The same, its steps corrected by what the user measured of a model of this name.
    #[must_use]
    pub fn corrected(self, knowledge: &Knowledge, model: &str) -> Self {
        let prefill = self.prefill.map(|pool| Pool {
            setup: knowledge.corrected(pool.setup, model),
            ..pool
        });
        Self {
            setup: knowledge.corrected(self.setup, model),
            prefill,
            ..self
        }
    }

    pub fn kind(&self) -> Kind {
        match self.wanted {
            Metric::BatchLatency | Metric::BatchThroughput | Metric::BatchFirstToken => Kind::Batch,
            Metric::PromptSpeed => Kind::Prompt,
            Metric::DecodeSpeed => Kind::Decode,
            _ if self.is_static() => Kind::Batch,
            _ => Kind::Serving,
        }
    }

    /// How its work comes.
    pub fn regime(&self) -> Regime {
        match self.kind() {
            Kind::Batch | Kind::Prompt | Kind::Decode => Regime::Batch,
            Kind::Serving => Regime::Served,
        }
    }

    /// Whether a stated number of requests is a batch that starts and ends together: the harness of
    /// TensorRT-LLM until 2024 times nothing else.
    fn is_static(&self) -> bool {
        matches!(self.load, Load::InFlight(_)) && self.setup.bucket.static_batches
    }

    /// Attention groups of all replicas.
    pub(crate) fn groups(&self) -> f64 {
        let layout = self.setup.layout;
        f64::from(layout.attention_data.max(1)) * f64::from(layout.replicas.max(1))
    }
}

/// The figure asked for, in SI units (seconds, tokens or requests a second).
pub fn predict(reading: &Reading<'_>, constants: &Constants) -> Option<f64> {
    Some(figure(reading, &solve(reading, constants)?, constants))
}

/// Solves a reading; `None` where it lacks lengths.
pub fn solve(reading: &Reading<'_>, constants: &Constants) -> Option<Outcome> {
    let cycle = Cycle::new(&reading.setup, reading.shape.clone(), constants);
    let groups = reading.groups();
    match reading.kind() {
        Kind::Batch => {
            let batch = batch(reading, groups)?;
            Some(Outcome::Batch {
                size: batch.size,
                first: batch.first_token(&cycle),
                total: batch.total(&cycle),
            })
        }
        Kind::Prompt => {
            let tokens = reading.input?;
            Some(Outcome::Speed(tokens / cycle.prefill(1.0, tokens, 0.0)))
        }
        Kind::Decode => Some(Outcome::Speed(
            1.0 / cycle.decode(1.0, reading.output? / 2.0),
        )),
        Kind::Serving => match &reading.load {
            Load::InFlight(requests) => Some(Outcome::Closed(match &reading.prefill {
                None => closed(reading, &cycle, requests / groups)?,
                Some(pool) => disaggregated(reading, &cycle, pool, *requests, groups, constants)?,
            })),
            Load::Rate(_) if reading.slo.is_some() => {
                let (latency, share) = saturated(reading, &cycle, constants)?;
                Some(Outcome::WithinSlo(latency, share))
            }
            Load::Rate(stages) => {
                let rate = stages.iter().sum::<f64>() / stages.len().max(1) as f64;
                Some(Outcome::Open(open(reading, &cycle, rate / groups)?))
            }
            Load::Unstated => Some(Outcome::Closed(saturated(reading, &cycle, constants)?.0)),
        },
    }
}

pub fn figure(reading: &Reading<'_>, outcome: &Outcome, constants: &Constants) -> f64 {
    let groups = reading.groups();
    let (input, output) = (reading.input.unwrap_or(0.0), reading.output.unwrap_or(1.0));
    match *outcome {
        Outcome::Batch { size, first, total } => match reading.wanted {
            Metric::BatchFirstToken | Metric::Ttft(_) => first,
            Metric::BatchThroughput | Metric::TotalThroughput => {
                (input + output) * size * groups / total
            }
            Metric::OutputThroughputPerGpu => {
                output * size * groups / total / f64::from(reading.gpus.max(1))
            }
            Metric::OutputThroughput => output * size * groups / total,
            Metric::RequestThroughput => size * groups / total,
            Metric::Tpot(_) => (total - first) / (output - 1.0).max(1.0),
            _ => total,
        },
        Outcome::Speed(speed) => speed,
        Outcome::Closed(latency) => of_closed(
            reading.wanted,
            &latency,
            (input, output),
            groups,
            reading.gpus,
        ),
        Outcome::Open(quantiles) => of_open(
            reading.wanted,
            &quantiles,
            (input, output),
            groups,
            reading.gpus,
        ),
        Outcome::WithinSlo(latency, share) => of_slo(reading, &latency, share, constants),
    }
}

/// Between which values silicon allows the figure, in SI units.
pub(crate) fn limits(reading: &Reading<'_>, constants: &Constants) -> (f64, f64) {
    let free = (0.0, f64::INFINITY);
    // Prompts of a disaggregated deployment are computed by others.
    let (None, Some(lengths)) = (&reading.prefill, lengths(reading)) else {
        return free;
    };
    let cycle = Cycle::new(&reading.setup, reading.shape.clone(), constants);
    let least = cycle.least(&lengths);
    let requests = reading.groups() / least.work.max(1e-12);
    let answer = lengths.output;
    match reading.wanted {
        Metric::Ttft(Statistic::Mean) => (least.ttft, f64::INFINITY),
        Metric::Tpot(Statistic::Mean) => (least.tpot, f64::INFINITY),
        Metric::EndToEnd(Statistic::Mean) => (
            least.ttft + (answer - 1.0).max(0.0) * least.tpot,
            f64::INFINITY,
        ),
        Metric::RequestThroughput => (0.0, requests),
        Metric::OutputThroughput => (0.0, requests * answer),
        Metric::OutputThroughputPerGpu => (0.0, requests * answer / f64::from(reading.gpus.max(1))),
        Metric::TotalThroughput | Metric::BatchThroughput => {
            (0.0, requests * (lengths.input + answer))
        }
        _ => free,
    }
}

/// Sequences that decode at once per GPU; `None` where the outcome has no finite number of them.
pub(crate) fn decoding(reading: &Reading<'_>, outcome: &Outcome) -> Option<f64> {
    let groups = match outcome {
        Outcome::Batch { size, .. } => size * reading.groups(),
        Outcome::Speed(_) => 1.0,
        Outcome::Closed(latency) | Outcome::WithinSlo(latency, _) => {
            latency.running * reading.groups()
        }
        Outcome::Open(quantiles) => quantiles.mean.running * reading.groups(),
    };
    let each = groups / f64::from(reading.gpus.max(1));
    (each.is_finite() && each > 0.0).then_some(each)
}

fn batch(reading: &Reading<'_>, groups: f64) -> Option<StaticBatch> {
    let Load::InFlight(size) = reading.load else {
        return None;
    };
    Some(StaticBatch {
        size: size / groups,
        input: reading.input?,
        output: reading.output.unwrap_or(1.0),
        capacity: reading.capacity,
    })
}

fn lengths(reading: &Reading<'_>) -> Option<Lengths> {
    Some(Lengths {
        input: reading.input?,
        cached: 0.0,
        output: reading.output?,
    })
}

fn closed(reading: &Reading<'_>, cycle: &Cycle, concurrency: f64) -> Option<Latency> {
    let one = ClosedLoop {
        concurrency: concurrency.max(1.0),
        lengths: lengths(reading)?,
        capacity: reading.capacity,
        one_length: reading.run.one_length,
        output_variation: reading.run.output_variation,
        gather: reading.run.gather,
        requests: match reading.load {
            Load::InFlight(all) => rounds(reading, cycle, all).map(|rounds| rounds * concurrency),
            _ => None,
        },
    };
    Some(one.solve(cycle))
}

/// Requests of the run over those in flight, where it ends.
fn rounds(reading: &Reading<'_>, cycle: &Cycle, in_flight: f64) -> Option<f64> {
    let unsaid = || reading.run.ends_unsaid.then(|| cycle.rounds());
    reading
        .run
        .requests
        .map(|run| run / in_flight)
        .or_else(unsaid)
}

fn disaggregated(
    reading: &Reading<'_>,
    cycle: &Cycle,
    pool: &Pool<'_>,
    requests: f64,
    groups: f64,
    constants: &Constants,
) -> Option<Latency> {
    let prefill = Cycle::new(&pool.setup, pool.shape.clone(), constants);
    let lengths = lengths(reading)?;
    let apart = DisaggregatedLoad {
        prefill: &prefill,
        decode: cycle,
        prefill_groups: pool.workers * f64::from(pool.setup.layout.attention_data.max(1)),
        decode_groups: groups,
        transfer: gpuwise_size::memory::moved(&pool.setup, lengths.input),
        lengths,
        capacity: reading.capacity,
        variability: 0.5,
    };
    Some(match rounds(reading, cycle, requests) {
        Some(rounds) => apart.run_of(requests / groups, rounds),
        None => apart.in_flight(requests / groups),
    })
}

fn open(reading: &Reading<'_>, cycle: &Cycle, rate: f64) -> Option<Quantiles> {
    let groups = reading.groups();
    let one = OpenLoop {
        rate,
        burstiness: 1.0,
        lengths: lengths(reading)?,
        input_variation: 0.0,
        capacity: reading.capacity,
        requests: reading.run.requests.map(|run| run / groups),
    };
    Some(one.solve(cycle))
}

/// The most that a group does: all that fit run at once, or as many as keep the SLO on time
/// per token. Also the share of the SLO that the mean time per token takes.
fn saturated(
    reading: &Reading<'_>,
    cycle: &Cycle,
    constants: &Constants,
) -> Option<(Latency, f64)> {
    let place = constants.place(&reading.setup.silicon(), reading.setup.bucket.key);
    let share = constants.get(P::SloShare, place).min(1.0);
    let solve = |concurrency: f64| closed(reading, cycle, concurrency);
    let most = reading.capacity / reading.beams;
    let Some((_, tpot)) = reading.slo else {
        return Some((solve(most)?, 1.0));
    };
    let bound = tpot * share;
    let (mut low, mut high) = (1.0f64, most);
    if solve(most)?.tpot <= bound {
        low = most;
    } else {
        for _ in 0..9 {
            let middle = libm::sqrt(low * high);
            if solve(middle)?.tpot <= bound {
                low = middle;
            } else {
                high = middle;
            }
        }
    }
    let latency = solve(low)?;
    Some((latency, latency.tpot / tpot))
}

/// Latencies of a run that was driven up to its SLO: time per token as the steps give it, time
/// to first token as the share of its bound that such runs show.
fn of_slo(reading: &Reading<'_>, latency: &Latency, share: f64, constants: &Constants) -> f64 {
    let place = constants.place(&reading.setup.silicon(), reading.setup.bucket.key);
    let (first, each) = reading.slo.unwrap_or((1.0, 1.0));
    let output = reading.output.unwrap_or(1.0);
    let mean_first = (first * constants.get(P::SloFirst, place)).max(0.3 * latency.ttft);
    let tail = |statistic| spread(statistic, 0.45);
    match reading.wanted {
        Metric::Ttft(statistic) => mean_first * tail(statistic),
        Metric::Tpot(Statistic::Mean) => latency.tpot,
        Metric::Tpot(statistic) => (latency.tpot * spread(statistic, 0.10)).min(each),
        Metric::EndToEnd(Statistic::Mean) => mean_first + output * latency.tpot,
        Metric::EndToEnd(statistic) => {
            // Lengths of real prompts' answers spread widely.
            (mean_first + output * latency.tpot) * spread(statistic, 0.55)
        }
        _ => share,
    }
}

fn of_closed(
    wanted: Metric,
    latency: &Latency,
    (input, output): (f64, f64),
    groups: f64,
    gpus: u32,
) -> f64 {
    match wanted {
        Metric::Ttft(statistic) => latency.ttft * spread(statistic, 0.35),
        Metric::Tpot(statistic) => latency.tpot * spread(statistic, 0.08),
        Metric::EndToEnd(statistic) => latency.end_to_end(output) * spread(statistic, 0.08),
        Metric::RequestThroughput => latency.requests * groups,
        Metric::TotalThroughput => latency.requests * groups * (input + output),
        Metric::OutputThroughputPerGpu => {
            latency.requests * groups * output / f64::from(gpus.max(1))
        }
        _ => latency.requests * groups * output,
    }
}

/// A quantile over the mean, of a log-normal with this spread.
fn spread(statistic: Statistic, sigma: f64) -> f64 {
    match statistic {
        Statistic::Mean => 1.0,
        Statistic::Quantile(fraction) => libm::exp(
            sigma * gpuwise_size::serving::normal_quantile(fraction) - sigma * sigma / 2.0,
        ),
    }
}

fn of_open(
    wanted: Metric,
    quantiles: &Quantiles,
    (input, output): (f64, f64),
    groups: f64,
    gpus: u32,
) -> f64 {
    let requests = quantiles.mean.requests * groups;
    match wanted {
        Metric::Ttft(Statistic::Mean) => quantiles.mean.ttft,
        Metric::Ttft(Statistic::Quantile(fraction)) => quantiles.ttft(fraction),
        Metric::Tpot(Statistic::Mean) => quantiles.mean.tpot,
        Metric::Tpot(Statistic::Quantile(fraction)) => quantiles.tpot(fraction, output),
        Metric::EndToEnd(Statistic::Mean) => quantiles.mean.end_to_end(output),
        Metric::EndToEnd(Statistic::Quantile(fraction)) => {
            quantiles.ttft(fraction) + (output - 1.0) * quantiles.tpot(fraction, output)
        }
        Metric::RequestThroughput => requests,
        Metric::TotalThroughput => requests * (input + output),
        Metric::OutputThroughputPerGpu => requests * output / f64::from(gpus.max(1)),
        _ => requests * output,
    }
}
