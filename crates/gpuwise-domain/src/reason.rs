//! Why something is not recommended, with the quantities that say so. Views print the sentence.

use crate::{clash::Clash, deployment::Test, precision::Compute, training::Recompute};
use alloc::{format, string::String, vec::Vec};
use core::fmt;
use gpuwise_units::{Bytes, HourlyPrice, Money, Percentile, significant};

/// Why a candidate is not there.
#[derive(Debug, Clone, PartialEq)]
pub enum Reason {
    /// Engine or hardware does not support it; what exactly.
    Unsupported(String),
    /// A replica spans more GPUs than a host joins.
    SpansHosts {
        /// GPUs of the replica.
        replica: u32,
        /// GPUs that a host joins.
        host: u32,
    },
    /// Weights and overheads do not fit.
    Memory {
        /// Bytes needed on a GPU.
        needed: f64,
        weights: f64,
        /// Bytes that the engine may use.
        budget: f64,
    },
    /// One request does not fit beside the weights.
    Cache {
        tokens: f64,
        /// Bytes that it needs.
        needed: f64,
        /// Bytes that are left.
        left: f64,
    },
    /// More GPUs would be needed than any answer has.
    TooMany {
        /// Requests a second, or in flight, that one replica sustains.
        sustains: f64,
        wanted: f64,
        /// GPUs that they would need.
        gpus: f64,
    },
    /// Fewer tokens a second than the SLO.
    Tokens {
        /// Tokens a second.
        given: f64,
        wanted: f64,
    },
    /// Latency of one request alone is beyond its bound.
    Missed(Vec<Missed>),
    /// No pair of pools keeps the SLO.
    NoPools,
    /// More quality is lost than allowed.
    Quality {
        percent: f64,
        evaluation: String,
        most: f64,
    },
    /// What is lost of quality is not known.
    UnknownQuality,
    /// Nobody among these rents it out.
    NotOffered(Vec<String>),
    /// Its price is not known, so that no budget holds it.
    UnknownPrice { budget: HourlyPrice },
    /// Price and budget are in different currencies.
    OtherCurrency {
        hour: HourlyPrice,
        budget: HourlyPrice,
    },
    /// It costs more than the budget.
    OverBudget {
        hour: HourlyPrice,
        budget: HourlyPrice,
    },
    /// It draws more power than allowed.
    Power { watts: f64, most: f64 },
    /// What it draws is not known, so that no limit holds it.
    UnknownPower { most: f64 },
    /// More GPUs than one owns.
    NotOwned {
        /// GPUs or slices needed.
        wanted: u32,
        owned: u32,
    },
    /// It keeps the SLO, for more.
    Dearer {
        hour: HourlyPrice,
        /// That over the best one's, where that is known.
        times: Option<f64>,
    },
    /// It keeps the SLO, and nobody is known to rent it out.
    Unoffered,
    /// A simulation broke the SLO; how, in a clause that names the test.
    Simulated(String),
    /// A simulated queue grew without bound.
    Unbounded,
    /// The GPU has no unit for these numbers.
    NoRate(Compute),
    /// One input of a diffusion, vision or embedding model does not fit.
    Input { needed: Bytes, usable: Bytes },
    /// More replicas would be needed than are ever started.
    TooManyReplicas { most: u32 },
    /// No offer has so many GPUs in one host.
    NoInstance { gpus: u32 },
    /// Degrees, batches or switches of a training setup exclude each other.
    Clash(Clash),
    /// A training setup does not fit.
    TrainingMemory {
        needed: Bytes,
        usable: Bytes,
        micro_batch: u64,
        recompute: Recompute,
    },
    /// Memory over what may be filled: of the estimate, or of the upper end of its range alone.
    Overfull { ratio: f64, range: bool },
    /// A training step takes longer than the best one's.
    Slower { ratio: f64 },
    /// Seconds of a run, and those allowed.
    Late { run: f64, within: f64 },
    /// Even at its peak rate a run would take longer than allowed.
    LateAtPeak { ratio: f64 },
    /// Money of a run, and what is allowed.
    RunCost { cost: Money, budget: Money },
    /// The price of what a run would be rented on is not known, so that no budget holds it.
    UnknownRunCost { budget: Money },
}

/// A target that one request alone does not hold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Missed {
    pub test: Test,
    /// At which percentile; `None` is the mean.
    pub at: Option<Percentile>,
    /// Seconds.
    pub value: f64,
    /// Seconds allowed.
    pub bound: f64,
}

impl Reason {
    /// Whether its sentence names the test already.
    pub const fn names_the_test(&self) -> bool {
        matches!(
            self,
            Self::Missed(_)
                | Self::Simulated(_)
                | Self::TrainingMemory { .. }
                | Self::Overfull { .. }
        )
    }
}

const GIB: f64 = 1_073_741_824.0;

fn gib(bytes: f64) -> String {
    format!("{} GiB", significant(bytes / GIB, 3))
}

/// A time in the unit that a reader would say.
pub fn seconds(value: f64) -> String {
    if value < 1.0 {
        format!("{} ms", significant(value * 1e3, 3))
    } else {
        format!("{} s", significant(value, 3))
    }
}

impl fmt::Display for Missed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some(at) => write!(f, "{at}")?,
            None => f.write_str("mean")?,
        }
        write!(
            f,
            " {} of one request alone is {} of {} allowed",
            self.test.name(),
            seconds(self.value),
            seconds(self.bound)
        )
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let three = |value: f64| significant(value, 3);
        match self {
            Self::Unsupported(what) | Self::Simulated(what) => f.write_str(what),
            Self::SpansHosts { replica, host } => write!(
                f,
                "a replica of {replica} GPUs spans more than the {host} that a host joins"
            ),
            Self::Memory {
                needed,
                weights,
                budget,
            } => write!(
                f,
                "needs {} a GPU ({} weights) of {} that the engine may use",
                gib(*needed),
                gib(*weights),
                gib(*budget)
            ),
            Self::Cache {
                tokens,
                needed,
                left,
            } => write!(
                f,
                "one request of {} tokens needs {} of cache, {} are left",
                three(*tokens),
                gib(*needed),
                gib(*left)
            ),
            Self::TooMany {
                sustains,
                wanted,
                gpus,
            } => write!(
                f,
                "one replica sustains {} of {} a second: {} GPUs",
                three(*sustains),
                three(*wanted),
                three(*gpus)
            ),
            Self::Tokens { given, wanted } => {
                write!(f, "{} of {} tokens/s", three(*given), three(*wanted))
            }
            Self::Missed(missed) => joined(f, missed, " and "),
            Self::NoPools => f.write_str("no pair of prefill and decode pools keeps the SLO"),
            Self::Unbounded => f.write_str("simulated: the queue grows without bound"),
            Self::NoRate(numbers) => write!(f, "no rate in {} is known of it", numbers.name()),
            Self::Input { needed, usable } => write!(
                f,
                "one input needs {}, {} can be used",
                gib(needed.as_f64()),
                gib(usable.as_f64())
            ),
            Self::TooManyReplicas { most } => {
                write!(f, "more than {most} replicas would be needed")
            }
            Self::NoInstance { gpus } => write!(f, "no offer has {gpus} of them in one host"),
            Self::Clash(clash) => write!(f, "{clash}"),
            Self::TrainingMemory { .. }
            | Self::Overfull { .. }
            | Self::Slower { .. }
            | Self::Late { .. }
            | Self::LateAtPeak { .. }
            | Self::RunCost { .. }
            | Self::UnknownRunCost { .. } => self.of_training(f),
            _ => self.limited(f),
        }
    }
}

impl Reason {
    fn of_training(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let beyond = |ratio: f64| significant(100.0 * (ratio - 1.0), 2);
        let days = |seconds: f64| significant(seconds / 86_400.0, 3);
        match self {
            Self::TrainingMemory {
                needed,
                usable,
                micro_batch,
                recompute,
            } => {
                let (needed, usable) = (gib(needed.as_f64()), gib(usable.as_f64()));
                let all = match recompute {
                    Recompute::Full => " and all layers recomputed",
                    _ => "",
                };
                write!(
                    f,
                    "out of memory: {needed} needed with micro-batch {micro_batch}{all}, {usable} usable on each \
                     GPU"
                )
            }
            Self::Overfull { ratio, range: true } => write!(
                f,
                "its memory may reach {} % more than a job may fill",
                beyond(*ratio)
            ),
            Self::Overfull { ratio, .. } => {
                write!(f, "out of memory: {} % more than a GPU has", beyond(*ratio))
            }
            Self::Slower { ratio } => write!(f, "{} % slower", beyond(*ratio)),
            Self::Late { run, within } => {
                write!(f, "{} days, {} allowed", days(*run), days(*within))
            }
            Self::LateAtPeak { ratio } => write!(
                f,
                "even at its peak rate it would take {} times as long as allowed",
                significant(*ratio, 3)
            ),
            Self::RunCost { cost, budget } => write!(f, "{cost}, {budget} allowed"),
            Self::UnknownRunCost { budget } => {
                write!(f, "its price is not known, {budget} allowed")
            }
            _ => Ok(()),
        }
    }

    /// Reasons of money, power and quality.
    fn limited(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quality {
                percent,
                evaluation,
                most,
            } => write!(f, "loses {percent:.2} % ({evaluation}), {most} % allowed"),
            Self::UnknownQuality => f.write_str("quality loss unknown"),
            Self::NotOffered(places) => {
                f.write_str("no offer of ")?;
                joined(f, places, ", ")?;
                f.write_str(" holds it")
            }
            Self::UnknownPrice { budget } => {
                write!(f, "its price is not known, {budget} allowed")
            }
            Self::OtherCurrency { hour, budget } => {
                write!(f, "costs {hour}, which cannot be held against {budget}")
            }
            Self::OverBudget { hour, budget } => write!(f, "costs {hour}, {budget} allowed"),
            Self::UnknownPower { most } => {
                write!(f, "what it draws is not known, {most:.0} W allowed")
            }
            Self::Power { watts, most } => write!(f, "draws {watts:.0} W, {most:.0} W allowed"),
            Self::NotOwned { wanted, owned } => {
                write!(f, "needs {wanted} GPUs or slices, you own {owned} GPUs")
            }
            Self::Dearer {
                hour,
                times: Some(times),
            } => write!(
                f,
                "keeps the SLO for {hour}, {} times the best",
                significant(*times, 2)
            ),
            Self::Dearer { hour, times: None } => write!(f, "keeps the SLO for {hour}"),
            _ => f.write_str("keeps the SLO; no offer of it is known under these limits"),
        }
    }
}

pub(crate) fn joined<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    items: &[T],
    between: &str,
) -> fmt::Result {
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            f.write_str(between)?;
        }
        write!(f, "{item}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn a_sentence_has_its_quantities() {
        let missed = Missed {
            test: Test::Ttft,
            at: Some(Percentile::P95),
            value: 0.25,
            bound: 0.1,
        };
        let reason = Reason::Missed(alloc::vec![missed]);
        assert_eq!(
            reason.to_string(),
            "p95 TTFT of one request alone is 250 ms of 100 ms allowed"
        );
        assert!(reason.names_the_test() && !Reason::NoPools.names_the_test());
        let memory = Reason::Memory {
            needed: 131.0 * GIB,
            weights: 130.0 * GIB,
            budget: 45.0 * GIB,
        };
        assert_eq!(
            memory.to_string(),
            "needs 131 GiB a GPU (130 GiB weights) of 45 GiB that the engine may use"
        );
        let places = alloc::vec!["aws".into(), "gcp".into()];
        assert_eq!(
            Reason::NotOffered(places).to_string(),
            "no offer of aws, gcp holds it"
        );
    }
}
