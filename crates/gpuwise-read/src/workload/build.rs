//! From fields to a workload: quantities are read, and contradictions refused.

use super::{
    FieldError, WorkloadFields, WorkloadFile,
    lengths::{self, USUAL_INPUT, USUAL_OUTPUT},
    quantities::{self, LONGEST_REQUEST},
};
use gpuwise_domain::workload::{
    LengthDistribution, LengthQuantile, Lengths, Limits, Slo, Target, Traffic, TrafficDetail,
    Workload,
};
use gpuwise_units::{ParseQuantityError, PerSecond};

const MOST_HOURS: usize = 24 * 366;

impl WorkloadFields {
    /// Reads the quantities.
    ///
    /// # Errors
    /// When one is missing, cannot be, or contradicts another.
    pub fn read(&self) -> Result<WorkloadFile, FieldError> {
        let traffic = self.traffic()?;
        let lengths = self.lengths()?;
        let slo = self.slo(&lengths)?;
        let detail = self.detail(&lengths)?;
        let prefix_hit =
            parsed("prefix_hit", self.prefix_hit.as_deref(), quantities::share)?.unwrap_or(0.0);
        Ok(WorkloadFile {
            model: named("model", self.model.as_deref())?,
            engine: named("engine", self.engine.as_deref())?,
            precision: named("precision", self.precision.as_deref())?,
            workload: Workload {
                traffic,
                lengths,
                prefix_hit,
                slo,
                limits: self.limits()?,
            },
            detail,
        })
    }

    fn detail(&self, lengths: &Lengths) -> Result<TrafficDetail, FieldError> {
        if self.rates.len() > MOST_HOURS {
            return Err(FieldError::new(
                "rates",
                format!("{} hours; at most {MOST_HOURS} are read", self.rates.len()),
            ));
        }
        let hourly = self.rates.iter().map(|text| hourly_rate(text));
        Ok(TrafficDetail {
            hourly: hourly
                .collect::<Result<_, _>>()
                .map_err(|error| FieldError::new("rates", error.to_string()))?,
            hourly_from: named("rates_from", self.rates_from.as_deref())?,
            peak: parsed("peak_rate", self.peak_rate.as_deref(), quantities::rate)?,
            input: quantiles("isl_quantiles", &self.isl_quantiles, &lengths.input)?,
            output: quantiles("osl_quantiles", &self.osl_quantiles, &lengths.output)?,
        })
    }

    fn traffic(&self) -> Result<Traffic, FieldError> {
        let rate = parsed("rate", self.rate.as_deref(), quantities::rate)?;
        let concurrency = parsed(
            "concurrency",
            self.concurrency.as_deref(),
            quantities::concurrency,
        )?;
        let burstiness = parsed(
            "burstiness",
            self.burstiness.as_deref(),
            quantities::burstiness,
        )?;
        match (rate, concurrency) {
            (Some(_), Some(_)) => Err(FieldError::new(
                "concurrency",
                "a rate is given too; traffic is an open loop (a rate) or a closed loop (a concurrency): leave one out",
            )),
            (None, None) => Err(FieldError::new(
                "rate",
                "missing; expected a rate such as `8/s`, or `concurrency` for a closed loop",
            )),
            (None, Some(_)) if burstiness.is_some() => Err(FieldError::new(
                "burstiness",
                "it describes how requests come at a rate; with `concurrency` the next comes when one ends",
            )),
            (None, Some(concurrency)) => Ok(Traffic::Closed { concurrency }),
            (Some(rate), None) => Ok(Traffic::Open {
                rate,
                burstiness: burstiness.unwrap_or(1.0),
            }),
        }
    }

    fn lengths(&self) -> Result<Lengths, FieldError> {
        let input = one_length(
            ["isl", "isl_variation", "isl_longest"],
            [
                self.isl.as_deref(),
                self.isl_variation.as_deref(),
                self.isl_longest.as_deref(),
            ],
            USUAL_INPUT,
        )?;
        let output = one_length(
            ["osl", "osl_variation", "osl_longest"],
            [
                self.osl.as_deref(),
                self.osl_variation.as_deref(),
                self.osl_longest.as_deref(),
            ],
            USUAL_OUTPUT,
        )?;
        // A tail that follows from a law is cut at what the model takes; only what is said counts here.
        let said = |law: &LengthDistribution, longest: &Option<String>| {
            longest.as_ref().map_or(law.mean as u64, |_| law.longest.0)
        };
        let longest = said(&input, &self.isl_longest) + said(&output, &self.osl_longest);
        if longest > LONGEST_REQUEST {
            return Err(FieldError::new(
                "isl",
                format!(
                    "prompt and output make up to {longest} tokens; more than {LONGEST_REQUEST} are not served by any model"
                ),
            ));
        }
        Ok(Lengths { input, output })
    }

    fn slo(&self, lengths: &Lengths) -> Result<Slo, FieldError> {
        let slo = Slo {
            ttft: parsed("ttft", self.ttft.as_deref(), quantities::target)?,
            tpot: parsed("tpot", self.tpot.as_deref(), quantities::target)?,
            end_to_end: parsed("e2e", self.e2e.as_deref(), quantities::target)?,
            throughput: parsed("throughput", self.throughput.as_deref(), quantities::rate)?,
        };
        if let (Some(first), Some(all)) = (slo.ttft, slo.end_to_end)
            && first.percentile == all.percentile
            && first.at_most > all.at_most
        {
            return Err(FieldError::new(
                "ttft",
                format!(
                    "the first token may come after {}, but the last after {} at most, at {}: the first comes before the last",
                    quantities::said(first.at_most),
                    quantities::said(all.at_most),
                    of_which(&first),
                ),
            ));
        }
        if slo.tpot.is_some() && lengths.output.longest.0 <= 1 {
            return Err(FieldError::new(
                "tpot",
                "with one output token there is no time between tokens",
            ));
        }
        Ok(slo)
    }

    fn limits(&self) -> Result<Limits, FieldError> {
        let spare = parsed("spare_replicas", self.spare_replicas.as_deref(), |text| {
            text.trim()
                .parse::<u32>()
                .ok()
                .filter(|count| *count <= 1_000_000)
                .ok_or_else(|| ParseQuantityError {
                    text: text.into(),
                    expected: "a whole number of replicas".into(),
                })
        })?;
        let owned = self
            .owned
            .iter()
            .map(|host| quantities::owned(host))
            .collect::<Result<_, _>>();
        Ok(Limits {
            gpus: listed("gpus", &self.gpus)?,
            providers: listed("providers", &self.providers)?,
            regions: listed("regions", &self.regions)?,
            budget: parsed("budget", self.budget.as_deref(), quantities::budget)?,
            power: parsed("power", self.power.as_deref(), quantities::power)?,
            spare_replicas: spare.unwrap_or(0),
            quality_loss: parsed(
                "quality_loss",
                self.quality_loss.as_deref(),
                quantities::percent,
            )?,
            owned: owned.map_err(|error| FieldError::new("owned", error.to_string()))?,
        })
    }
}

fn of_which(target: &Target) -> String {
    target
        .percentile
        .map_or("the mean".into(), |percentile| percentile.to_string())
}

/// Reads a field if it is there.
fn parsed<T>(
    field: &'static str,
    text: Option<&str>,
    read: impl Fn(&str) -> Result<T, ParseQuantityError>,
) -> Result<Option<T>, FieldError> {
    text.map(read)
        .transpose()
        .map_err(|error| FieldError::new(field, error.to_string()))
}

fn one_length(
    fields: [&'static str; 3],
    [length, variation, longest]: [Option<&str>; 3],
    usual: f64,
) -> Result<LengthDistribution, FieldError> {
    let text = length.ok_or_else(|| {
        FieldError::new(
            fields[0],
            "missing; expected a number of tokens such as `2000` or `2k`",
        )
    })?;
    // The field at fault is the one that cannot be read by itself.
    parsed(fields[1], variation, quantities::burstiness)?;
    parsed(fields[2], longest, quantities::tokens)?;
    let lengths = lengths::read(text, usual, variation, longest)
        .map_err(|error| FieldError::new(fields[0], error.to_string()))?;
    let (longest, mean) = (lengths.longest, lengths.mean);
    if (longest.0 as f64) < mean {
        return Err(FieldError::new(
            fields[2],
            format!("the longest, {longest}, is shorter than the mean, {mean}"),
        ));
    }
    if lengths.variation > 0.0 && longest.0 as f64 <= mean {
        return Err(FieldError::new(
            fields[2],
            format!(
                "lengths vary, so the longest is more than the mean of {mean}: say how long it is"
            ),
        ));
    }
    Ok(lengths)
}

/// The rate of an hour, in which nothing may have come.
fn hourly_rate(text: &str) -> Result<PerSecond, ParseQuantityError> {
    let rate: PerSecond = text.parse()?;
    if rate.get() == 0.0 {
        Ok(rate)
    } else {
        quantities::rate(text)
    }
}

/// Quantiles that rise, up to the longest.
fn quantiles(
    field: &'static str,
    texts: &[String],
    lengths: &LengthDistribution,
) -> Result<Vec<LengthQuantile>, FieldError> {
    let read: Vec<LengthQuantile> = texts
        .iter()
        .map(|text| quantities::length_quantile(text))
        .collect::<Result<_, _>>()
        .map_err(|error| FieldError::new(field, error.to_string()))?;
    let falls = read
        .windows(2)
        .find(|pair| pair[1].percentile <= pair[0].percentile || pair[1].tokens < pair[0].tokens);
    if let Some([before, after]) = falls {
        return Err(FieldError::new(
            field,
            format!(
                "{}:{} follows {}:{}; expected rising quantiles",
                after.percentile, after.tokens.0, before.percentile, before.tokens.0
            ),
        ));
    }
    match read.last() {
        Some(last) if last.tokens > lengths.longest && lengths.variation > 0.0 => {
            Err(FieldError::new(
                field,
                format!(
                    "{} is {}, which is longer than the longest, {}",
                    last.percentile, last.tokens, lengths.longest
                ),
            ))
        }
        _ => Ok(read),
    }
}

/// A name that says something.
fn named(field: &'static str, text: Option<&str>) -> Result<Option<String>, FieldError> {
    match text.map(str::trim) {
        Some("") => Err(FieldError::new(field, "it is empty; leave it out instead")),
        other => Ok(other.map(Into::into)),
    }
}

fn listed(field: &'static str, names: &[String]) -> Result<Vec<String>, FieldError> {
    match names.iter().find(|name| name.trim().is_empty()) {
        Some(_) => Err(FieldError::new(field, "one of the names is empty")),
        None => Ok(names.iter().map(|name| name.trim().into()).collect()),
    }
}
