//! The fields of a workload as texts.

use super::is_mean_alone;
use serde::{
    Deserialize, Deserializer,
    de::{self, SeqAccess, Visitor},
};
use std::fmt;

/// A workload before its quantities are read: what a file says, or flags.
///
/// Numbers in a file are taken as if they were written as texts, so that `isl = 2000` is right and
/// `ttft = 1` is refused for want of a unit.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WorkloadFields {
    /// The model, as a name, an alias or a path.
    #[serde(deserialize_with = "scalar")]
    pub model: Option<String>,
    /// The engine, with its version if need be.
    #[serde(deserialize_with = "scalar")]
    pub engine: Option<String>,
    /// The scheme in which weights are stored.
    #[serde(deserialize_with = "scalar")]
    pub precision: Option<String>,
    /// Poisson arrivals: `8/s`.
    #[serde(deserialize_with = "scalar")]
    pub rate: Option<String>,
    /// Squared coefficient of variation of the gaps between them; 1 (Poisson) if absent.
    #[serde(deserialize_with = "scalar")]
    pub burstiness: Option<String>,
    /// Requests in flight, instead of a rate.
    #[serde(deserialize_with = "scalar")]
    pub concurrency: Option<String>,
    /// Mean tokens of a prompt: `2000`, `2k`.
    #[serde(deserialize_with = "scalar")]
    pub isl: Option<String>,
    #[serde(deserialize_with = "scalar")]
    pub osl: Option<String>,
    /// Squared coefficient of variation of prompts; 0 (all equal) if absent.
    #[serde(deserialize_with = "scalar", alias = "isl-variation")]
    pub isl_variation: Option<String>,
    /// Squared coefficient of variation of outputs; 0 (all equal) if absent.
    #[serde(deserialize_with = "scalar", alias = "osl-variation")]
    pub osl_variation: Option<String>,
    /// The longest prompt; the mean if absent.
    #[serde(deserialize_with = "scalar", alias = "isl-longest")]
    pub isl_longest: Option<String>,
    /// The longest output; the mean if absent.
    #[serde(deserialize_with = "scalar", alias = "osl-longest")]
    pub osl_longest: Option<String>,
    /// Share of prompt tokens found in the prefix cache: `0.3`, `30%`.
    #[serde(deserialize_with = "scalar", alias = "prefix-hit")]
    pub prefix_hit: Option<String>,
    /// Requests a second in the busiest hour: `20/s`.
    #[serde(deserialize_with = "scalar", alias = "peak-rate")]
    pub peak_rate: Option<String>,
    /// Mean rates of consecutive hours.
    #[serde(deserialize_with = "list")]
    pub rates: Vec<String>,
    /// When the first of these hours begins.
    #[serde(deserialize_with = "scalar", alias = "rates-from")]
    pub rates_from: Option<String>,
    /// Quantiles of prompts: `p50:900`, rising.
    #[serde(deserialize_with = "list", alias = "isl-quantiles")]
    pub isl_quantiles: Vec<String>,
    /// Quantiles of outputs: `p50:200`, rising.
    #[serde(deserialize_with = "list", alias = "osl-quantiles")]
    pub osl_quantiles: Vec<String>,
    /// Time to first token: `p95:1s`.
    #[serde(deserialize_with = "scalar")]
    pub ttft: Option<String>,
    /// Time per output token after the first: `mean:40ms`.
    #[serde(deserialize_with = "scalar")]
    pub tpot: Option<String>,
    /// From request to last token: `p99:30s`.
    #[serde(deserialize_with = "scalar")]
    pub e2e: Option<String>,
    /// Output tokens a second in all, at least: `5000/s`.
    #[serde(deserialize_with = "scalar")]
    pub throughput: Option<String>,
    #[serde(deserialize_with = "list")]
    pub gpus: Vec<String>,
    #[serde(deserialize_with = "list")]
    pub providers: Vec<String>,
    /// Only regions that begin with one of these.
    #[serde(deserialize_with = "list")]
    pub regions: Vec<String>,
    /// At most this an hour: `25USD/h`.
    #[serde(deserialize_with = "scalar")]
    pub budget: Option<String>,
    /// At most this for all GPUs: `10kW`.
    #[serde(deserialize_with = "scalar")]
    pub power: Option<String>,
    /// Replicas beyond what the load needs.
    #[serde(deserialize_with = "scalar", alias = "spare-replicas")]
    pub spare_replicas: Option<String>,
    /// Quality that may be lost: `1%`.
    #[serde(deserialize_with = "scalar", alias = "quality-loss")]
    pub quality_loss: Option<String>,
    /// Hosts already owned, as GPU and number: `H100:8`.
    #[serde(deserialize_with = "list")]
    pub owned: Vec<String>,
    /// `gpuwise.workload/v1`, where the file says what it is.
    #[serde(deserialize_with = "schema")]
    pub schema: Option<String>,
}

impl WorkloadFields {
    /// These fields with those of `over` in their place, where it has any: flags over a file.
    ///
    /// A rate takes the place of a concurrency and the other way round.
    #[must_use]
    pub fn overridden_by(self, over: Self) -> Self {
        let traffic_is_new = over.rate.is_some() || over.concurrency.is_some();
        let kept = |old: Option<String>| if traffic_is_new { None } else { old };
        let list = |old: Vec<String>, new: Vec<String>| if new.is_empty() { old } else { new };
        let (input_is_new, output_is_new) = (over.isl.is_some(), over.osl.is_some());
        // Another mean keeps the spread, but not the longest; a law of its own neither.
        let told = |text: &Option<String>| text.as_deref().is_some_and(|text| !is_mean_alone(text));
        let (input_is_told, output_is_told) = (told(&over.isl), told(&over.osl));
        let own = |new: bool, old: Option<String>| if new { None } else { old };
        // A burstiness belongs to a rate.
        let burstiness = over.burstiness.or(if over.concurrency.is_some() {
            None
        } else {
            self.burstiness
        });
        Self {
            schema: None,
            model: over.model.or(self.model),
            engine: over.engine.or(self.engine),
            precision: over.precision.or(self.precision),
            rate: over.rate.or(kept(self.rate)),
            burstiness,
            concurrency: over.concurrency.or(kept(self.concurrency)),
            isl: over.isl.or(self.isl),
            osl: over.osl.or(self.osl),
            isl_variation: over
                .isl_variation
                .or(own(input_is_told, self.isl_variation)),
            osl_variation: over
                .osl_variation
                .or(own(output_is_told, self.osl_variation)),
            isl_longest: over.isl_longest.or(own(input_is_new, self.isl_longest)),
            osl_longest: over.osl_longest.or(own(output_is_new, self.osl_longest)),
            prefix_hit: over.prefix_hit.or(self.prefix_hit),
            // What was measured beside a rate or a mean does not fit another.
            peak_rate: over.peak_rate.or(kept(self.peak_rate)),
            rates: if traffic_is_new {
                over.rates
            } else {
                list(self.rates, over.rates)
            },
            rates_from: over.rates_from.or(kept(self.rates_from)),
            isl_quantiles: if input_is_new {
                over.isl_quantiles
            } else {
                list(self.isl_quantiles, over.isl_quantiles)
            },
            osl_quantiles: if output_is_new {
                over.osl_quantiles
            } else {
                list(self.osl_quantiles, over.osl_quantiles)
            },
            ttft: over.ttft.or(self.ttft),
            tpot: over.tpot.or(self.tpot),
            e2e: over.e2e.or(self.e2e),
            throughput: over.throughput.or(self.throughput),
            gpus: list(self.gpus, over.gpus),
            providers: list(self.providers, over.providers),
            regions: list(self.regions, over.regions),
            budget: over.budget.or(self.budget),
            power: over.power.or(self.power),
            spare_replicas: over.spare_replicas.or(self.spare_replicas),
            quality_loss: over.quality_loss.or(self.quality_loss),
            owned: list(self.owned, over.owned),
        }
    }
}

pub(super) const WORKLOAD_SCHEMA: &str = "gpuwise.workload/v1";

fn schema<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let said = String::deserialize(deserializer)?;
    if said == WORKLOAD_SCHEMA {
        return Ok(Some(said));
    }
    Err(de::Error::invalid_value(
        de::Unexpected::Str(&said),
        &WORKLOAD_SCHEMA,
    ))
}

/// A text or a number; null is absent.
fn scalar<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    deserializer.deserialize_any(ScalarVisitor)
}

struct ScalarVisitor;

impl Visitor<'_> for ScalarVisitor {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text with a unit, or a number")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Some(text.into()))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Some(number.to_string()))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Some(number.to_string()))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Self::Value, E> {
        Ok(Some(number.to_string()))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_none<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}

/// A list of texts, or one text with commas.
fn list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    deserializer.deserialize_any(ListVisitor)
}

struct ListVisitor;

impl<'de> Visitor<'de> for ListVisitor {
    type Value = Vec<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of texts")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(text
            .split(',')
            .map(|part| part.trim().to_string())
            .filter(|part| !part.is_empty())
            .collect())
    }

    fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }

    fn visit_none<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element::<String>()? {
            list.push(item);
        }
        Ok(list)
    }
}
