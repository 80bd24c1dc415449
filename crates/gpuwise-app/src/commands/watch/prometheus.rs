//! A Prometheus server as a source: one query for all that is read.

use super::Flags;
use crate::error::Problem;
use gpuwise_domain::telemetry::{Quantity, Telemetry};
use gpuwise_probe::prometheus::{Authentication, Client, PrometheusError, Series, Settings};
use gpuwise_read::{
    metrics::{Exposition, Sample},
    telemetry::{FieldNames, SampleReader, engine_metrics, is_engine_metric, serving_samples},
};
use std::{borrow::Cow, collections::BTreeSet, fmt::Write as _, time::Duration};

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

    /// What it holds now; with a window, all samples of so many seconds before now, the oldest first.
    pub(super) fn read(
        &mut self,
        names: &FieldNames,
        window: Option<f64>,
    ) -> Result<Vec<Telemetry>, String> {
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
        let query = query.clone();
        let mut alive = BTreeSet::new();
        let newest = self.samples(names, &query, &mut |series| {
            if window.is_some() {
                alive.insert(identity(series));
            }
            true
        });
        let mut said_now = newest.map_err(|error| said(&error))?;
        if let Some(seconds) = window {
            let query = format!("{query}[{}s]", seconds.ceil().max(1.0));
            // What has ended since is no part of now. A server that has too much of it is asked look by look.
            let whole = self.samples(names, &query, &mut |series| {
                alive.contains(&identity(series))
            });
            said_now = whole.unwrap_or(said_now);
        }
        if said_now
            .iter()
            .all(|one| one.subjects.is_empty() && one.serving.is_empty())
            && let Some(newest) = said_now.last_mut()
        {
            newest
                .notes
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
        Ok(said_now)
    }

    /// Samples of a query, as one look for each place from the newest of their series, the oldest first.
    fn samples(
        &self,
        names: &FieldNames,
        query: &str,
        wanted: &mut dyn FnMut(&Series<'_>) -> bool,
    ) -> Result<Vec<Telemetry>, PrometheusError> {
        let mut looks: Vec<(SampleReader<'_>, Exposition<'_>)> = Vec::new();
        let answered = self.client.instant(query, None, |series| {
            let Some(metric) = series.label("__name__") else {
                return;
            };
            if !wanted(&series) {
                return;
            }
            for (age, point) in series.points.iter().rev().enumerate() {
                if looks.len() <= age {
                    let reader = SampleReader::new(names, "Prometheus");
                    looks.push((reader, Exposition::default()));
                }
                let Some((reader, engines)) = looks.get_mut(age) else {
                    continue;
                };
                let at = point.at_ms as f64 / 1e3;
                if is_engine_metric(metric) {
                    let sample = owned(metric, series.labels, point.value, at);
                    engines.samples.push(sample);
                } else {
                    reader.take(metric, series.labels, point.value, Some(at));
                }
            }
        })?;
        let warnings = answered.warnings.iter();
        let warnings = warnings.map(|text| format!("the server warns: {text}"));
        let mut out: Vec<Telemetry> = looks
            .into_iter()
            .map(|(reader, engines)| Telemetry {
                serving: serving_samples(&engines),
                ..reader.finish()
            })
            .collect();
        if out.is_empty() {
            out.push(Telemetry::default());
        }
        // What holds for all is said once, by the newest.
        for older in out.iter_mut().skip(1) {
            older.notes.clear();
            older.unread.clear();
        }
        if let Some(newest) = out.first_mut() {
            newest.notes.extend(warnings);
        }
        out.reverse();
        Ok(out)
    }
}

/// Its labels as one text.
fn identity(series: &Series<'_>) -> String {
    let mut text = String::new();
    for (name, value) in series.labels {
        let _ = write!(text, "{name}={value:?},");
    }
    text
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
