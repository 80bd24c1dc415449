//! Traffic as it was seen, from whatever source, as a summary for people and as a workload file.

use gpuwise_read::{
    metrics::{Burstiness, Distribution, Histogram, Observed},
    workload::{WorkloadFields, Written},
};
use gpuwise_view::table::{Cell, Column, Table};

/// Fewer requests than this are no traffic yet.
const FEW: f64 = 100.0;

/// Why lengths are unknown.
pub(super) const NOT_THERE: &str = "unknown: not among these metrics";

#[derive(Debug, Default)]
pub(super) struct ObservedTraffic {
    /// From where, in words.
    pub(super) source: String,
    pub(super) model: Option<String>,
    /// Requests that were answered.
    pub(super) requests: f64,
    pub(super) seconds: Option<f64>,
    /// Mean requests a second.
    pub(super) rate: Option<f64>,
    /// Why it is unknown, where it is.
    pub(super) no_rate: Option<String>,
    /// Mean rates of consecutive hours.
    pub(super) hourly: Vec<f64>,
    /// When the first of them begins.
    pub(super) hourly_from: Option<String>,
    /// Squared coefficient of variation of gaps, and how that is known.
    pub(super) burstiness: Option<(f64, String)>,
    pub(super) input: Option<Lengths>,
    /// Why they are unknown, where they are.
    pub(super) no_input: Option<String>,
    pub(super) output: Option<Lengths>,
    pub(super) no_output: Option<String>,
    /// Share of prompt tokens found in the prefix cache.
    pub(super) prefix_hit: Option<f64>,
    /// Latencies in seconds.
    pub(super) latencies: Vec<(&'static str, Lengths)>,
    pub(super) notes: Vec<String>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Lengths {
    pub(super) mean: f64,
    /// Squared coefficient of variation; `None`: unknown.
    pub(super) variation: Option<f64>,
    /// The longest, or what bounds it.
    pub(super) longest: Option<f64>,
    /// (fraction, value, lowest and highest that it can be).
    pub(super) quantiles: Vec<(f64, f64, f64, f64)>,
    /// Whether values are exact, or interpolated within buckets.
    pub(super) exact: bool,
    /// Whether the longest is only bounded by a sum.
    pub(super) open: bool,
}

impl From<Distribution> for Lengths {
    fn from(seen: Distribution) -> Self {
        Self {
            mean: seen.mean,
            variation: Some(seen.variation),
            longest: seen.longest,
            quantiles: seen
                .quantiles
                .iter()
                .map(|q| (q.fraction, q.value, q.low, q.high))
                .collect(),
            exact: false,
            open: seen.open,
        }
    }
}

impl Lengths {
    /// Of every single value; `None` of none.
    pub(super) fn of(mut values: Vec<f64>, fractions: &[f64]) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let count = values.len() as f64;
        let longest = *values.last()?;
        let mean = values.iter().sum::<f64>() / count;
        let squares = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / count;
        let at = |fraction: f64| {
            let place = fraction * (count - 1.0);
            let (below, above) = (place.floor() as usize, place.ceil() as usize);
            let (low, high) = (values[below], values[above]);
            low + (high - low) * (place - place.floor())
        };
        Some(Self {
            mean,
            variation: (mean > 0.0).then(|| squares / (mean * mean)),
            longest: Some(longest),
            quantiles: fractions
                .iter()
                .map(|fraction| {
                    let value = at(*fraction);
                    (*fraction, value, value, value)
                })
                .collect(),
            exact: true,
            open: false,
        })
    }

    fn at(&self, fraction: f64) -> Option<&(f64, f64, f64, f64)> {
        self.quantiles
            .iter()
            .find(|(of, ..)| (of - fraction).abs() < 1e-9)
    }
}

/// Lengths by a histogram, else their mean by counters.
fn lengths(
    histogram: Option<&Histogram>,
    counted: Option<f64>,
    bound: Option<f64>,
) -> Option<Lengths> {
    let seen = histogram
        .and_then(|histogram| histogram.distribution(bound))
        .map(Lengths::from);
    seen.or_else(|| {
        let mean = histogram.and_then(Histogram::mean).or(counted)?;
        Some(Lengths {
            mean,
            ..Lengths::default()
        })
    })
}

/// What a reader of the figures must know.
fn remarkable(observed: &Observed) -> Vec<String> {
    let mut notes = Vec::new();
    if observed.requests < FEW {
        notes.push(format!(
            "{:.0} requests are few: this may be a warm-up, and percentiles say little",
            observed.requests
        ));
    }
    if let Some(failed) = observed.failed.filter(|failed| *failed > 0.0) {
        notes.push(format!(
            "{failed:.0} requests failed and are not among these"
        ));
    }
    let aborted = observed
        .reasons
        .iter()
        .find(|(reason, _)| reason == "abort");
    if let Some((_, aborted)) = aborted.filter(|(_, count)| *count > 0.0) {
        notes.push(format!(
            "{aborted:.0} requests were aborted by their clients"
        ));
    }
    if let Some(preempted) = observed.preempted.filter(|count| *count > 0.0) {
        notes.push(format!("{preempted:.0} preemptions: the KV cache is short"));
    }
    notes
}

impl ObservedTraffic {
    /// What a server's metrics say, rates apart.
    pub(super) fn of_metrics(observed: &Observed, context: Option<f64>) -> Self {
        let bound = context.or(observed.context);
        let output = lengths(observed.output.as_ref(), observed.counted.1, bound);
        let allowed = observed.max_tokens.as_ref().and_then(Histogram::mean);
        let no_output = match (&output, allowed) {
            (Some(_), _) => None,
            (None, Some(allowed)) => Some(format!(
                "{NOT_THERE}; requests allow {allowed:.0} at most on average"
            )),
            (None, None) => Some(NOT_THERE.into()),
        };
        let latencies = [
            ("TTFT", &observed.ttft),
            ("TPOT", &observed.tpot),
            ("gap between tokens", &observed.itl),
            ("end to end", &observed.end_to_end),
            ("in the queue", &observed.queue),
        ];
        let latencies = latencies.into_iter().filter_map(|(name, histogram)| {
            let seen = histogram.as_ref()?.distribution(None)?;
            Some((name, Lengths::from(seen)))
        });
        Self {
            source: format!("metrics of {}", observed.engine),
            model: observed.model.clone(),
            requests: observed.requests,
            no_input: Some(NOT_THERE.into()),
            input: lengths(observed.input.as_ref(), observed.counted.0, bound),
            output,
            no_output,
            prefix_hit: observed.prefix_hit,
            latencies: latencies.collect(),
            notes: remarkable(observed),
            ..Self::default()
        }
    }

    /// Sets what counts in windows say of burstiness.
    pub(super) fn set_burstiness(&mut self, seen: Option<Burstiness>, seconds: f64) {
        let Some(seen) = seen else { return };
        let value = seen.value.max(0.0);
        let how = if seen.at_least {
            format!(
                "at least: from {} windows of {}, between which the rate varies by {:.0} %",
                seen.windows,
                duration(seconds),
                seen.between * 100.0
            )
        } else {
            format!(
                "from {} windows of {}, give or take {:.0} %",
                seen.windows,
                duration(seconds),
                seen.error * 100.0
            )
        };
        self.burstiness = Some((value, how));
    }

    pub(super) fn peak(&self) -> Option<f64> {
        self.hourly.iter().copied().reduce(f64::max)
    }

    /// The summary for people.
    pub(super) fn table(&self) -> Table {
        let mut table = Table::new(vec![
            Column::left("what", ""),
            Column::right("mean", "mean"),
            Column::right("p50", "p50"),
            Column::right("p95", "p95"),
            Column::right("p99", "p99"),
            Column::right("longest", "longest"),
        ]);
        let mut row = |name: &str, unit: &str, scale: f64, seen: Option<&Lengths>| {
            let title = if unit.is_empty() {
                name.to_owned()
            } else {
                format!("{name}, {unit}")
            };
            let Some(seen) = seen else {
                let mut cells = vec![Cell::text(title)];
                cells.extend((0..5).map(|_| Cell::missing()));
                table.push(cells);
                return;
            };
            let quantile = |fraction: f64| {
                Cell::of(seen.at(fraction), |(_, value, low, high)| {
                    let shown = if seen.exact {
                        figure(value * scale)
                    } else {
                        format!(
                            "{} ({}–{})",
                            figure(value * scale),
                            figure(low * scale),
                            figure(high * scale)
                        )
                    };
                    Cell::new(shown, value * scale)
                })
            };
            let longest = Cell::of(seen.longest, |longest| {
                let sign = if seen.exact { "" } else { "≤ " };
                Cell::new(
                    format!("{sign}{}", figure(longest * scale)),
                    longest * scale,
                )
            });
            table.push(vec![
                Cell::text(title),
                Cell::new(figure(seen.mean * scale), seen.mean * scale),
                quantile(0.5),
                quantile(0.95),
                quantile(0.99),
                longest,
            ]);
        };
        row("prompt (ISL)", "tokens", 1.0, self.input.as_ref());
        row("output (OSL)", "tokens", 1.0, self.output.as_ref());
        for (name, seen) in &self.latencies {
            row(name, "ms", 1e3, Some(seen));
        }
        for line in self.said() {
            table.footnote(line);
        }
        table
    }

    /// Everything beside lengths and latencies, in sentences.
    fn said(&self) -> Vec<String> {
        let mut out = Vec::new();
        let model = self
            .model
            .as_deref()
            .map_or(String::new(), |m| format!(" by {m}"));
        let span = self
            .seconds
            .map_or(String::new(), |s| format!(" in {}", duration(s)));
        out.push(format!(
            "{}: {:.0} requests{model}{span}",
            self.source, self.requests
        ));
        match (self.rate, &self.no_rate) {
            (Some(rate), _) => {
                let peak = self.peak().map_or(String::new(), |peak| {
                    format!(
                        "; {}/s in the busiest of {} hours",
                        figure(peak),
                        self.hourly.len()
                    )
                });
                out.push(format!("rate {}/s on average{peak}", figure(rate)));
            }
            (None, Some(why)) => out.push(format!("rate {why}")),
            (None, None) => {}
        }
        if let Some((value, how)) = &self.burstiness {
            out.push(format!("burstiness {} ({how})", figure(*value)));
        }
        match self.prefix_hit {
            Some(share) => out.push(format!(
                "{} % of prompt tokens found in the prefix cache",
                figure(share * 100.0)
            )),
            None => out.push("how much of the prompts is in the prefix cache is unknown".into()),
        }
        if let (None, Some(why)) = (&self.input, &self.no_input) {
            out.push(format!("ISL {why}"));
        }
        if let (None, Some(why)) = (&self.output, &self.no_output) {
            out.push(format!("OSL {why}"));
        }
        let bucketed = [&self.input, &self.output]
            .into_iter()
            .flatten()
            .any(|seen| !seen.exact && !seen.quantiles.is_empty());
        if bucketed {
            out.push("means are exact; percentiles lie in the bucket in brackets".into());
        }
        out.extend(self.notes.iter().cloned());
        out
    }

    pub(super) fn written(&self) -> Written {
        let mut fields = WorkloadFields {
            model: self.model.clone(),
            rate: self.rate.filter(|rate| *rate > 0.0).map(per_second),
            prefix_hit: self.prefix_hit.map(significant),
            ..WorkloadFields::default()
        };
        let mut remarks = Vec::new();
        if fields.rate.is_some() {
            fields.burstiness = self
                .burstiness
                .as_ref()
                .map(|(value, _)| significant(*value));
            fields.peak_rate = self.peak().filter(|peak| *peak > 0.0).map(per_second);
            fields.rates = self.hourly.iter().copied().map(per_second).collect();
            fields.rates_from = self
                .hourly_from
                .clone()
                .filter(|_| !fields.rates.is_empty());
            remarks.push(("rate", "mean".to_owned()));
            if let Some((_, how)) = &self.burstiness {
                remarks.push(("burstiness", how.clone()));
            }
        } else if let Some(why) = &self.no_rate {
            remarks.push(("rate", format!("{why}; add rate = \"…/s\"")));
        }
        if let Some(seen) = &self.input {
            let (mean, variation, longest, quantiles) = texts(seen);
            fields.isl = Some(mean);
            fields.isl_variation = variation;
            fields.isl_longest = longest;
            fields.isl_quantiles = quantiles;
            remarks.push(("isl_longest", bound(seen)));
        } else if let Some(why) = &self.no_input {
            remarks.push(("isl", why.clone()));
        }
        if let Some(seen) = &self.output {
            let (mean, variation, longest, quantiles) = texts(seen);
            fields.osl = Some(mean);
            fields.osl_variation = variation;
            fields.osl_longest = longest;
            fields.osl_quantiles = quantiles;
            remarks.push(("osl_longest", bound(seen)));
        } else if let Some(why) = &self.no_output {
            remarks.push(("osl", why.clone()));
        }
        if fields.prefix_hit.is_none() {
            remarks.push(("prefix_hit", "unknown".into()));
        }
        remarks.retain(|(_, text)| !text.is_empty());
        let mut preface = vec![format!(
            "Traffic seen in {}: {:.0} requests.",
            self.source, self.requests
        )];
        preface.extend(self.notes.iter().cloned());
        Written {
            fields,
            preface,
            remarks,
        }
    }
}

fn bound(seen: &Lengths) -> String {
    if seen.exact || seen.longest.is_none() {
        String::new()
    } else if seen.open {
        "beyond the last bucket: bounded by what is known".into()
    } else {
        "upper end of the last bucket that holds any".into()
    }
}

/// Mean, squared variation, longest and quantiles as a file has them, without contradictions.
fn texts(seen: &Lengths) -> (String, Option<String>, Option<String>, Vec<String>) {
    let mean = seen.mean.round().max(1.0);
    let longest = seen.longest.map(|longest| longest.ceil().max(mean));
    let variation = seen.variation.filter(|variation| *variation > 5e-4);
    // Lengths that vary have a longest beyond their mean.
    let (variation, longest) = match (variation, longest) {
        (Some(variation), Some(longest)) => (Some(variation), Some(longest.max(mean + 1.0))),
        (_, longest) => (None, longest.map(|_| mean)),
    };
    let quantiles = match (variation, longest) {
        (Some(_), Some(longest)) => seen
            .quantiles
            .iter()
            .map(|(fraction, value, ..)| {
                let percent = (fraction * 1e4).round() / 100.0;
                format!("p{percent}:{}", value.round().clamp(1.0, longest))
            })
            .collect(),
        _ => Vec::new(),
    };
    (
        format!("{mean}"),
        variation.map(significant),
        longest.map(|longest| format!("{longest}")),
        quantiles,
    )
}

fn per_second(rate: f64) -> String {
    format!("{}/s", significant(rate))
}

/// Four significant digits, without an exponent.
fn significant(value: f64) -> String {
    if value <= 0.0 || !value.is_finite() {
        return "0".into();
    }
    let digits = (3 - value.log10().floor() as i32).clamp(0, 9) as usize;
    let text = format!("{value:.digits$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').into()
    } else {
        text
    }
}

/// Three significant digits for people.
fn figure(value: f64) -> String {
    gpuwise_view::figures::number(value)
}

/// A time for people.
pub(super) fn duration(seconds: f64) -> String {
    gpuwise_units::Seconds::new(seconds).to_string()
}
