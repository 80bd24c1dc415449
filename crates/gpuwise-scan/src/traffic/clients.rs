//! ServeGen's tables as clients: what each sends when, and how long its requests are.

use super::{LengthTable, LengthWindow, RateTable, RateWindow};
use gpuwise_domain::client::{Client, ClientLengths, ClientWindow, GapLaw, LengthFigures};
use gpuwise_units::{Nanoseconds, PerSecond, Seconds};
use std::collections::BTreeMap;

/// What tables call the tokens of prompts; the first that is there counts. Tokens of images, sound and
/// video are columns of their own and are not added.
const INPUTS: [&str; 2] = ["input_tokens", "text_tokens"];
const OUTPUT: &str = "output_tokens";

/// The largest squared coefficient of variation that is taken for one.
const BURSTIEST: f64 = 1000.0;

impl RateTable {
    /// The clients of a model in the order of their numbers, those without requests left out; a table
    /// of totals has one, numbered 0. `lengths` names its models by itself.
    pub fn clients(&self, model: usize, lengths: Option<&LengthTable>) -> Vec<Client> {
        let Some(summary) = self.summary(model) else {
            return Vec::new();
        };
        let mut sent: BTreeMap<u32, Vec<&RateWindow>> = BTreeMap::new();
        for window in self.windows.iter().filter(|window| window.model == model) {
            if window.rate > 0.0 {
                let client = window.client.unwrap_or(0);
                sent.entry(client).or_default().push(window);
            }
        }
        let name = self.models.get(model);
        let mut known = lengths
            .and_then(|table| {
                let model = table.models.iter().position(|known| Some(known) == name)?;
                Some(by_client(table, model))
            })
            .unwrap_or_default();
        let client = |(number, windows)| Client {
            number,
            windows: in_order(windows, summary.window_seconds),
            lengths: known.remove(&number).unwrap_or_default(),
        };
        sent.into_iter().map(client).collect()
    }
}

/// Windows one after the other; a second one of the same time is left out.
fn in_order(mut windows: Vec<&RateWindow>, seconds: f64) -> Vec<ClientWindow> {
    windows.sort_by(|a, b| a.start_seconds.total_cmp(&b.start_seconds));
    windows.dedup_by(|a, b| a.start_seconds <= b.start_seconds);
    let time = |seconds: f64| Nanoseconds::from_seconds(Seconds::new(seconds));
    let next = windows.iter().skip(1).map(|window| window.start_seconds);
    windows
        .iter()
        .zip(next.chain([f64::INFINITY]))
        .map(|(window, next)| {
            let start = time(window.start_seconds);
            let end = time(next.min(window.start_seconds + seconds));
            ClientWindow {
                start,
                duration: Nanoseconds(end.0.saturating_sub(start.0)),
                rate: PerSecond::new(window.rate),
                gaps: gaps(window),
            }
        })
        .collect()
}

/// The law of a window: the fitted one, or by its variation, or none known: Poisson.
fn gaps(window: &RateWindow) -> GapLaw {
    let shape = |least: f64, most: f64| {
        let (_, shape, _) = window.law.as_ref()?;
        shape.is_finite().then(|| shape.clamp(least, most))
    };
    let law = window.law.as_ref().map_or("", |(name, _, _)| name);
    let fitted = match law.to_ascii_lowercase().as_str() {
        "gamma" => shape(1.0 / BURSTIEST, 1e6).map(|shape| GapLaw::Gamma { shape }),
        "weibull" => shape(0.1, 1e3).map(|shape| GapLaw::Weibull { shape }),
        "exponential" | "expon" | "poisson" => Some(GapLaw::Exponential),
        _ => None,
    };
    let by_variation = || {
        let variation = window.variation.unwrap_or(1.0);
        GapLaw::of_variation((variation * variation).min(BURSTIEST))
    };
    fitted.unwrap_or_else(by_variation)
}

/// Lengths by client, for times when both prompts and answers are told.
fn by_client(table: &LengthTable, model: usize) -> BTreeMap<u32, Vec<ClientLengths>> {
    // Starts are not negative, so their bits order as they do.
    let mut told: BTreeMap<(u32, u64), [Option<&LengthWindow>; 2]> = BTreeMap::new();
    let rank = |window: &LengthWindow| INPUTS.iter().position(|field| *field == window.field);
    for window in table.windows.iter().filter(|window| window.model == model) {
        let start = (window.start_seconds + 0.0).to_bits();
        let pair = told.entry((window.client, start)).or_default();
        if window.field == OUTPUT {
            pair[1] = Some(window);
        } else if let Some(found) = rank(window)
            && pair[0].is_none_or(|known| rank(known).is_none_or(|known| found < known))
        {
            pair[0] = Some(window);
        }
    }
    let figures = |window: &LengthWindow| LengthFigures {
        mean: window.mean,
        p50: window.p50,
        p95: window.p95,
        max: window.max,
    };
    let mut lengths: BTreeMap<u32, Vec<ClientLengths>> = BTreeMap::new();
    for ((client, start), pair) in told {
        let [Some(input), Some(output)] = pair else {
            continue;
        };
        lengths.entry(client).or_default().push(ClientLengths {
            start: Nanoseconds::from_seconds(Seconds::new(f64::from_bits(start))),
            input: figures(input),
            output: figures(output),
        });
    }
    lengths
}
