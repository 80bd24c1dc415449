//! What would fix a candidate that is not there: flags of the question with their amounts. Views print the clause.

use crate::{deployment::Test, reason::seconds, workload::Target};
use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::fmt;
use gpuwise_units::{Bytes, HourlyPrice, Money, significant};

/// A flag of a question, with its value where it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flag {
    pub name: &'static str,
    pub value: Option<String>,
}

impl Flag {
    pub const fn switch(name: &'static str) -> Self {
        Self { name, value: None }
    }

    pub fn new(name: &'static str, value: impl fmt::Display) -> Self {
        Self {
            name,
            value: Some(value.to_string()),
        }
    }

    /// So many of a GPU: `12xH100 SXM5 80GB`.
    pub fn gpus(count: u64, gpu: &str) -> Self {
        Self::new("--gpus", format!("{count}x{gpu}"))
    }

    /// No less than an amount, in hundredths of its currency.
    pub fn money(name: &'static str, least: Money, per: &str) -> Self {
        const HUNDREDTH: u64 = 10_000;
        let hundredths = least.micros.max(0).cast_unsigned().div_ceil(HUNDREDTH);
        let (whole, rest) = (hundredths / 100, hundredths % 100);
        Self::new(name, format!("{whole}.{rest:02}{}{per}", least.currency))
    }

    /// A budget an hour that holds a price.
    pub fn budget(price: HourlyPrice) -> Self {
        Self::money("--budget", price.0, "/h")
    }

    /// The bound of a latency, by the flag of its test.
    pub fn bound(test: Test, target: Target) -> Self {
        let name = match test {
            Test::Ttft => "--ttft",
            Test::Tpot => "--tpot",
            _ => "--e2e",
        };
        Self::target(name, target)
    }

    /// `p95:1.1s`, `mean:70ms`.
    pub fn target(name: &'static str, target: Target) -> Self {
        let at_most = seconds(target.at_most.get()).replace(' ', "");
        match target.percentile {
            Some(at) => Self::new(name, format!("{at}:{at_most}")),
            None => Self::new(name, format!("mean:{at_most}")),
        }
    }
}

/// As a shell takes it.
impl fmt::Display for Flag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name;
        match &self.value {
            None => f.write_str(name),
            Some(value) if value.contains(' ') => write!(f, "{name} '{value}'"),
            Some(value) => write!(f, "{name} {value}"),
        }
    }
}

/// The smallest change of a question under which a candidate passes.
#[derive(Debug, Clone, PartialEq)]
pub enum Fix {
    /// Flags of the question, and the deployment that they lead to where that is known.
    Flags {
        flags: Vec<Flag>,
        gives: Option<String>,
    },
    /// Flags of the question that are left out, and the deployment that this leads to.
    Without { flags: &'static str, gives: String },
    /// A change of a training setup, with what its fullest GPU would hold and what it costs.
    Setup {
        flags: Vec<Flag>,
        change: String,
        needs: Bytes,
        cost: &'static str,
    },
    /// So many of a GPU in a price list of one's own, at most at a price for all.
    OwnPrice {
        gpu: String,
        gpus: u32,
        at_most: Option<HourlyPrice>,
    },
    /// An evaluation of one's own of weights in a format.
    OwnEvaluation { format: String },
}

impl Fix {
    pub fn flag(name: &'static str, value: impl fmt::Display) -> Self {
        Self::flags(alloc::vec![Flag::new(name, value)])
    }

    pub const fn flags(flags: Vec<Flag>) -> Self {
        Self::Flags { flags, gives: None }
    }

    /// The deployment that it leads to, where that is known.
    pub fn gives(&self) -> Option<&str> {
        match self {
            Self::Flags { gives, .. } => gives.as_deref(),
            Self::Without { gives, .. } => Some(gives),
            _ => None,
        }
    }
}

impl From<Flag> for Fix {
    fn from(flag: Flag) -> Self {
        Self::flags(alloc::vec![flag])
    }
}

impl fmt::Display for Fix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flags { flags, gives } => {
                crate::reason::joined(f, flags, " ")?;
                match gives {
                    Some(gives) => write!(f, " ({gives})"),
                    None => Ok(()),
                }
            }
            Self::Without { flags, gives } => write!(f, "without {flags} ({gives})"),
            Self::Setup {
                flags,
                change,
                needs,
                cost,
            } => {
                crate::reason::joined(f, flags, " ")?;
                write!(f, " ({change}: {}, {cost})", gib(*needs))
            }
            Self::OwnPrice { gpu, gpus, at_most } => {
                write!(f, "--prices with an offer of {gpus} × {gpu}")?;
                match at_most {
                    Some(price) => write!(f, " at up to {price}"),
                    None => Ok(()),
                }
            }
            Self::OwnEvaluation { format } => {
                write!(f, "a row of {format} in a quality.csv of your own")
            }
        }
    }
}

fn gib(bytes: Bytes) -> String {
    format!("{} GiB", significant(bytes.as_f64() / 1_073_741_824.0, 3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwise_units::{Currency, Percentile, Seconds};

    #[test]
    fn a_clause_has_flags_with_their_amounts() {
        let target = |percentile, seconds| Target {
            percentile,
            at_most: Seconds::new(seconds),
        };
        let p95 = Some(Percentile::P95);
        let dollars = |micros| Money {
            micros,
            currency: Currency::USD,
        };
        for (flag, said) in [
            (Flag::bound(Test::Ttft, target(p95, 1.1)), "--ttft p95:1.1s"),
            (
                Flag::bound(Test::Tpot, target(None, 0.07)),
                "--tpot mean:70ms",
            ),
            (
                Flag::budget(HourlyPrice(dollars(2_951_001))),
                "--budget 2.96USD/h",
            ),
            (
                Flag::money("--budget", dollars(40_000_000), ""),
                "--budget 40.00USD",
            ),
            (Flag::gpus(8, "H100 SXM5 80GB"), "--gpus '8xH100 SXM5 80GB'"),
            (Flag::switch("--multi-host"), "--multi-host"),
        ] {
            assert_eq!(Fix::from(flag).to_string(), said);
        }
        let setup = Fix::Setup {
            flags: alloc::vec![Flag::new("--micro-batch", 1)],
            change: "micro-batches of 1, accumulated".into(),
            needs: Bytes::new(75 << 30),
            cost: "some speed",
        };
        assert_eq!(
            setup.to_string(),
            "--micro-batch 1 (micro-batches of 1, accumulated: 75 GiB, some speed)"
        );
    }
}
