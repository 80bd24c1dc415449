//! Notes on the traffic of a workload.

use crate::reason::joined;
use alloc::{format, string::String, vec::Vec};
use core::fmt;
use gpuwise_units::Tokens;

#[derive(Debug, Clone, PartialEq)]
pub enum TrafficNote {
    /// Sized for the mean rate; requests a second of the busiest hour.
    BusiestHour { peak: f64 },
    /// What nothing said: each as it was taken.
    Assumed {
        rate: Option<&'static str>,
        input: Option<&'static str>,
        output: Option<&'static str>,
    },
    /// Only means of lengths were said: the squared coefficients of variation that were taken.
    Spread {
        input: Option<f64>,
        output: Option<f64>,
        /// The percentile that is taken for the longest.
        longest: f64,
    },
    /// Tails of lengths were cut at what the model takes.
    Cut {
        most: Tokens,
        input: Tokens,
        output: Tokens,
    },
    Trace {
        path: String,
        requests: u64,
        kind: &'static str,
    },
    /// What the reader of a trace left aside.
    OfTrace { path: String, what: String },
}

impl TrafficNote {
    /// Whether it still says something where each request of a trace is sent as it was recorded.
    pub const fn beside_a_trace(&self) -> bool {
        !matches!(self, Self::Assumed { .. } | Self::Trace { .. })
    }
}

impl fmt::Display for TrafficNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BusiestHour { peak } => write!(
                f,
                "sized for the mean rate; the busiest hour has {peak:.3}/s (--rate {peak:.3} sizes for it)"
            ),
            Self::Assumed {
                rate,
                input,
                output,
            } => {
                let said = [
                    rate.map(|rate| format!("{rate} requests (--rate)")),
                    input.map(|tokens| format!("{tokens} tokens in (--isl)")),
                    output.map(|tokens| format!("{tokens} tokens out (--osl)")),
                ];
                let said: Vec<String> = said.into_iter().flatten().collect();
                f.write_str("assumed of the traffic, because it was not said: ")?;
                joined(f, &said, ", ")
            }
            Self::Spread {
                input,
                output,
                longest,
            } => {
                let said = [
                    input.map(|variation| format!("{variation} in")),
                    output.map(|variation| format!("{variation} out")),
                ];
                let said: Vec<String> = said.into_iter().flatten().collect();
                f.write_str(
                    "assumed of lengths, because only means were said: log-normal with a squared coefficient of \
                     variation of ",
                )?;
                joined(f, &said, " and ")?;
                write!(
                    f,
                    " (Azure's published conversations: 0.92 in, 0.60 out); --isl constant:2000, \
                     mean:2000,p95:6000 or 500..4000 says otherwise. The length that {longest} % do not exceed is \
                     taken for the longest, and the longest of both is the context that is served"
                )
            }
            Self::Cut {
                most,
                input,
                output,
            } => write!(
                f,
                "the model takes {most} tokens: prompts are at most {input} long and answers {output}"
            ),
            Self::Trace {
                path,
                requests,
                kind,
            } => {
                let article = if kind.starts_with('A') { "an" } else { "a" };
                write!(f, "{path}: {requests} requests of {article} {kind} trace")
            }
            Self::OfTrace { path, what } => write!(f, "{path}: {what}"),
        }
    }
}
