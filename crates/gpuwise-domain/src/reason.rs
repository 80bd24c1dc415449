//! Why something is not recommended, with the quantities that say so. Views print the sentence.

use crate::deployment::Test;
use alloc::{format, string::String, vec::Vec};
use core::fmt;
use gpuwise_units::{HourlyPrice, Percentile, significant};

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
        /// Of these weights.
        weights: f64,
        /// Bytes that the engine may use.
        budget: f64,
    },
    /// One request does not fit beside the weights.
    Cache {
        /// Its tokens.
        tokens: f64,
        /// Bytes that it needs.
        needed: f64,
        /// Bytes that are left.
        left: f64,
    },
    /// More GPUs would be needed than any answer has.
    TooMany {
        /// Requests a second, or in flight, that one replica bears.
        bears: f64,
        /// Those asked for.
        wanted: f64,
        /// GPUs that they would need.
        gpus: f64,
    },
    /// Fewer tokens a second than promised.
    Tokens {
        /// Tokens a second.
        given: f64,
        /// Those promised.
        wanted: f64,
    },
    /// Latency of one request alone is beyond its bound.
    Missed(Vec<Missed>),
    /// No pair of pools keeps the SLO.
    NoPools,
    /// More quality is lost than allowed.
    Quality {
        /// Lost percent.
        percent: f64,
        /// In which evaluation.
        evaluation: String,
        /// Percent allowed.
        most: f64,
    },
    /// What is lost of quality is not known.
    UnknownQuality,
    /// Nobody among these rents it out.
    NotOffered(Vec<String>),
    /// Its price is not known, so that no budget holds it.
    UnknownPrice {
        /// The budget.
        budget: HourlyPrice,
    },
    /// Price and budget are in different currencies.
    OtherCurrency {
        /// The price.
        hour: HourlyPrice,
        /// The budget.
        budget: HourlyPrice,
    },
    /// It costs more than the budget.
    OverBudget {
        /// The price.
        hour: HourlyPrice,
        /// The budget.
        budget: HourlyPrice,
    },
    /// It draws more power than allowed.
    Power {
        /// Watts.
        watts: f64,
        /// Watts allowed.
        most: f64,
    },
    /// More GPUs than one owns.
    NotOwned {
        /// GPUs or slices needed.
        wanted: u32,
        /// GPUs owned.
        owned: u32,
    },
    /// It keeps the SLO, for more.
    Dearer {
        /// Its price.
        hour: HourlyPrice,
        /// That over the best one's, where that is known.
        times: Option<f64>,
    },
    /// It keeps the SLO, and nobody is known to rent it out.
    Unoffered,
    /// A simulation broke the promise; how, in a clause that names the test.
    Simulated(String),
    /// A simulated queue grew without bound.
    Unbounded,
    /// As a document states it.
    Words(String),
}

/// A target that one request alone does not hold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Missed {
    /// Which.
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
        matches!(self, Self::Missed(_) | Self::Simulated(_))
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
            Self::Unsupported(what) | Self::Simulated(what) | Self::Words(what) => {
                f.write_str(what)
            }
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
                bears,
                wanted,
                gpus,
            } => write!(
                f,
                "one replica sustains {} of {} a second: {} GPUs",
                three(*bears),
                three(*wanted),
                three(*gpus)
            ),
            Self::Tokens { given, wanted } => {
                write!(f, "{} of {} tokens/s", three(*given), three(*wanted))
            }
            Self::Missed(missed) => joined(f, missed, " and "),
            Self::NoPools => f.write_str("no pair of prefill and decode pools keeps the SLO"),
            Self::Unbounded => f.write_str("simulated: the queue grows without bound"),
            _ => self.limited(f),
        }
    }
}

impl Reason {
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

fn joined<T: fmt::Display>(f: &mut fmt::Formatter<'_>, items: &[T], between: &str) -> fmt::Result {
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
