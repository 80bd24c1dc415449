//! Replicas that follow demand, as text, tables, JSON and pages.

mod mix;
pub mod plan;
pub mod replay;

use crate::{
    figures::number,
    record::{Fields, Record},
};
use gpuwise_domain::scale::{ScaleSample, ScaleService};

impl Record for ScaleService {
    const NAME: &'static str = "ScaleService";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("requests_per_second", |s| s.rate);
        of.field("request_seconds", |s| s.service);
        of.field("wait_seconds", |s| s.wait);
        of.field("wake_seconds", |s| s.wake);
        of.field("warm_cost", |s| s.warm_cost);
        of.field("dispersion", |s| s.dispersion);
        of.field("min_replicas", |s| s.min);
        of.field("idle_seconds", |s| s.idle);
    }
}

impl Record for ScaleSample {
    const NAME: &'static str = "ScaleSample";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("at_seconds", |s| s.at.0 as f64 / 1e9);
        of.field("requests_per_second", |s| s.rate);
        of.field("serving", |s| s.serving);
        of.field("warm", |s| s.warm);
    }
}

/// A cost over the bound's.
fn ratio(value: f64) -> String {
    format!("{value:.2} ×")
}

/// A share of requests: two places, and as many as it takes that what is less than all is not shown as all, nor what
/// is more than nothing as nothing.
fn share(value: f64) -> String {
    format!("{} %", percent(value, 2))
}

/// An objective, as it was said.
fn objective(value: f64) -> String {
    format!("{} %", percent(value, 0))
}

/// In percent, with so many places at least: with two digits of what is left to nothing or to all, so that it is shown
/// as neither where it is not.
fn percent(value: f64, places: usize) -> String {
    let percent = value * 100.0;
    let left = (100.0 - percent).min(percent);
    if !(left.is_finite() && left > 0.0) {
        return format!("{percent:.places$}");
    }
    // Places of the first digit that is not 0 of what is left to nothing or all.
    let first = (0..9_u8)
        .find(|place| left * 10_f64.powi(i32::from(*place)) >= 1.0 - 1e-6)
        .map_or(9, usize::from);
    let shown = format!("{percent:.*}", places.max(first + 2));
    let (whole, digits) = shown.split_once('.').unwrap_or((&shown, ""));
    let digits = digits.trim_end_matches('0');
    let digits = format!("{digits:0<places$}");
    if digits.is_empty() {
        whole.to_owned()
    } else {
        format!("{whole}.{digits}")
    }
}

/// What a service is, as a sentence.
fn service(of: &ScaleService) -> String {
    let warm = of.warm_cost.map_or_else(
        || "none can be warm".to_owned(),
        |cost| {
            format!(
                "a warm one wakes in {} s and costs {:.0} % of one that serves, lent meanwhile",
                number(of.wake),
                cost * 100.0
            )
        },
    );
    let none = if of.min == 0 {
        let idle = number(of.idle);
        format!(" Ours has none once nothing has come, waited, run or started for {idle} s.")
    } else {
        String::new()
    };
    format!(
        "A replica serves {} requests a second, each for {} s; one that waits longer than {} s is late; {warm}.{none}",
        number(of.rate),
        number(of.service),
        number(of.wait)
    )
}

#[cfg(test)]
mod tests {
    use super::{objective, share};

    #[test]
    fn what_is_less_than_all_is_not_shown_as_all() {
        for (value, kept, asked) in [
            (0.9995, "99.95 %", "99.95 %"),
            (0.999_95, "99.995 %", "99.995 %"),
            (0.99, "99.00 %", "99 %"),
            (0.999, "99.90 %", "99.9 %"),
            (0.999_999, "99.9999 %", "99.9999 %"),
            (0.912_345, "91.23 %", "91.23 %"),
            (0.998_99, "99.899 %", "99.899 %"),
            (1.0, "100.00 %", "100 %"),
            (0.0, "0.00 %", "0 %"),
            (0.000_01, "0.001 %", "0.001 %"),
        ] {
            assert_eq!(
                (share(value), objective(value)),
                (kept.into(), asked.into())
            );
        }
    }
}
