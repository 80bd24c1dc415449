//! Forecasts as text, tables, JSON and a page.

use crate::{
    Style,
    figures::{number, percent},
    html::{Page, Section, figure},
    record::{Fields, Record},
    svg,
};
use gpuwise_domain::forecast::{Backtest, HorizonForecast, LevelValue, SeriesForecast};
use gpuwise_units::Seconds;
use std::fmt::Write as _;

/// Forecasts of the series of a file.
#[derive(Debug, Clone, Copy)]
pub struct Report<'a> {
    pub file: &'a str,
    pub series: &'a [SeriesForecast],
}

/// A horizon of a series, as a row.
#[derive(Debug, Clone, Copy)]
struct Row<'a>(&'a SeriesForecast, &'a HorizonForecast);

impl Report<'_> {
    fn rows(&self) -> Vec<Row<'_>> {
        let each = self.series.iter();
        each.flat_map(|series| series.horizons.iter().map(move |one| Row(series, one)))
            .collect()
    }
}

impl Record for Report<'_> {
    const NAME: &'static str = "Forecast";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("file", |r| r.file);
        of.list("series", |r| r.series);
    }
}

impl Record for SeriesForecast {
    const NAME: &'static str = "SeriesForecast";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("name", |s| &s.name);
        of.field("period_seconds", |s| s.period.0 as f64 / 1e9);
        of.field("readings", |s| s.readings.len());
        of.field("missing", Self::missing);
        of.field("last", Self::last);
        of.field("outage", |s| s.outage);
        of.field("notes", |s| s.notes.as_slice());
        of.list("horizons", |s| &s.horizons);
    }
}

impl Record for HorizonForecast {
    const NAME: &'static str = "HorizonForecast";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("ahead_seconds", |h| h.ahead.0 as f64 / 1e9);
        of.field("point", |h| h.point);
        of.list("quantiles", |h| &h.quantiles);
        of.list("highest", |h| &h.highest);
        of.made("experts", |h| {
            h.experts
                .iter()
                .map(|(name, weight)| Weight(name, *weight))
                .collect()
        });
        of.field("last_value_said", |h| h.gated);
        of.maybe("backtest", |h| h.judged.as_ref());
    }
}

impl Record for LevelValue {
    const NAME: &'static str = "Quantile";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("level", |q| q.level);
        of.field("value", |q| q.value);
    }
}

struct Weight(&'static str, f64);

impl Record for Weight {
    const NAME: &'static str = "ExpertWeight";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("expert", |w| w.0);
        of.field("weight", |w| w.1);
    }
}

/// A share of 1 in percent, with a decimal: forecasts differ by little.
fn tenths(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

impl Record for Backtest {
    const NAME: &'static str = "Backtest";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("readings", |b| b.readings);
        of.column("wape", "WAPE", |b| b.wape).said_of(tenths);
        of.column("wape_last", "last value", |b| b.wape_last)
            .said_of(tenths);
        of.column("wape_day", "day before", |b| b.wape_day)
            .said_of(tenths)
            .priority(1);
        of.column("covered_90", "below p90", |b| b.covered)
            .percent();
        of.column("covered_highest_90", "highest below", |b| b.covered_highest)
            .percent()
            .priority(2);
    }
}

impl Record for Row<'_> {
    const NAME: &'static str = "ForecastRow";

    fn fields(of: &mut Fields<'_, Self>) {
        of.column("series", "Series", |r| r.0.name.as_str())
            .said_as(|name| {
                if name.is_empty() {
                    "–".into()
                } else {
                    name.into()
                }
            });
        of.column("ahead_seconds", "Ahead", |r| r.1.ahead.0 as f64 / 1e9)
            .said_of(|seconds| Seconds::new(seconds).to_string());
        of.column("last", "Now", |r| r.0.last()).priority(3);
        of.column("p10", "p10", |r| r.1.at(0.10));
        of.column("point", "Expected", |r| r.1.point);
        of.column("p90", "p90", |r| r.1.at(0.90));
        of.column("highest_p90", "Highest p90", |r| r.1.highest_at(0.90));
        of.column("highest_p99", "p99", |r| r.1.highest_at(0.99))
            .priority(4);
        of.maybe("backtest", |r| r.1.judged.as_ref()).grouped();
    }
}

/// The JSON Schema of a report.
pub fn schema(name: &str) -> String {
    crate::record::document_schema::<Report<'_>>(
        name,
        "What comes, as quantiles, and how good that was so far",
    )
}

/// One row for each horizon of each series.
pub fn table(report: &Report<'_>) -> crate::table::Table {
    crate::record::table(&report.rows())
}

/// What people see.
pub fn text(report: &Report<'_>, style: Style) -> String {
    let mut out = table(report).to_text(style);
    let mut notes: Vec<String> = Vec::new();
    for series in report.series {
        let name = if series.name.is_empty() {
            String::new()
        } else {
            format!("{}: ", series.name)
        };
        if series.outage {
            notes.push(format!(
                "{name}demand has gone at once, as in an outage: what it was comes back at any time"
            ));
        }
        notes.extend(series.notes.iter().map(|note| format!("{name}{note}")));
    }
    out.push('\n');
    out.push_str(
        "Requests (or tokens) a second; highest: of all readings until then. WAPE: absolute errors over\n\
         readings, of forecasts made from what came before alone, beside the last value's and the day's.\n",
    );
    for note in notes {
        let _ = writeln!(out, "{}", style.wrap_after("Note     ", &note, 9));
    }
    out
}

/// The page.
pub fn page(report: &Report<'_>, made: &str) -> String {
    let mut sections = vec![Section {
        id: "table",
        title: "What comes",
        body: table(report).to_html("Requests a second ahead, and how good forecasts were so far"),
    }];
    let mut body = String::new();
    for (at, series) in report.series.iter().enumerate() {
        for (index, horizon) in series.horizons.iter().enumerate() {
            let picture = svg::forecast(series, horizon, &format!("forecast-{at}-{index}"));
            let caption = format!(
                "{}, {} ahead: what came, and what was said before",
                series.name, horizon.ahead
            );
            body += &figure(&picture, &caption);
        }
    }
    sections.push(Section {
        id: "series",
        title: "What was said, and what came",
        body,
    });
    let answer = report
        .rows()
        .first()
        .map_or_else(String::new, |Row(series, one)| {
            let range = one.at(0.10).zip(one.at(0.90));
            let range = range.map_or_else(String::new, |(low, high)| {
                format!(" ({}–{})", number(low), number(high))
            });
            let name = if series.name.is_empty() {
                "Demand".to_owned()
            } else {
                series.name.clone()
            };
            format!(
                "{name} in {}: {}{range} requests a second.",
                one.ahead,
                number(one.point)
            )
        });
    Page {
        title: format!("Forecast of {}", report.file),
        answer,
        head: String::new(),
        sections,
    }
    .finish(made)
}

/// What is said of the coverage of a horizon.
pub(crate) fn coverage(judged: &Backtest) -> String {
    format!(
        "WAPE {}, last value {}; {} of readings below the 90 % quantile",
        tenths(judged.wape),
        tenths(judged.wape_last),
        percent(judged.covered)
    )
}
