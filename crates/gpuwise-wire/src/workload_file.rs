//! The form of workload files, for editors: what people write, every quantity with its unit.

use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        RefOr,
        schema::{ArrayBuilder, ObjectBuilder, OneOfBuilder, Schema, Type},
    },
};

/// A text with a unit, or a number where none is needed.
#[derive(Debug)]
pub(crate) struct Scalar;

impl PartialSchema for Scalar {
    fn schema() -> RefOr<Schema> {
        OneOfBuilder::new()
            .item(ObjectBuilder::new().schema_type(Type::String))
            .item(ObjectBuilder::new().schema_type(Type::Number))
            .description(Some(
                "A text with a unit, or a number where none is needed.",
            ))
            .into()
    }
}

impl ToSchema for Scalar {}

/// A list of texts, or one text with commas.
#[derive(Debug)]
pub(crate) struct TextList;

impl PartialSchema for TextList {
    fn schema() -> RefOr<Schema> {
        OneOfBuilder::new()
            .item(ArrayBuilder::new().items(ObjectBuilder::new().schema_type(Type::String)))
            .item(ObjectBuilder::new().schema_type(Type::String))
            .description(Some("A list of texts, or one text with commas."))
            .into()
    }
}

impl ToSchema for TextList {}

/// A workload: traffic, SLO and limits.
#[derive(Debug, ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) struct WorkloadFile {
    /// `gpuwise.workload/v1`, where it says what it is.
    schema: Option<String>,
    /// The model, as a name, an alias or a path.
    model: Option<Scalar>,
    /// The engine, with its version if need be: `vllm 0.20`.
    engine: Option<Scalar>,
    /// The scheme in which weights are stored.
    precision: Option<Scalar>,
    /// Poisson arrivals: `8/s`, `600/min`.
    rate: Option<Scalar>,
    /// Squared coefficient of variation of the gaps between them; 1 (Poisson) if absent.
    burstiness: Option<Scalar>,
    /// Concurrent requests, instead of a rate.
    concurrency: Option<Scalar>,
    /// Mean tokens of a prompt: `2000`, `2k`.
    isl: Option<Scalar>,
    /// Mean tokens generated.
    osl: Option<Scalar>,
    /// Squared coefficient of variation of prompts; 0 (all equal) if absent.
    isl_variation: Option<Scalar>,
    /// Squared coefficient of variation of outputs; 0 (all equal) if absent.
    osl_variation: Option<Scalar>,
    /// The longest prompt; the mean if absent.
    isl_longest: Option<Scalar>,
    /// The longest output; the mean if absent.
    osl_longest: Option<Scalar>,
    /// Share of prompt tokens found in the prefix cache: `0.3`, `30%`.
    prefix_hit: Option<Scalar>,
    /// Requests a second in the busiest hour: `20/s`.
    peak_rate: Option<Scalar>,
    /// Mean rates of consecutive hours: `["3/s", "5.2/s"]`.
    rates: Option<TextList>,
    /// When the first of these hours begins: `2026-11-20T00:00:00Z`.
    rates_from: Option<Scalar>,
    /// Quantiles of prompts, rising: `["p50:900", "p95:4k"]`.
    isl_quantiles: Option<TextList>,
    /// Quantiles of outputs, rising: `["p50:200", "p95:900"]`.
    osl_quantiles: Option<TextList>,
    /// Time to first token: `p95:1s`.
    ttft: Option<Scalar>,
    /// Time per output token after the first: `mean:40ms`.
    tpot: Option<Scalar>,
    /// From request to last token: `p99:30s`.
    e2e: Option<Scalar>,
    /// Output tokens a second in all, at least: `5000/s`.
    throughput: Option<Scalar>,
    /// Only these GPUs.
    gpus: Option<TextList>,
    /// Only these providers.
    providers: Option<TextList>,
    /// Only regions that begin with one of these.
    regions: Option<TextList>,
    /// At most this an hour: `25USD/h`.
    budget: Option<Scalar>,
    /// At most this for all GPUs: `10kW`.
    power: Option<Scalar>,
    /// Replicas beyond what the load needs.
    spare_replicas: Option<Scalar>,
    /// Quality that may be lost: `1%`.
    quality_loss: Option<Scalar>,
    /// Hosts already owned, as GPU and number: `H100:8`.
    owned: Option<TextList>,
}
