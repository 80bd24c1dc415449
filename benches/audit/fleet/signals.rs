//! What a planted workload would show: the level of each signal at each step, and what goes wrong on
//! the way into a database.

use super::planted::{Class, Pattern, Workload, chance};

/// Seconds between samples.
pub(crate) const STEP: u64 = 300;

/// What a series shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    Memory,
    Sm,
    Tensor,
    Dram,
    /// `nvidia-smi`'s utilisation in percent.
    Busy,
    CpuSeconds,
    Throttled,
    Periods,
    Waiting,
    Cache,
    /// A figure that stays as it is.
    Constant(u32),
}

/// Which copy of a series, and how it is spoilt.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Fault {
    /// Samples from one step to another are missing.
    pub(crate) gap: Option<(u64, u64)>,
    /// Samples there are NaN.
    pub(crate) nan: Option<(u64, u64)>,
    /// What the exporter writes where it knows nothing, at one step.
    pub(crate) blank: Option<u64>,
    /// Counters begin anew.
    pub(crate) reset: Option<u64>,
    /// Only from one step to another: a copy by another scraper.
    pub(crate) only: Option<(u64, u64)>,
    /// Seconds by which its samples come late.
    pub(crate) late: i64,
}

/// `DCGM_FT_INT64_BLANK` of dcgm_structs.h: no value.
const BLANK: f64 = 9_223_372_036_854_775_792.0;

fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

/// How busy, from 0 to 1, at a time (seconds since 1970).
fn busy(pattern: Pattern, at: u64, step: u64) -> f64 {
    let hour = at / 3600 % 24;
    // The first of January 1970 was a Thursday.
    let weekday = (at / 86_400 + 4) % 7;
    let within = |yes: bool| if yes { 1.0 } else { 0.0 };
    match pattern {
        Pattern::Always => 1.0,
        Pattern::Never => 0.0,
        Pattern::Daily(least) => {
            let turn = (at % 86_400) as f64 / 86_400.0 * std::f64::consts::TAU;
            least + (1.0 - least) * (0.5 - 0.5 * turn.cos())
        }
        Pattern::Office(from, to) => {
            within((1..=5).contains(&weekday) && (from..to).contains(&hour))
        }
        Pattern::Nightly(from, hours) => within((from..from + hours).contains(&hour)),
        Pattern::Dips(every) => within(step % every >= 2),
    }
}

/// The samples (milliseconds, value) of one series.
pub(crate) fn samples(
    seed: u64,
    of: &Workload,
    part: u64,
    signal: Signal,
    fault: Fault,
    span: (u64, u64),
) -> Vec<(i64, f64)> {
    let (begin, steps) = span;
    let purpose = of.number * 64 + part;
    let mut counter = 0.0;
    let mut out = Vec::with_capacity(steps as usize);
    for step in of.from..steps {
        let at = begin + step * STEP;
        let level = busy(of.pattern, at, step);
        let noise = |what: u64| chance(seed ^ what, purpose, step) - 0.5;
        let jittered = |height: f64, what: u64| {
            rounded((height * level * (1.0 + 0.1 * noise(what))).clamp(0.0, 1.0))
        };
        let mut value = match signal {
            Signal::Memory => memory(of, level, step, noise(11)),
            Signal::Sm if of.class == Class::Idle => rounded(0.002 * (noise(12) + 0.5)),
            Signal::Sm => jittered(of.sm, 12),
            Signal::Tensor => jittered(of.tensor, 13),
            Signal::Dram => jittered(of.dram, 14),
            // It counts a device as busy when any kernel runs.
            Signal::Busy => (100.0 * jittered((of.sm * 1.6).min(0.99), 15)).round(),
            Signal::CpuSeconds => {
                counter += of.cpus
                    * of.cpu_share
                    * (1.0 + 0.02 * noise(16)).min(1.0)
                    * STEP as f64
                    * level.max(0.01);
                rounded(counter)
            }
            Signal::Periods | Signal::Throttled => {
                let share = if signal == Signal::Periods {
                    1.0
                } else {
                    of.throttled
                };
                counter += (10.0 * STEP as f64 * share * level.max(0.01)).round();
                counter
            }
            Signal::Waiting => of.engine.map_or(0.0, |(waiting, _)| {
                (waiting * (1.0 + 0.4 * noise(17))).round()
            }),
            Signal::Cache => of.engine.map_or(0.0, |(_, cache)| {
                rounded((cache * (0.8 + 0.2 * level)).min(1.0))
            }),
            Signal::Constant(value) => f64::from(value),
        };
        if fault.reset == Some(step)
            && matches!(
                signal,
                Signal::CpuSeconds | Signal::Periods | Signal::Throttled
            )
        {
            counter = 0.0;
            value = 0.0;
        }
        let inside =
            |range: Option<(u64, u64)>| range.is_some_and(|(from, to)| (from..to).contains(&step));
        if inside(fault.gap)
            || fault
                .only
                .is_some_and(|(from, to)| !(from..to).contains(&step))
        {
            continue;
        }
        if inside(fault.nan) && !matches!(signal, Signal::Constant(_)) {
            value = f64::NAN;
        }
        if fault.blank == Some(step) && matches!(signal, Signal::Memory | Signal::Sm | Signal::Busy)
        {
            value = BLANK;
        }
        out.push((at.cast_signed() * 1000 + fault.late * 1000, value));
    }
    out
}

/// MiB in use.
fn memory(of: &Workload, level: f64, step: u64, noise: f64) -> f64 {
    let (high, low) = of.memory;
    if of.class == Class::Spike {
        // One batch in the fortnight is large.
        let large = step % 4000 == 1234 || step % 4000 == 1235;
        return if large {
            high.round()
        } else {
            (low * (1.0 + 0.05 * noise)).round()
        };
    }
    (low + (high - low) * level).round()
}
