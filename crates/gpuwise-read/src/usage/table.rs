//! Usage as a table: one row a workload, for fleets without Prometheus.

use crate::table_error;
use gpuwise_domain::usage::{
    ComputeMeasure, ComputeUse, EngineUse, Holder, IdleUse, ResourceRequest, Usage,
};
use gpuwise_units::Bytes;
use thiserror::Error;

/// Columns of a table of usage: name, and what it holds. Only `workload` and `gpu` must be there; an
/// empty cell is unknown.
pub const COLUMNS: [(&str, &str); 29] = [
    ("namespace", "namespace, project or account"),
    ("workload", "name of the workload"),
    ("kind", "Deployment, StatefulSet, Job, Pod, SlurmJob …"),
    ("tenant", "who it is charged to; the namespace where empty"),
    ("gpu", "GPU that it holds, by any of its names"),
    (
        "mig_profile",
        "MIG profile that it holds; `unknown` where it holds an instance of one that nothing tells",
    ),
    ("gpus", "GPUs or slices of one replica; 1 where empty"),
    (
        "gpus_idle",
        "of these, GPUs that did nothing all the time; 0 where empty",
    ),
    (
        "shared_by",
        "workloads that share each of its GPUs concurrently (time-slicing, MPS), itself among them; 1 where empty",
    ),
    (
        "replicas",
        "replicas; 1 where empty, 0 when it holds nothing any more",
    ),
    ("container", "container that holds the GPUs, for patches"),
    ("cpus", "CPUs of one replica"),
    ("hours", "hours in which it was seen"),
    ("memory_peak_mib", "largest memory of any device"),
    ("memory_average_mib", "mean memory of its devices"),
    (
        "memory_full_share",
        "share of hours at the device's end, 0 to 1",
    ),
    (
        "sm_active_average",
        "share of multiprocessors with work, mean, 0 to 1",
    ),
    (
        "sm_active_p95",
        "the same at the 95th percentile of its busiest device",
    ),
    (
        "gpu_utilisation_average",
        "nvidia-smi's utilisation, mean, 0 to 1, where SM activity is unknown",
    ),
    ("gpu_utilisation_p95", "the same at the 95th percentile"),
    (
        "dram_active_p95",
        "share of time in which memory was busy, 95th percentile, 0 to 1",
    ),
    (
        "tensor_active_average",
        "share of time in which tensor cores worked, mean, 0 to 1",
    ),
    ("idle_hours", "hours in which no device did anything"),
    (
        "idle_stretch_hours",
        "of these, hours in stretches of 4 hours and more",
    ),
    ("cpu_share", "CPUs in use over CPUs, mean, 0 to 1"),
    (
        "throttled_share",
        "share of scheduling periods throttled, 0 to 1",
    ),
    (
        "requests_waiting",
        "requests that wait in its serving engine, mean",
    ),
    (
        "cache_peak",
        "share of its serving engine's key-value cache in use, at the most, 0 to 1",
    ),
    ("model", "model that its serving engine serves"),
];

#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{file}: {place}: {problem}")]
pub struct UsageError {
    pub file: String,
    pub place: String,
    pub problem: String,
}

struct Row<'a> {
    file: &'a str,
    line: u64,
    headers: &'a csv::StringRecord,
    cells: &'a csv::StringRecord,
}

impl Row<'_> {
    fn text(&self, column: &str) -> Option<&str> {
        let at = self.headers.iter().position(|header| header == column)?;
        self.cells
            .get(at)
            .map(str::trim)
            .filter(|cell| !cell.is_empty())
    }

    fn wrong(&self, column: &str, problem: String) -> UsageError {
        UsageError {
            file: self.file.into(),
            place: format!("line {}, {column}", self.line),
            problem,
        }
    }

    fn number(&self, column: &str, most: f64) -> Result<Option<f64>, UsageError> {
        let Some(text) = self.text(column) else {
            return Ok(None);
        };
        match text.parse::<f64>() {
            Ok(value) if value >= 0.0 && value <= most => Ok(Some(value)),
            // What exporters write for unknown.
            Ok(value) if value.is_nan() => Ok(None),
            _ => Err(self.wrong(column, format!("{text:?} is not a number from 0 to {most}"))),
        }
    }

    fn share(&self, column: &str) -> Result<Option<f64>, UsageError> {
        self.number(column, 1.0)
    }

    fn mib(&self, column: &str) -> Result<Option<Bytes>, UsageError> {
        let value = self.number(column, 1e9)?;
        Ok(value.map(|mib| Bytes::from_f64(mib * 1_048_576.0)))
    }

    /// A whole number; so many where the cell is empty.
    fn count(&self, column: &str, usually: f64) -> Result<u32, UsageError> {
        let value = self.number(column, 1e6)?.unwrap_or(usually);
        if value.fract() == 0.0 {
            Ok(value as u32)
        } else {
            Err(self.wrong(column, format!("{value} is not a whole number")))
        }
    }
}

/// Reads a table of usage from CSV with the columns [`COLUMNS`]; also says which columns it did not
/// understand.
///
/// # Errors
/// With file, line and column of the first cell that is wrong, or when a column that must be there is
/// missing.
pub fn read_usage(file: &str, text: &str) -> Result<(Vec<Usage>, Vec<String>), UsageError> {
    let fail = |place: String, problem: String| UsageError {
        file: file.into(),
        place,
        problem,
    };
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes());
    let headers = reader
        .headers()
        .map_err(|error| fail("line 1".into(), table_error(&error, None)))?
        .clone();
    for needed in ["workload", "gpu"] {
        if !headers.iter().any(|header| header == needed) {
            return Err(fail(
                "line 1".into(),
                format!("there is no column `{needed}`"),
            ));
        }
    }
    let known = |header: &&str| COLUMNS.iter().any(|(name, _)| name == header);
    let unread = headers
        .iter()
        .filter(|header| !known(header))
        .map(str::to_owned)
        .collect();
    let mut out = Vec::new();
    for record in reader.records() {
        let cells = record.map_err(|error| {
            let line = error.position().map_or(0, csv::Position::line);
            fail(format!("line {line}"), table_error(&error, None))
        })?;
        let line = cells.position().map_or(0, csv::Position::line);
        out.push(usage(&Row {
            file,
            line,
            headers: &headers,
            cells: &cells,
        })?);
    }
    Ok((out, unread))
}

fn usage(row: &Row<'_>) -> Result<Usage, UsageError> {
    let owned = |column: &str| row.text(column).unwrap_or("").to_owned();
    let name = row
        .text("workload")
        .ok_or_else(|| row.wrong("workload", "it has no name".into()))?;
    let namespace = owned("namespace");
    let slice = row.text("mig_profile");
    let slice_untold = slice.is_some_and(|slice| slice.eq_ignore_ascii_case("unknown"));
    let asked = ResourceRequest {
        gpu: row.text("gpu").map(str::to_owned),
        slice: slice.filter(|_| !slice_untold).map(str::to_owned),
        slice_untold,
        shared_by: row.count("shared_by", 1.0)?,
        devices: row.count("gpus", 1.0)?,
        replicas: row.count("replicas", 1.0)?,
        cpus: row.number("cpus", 1e6)?,
        container: row.text("container").map(str::to_owned),
        cpus_limited: row.text("cpus").is_some(),
    };
    let hours = row.number("hours", 1e6)?.unwrap_or(0.0);
    let devices = f64::from(asked.devices.max(1)) * f64::from(asked.replicas.max(1));
    let compute = compute(row, asked.replicas)?;
    let idle_devices = row.count("gpus_idle", 0.0)?;
    if idle_devices > asked.devices {
        let problem = format!("{idle_devices} of {} GPUs cannot be idle", asked.devices);
        return Err(row.wrong("gpus_idle", problem));
    }
    let mut missing = Vec::new();
    if compute.is_none() {
        missing.push("compute: neither sm_active_p95 nor gpu_utilisation_p95".into());
    }
    let idle = match (
        row.number("idle_hours", 1e6)?,
        row.number("idle_stretch_hours", 1e6)?,
    ) {
        (None, _) => None,
        (Some(hours), stretches) => Some(IdleUse {
            hours,
            in_stretches: stretches.unwrap_or(0.0).min(hours),
            stretches: 0,
            weekend: 0.0,
        }),
    };
    let waiting = row.number("requests_waiting", 1e9)?;
    let cache_peak = row.share("cache_peak")?;
    let model = row.text("model").map(str::to_owned);
    let serves = waiting.is_some() || cache_peak.is_some() || model.is_some();
    Ok(Usage {
        tenant: row
            .text("tenant")
            .map_or_else(|| namespace.clone(), str::to_owned),
        holder: Holder {
            namespace,
            kind: row.text("kind").unwrap_or("Workload").into(),
            name: name.into(),
        },
        device_hours: hours * devices,
        device_hours_seen: hours * devices,
        hours,
        spanned_hours: hours,
        // With no replica it holds nothing.
        present: asked.replicas > 0,
        asked,
        memory_peak: row.mib("memory_peak_mib")?,
        memory_average: row.mib("memory_average_mib")?,
        memory_hourly: Vec::new(),
        memory_full_share: row.share("memory_full_share")?,
        compute,
        compute_hourly: Vec::new(),
        idle,
        idle_devices,
        tensor_average: row.share("tensor_active_average")?,
        dram_p95: row.share("dram_active_p95")?,
        cpu_share: row.number("cpu_share", 16.0)?,
        throttled_share: row.share("throttled_share")?,
        engine: serves.then(|| EngineUse {
            waiting,
            cache_peak,
            model,
            ..EngineUse::default()
        }),
        missing,
    })
}

/// By SM activity, else by nvidia-smi's utilisation; no replica is busier than the busiest device.
fn compute(row: &Row<'_>, replicas: u32) -> Result<Option<ComputeUse>, UsageError> {
    for (measure, average, p95) in [
        (
            ComputeMeasure::SmActive,
            "sm_active_average",
            "sm_active_p95",
        ),
        (
            ComputeMeasure::Utilisation,
            "gpu_utilisation_average",
            "gpu_utilisation_p95",
        ),
    ] {
        let (average, p95) = (row.share(average)?, row.share(p95)?);
        if average.is_some() || p95.is_some() {
            return Ok(Some(ComputeUse {
                measure,
                average,
                p95,
                p95_sum: p95.map(|p95| p95 * f64::from(replicas.max(1))),
                of_hours: false,
            }));
        }
    }
    Ok(None)
}
