//! `gpuwise forecast`: demand some minutes ahead, as quantiles, and how good that was so far.

use super::{
    Context, Exit,
    series::{self, Series},
};
use crate::{error::Problem, made::made, settings::Format, write::Pending};
use gpuwise_domain::forecast::SeriesForecast;
use gpuwise_scale::forecast::report;
use gpuwise_units::Nanoseconds;
use gpuwise_view::forecast as view;
use std::path::PathBuf;

/// Periods ahead at most.
const FARTHEST: u64 = 1000;

/// Flags of `gpuwise forecast`.
#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Rates over time, or a trace of requests; `-` is standard input, `servegen:NAME` a public series
    ///
    /// A CSV with a header: a time (t_s, time, timestamp: seconds, or dates with times), a rate (rate, rps, value …: requests a second) or a number of requests (requests, count: of the period), and perhaps whose it is (series, model,
    /// service) and of which client. Rates of clients at one time are added, and the ten largest clients are forecast
    /// one by one beside the whole. Traces are those that `gpuwise simulate --trace` reads.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// How far ahead; repeat, or with commas
    #[arg(long, value_name = "TIME", value_delimiter = ',', default_values_t = ["10m".to_owned(), "30m".to_owned()])]
    horizon: Vec<String>,
    /// Between two readings [default: as the file has it; of a trace 1m]
    #[arg(long, value_name = "TIME")]
    period: Option<String>,
    /// Tokens of prefill and of decode a second, too, each for itself (of a trace)
    #[arg(long)]
    tokens: bool,
    /// Only series whose name holds this
    #[arg(long, value_name = "NAME")]
    series: Option<String>,
    /// Write what was said and what came into one self-contained HTML file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

pub fn run(context: &Context, flags: &Flags) -> anyhow::Result<Exit> {
    let html = flags.html.as_deref().map(Pending::new).transpose()?;
    let period = flags
        .period
        .as_deref()
        .map(|text| series::time("--period", text))
        .transpose()?;
    let horizons: Vec<Nanoseconds> = flags
        .horizon
        .iter()
        .map(|text| series::time("--horizon", text))
        .collect::<anyhow::Result<_>>()?;
    let only = flags.series.as_deref();
    let (shown, read) = series::read_apart(&flags.file, only, period, flags.tokens)?;
    let series = read.iter().map(|one| {
        let Series {
            name,
            regular,
            clients,
        } = one;
        let ahead = periods(regular.period, &horizons)?;
        Ok(report(name, regular, clients, &ahead))
    });
    let series = series.collect::<anyhow::Result<Vec<SeriesForecast>>>()?;
    let report = view::Report {
        file: &shown,
        series: &series,
    };
    if let Some(file) = html {
        file.finish(&view::page(&report, &made()))?;
    }
    match context.form.format {
        Format::Table => context.data(&view::text(&report, context.form.style))?,
        Format::Json => context.json(&gpuwise_view::record::json(&report))?,
        _ => context.table(&view::table(&report))?,
    }
    Ok(Exit::Yes)
}

/// What an answer of this command is, as a schema.
pub(super) fn schema(name: &str) -> String {
    view::schema(name)
}

/// Horizons in whole periods.
fn periods(period: Nanoseconds, horizons: &[Nanoseconds]) -> anyhow::Result<Vec<u32>> {
    let mut all = Vec::new();
    for horizon in horizons {
        let count = (horizon.0 + period.0 / 2) / period.0.max(1);
        if count == 0 || count > FARTHEST {
            let what = format!(
                "--horizon {horizon}: with {period} a reading it is {count} periods; 1 to {FARTHEST} are forecast"
            );
            return Err(Problem::new(what)
                .hint("--period says another time between readings")
                .into());
        }
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        if !all.contains(&count) {
            all.push(count);
        }
    }
    Ok(all)
}
