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

/// A share of requests: as many digits as it has nines, and one.
fn share(value: f64) -> String {
    format!("{:.2} %", value * 100.0)
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
    format!(
        "A replica serves {} requests a second, each for {} s; one that waits longer than {} s is late; {warm}.",
        number(of.rate),
        number(of.service),
        number(of.wait)
    )
}
