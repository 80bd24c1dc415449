//! Values as tools write them: numbers with units, words for none, flags, times.

use super::fields::Field;
use gpuwise_domain::telemetry::{Missing, Quantity, ReadingValue};

/// The value of a field's text, in the quantity's unit.
pub(super) fn value(text: &str, field: &Field) -> ReadingValue {
    match number(text, &field.unit, field.quantity) {
        Ok(number) => checked(number, field.quantity),
        Err(missing) => ReadingValue::Unknown(missing),
    }
}

/// The value of a number in a field's unit, numbers that stand for none apart.
pub(crate) fn value_of(number: f64, field: &Field) -> ReadingValue {
    if !number.is_finite() {
        return ReadingValue::Unknown(Missing::NotANumber);
    }
    if let Some(missing) = blank(number) {
        return ReadingValue::Unknown(missing);
    }
    match scaled(number, &field.unit, field.quantity) {
        Some(value) => checked(value, field.quantity),
        None => ReadingValue::Unknown(Missing::NotANumber),
    }
}

/// Shares lie from 0 to 1; counts and amounts are not negative.
fn checked(value: f64, quantity: Quantity) -> ReadingValue {
    let highest = if quantity.unit() == "ratio" {
        // Sampling and rounding lead a little beyond.
        1.05
    } else {
        f64::MAX
    };
    let lowest = if quantity.unit() == "C" { -300.0 } else { 0.0 };
    if !value.is_finite() {
        ReadingValue::Unknown(Missing::NotANumber)
    } else if value < lowest || value > highest {
        ReadingValue::Unknown(Missing::OutOfRange)
    } else {
        ReadingValue::Known(value)
    }
}

/// DCGM's numbers for no value (dcgm_structs.h: `DCGM_INT32_BLANK`, `DCGM_INT64_BLANK`,
/// `DCGM_FP64_BLANK`, and up to three more for not found, not supported, not permitted).
fn blank(number: f64) -> Option<Missing> {
    const INT32: f64 = 2147483632.0;
    const INT64: f64 = 9223372036854775792.0;
    const FP64: f64 = 140737488355328.0;
    if number >= INT64 {
        return Some(Missing::Blank);
    }
    let nth = [INT32, FP64]
        .into_iter()
        .map(|base| number - base)
        .find(|beyond| (0.0..=3.0).contains(beyond))?;
    Some(match nth as u32 {
        1 => Missing::NotFound,
        2 => Missing::NotSupported,
        3 => Missing::NoPermission,
        _ => Missing::Blank,
    })
}

/// Words that stand for no value, brackets apart.
pub(super) fn missing(text: &str) -> Option<Missing> {
    let word = text
        .trim()
        .trim_start_matches('[')
        .trim_end_matches(']')
        .trim()
        .to_ascii_lowercase();
    Some(match word.as_str() {
        "" | "n/a" | "-" | "none" | "unknown" | "--" => Missing::NotAvailable,
        // The last is what Windows' display driver says of the memory of a process.
        "not supported" | "notsupported" | "not available in wddm driver model" => {
            Missing::NotSupported
        }
        "insufficient permissions" | "no permission" => Missing::NoPermission,
        "function not found" | "field not found" | "not found" => Missing::NotFound,
        "unknown error" | "gpu is lost" | "gpu requires reset" | "err!" | "error" => {
            Missing::DriverError
        }
        other if other.starts_with("requested functionality h") => Missing::Deprecated,
        _ => return None,
    })
}

fn number(text: &str, unit: &str, quantity: Quantity) -> Result<f64, Missing> {
    if let Some(missing) = missing(text) {
        return Err(missing);
    }
    let text = text.trim();
    if let Some(bit) = unit.strip_prefix("bit:") {
        let set = flag(text).ok_or(Missing::NotANumber)?;
        return Ok(if set {
            bit.parse().map_err(|_| Missing::NotANumber)?
        } else {
            0.0
        });
    }
    if unit == "flag"
        && let Some(set) = flag(text)
    {
        return Ok(f64::from(u8::from(set)));
    }
    if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return u64::from_str_radix(hex, 16)
            .map(|bits| bits as f64)
            .map_err(|_| Missing::NotANumber);
    }
    // `P8`, `(1402Mhz)`.
    let text = text
        .trim_start_matches(['P', '(', 'p'])
        .trim_end_matches(')');
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+')))
        .unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    let number: f64 = digits.parse().map_err(|_| Missing::NotANumber)?;
    if let Some(missing) = blank(number) {
        return Err(missing);
    }
    let own = rest.trim();
    let unit = if own.is_empty() || own.eq_ignore_ascii_case("x") {
        unit
    } else {
        own
    };
    scaled(number, unit, quantity).ok_or(Missing::NotANumber)
}

/// Whether a word says yes or no.
pub(super) fn flag(text: &str) -> Option<bool> {
    Some(match text.trim().to_ascii_lowercase().as_str() {
        "active" | "enabled" | "yes" | "true" | "on" | "1" => true,
        "not active" | "disabled" | "no" | "false" | "off" | "0" => false,
        _ => return None,
    })
}

/// A number of one unit in the quantity's unit; `None` where the two do not belong together.
fn scaled(number: f64, unit: &str, quantity: Quantity) -> Option<f64> {
    let unit = unit.trim();
    // Numbers are divided where that is exact: 35 % is 0.35, and 35 × 0.01 is not.
    Some(match (quantity.unit(), unit) {
        ("ratio", "%") => number / 100.0,
        ("bytes", "KiB") => number * 1024.0,
        ("bytes", "MiB" | "MB") => number * 1048576.0,
        ("bytes", "GiB") => number * 1073741824.0,
        ("bytes/s", "KB/s") => number * 1e3,
        ("bytes/s", "MB/s") => number * 1e6,
        ("bytes/s", "GB/s") => number * 1e9,
        ("ratio", "ratio")
        | ("bytes" | "count", "B")
        | ("bytes/s", "B/s")
        | ("W", "W")
        | ("J", "J")
        | ("C", "C")
        | ("V", "V")
        | ("s", "s")
        | ("count", "x" | "count" | "bank(s)")
        | ("code", "pstate" | "code")
        | ("flag", "flag")
        | ("bits", "bits") => number,
        ("W" | "J" | "V", "mW" | "mJ" | "mV") | ("s", "ms") => number / 1e3,
        ("MHz", _) if unit.eq_ignore_ascii_case("MHz") => number,
        ("MHz", "Hz") | ("s", "us") => number / 1e6,
        ("s", "ns") => number / 1e9,
        _ => return None,
    })
}

/// Seconds since 1970 of `2026/07/14 09:00:27.792`, `Fri Aug  4 11:44:30 2023`, an RFC 3339 time, or a
/// count of seconds or milliseconds. Without a zone the time is taken as UTC.
pub(super) fn seconds(text: &str) -> Option<f64> {
    let text = text.trim().trim_matches('"');
    if let Ok(number) = text.parse::<f64>() {
        return plausible(if number > 1e11 { number / 1e3 } else { number });
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    if let [_, month, day, clock, year] = words.as_slice() {
        const MONTHS: [&str; 12] = [
            "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
        ];
        let month = MONTHS.iter().position(|name| name == month)? + 1;
        let day: u32 = day.parse().ok()?;
        return iso(&format!("{year}-{month:02}-{day:02} {clock}"));
    }
    iso(&text.replace('/', "-"))
}

fn iso(text: &str) -> Option<f64> {
    let nanoseconds = crate::traffic::timestamp::nanoseconds(text)?;
    plausible((nanoseconds / 1_000_000) as f64 / 1e3)
}

fn plausible(seconds: f64) -> Option<f64> {
    (0.0..1e11).contains(&seconds).then_some(seconds)
}
