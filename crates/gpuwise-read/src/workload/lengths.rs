//! Lengths of prompts and answers: requests are not all alike, and a mean alone does not say how far
//! they lie apart.

use super::quantities::{burstiness, tokens, wrong};
use gpuwise_domain::workload::LengthDistribution;
use gpuwise_units::{ParseQuantityError, Tokens};

/// Squared coefficient of variation of prompts where only their mean is said: 0.92 of the 19,366
/// requests of conversations and 0.93 of the 8,819 of code that Azure published in 2023.
pub const USUAL_INPUT: f64 = 0.9;
/// The same of answers: 0.60 of those conversations.
pub const USUAL_OUTPUT: f64 = 0.6;
/// So many requests are no longer than what is taken for the longest, where it is not said; in percent.
pub const LONGEST_OF: f64 = 99.9;
/// Standard deviations of a normal law at that share.
const LONGEST_AT: f64 = 3.0902;
/// Percentiles that lengths may be told by, and standard deviations of a normal law at them.
const TOLD_AT: [(&str, f64); 4] = [
    ("p90", 1.2816),
    ("p95", 1.6449),
    ("p99", 2.3263),
    ("p99.9", LONGEST_AT),
];

/// Lengths as a text says them: a mean (`2000`, of the usual spread), `constant:2000`, a mean and a
/// percentile (`mean:2000,p95:6000`), or anything between two (`500..4000`). `usual` is the spread of
/// a mean alone, as a squared coefficient of variation.
pub(super) fn read(
    text: &str,
    usual: f64,
    variation: Option<&str>,
    longest: Option<&str>,
) -> Result<LengthDistribution, ParseQuantityError> {
    let stated = variation.map(burstiness).transpose()?;
    let longest = longest.map(tokens).transpose()?;
    let law = Law::read(text)?;
    if let (Some(_), Law::Constant(_) | Law::Told(..) | Law::Between(..)) = (stated, &law) {
        return Err(wrong(
            text,
            "a mean alone where its variation is given beside it",
        ));
    }
    let (mean, variation, own) = match law {
        Law::Mean(mean) => {
            // One token is one token, and where the longest is the mean, all are equal.
            let equal = mean.0 <= 1 || longest == Some(mean);
            let variation = stated.unwrap_or(if equal { 0.0 } else { usual });
            (mean.0 as f64, variation, None)
        }
        Law::Constant(tokens) => (tokens.0 as f64, 0.0, Some(tokens)),
        Law::Told(mean, sigma) => (mean.0 as f64, (sigma * sigma).exp_m1(), None),
        Law::Between(least, most) => {
            let (low, high) = (least.0 as f64, most.0 as f64);
            let mean = f64::midpoint(low, high).round();
            let deviation = (high - low) / (12.0_f64.sqrt() * mean);
            (mean, deviation * deviation, Some(most))
        }
    };
    let longest = longest.or(own).unwrap_or_else(|| {
        let sigma = variation.ln_1p().sqrt();
        let factor = (sigma * LONGEST_AT - sigma * sigma / 2.0).exp();
        Tokens((mean * factor).ceil().max(mean) as u64)
    });
    Ok(LengthDistribution {
        mean,
        variation,
        longest,
    })
}

/// Whether a text says a mean and nothing of how far lengths lie apart.
pub fn is_mean_alone(text: &str) -> bool {
    matches!(Law::read(text), Ok(Law::Mean(mean)) if mean.0 > 1)
}

enum Law {
    Mean(Tokens),
    Constant(Tokens),
    /// Log-normal of this mean, and the deviation of its logarithm.
    Told(Tokens, f64),
    Between(Tokens, Tokens),
}

impl Law {
    fn read(text: &str) -> Result<Self, ParseQuantityError> {
        const EXPECTED: &str = "a number of tokens such as `2000` or `2k` in the mean, `constant:2000`, \
                                `mean:2000,p95:6000` or `500..4000`";
        let trimmed = text.trim();
        if let Some(rest) = trimmed.strip_prefix("constant:") {
            return tokens(rest.trim()).map(Self::Constant);
        }
        if let Some((least, most)) = trimmed.split_once("..") {
            let (least, most) = (tokens(least.trim())?, tokens(most.trim())?);
            return if least < most {
                Ok(Self::Between(least, most))
            } else {
                Err(wrong(text, "the shorter length first, such as `500..4000`"))
            };
        }
        if !trimmed.contains(':') {
            // A number that cannot be is told so; of anything else the forms are.
            let number = trimmed.starts_with(|c: char| c.is_ascii_digit());
            return tokens(trimmed)
                .map(Self::Mean)
                .map_err(|error| if number { error } else { wrong(text, EXPECTED) });
        }
        let (mut mean, mut told) = (None, None);
        for part in trimmed.split(',') {
            let (name, length) = part.split_once(':').ok_or_else(|| wrong(text, EXPECTED))?;
            let length = tokens(length.trim())?;
            let name = name.trim();
            let at = TOLD_AT.iter().find(|(known, _)| *known == name);
            let free = match (name, at) {
                ("mean", _) => mean.replace(length).is_none(),
                (_, Some((_, deviations))) => told.replace((name, *deviations, length)).is_none(),
                _ => return Err(wrong(text, "`mean:` and one of p90, p95, p99, p99.9")),
            };
            if !free {
                return Err(wrong(text, "a mean and one percentile"));
            }
        }
        match (mean, told) {
            (Some(mean), None) => Ok(Self::Mean(mean)),
            (Some(mean), Some((name, at, length))) => {
                sigma(mean, at, length).map(|sigma| Self::Told(mean, sigma)).ok_or_else(|| {
                    let most = (at * at / 2.0).exp();
                    wrong(
                        text,
                        format!("a {name} of 1 to {most:.1} times the mean, as log-normal lengths have it"),
                    )
                })
            }
            (None, _) => Err(wrong(text, EXPECTED)),
        }
    }
}

/// The deviation of the logarithm of log-normal lengths of this mean, which so many deviations above
/// the median have this length: `ln(length / mean) = at σ − σ² / 2`. `None`: no law has it.
fn sigma(mean: Tokens, at: f64, length: Tokens) -> Option<f64> {
    let ratio = (length.0 as f64 / mean.0 as f64).ln();
    let under = at * at - 2.0 * ratio;
    (ratio >= 0.0 && under >= 0.0).then(|| at - under.sqrt())
}
