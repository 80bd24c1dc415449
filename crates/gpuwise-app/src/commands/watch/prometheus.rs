//! A Prometheus server as a source: one query for all that is read.

use super::Flags;
use crate::error::Problem;
use gpuwise_domain::telemetry::{Quantity, Telemetry};
use gpuwise_probe::prometheus::{Authentication, Client, PrometheusError, Settings};
use gpuwise_read::{
    metrics::{Exposition, Sample},
    telemetry::{FieldNames, SampleReader, engine_metrics, is_engine_metric, serving_samples},
};
use std::{borrow::Cow, time::Duration};

/// What rows show and rules need; other quantities are not asked for.
const ASKED: &[Quantity] = &[
    Quantity::GpuUtil,
    Quantity::EngineActive,
    Quantity::SmActive,
    Quantity::SmOccupancy,
    Quantity::TensorActive,
    Quantity::DramActive,
    Quantity::PcieTx,
    Quantity::PcieRx,
    Quantity::MemoryTotal,
    Quantity::MemoryUsed,
    Quantity::MemoryFree,
    Quantity::MemoryReserved,
    Quantity::PowerDraw,
    Quantity::PowerLimit,
    Quantity::PowerLimitDefault,
    Quantity::Temperature,
    Quantity::SmClock,
    Quantity::SmClockMax,
    Quantity::ClockReasons,
    Quantity::PowerViolation,
    Quantity::ThermalViolation,
    Quantity::Xid,
    Quantity::EccUncorrected,
    Quantity::RowRemapFailed,
    Quantity::RowRemapPending,
    Quantity::PagesRetirePending,
    Quantity::PcieGeneration,
    Quantity::PcieGenerationMax,
    Quantity::PcieWidth,
    Quantity::PcieWidthMax,
    Quantity::MigMode,
];

/// Seconds between samples of what the server has seen before the first look: the usual interval of
/// scraping.
const HISTORY_STEP: u64 = 15;

/// The server and what it is asked.
pub(super) struct Server {
    client: Client,
    matching: String,
    also: Vec<(String, String)>,
    values: Vec<(String, f64)>,
    query: Option<String>,
}

impl Server {
    pub(super) fn new(
        address: &str,
        token: Option<String>,
        timeout: Duration,
        flags: &Flags,
    ) -> anyhow::Result<Self> {
        let mut settings = Settings::new(address);
        settings.timeout = timeout;
        // The next look comes soon enough.
        settings.retries = 0;
        if let Some(token) = token {
            settings.authentication = Authentication::Bearer(token);
        }
        let mut also = Vec::new();
        for text in &flags.also {
            let (name, query) = text.split_once('=').ok_or_else(|| {
                Problem::new(format!("--also {text:?} has no `=`"))
                    .hint("--also accuracy='avg(model_accuracy)'")
            })?;
            also.push((name.trim().to_owned(), query.trim().to_owned()));
        }
        Ok(Self {
            client: Client::new(settings).map_err(|error| problem(&error))?,
            matching: flags.matching.as_ref().map_or(String::new(), |labels| {
                format!(",{}", labels.trim_matches(['{', '}']))
            }),
            also,
            values: Vec::new(),
            query: None,
        })
    }

    pub(super) fn name(&self) -> &str {
        self.client.server()
    }

    pub(super) fn also(&self) -> &[(String, f64)] {
        &self.values
    }

    /// What it has now, and of the GPUs also what it has seen from one time to another, in seconds.
    pub(super) fn read(
        &mut self,
        names: &FieldNames,
        since: Option<(f64, f64)>,
    ) -> Result<Telemetry, String> {
        let matching = &self.matching;
        let query = self.query.get_or_insert_with(|| {
            let mut metrics: Vec<String> = ASKED
                .iter()
                .flat_map(|quantity| names.metrics_of(*quantity))
                .map(String::from)
                .chain(engine_metrics())
                .chain(["nvidia_smi_gpu_info".into()])
                .collect();
            metrics.sort_unstable();
            metrics.dedup();
            format!("{{__name__=~\"{}\"{matching}}}", metrics.join("|"))
        });
        let mut reader = SampleReader::new(names, "Prometheus");
        let mut engines = Exposition::default();
        let mut without = None;
        if let Some((from, to)) = since {
            let (from, to) = (from as i64, to as i64 - HISTORY_STEP as i64);
            let history = self.client.range(query, from, to, HISTORY_STEP, |series| {
                let name = series.label("__name__").unwrap_or_default();
                for point in series.points.iter().filter(|_| !is_engine_metric(name)) {
                    let at = point.at_ms as f64 / 1e3;
                    reader.take(name, series.labels, point.value, Some(at));
                }
            });
            without = history.err().map(|error| said(&error));
        }
        let answered = self
            .client
            .instant(query, None, |series| {
                let (Some(metric), Some(point)) = (series.label("__name__"), series.points.last())
                else {
                    return;
                };
                let at = point.at_ms as f64 / 1e3;
                if is_engine_metric(metric) {
                    engines
                        .samples
                        .push(owned(metric, series.labels, point.value, at));
                } else {
                    reader.take(metric, series.labels, point.value, Some(at));
                }
            })
            .map_err(|error| said(&error))?;
        let mut out = reader.finish();
        out.serving = serving_samples(&engines);
        out.notes.extend(
            answered
                .warnings
                .iter()
                .map(|text| format!("the server warns: {text}")),
        );
        out.notes.extend(without.map(|why| {
            format!("the server gives no history, findings need some looks: {why}")
        }));
        if answered.series == 0 {
            out.notes
                .push("the server has no series of GPUs or engines under any known name".into());
        }
        self.values.clear();
        for (name, query) in &self.also {
            let mut value = None;
            match self
                .client
                .instant(query, None, |series| value = value.or(series.value()))
            {
                Ok(_) => {}
                Err(error) => return Err(format!("--also {name}: {}", said(&error))),
            }
            if let Some(value) = value.filter(|value: &f64| value.is_finite()) {
                self.values.push((name.clone(), value));
            }
        }
        Ok(out)
    }
}

fn owned(metric: &str, labels: &[(String, String)], value: f64, at: f64) -> Sample<'static> {
    Sample {
        name: Cow::Owned(metric.to_owned()),
        labels: labels
            .iter()
            .filter(|(name, _)| name != "__name__")
            .map(|(name, text)| (Cow::Owned(name.clone()), Cow::Owned(text.clone())))
            .collect(),
        value,
        seconds: Some(at),
    }
}

fn said(error: &PrometheusError) -> String {
    match error {
        // Its hint names flags that this command has not.
        PrometheusError::Refused { .. } => {
            format!("{error} (--token-file gives it a bearer token)")
        }
        _ => error.to_string(),
    }
}

fn problem(error: &PrometheusError) -> anyhow::Error {
    Problem::new(error.to_string()).into()
}
