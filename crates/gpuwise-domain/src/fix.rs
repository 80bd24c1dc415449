//! What would fix a candidate that is not there, with its quantities. Views print the clause.

use crate::{deployment::Test, reason::seconds, workload::Target};
use alloc::{format, string::String, vec::Vec};
use core::fmt;
use gpuwise_units::{Bytes, significant};

/// The smallest change under which a candidate passes.
#[derive(Debug, Clone, PartialEq)]
pub enum Fix {
    /// A flag of the question: `--tp 8`, `--multi-host`.
    Flag {
        flag: &'static str,
        value: Option<u64>,
    },
    /// A framework that has the degrees that were asked for.
    Framework(&'static str),
    /// Another candidate on the same GPU, by its label.
    Candidate(String),
    /// More memory, as a multiple of what there is.
    MemoryTimes(f64),
    /// A looser SLO, by its bounds.
    Relax(Vec<Bound>),
    /// More GPUs, or exactly so many.
    Gpus {
        count: u64,
        at_least: bool,
    },
    /// A change of a training setup, with what its fullest GPU would hold and what it costs.
    Setup {
        change: String,
        needs: Bytes,
        enough: bool,
        cost: &'static str,
    },
    LargerBudget,
    LooserQuality,
    OwnEvaluation,
    MorePower,
    MoreHosts,
    MoreConcurrency,
    OwnPrice,
    OtherProvider,
    OtherCurrency,
    SmallerLayout,
    Colocated,
    /// What a row of the engine's facts says would, or a document.
    Words(String),
}

/// A bound of a looser SLO.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    pub test: Test,
    pub target: Target,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.test.name();
        let at_most = seconds(self.target.at_most.get());
        match self.target.percentile {
            Some(at) => write!(f, "{name} {at} ≤ {at_most}"),
            None => write!(f, "{name} mean ≤ {at_most}"),
        }
    }
}

impl fmt::Display for Fix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self {
            Self::Flag { flag, value: None } => *flag,
            Self::Flag {
                flag,
                value: Some(value),
            } => return write!(f, "{flag} {value}"),
            Self::Framework(name) => return write!(f, "--framework {name}"),
            Self::Candidate(words) | Self::Words(words) => words.as_str(),
            Self::MemoryTimes(times) => {
                return write!(f, "{} times the memory", significant(*times, 2));
            }
            Self::Relax(bounds) => return crate::reason::joined(f, bounds, ", "),
            Self::Gpus { count, at_least } => {
                let least = if *at_least { " at least" } else { "" };
                return write!(f, "{count} GPUs{least}");
            }
            Self::Setup {
                change,
                needs,
                enough,
                cost,
            } => return write!(f, "{change}: {}, {} ({cost})", gib(*needs), fits(*enough)),
            Self::LargerBudget => "a larger --budget",
            Self::LooserQuality => "a larger --max-quality-loss",
            Self::OwnEvaluation => "an evaluation of your own",
            Self::MorePower => "a larger --power, or a lower load",
            Self::MoreHosts => "more hosts, or a lower load",
            Self::MoreConcurrency => "more concurrent requests",
            Self::OwnPrice => "a price of your own (--prices)",
            Self::OtherProvider => "another --provider or --region, or --prices",
            Self::OtherCurrency => "a --budget in that currency",
            Self::SmallerLayout => "--multi-host, or a smaller layout",
            Self::Colocated => "serving both together (without --disaggregated)",
        };
        f.write_str(words)
    }
}

fn gib(bytes: Bytes) -> String {
    format!("{} GiB", significant(bytes.as_f64() / 1_073_741_824.0, 3))
}

const fn fits(enough: bool) -> &'static str {
    if enough { "fits" } else { "not enough alone" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use gpuwise_units::{Percentile, Seconds};

    #[test]
    fn a_clause_has_its_quantities() {
        let ttft = Bound {
            test: Test::Ttft,
            target: Target {
                percentile: Some(Percentile::P95),
                at_most: Seconds::new(1.1),
            },
        };
        let tpot = Bound {
            test: Test::Tpot,
            target: Target {
                percentile: None,
                at_most: Seconds::new(0.07),
            },
        };
        assert_eq!(
            Fix::Relax(alloc::vec![ttft, tpot]).to_string(),
            "TTFT p95 ≤ 1.1 s, TPOT mean ≤ 70 ms"
        );
        let setup = Fix::Setup {
            change: "micro-batches of 1, accumulated".into(),
            needs: Bytes::new(75 << 30),
            enough: true,
            cost: "some speed",
        };
        assert_eq!(
            setup.to_string(),
            "micro-batches of 1, accumulated: 75 GiB, fits (some speed)"
        );
        let tp = Fix::Flag {
            flag: "--tp",
            value: Some(8),
        };
        assert_eq!(tp.to_string(), "--tp 8");
    }
}
