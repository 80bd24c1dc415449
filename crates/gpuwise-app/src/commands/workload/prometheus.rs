//! Traffic from a Prometheus server, which has kept the metrics of engines over time.

use super::{
    metrics::{now, time_of},
    observed::{Lengths, NOT_THERE, ObservedTraffic, duration},
};
use crate::{commands::Context, error::Problem, fetch::Client, settings::FromMetrics};
use anyhow::Context as _;
use gpuwise_read::{
    access_log::rfc3339,
    metrics::{
        Histogram, Quantity, QuerySeries, Vocabulary, burstiness, histogram_of, hourly, read_answer,
    },
    workload::tokens,
};

/// Windows that are asked for at most: what a server gives in one answer.
const MOST_WINDOWS: f64 = 11_000.0;

const LATENCIES: [(&str, Quantity); 5] = [
    ("TTFT", Quantity::Ttft),
    ("TPOT", Quantity::Tpot),
    ("gap between tokens", Quantity::Itl),
    ("end to end", Quantity::EndToEnd),
    ("in the queue", Quantity::Queue),
];

struct Server<'a> {
    client: Client,
    address: String,
    /// Labels within the braces.
    labels: String,
    /// The whole range, as queries write it.
    range: String,
    end: f64,
    name: &'a str,
}

pub(super) fn seen(
    context: &Context,
    flags: &FromMetrics,
    address: &str,
) -> anyhow::Result<ObservedTraffic> {
    let range = time_of("--range", Some(&flags.range))?.unwrap_or(86_400.0);
    let step = time_of("--step", Some(&flags.step))?.unwrap_or(600.0);
    if step > range || range / step > MOST_WINDOWS {
        return Err(Problem::new(format!(
            "--step {} makes {:.0} windows of --range {}; expected 1 to {MOST_WINDOWS}",
            flags.step,
            (range / step).floor(),
            flags.range
        ))
        .into());
    }
    let longest = match &flags.context {
        Some(text) => Some(tokens(text).context("--context")?.0 as f64),
        None => None,
    };
    // Windows end at whole steps, so that asking again gives the same.
    let end = (now() / step).floor() * step;
    let server = Server {
        client: Client::new(&flags.access, context.app.offline)?,
        address: address.trim_end_matches('/').into(),
        labels: labels(flags.selector.as_deref())?,
        range: format!("{range:.0}s"),
        end,
        name: address,
    };
    let (vocabulary, names) = server.spoken()?;
    let labels = server.model_labels(vocabulary, &names, flags.model.as_deref())?;
    let server = Server { labels, ..server };
    server.seen(
        vocabulary,
        &names,
        (range, step),
        longest,
        flags.model.clone(),
    )
}

/// The labels of a selector such as `{job="vllm"}`, followed by a comma where there are any.
fn labels(selector: Option<&str>) -> anyhow::Result<String> {
    let Some(text) = selector else {
        return Ok(String::new());
    };
    let inner = text
        .trim()
        .strip_prefix('{')
        .and_then(|text| text.strip_suffix('}'))
        .ok_or_else(|| {
            Problem::new(format!("--selector {text:?} is not in braces"))
                .hint("write it as '{namespace=\"prod\"}'")
        })?;
    let inner = inner.trim().trim_end_matches(',');
    Ok(if inner.is_empty() {
        String::new()
    } else {
        format!("{inner},")
    })
}

impl Server<'_> {
    fn ask(&self, path: &str, query: &[(&str, &str)]) -> anyhow::Result<Vec<QuerySeries>> {
        let text = self.client.get(&format!("{}{path}", self.address), query)?;
        read_answer(&text).with_context(|| self.name.to_owned())
    }

    fn instant(&self, query: &str) -> anyhow::Result<Vec<QuerySeries>> {
        let time = format!("{}", self.end);
        self.ask("/api/v1/query", &[("query", query), ("time", &time)])
    }

    /// One number; `None` where there is none.
    fn number(&self, query: &str) -> anyhow::Result<Option<f64>> {
        let series = self.instant(query)?;
        Ok(series
            .first()
            .and_then(|series| series.points.last())
            .map(|(_, value)| *value))
    }

    /// The engine whose metrics there are, with the names of all of them.
    fn spoken(&self) -> anyhow::Result<(&'static Vocabulary, Vec<String>)> {
        let query = format!(
            "count by (__name__) (last_over_time({{{}__name__=~\"(vllm|sglang|tgi)[:_].+\"}}[{}]))",
            self.labels, self.range
        );
        let names: Vec<String> = self
            .instant(&query)?
            .into_iter()
            .filter_map(|series| series.labels.get("__name__").cloned())
            .collect();
        let spoken = Vocabulary::spoken(names.iter().map(String::as_str)).ok_or_else(|| {
            Problem::new(format!(
                "{} keeps no metrics of vLLM, SGLang or TGI under these labels",
                self.name
            ))
            .hint(
                "--selector says which series; it may be that the server's targets are not scraped",
            )
        })?;
        Ok((spoken, names))
    }

    fn model_labels(
        &self,
        vocabulary: &Vocabulary,
        names: &[String],
        model: Option<&str>,
    ) -> anyhow::Result<String> {
        let Some(name) = present(vocabulary, names, Quantity::PromptLength, "_count")
            .or_else(|| present(vocabulary, names, Quantity::EndToEnd, "_count"))
        else {
            return Ok(self.labels.clone());
        };
        for label in vocabulary.model_labels {
            let query = format!(
                "count by ({label}) (last_over_time({name}_count{{{}}}[{}]))",
                self.labels, self.range
            );
            let models: Vec<String> = self
                .instant(&query)?
                .into_iter()
                .filter_map(|series| series.labels.get(*label).cloned())
                .filter(|model| !model.is_empty())
                .collect();
            if models.is_empty() {
                continue;
            }
            let wanted = match model {
                Some(model) if models.iter().any(|known| known == model) => model,
                Some(model) => {
                    return Err(Problem::new(format!(
                        "--model {model}: there are only {}",
                        models.join(", ")
                    ))
                    .into());
                }
                None => match models.as_slice() {
                    [one] => one.as_str(),
                    several => {
                        return Err(Problem::new(format!(
                            "these metrics are of {} models: {}",
                            several.len(),
                            several.join(", ")
                        ))
                        .hint("--model names one")
                        .into());
                    }
                },
            };
            let quoted = wanted.replace('\\', "\\\\").replace('"', "\\\"");
            return Ok(format!("{}{label}=\"{quoted}\",", self.labels));
        }
        Ok(self.labels.clone())
    }

    /// A histogram over the whole range.
    fn histogram(&self, name: &str) -> anyhow::Result<Option<Histogram>> {
        let increase = |suffix: &str| {
            format!(
                "increase({name}{suffix}{{{}}}[{}])",
                self.labels, self.range
            )
        };
        let buckets = self.instant(&format!("sum by (le) ({})", increase("_bucket")))?;
        let sum = self.number(&format!("sum({})", increase("_sum")))?;
        Ok(histogram_of(&buckets, sum))
    }

    fn seen(
        &self,
        vocabulary: &Vocabulary,
        names: &[String],
        (range, step): (f64, f64),
        longest: Option<f64>,
        model: Option<String>,
    ) -> anyhow::Result<ObservedTraffic> {
        let counter = present(vocabulary, names, Quantity::PromptLength, "_count")
            .or_else(|| present(vocabulary, names, Quantity::EndToEnd, "_count"))
            .map(|name| format!("{name}_count"))
            .or_else(|| present(vocabulary, names, Quantity::Finished, "").map(Into::into))
            .ok_or_else(|| {
                Problem::new(format!(
                    "{} keeps no counts of requests of {}",
                    self.name, vocabulary.engine
                ))
            })?;
        let windows = (range / step).floor().max(1.0);
        let (counts, missing) = self.counts(&counter, windows, step)?;
        let requests: f64 = counts.iter().sum();
        if requests <= 0.0 {
            return Err(
                Problem::new(format!("no request ended in the last {}", duration(range)))
                    .hint("--range looks further back")
                    .into(),
            );
        }
        let of = |quantity: Quantity| -> anyhow::Result<Option<Lengths>> {
            let Some(name) = present(vocabulary, names, quantity, "_count") else {
                return Ok(None);
            };
            let histogram = self.histogram(name)?;
            Ok(histogram
                .and_then(|histogram| histogram.distribution(longest))
                .map(Lengths::from))
        };
        let queries = self.increase(vocabulary, names, Quantity::PrefixQueries)?;
        let hits = self.increase(vocabulary, names, Quantity::PrefixHits)?;
        let mut latencies = Vec::new();
        for (name, quantity) in LATENCIES {
            latencies.extend(of(quantity)?.map(|seen| (name, seen)));
        }
        let mut seen = ObservedTraffic {
            source: format!("{}'s metrics on a Prometheus server", vocabulary.engine),
            model,
            requests,
            seconds: Some(windows * step),
            rate: Some(requests / (windows * step)),
            hourly: hourly(&counts, step),
            hourly_from: Some(rfc3339((self.end - windows * step) as i64)),
            input: of(Quantity::PromptLength)?,
            no_input: Some(NOT_THERE.into()),
            output: of(Quantity::OutputLength)?,
            no_output: Some(NOT_THERE.into()),
            prefix_hit: queries
                .filter(|queries| *queries > 0.0)
                .zip(hits)
                .map(|(queries, hits)| (hits / queries).clamp(0.0, 1.0)),
            latencies,
            ..ObservedTraffic::default()
        };
        seen.set_burstiness(burstiness(&counts, step), step);
        if missing > 0 {
            seen.notes.push(format!(
                "{missing} of {windows} windows have no data, and count as idle"
            ));
        }
        Ok(seen)
    }

    /// How much a counter grew over the whole range.
    fn increase(
        &self,
        vocabulary: &Vocabulary,
        names: &[String],
        quantity: Quantity,
    ) -> anyhow::Result<Option<f64>> {
        match present(vocabulary, names, quantity, "") {
            Some(name) => self.number(&format!(
                "sum(increase({name}{{{}}}[{}]))",
                self.labels, self.range
            )),
            None => Ok(None),
        }
    }

    /// Requests in each window, and how many windows the server knows nothing of.
    fn counts(&self, counter: &str, windows: f64, step: f64) -> anyhow::Result<(Vec<f64>, usize)> {
        let start = self.end - (windows - 1.0) * step;
        let query = format!("sum(increase({counter}{{{}}}[{step:.0}s]))", self.labels);
        let series = self.ask(
            "/api/v1/query_range",
            &[
                ("query", &query),
                ("start", &format!("{start}")),
                ("end", &format!("{}", self.end)),
                ("step", &format!("{step}")),
            ],
        )?;
        let mut counts: Vec<Option<f64>> = vec![None; windows as usize];
        for (time, value) in series.iter().flat_map(|series| &series.points) {
            let place = ((time - start) / step).round();
            if place >= 0.0
                && let Some(count) = counts.get_mut(place as usize)
            {
                *count = Some(value.max(0.0));
            }
        }
        let missing = counts.iter().filter(|count| count.is_none()).count();
        Ok((
            counts
                .into_iter()
                .map(|count| count.unwrap_or(0.0))
                .collect(),
            missing,
        ))
    }
}

/// The name under which a quantity is kept, without its suffix.
fn present<'a>(
    vocabulary: &Vocabulary,
    names: &'a [String],
    quantity: Quantity,
    suffix: &str,
) -> Option<&'a str> {
    vocabulary
        .candidates(quantity)
        .iter()
        .find_map(|candidate| {
            let full = format!("{candidate}{suffix}");
            let found = names.iter().find(|name| **name == full)?;
            found.strip_suffix(suffix)
        })
}
