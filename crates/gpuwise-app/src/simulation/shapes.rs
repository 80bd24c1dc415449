//! What generated and replayed traffic is made of.

use super::traffic::{Kind, cannot, is_one, time};
use crate::{error::Problem, settings::ChangeFlags};
use gpuwise_domain::{
    client::GapLaw,
    workload::{LengthDistribution, LengthQuantile, Traffic, TrafficDetail, Workload},
};
use gpuwise_read::workload::rate;
use gpuwise_sim::traffic::{
    self as sim, Arrivals, Contents, Conversations, Curve, LengthLaw, Lengths, Pattern, PrefixPool,
    Rate, Recorded, Repeated, Resampled, Source as _, Spliced, Stage, State, SystemPrompts,
};
use gpuwise_units::{Nanoseconds, PerSecond, significant};
use std::fmt::Write as _;

/// Traces, one after the other.
#[derive(Debug, Clone)]
pub(super) struct Replay {
    /// In order; there is at least one.
    pub(super) traces: Vec<Recorded>,
    pub(super) repeat: u32,
    /// Stretches of this length are drawn at random, in place of each trace's order.
    pub(super) resample: Option<Nanoseconds>,
}

impl Replay {
    /// The requests under a seed.
    pub(super) fn source(&self, seed: u64) -> anyhow::Result<sim::Traffic> {
        let one = |trace: &Recorded, round: u64| -> anyhow::Result<sim::Traffic> {
            Ok(match self.resample {
                None => trace.clone().boxed(),
                Some(length) => Resampled::new(trace.clone(), length, seed.wrapping_add(round))
                    .map_err(cannot)?
                    .boxed(),
            })
        };
        if let (None, [trace]) = (self.resample, self.traces.as_slice()) {
            let repeat = u64::from(self.repeat);
            return Ok(Repeated::new(trace.clone(), repeat, Contents::Distinct).boxed());
        }
        let mut sources = Vec::new();
        for round in 0..u64::from(self.repeat) {
            for trace in &self.traces {
                sources.push(one(trace, round)?);
            }
        }
        Ok(Spliced::new(sources, Nanoseconds(0)).boxed())
    }
}

/// Traffic that flags and a workload tell of, with its words; the workload's rate becomes the mean of
/// stages and states.
pub(super) fn generated(
    changes: &ChangeFlags,
    workload: &mut Workload,
    detail: &TrafficDetail,
) -> anyhow::Result<(Kind, String)> {
    let mut pattern = pattern(workload, detail)?;
    let mut words = generated_words(workload, &detail.hourly);
    let parts = [("--stages", &changes.stages), ("--states", &changes.states)];
    if let Some((flag, texts)) = parts.iter().find(|(_, texts)| !texts.is_empty()) {
        let arrivals = varying(flag, texts, workload)?;
        let law = law_words(variation_of(workload));
        workload.traffic = Traffic::Open {
            rate: arrivals.mean_rate(),
            burstiness: 1.0,
        };
        words = match *flag {
            "--stages" => format!("{law}, {}", texts.join(" then ")),
            _ => format!(
                "{law} with a rate that changes among {}",
                texts.join(" and ")
            ),
        };
        pattern.arrivals = Some(arrivals);
        pattern.in_flight = None;
    }
    let Some(turns) = changes.turns else {
        return Ok((Kind::Generated(pattern), words));
    };
    let Some(starts) = pattern.arrivals else {
        return Err(Problem::new(
            "--turns: conversations begin at a rate, and a concurrency is given",
        )
        .hint("say --rate in place of --concurrency")
        .into());
    };
    // What prompts share follows from the rounds.
    workload.prefix_hit = 0.0;
    let laws = conversations(turns, &changes.think, workload, starts)?;
    let _ = write!(
        words,
        ", in conversations of {turns} rounds, {} to think",
        laws.think
    );
    Ok((Kind::Talks(laws), words))
}

/// Conversations of so many rounds whose requests, all rounds counted, come at a rate.
pub(crate) fn conversations(
    turns: u32,
    think: &str,
    workload: &Workload,
    mut starts: Arrivals,
) -> anyhow::Result<Conversations> {
    scale(&mut starts.rate, 1.0 / f64::from(turns));
    let law = |given: &LengthDistribution| LengthLaw::of(given).map_err(cannot);
    Ok(Conversations {
        starts,
        rounds: LengthLaw::Fixed(turns),
        think: time("--think", think)?,
        thinking: GapLaw::Exponential,
        system: SystemPrompts::default(),
        question: law(&workload.lengths.input)?,
        answer: law(&workload.lengths.output)?,
        longest: u32::MAX,
    })
}

/// Rates of `--stages` or `--states`.
fn varying(flag: &str, texts: &[String], workload: &Workload) -> anyhow::Result<Arrivals> {
    let mut parts = Vec::new();
    for text in texts {
        let wrong = || {
            Problem::new(format!("{flag} {text}: expected a rate and a time"))
                .hint("write 2/s@10min, with commas between")
        };
        let (first, last) = text.split_once('@').ok_or_else(wrong)?;
        let rate = rate(first).map_err(|error| Problem::new(format!("{flag} {text}: {error}")))?;
        parts.push((rate, time(flag, last)?));
    }
    let rate = if flag == "--stages" {
        let stage = |(rate, duration)| Stage { rate, duration };
        Rate::Stages(parts.into_iter().map(stage).collect())
    } else {
        let state = |(rate, dwell)| State { rate, dwell };
        Rate::Modulated(parts.into_iter().map(state).collect())
    };
    Ok(Arrivals {
        gaps: GapLaw::of_variation(variation_of(workload)),
        rate,
        exact: false,
    })
}

/// The squared variation of gaps.
fn variation_of(workload: &Workload) -> f64 {
    match workload.traffic {
        Traffic::Open { burstiness, .. } => burstiness,
        Traffic::Closed { .. } => 1.0,
    }
}

/// The law of gaps of this squared variation.
fn law_words(variation: f64) -> String {
    if is_one(variation) {
        "Poisson".into()
    } else if variation == 0.0 {
        "equal gaps".into()
    } else {
        format!("gamma gaps with CV² {}", significant(variation, 3))
    }
}

/// Multiplies a rate, whatever its form.
fn scale(rate: &mut Rate, factor: f64) {
    let scaled = |rate: &mut PerSecond| *rate = PerSecond::new(rate.get() * factor);
    match rate {
        Rate::Constant(rate) => scaled(rate),
        Rate::Ramp { from, to, .. } => {
            scaled(from);
            scaled(to);
        }
        Rate::Stages(stages) | Rate::Cycle(stages) => {
            for stage in stages {
                scaled(&mut stage.rate);
            }
        }
        Rate::Modulated(states) => {
            for state in states {
                scaled(&mut state.rate);
            }
        }
    }
}

/// The laws of a workload; with quantiles of lengths and hourly rates where they are known.
pub(super) fn pattern(workload: &Workload, detail: &TrafficDetail) -> anyhow::Result<Pattern> {
    let law =
        |given: &LengthDistribution, quantiles: &[LengthQuantile]| -> anyhow::Result<LengthLaw> {
            if quantiles.is_empty() {
                return LengthLaw::of(given).map_err(cannot);
            }
            let mut points = vec![(0.0, 1.0)];
            points.extend(
                quantiles
                    .iter()
                    .map(|q| (q.percentile.fraction(), q.tokens.0 as f64)),
            );
            points.push((1.0, given.longest.0 as f64));
            Ok(LengthLaw::Quantiles(
                Curve::through(&points).map_err(cannot)?,
            ))
        };
    let lengths = Lengths::Each {
        input: law(&workload.lengths.input, &detail.input)?,
        output: law(&workload.lengths.output, &detail.output)?,
    };
    let prefix = PrefixPool::new(workload.prefix_hit, &lengths).map_err(cannot)?;
    let (arrivals, in_flight) = match workload.traffic {
        Traffic::Open { rate, burstiness } => {
            let mut arrivals = Arrivals::gamma(rate, burstiness);
            if !detail.hourly.is_empty() {
                arrivals.rate = Rate::Cycle(hours(&detail.hourly));
            }
            (Some(arrivals), None)
        }
        Traffic::Closed { concurrency } => {
            (None, Some(u32::try_from(concurrency).unwrap_or(u32::MAX)))
        }
    };
    Ok(Pattern {
        arrivals,
        in_flight,
        lengths,
        prefix: (prefix.share > 0.0).then_some(prefix),
    })
}

fn hours(rates: &[PerSecond]) -> Vec<Stage> {
    let hour = Nanoseconds(3_600_000_000_000);
    rates
        .iter()
        .map(|rate| Stage {
            rate: *rate,
            duration: hour,
        })
        .collect()
}

pub(super) fn generated_words(workload: &Workload, hourly: &[PerSecond]) -> String {
    match workload.traffic {
        Traffic::Open { .. } if !hourly.is_empty() => {
            format!("rates of {} hours, over and over", hourly.len())
        }
        Traffic::Open { rate, burstiness } => {
            format!(
                "{}, {} requests/s",
                law_words(burstiness),
                significant(rate.get(), 3)
            )
        }
        Traffic::Closed { concurrency } => format!("{concurrency} concurrent requests"),
    }
}
