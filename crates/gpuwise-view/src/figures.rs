//! Numbers for people: three significant digits at most, the unit a reader would say, `–` for what
//! is not known.

use gpuwise_domain::estimate::Estimate;
use gpuwise_units::{Bytes, HourlyPrice, Seconds, group_thousands, significant};

/// What stands where nothing is known.
pub const MISSING: &str = "–";

pub fn number(value: f64) -> String {
    significant(value, 3)
}

/// A count, exactly; commas from 10,000 up.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    if value < 10_000 {
        digits
    } else {
        group_thousands(&digits)
    }
}

/// Seconds as `480 ms`, `3.2 s`, `2 d 4 h`; `–` for what is not a time.
pub fn seconds(value: f64) -> String {
    if value.is_finite() && value >= 0.0 {
        Seconds::new(value).to_string()
    } else {
        MISSING.into()
    }
}

/// Bytes in binary units: `37.4 GiB`.
pub fn bytes(value: Bytes) -> String {
    value.to_string()
}

/// GiB without the unit, for columns that share it; two decimals at most, so that parts add up.
pub fn gib(value: Bytes) -> String {
    let gib = value.gib();
    if gib == 0.0 {
        return "0".into();
    }
    if gib < 0.005 {
        return "< 0.01".into();
    }
    if gib >= 100.0 {
        format!("{gib:.0}")
    } else if gib >= 10.0 {
        format!("{gib:.1}")
    } else {
        format!("{gib:.2}")
    }
}

/// A share of 1 as `71 %`; below one percent with one digit more, and `<0.1 %` for what that hides.
pub fn percent(share: f64) -> String {
    if !share.is_finite() {
        return MISSING.into();
    }
    let value = share * 100.0;
    if value > 0.0 && value < 0.05 {
        "<0.1 %".into()
    } else if value != 0.0 && value.abs() < 0.995 {
        format!("{} %", significant(value, 1))
    } else {
        format!("{value:.0} %")
    }
}

/// Money an hour without its currency, for columns that name it: cents from 1 up, three digits below.
pub fn hourly(price: HourlyPrice) -> String {
    amount(price.0.as_f64())
}

/// An amount of money without its currency.
pub fn amount(value: f64) -> String {
    if !value.is_finite() {
        MISSING.into()
    } else if value == 0.0 {
        "0".into()
    } else if value.abs() >= 1000.0 {
        group_thousands(&format!("{value:.0}"))
            .trim_start_matches("-0")
            .into()
    } else if value.abs() >= 100.0 {
        format!("{value:.1}")
    } else if value.abs() >= 0.1 {
        format!("{value:.2}")
    } else {
        significant(value, 2)
    }
}

/// The sign that people write before an amount; the code and a space where there is none.
pub fn currency_sign(code: &str) -> String {
    match code {
        "USD" => "$".into(),
        "EUR" => "€".into(),
        "GBP" => "£".into(),
        other => format!("{other} "),
    }
}

gpuwise_units::named! {
    /// A unit that the times of a column share.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum TimeUnit: symbol {
        /// 10⁻⁶ s.
        Microseconds = "µs",
        /// 10⁻³ s.
        Milliseconds = "ms",
        Seconds = "s",
        /// 60 s.
        Minutes = "min",
        /// 3600 s.
        Hours = "h",
    }
}

impl TimeUnit {
    /// The unit in which all of these seconds read well.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
        for value in values.into_iter().filter(|v| v.is_finite() && *v > 0.0) {
            least = least.min(value);
            most = most.max(value);
        }
        if most == 0.0 || ((1e-3..10.0).contains(&most) && least < 1.0) {
            Self::Milliseconds
        } else if most < 1e-3 {
            Self::Microseconds
        } else if most < 600.0 || least < 60.0 {
            Self::Seconds
        } else if least < 7200.0 {
            Self::Minutes
        } else {
            Self::Hours
        }
    }

    /// How many of it are in a second.
    pub const fn per_second(self) -> f64 {
        match self {
            Self::Microseconds => 1e6,
            Self::Milliseconds => 1e3,
            Self::Seconds => 1.0,
            Self::Minutes => 1.0 / 60.0,
            Self::Hours => 1.0 / 3600.0,
        }
    }
}

/// `29 (25–33)`: the value with its range, no more digits than the range allows.
pub fn ranged(estimate: &Estimate) -> String {
    let Estimate { value, low, high } = *estimate;
    if !value.is_finite() {
        return MISSING.into();
    }
    if !(low.is_finite() && high.is_finite()) || high - low <= value.abs() * 1e-3 {
        return number(value);
    }
    let digits = if high - low > value.abs() * 0.05 {
        2
    } else {
        3
    };
    format!(
        "{} ({}–{})",
        significant(value, digits),
        significant(low, digits),
        significant(high, digits)
    )
}

/// Seconds with their range in a unit that the column names: `29 (25–33)`.
pub fn ranged_in(estimate: &Estimate, unit: TimeUnit) -> String {
    ranged(&estimate.scaled(unit.per_second()))
}

/// Seconds with their range and unit: `29 ms (25–33)`.
pub fn ranged_seconds(estimate: &Estimate) -> String {
    with_unit(estimate, TimeUnit::of([estimate.value]))
}

fn with_unit(estimate: &Estimate, unit: TimeUnit) -> String {
    let text = ranged_in(estimate, unit);
    match text.split_once(" (") {
        Some((value, range)) => format!("{value} {} ({range}", unit.symbol()),
        None if text == MISSING => text,
        None => format!("{text} {}", unit.symbol()),
    }
}

/// A figure with its range and the unit after the value: `2400 tokens/s (2100–2700)`.
pub fn ranged_unit(estimate: &Estimate, unit: &str) -> String {
    let text = ranged(estimate);
    match text.split_once(" (") {
        Some((value, range)) => format!("{value} {unit} ({range}"),
        None if text == MISSING => text,
        None => format!("{text} {unit}"),
    }
}
