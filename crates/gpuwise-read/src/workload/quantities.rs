//! Quantities of a workload from texts: the same for files and flags.

use gpuwise_domain::workload::{LengthQuantile, Target};
use gpuwise_units::{
    HourlyPrice, Money, Nanoseconds, ParseQuantityError, PerSecond, Percentile, Seconds, Tokens,
    Watts,
};

/// Requests longer than this do not exist, prompt and output together.
pub(super) const LONGEST_REQUEST: u64 = 10 << 20;

pub(super) fn wrong(text: &str, expected: impl Into<String>) -> ParseQuantityError {
    ParseQuantityError {
        text: text.into(),
        expected: expected.into(),
    }
}

/// A bound on a latency: `p95:1s`, `mean:40ms`.
///
/// A bare time is refused: whether it bounds the mean or a tail decides how many GPUs are needed.
///
/// # Errors
/// When the percentile or the time is missing or cannot be.
pub fn target(text: &str) -> Result<Target, ParseQuantityError> {
    let trimmed = text.trim();
    let Some((of, time)) = trimmed.split_once(':') else {
        if trimmed.parse::<Nanoseconds>().is_ok() {
            return Err(wrong(
                text,
                format!(
                    "a target: say of which requests, such as `p95:{trimmed}` (95 of 100) or `mean:{trimmed}`"
                ),
            ));
        }
        return Err(wrong(text, "a target such as `p95:1s` or `mean:40ms`"));
    };
    let percentile = match of.trim() {
        "mean" | "avg" => None,
        "median" => Some(Percentile::P50),
        percentile => Some(percentile.parse()?),
    };
    let time: Nanoseconds = time.trim().parse()?;
    if time == Nanoseconds(0) {
        return Err(wrong(text, "a target above 0"));
    }
    Ok(Target {
        percentile,
        at_most: time.seconds(),
    })
}

/// Something a second: `8/s`, `600/min`; more than 0.
///
/// # Errors
/// When it is no rate, 0, or beyond 10⁹ a second.
pub fn rate(text: &str) -> Result<PerSecond, ParseQuantityError> {
    let rate: PerSecond = text.parse()?;
    if rate.get() > 0.0 && rate.get() <= 1e9 {
        Ok(rate)
    } else {
        Err(wrong(text, "a rate above 0 and up to 10^9 a second"))
    }
}

/// A number of requests in flight.
///
/// # Errors
/// When it is no whole number from 1 to 10⁹.
pub fn concurrency(text: &str) -> Result<u64, ParseQuantityError> {
    match text.trim().parse() {
        Ok(count @ 1..=1_000_000_000) => Ok(count),
        _ => Err(wrong(text, "a whole number of requests from 1")),
    }
}

/// A number of tokens: `2000`, `32k`; at least 1.
///
/// # Errors
/// When it is no number of tokens, 0, or beyond 10 million.
pub fn tokens(text: &str) -> Result<Tokens, ParseQuantityError> {
    let tokens: Tokens = text.parse()?;
    if (1..=LONGEST_REQUEST).contains(&tokens.0) {
        Ok(tokens)
    } else {
        Err(wrong(text, "a number of tokens from 1 to 10M"))
    }
}

/// A quantile of lengths: `p95:4000`.
///
/// # Errors
/// When the percentile or the number of tokens is missing or cannot be.
pub fn length_quantile(text: &str) -> Result<LengthQuantile, ParseQuantityError> {
    let (percentile, length) = text
        .trim()
        .split_once(':')
        .ok_or_else(|| wrong(text, "a percentile and tokens, such as `p95:4000`"))?;
    Ok(LengthQuantile {
        percentile: percentile.trim().parse()?,
        tokens: tokens(length.trim())?,
    })
}

/// A squared coefficient of variation: 0 for equal ones, 1 for Poisson.
///
/// # Errors
/// When it is no number from 0 to 10⁶.
pub fn burstiness(text: &str) -> Result<f64, ParseQuantityError> {
    match text.trim().parse::<f64>() {
        Ok(value) if (0.0..=1e6).contains(&value) => Ok(value),
        _ => Err(wrong(
            text,
            "a squared coefficient of variation from 0, such as `1`",
        )),
    }
}

/// A share: `0.3` or `30%`.
///
/// # Errors
/// When it is outside of 0 to 1.
pub fn share(text: &str) -> Result<f64, ParseQuantityError> {
    let trimmed = text.trim();
    let value = match trimmed.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
        None => trimmed.parse(),
    };
    match value {
        Ok(value) if (0.0..=1.0).contains(&value) => Ok(value),
        _ => Err(wrong(text, "a share from 0 to 1, such as `0.3` or `30%`")),
    }
}

/// Percent: `1%`.
///
/// # Errors
/// When the sign is missing, or it is outside of 0 to 100.
pub fn percent(text: &str) -> Result<f64, ParseQuantityError> {
    let value = text
        .trim()
        .strip_suffix('%')
        .map(|percent| percent.trim().parse::<f64>());
    match value {
        Some(Ok(value)) if (0.0..=100.0).contains(&value) => Ok(value),
        _ => Err(wrong(text, "percent from 0 to 100, such as `1%`")),
    }
}

/// Money an hour: `25USD/h`.
///
/// # Errors
/// When the currency or `/h` is missing, or it is not above 0.
pub fn budget(text: &str) -> Result<HourlyPrice, ParseQuantityError> {
    const EXPECTED: &str = "an amount an hour with its currency, such as `25USD/h`";
    let amount = text
        .trim()
        .strip_suffix("/h")
        .ok_or_else(|| wrong(text, EXPECTED))?;
    let money = Money::given(amount)?;
    if money.micros <= 0 {
        return Err(wrong(text, "an amount above 0"));
    }
    Ok(HourlyPrice(money))
}

/// Power: `700W`, `10kW`, `1.2MW`.
///
/// # Errors
/// When the unit is missing, or it is not above 0.
pub fn power(text: &str) -> Result<Watts, ParseQuantityError> {
    let trimmed = text.trim();
    let unit_at = trimmed
        .find(|c: char| c.is_ascii_alphabetic())
        .unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(unit_at);
    let scale = match unit {
        "W" => 1.0,
        "kW" => 1e3,
        "MW" => 1e6,
        _ => 0.0,
    };
    let watts = number.trim().parse::<f64>().unwrap_or(0.0) * scale;
    if watts > 0.0 && watts <= 1e12 {
        Ok(Watts::new(watts))
    } else {
        Err(wrong(
            text,
            "a power with its unit, such as `700W` or `10kW`",
        ))
    }
}

/// A host already owned, as GPU and number: `H100:8` or `8xH100`; a bare name is one GPU.
///
/// # Errors
/// When the name is missing, or the number is not from 1.
pub fn owned(text: &str) -> Result<(String, u32), ParseQuantityError> {
    let (gpu, count) = text.rsplit_once(':').or(times(text)).unwrap_or((text, "1"));
    match (gpu.trim(), count.trim().parse()) {
        ("", _) | (_, Ok(0) | Err(_)) => Err(wrong(
            text,
            "a GPU and how many a host has, such as `H100:8` or `8xH100`",
        )),
        (gpu, Ok(count)) => Ok((gpu.into(), count)),
    }
}

/// Name and count of `8xH100` or `8 × H100`.
fn times(text: &str) -> Option<(&str, &str)> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .filter(|at| *at > 0)?;
    let (count, rest) = text.split_at(digits);
    let name = rest.trim_start().strip_prefix(['x', 'X', '×', '*'])?;
    Some((name, count))
}

pub(super) fn said(seconds: Seconds) -> String {
    seconds.to_string()
}
