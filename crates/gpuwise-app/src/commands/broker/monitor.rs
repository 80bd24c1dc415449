//! What a Prometheus server saw of GPUs and engines, as the broker takes it.

use gpuwise_account::period::Interval;
use gpuwise_domain::telemetry::{Quantity, Telemetry};
use gpuwise_probe::prometheus::{Client, PrometheusError};
use gpuwise_read::telemetry::{FieldNames, SampleReader};
use gpuwise_server::{EngineSeen, GpuSeen, Watched};
use gpuwise_units::Nanoseconds;
use std::collections::BTreeMap;

/// What GPUs do, the first that is known: the engine's share of time is measured, utilization is that of
/// the driver's sampling.
const BUSY: [Quantity; 2] = [Quantity::EngineActive, Quantity::GpuUtil];
const POWER: [Quantity; 3] = [
    Quantity::PowerDraw,
    Quantity::PowerAverage,
    Quantity::PowerInstant,
];

/// Counters of tokens by engines' names: in, out.
const TOKENS: [(&str, bool); 4] = [
    ("vllm:prompt_tokens_total", true),
    ("vllm:generation_tokens_total", false),
    ("sglang:prompt_tokens_total", true),
    ("sglang:generation_tokens_total", false),
];

const SECOND: u64 = 1_000_000_000;

#[derive(Debug)]
pub(super) struct Monitor {
    pub(super) client: Client,
    pub(super) names: FieldNames,
}

impl Monitor {
    /// What was seen over a time, in steps.
    pub(super) fn watched(&self, within: Interval, step: Nanoseconds) -> Result<Watched, String> {
        let said = |error: PrometheusError| error.to_string();
        Ok(Watched {
            gpus: self.gpus(within, step).map_err(said)?,
            engines: self.engines(within, step).map_err(said)?,
        })
    }

    fn gpus(&self, within: Interval, step: Nanoseconds) -> Result<Vec<GpuSeen>, PrometheusError> {
        let mut metrics: Vec<&str> = BUSY
            .iter()
            .chain(&POWER)
            .chain(&[Quantity::MemoryUsed])
            .flat_map(|quantity| self.names.metrics_of(*quantity))
            .collect();
        metrics.sort_unstable();
        metrics.dedup();
        let query = format!("{{__name__=~\"{}\"}}", metrics.join("|"));
        let mut looks: BTreeMap<i64, SampleReader<'_>> = BTreeMap::new();
        let (start, end, every) = seconds(within, step);
        // A sample stands for the step before it.
        let first = start + i64::try_from(every).unwrap_or(1);
        self.client.range(&query, first, end, every, |series| {
            let Some(metric) = series.label("__name__") else {
                return;
            };
            for point in series.points {
                let look = looks
                    .entry(point.at_ms)
                    .or_insert_with(|| SampleReader::new(&self.names, "Prometheus"));
                let at = point.at_ms as f64 / 1e3;
                look.take(metric, series.labels, point.value, Some(at));
            }
        })?;
        let each = looks.into_iter();
        Ok(each
            .flat_map(|(at_ms, look)| of_look(at_ms, &look.finish()))
            .collect())
    }

    /// Tokens that engines counted; one that began anew counts from 0.
    fn engines(
        &self,
        within: Interval,
        step: Nanoseconds,
    ) -> Result<Vec<EngineSeen>, PrometheusError> {
        let names: Vec<&str> = TOKENS.iter().map(|(name, _)| *name).collect();
        let query = format!("{{__name__=~\"{}\"}}", names.join("|"));
        let mut all: BTreeMap<(Option<String>, Option<String>), (u64, u64)> = BTreeMap::new();
        let (start, end, every) = seconds(within, step);
        self.client.range(&query, start, end, every, |series| {
            let known = series.label("__name__");
            let known = TOKENS.iter().find(|(name, _)| known == Some(*name));
            let Some((_, prompt)) = known else { return };
            let label = |name: &str| series.label(name).map(str::to_owned);
            let key = (
                label("gpuwise_lease").or_else(|| label("lease")),
                label("model_name"),
            );
            let counted = increase(series.points.iter().map(|point| point.value));
            let sum = all.entry(key).or_default();
            let own = if *prompt { &mut sum.0 } else { &mut sum.1 };
            *own = own.saturating_add(counted);
        })?;
        let each = all.into_iter();
        Ok(each
            .map(
                |((lease, model), (prompt_tokens, completion_tokens))| EngineSeen {
                    lease,
                    model,
                    prompt_tokens,
                    completion_tokens,
                },
            )
            .collect())
    }
}

fn seconds(within: Interval, step: Nanoseconds) -> (i64, i64, u64) {
    let whole = |at: Nanoseconds| i64::try_from(at.0 / SECOND).unwrap_or(i64::MAX);
    (
        whole(within.start),
        whole(within.end),
        (step.0 / SECOND).max(1),
    )
}

fn increase(values: impl Iterator<Item = f64>) -> u64 {
    let mut sum = 0.0;
    let mut before: Option<f64> = None;
    for value in values.filter(|value| value.is_finite()) {
        sum += match before {
            Some(before) if value >= before => value - before,
            Some(_) => value,
            None => 0.0,
        };
        before = Some(value);
    }
    sum as u64
}

/// GPUs of one look, and their MIG instances.
fn of_look(at_ms: i64, look: &Telemetry) -> Vec<GpuSeen> {
    let millis = u64::try_from(at_ms).unwrap_or(0);
    let mut seen = Vec::new();
    for (place, subject) in (0..).zip(&look.subjects) {
        if subject.holder.process.is_some() {
            continue;
        }
        let first = |of: &[Quantity]| of.iter().find_map(|one| look.value(place, *one));
        seen.push(GpuSeen {
            uuid: subject.gpu.uuid.clone(),
            host: subject.gpu.host.clone(),
            index: subject.gpu.index,
            instance: subject
                .instance
                .as_ref()
                .map(|one| (one.gpu_instance, one.profile.clone())),
            at: Nanoseconds(millis.saturating_mul(1_000_000)),
            busy: first(&BUSY),
            memory: first(&[Quantity::MemoryUsed]),
            watts: first(&POWER),
        });
    }
    seen
}
