//! `jobs.csv`: a workload a row. `docs/guides/tier.md` says what the columns hold.

use super::TierFileError;
use crate::table_error;
use gpuwise_domain::{
    profile::matmul::{MatmulPrecision, MatmulShape},
    tier::{Job, MeasuredTier},
};
use gpuwise_units::Bytes;

/// Every column, in the order in which errors name them.
const COLUMNS: [&str; 23] = [
    "job",
    "gpu",
    "gpus",
    "precision",
    "seconds",
    "compute_s",
    "memory_s",
    "launch_s",
    "communication_s",
    "copy_s",
    "host_s",
    "flops",
    "bytes",
    "kernels",
    "matmuls",
    "peak_memory_gib",
    "busy",
    "slo_s",
    "hours_per_month",
    "measured_gpu",
    "measured_gpus",
    "measured_s",
    "note",
];

/// Reads a table of workloads. Empty cells are unknown; a column that is not known is an error, for a
/// figure that is silently left out would change the answer.
///
/// # Errors
/// When `job`, `gpu` or `seconds` is missing, a column is not known, or a cell is not what its column
/// holds.
pub fn read_jobs(text: &str) -> Result<Vec<Job>, TierFileError> {
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .from_reader(text.trim_start_matches('\u{feff}').as_bytes());
    let broken = |error: &csv::Error| TierFileError {
        place: format!("line {}", error.position().map_or(1, csv::Position::line)),
        problem: table_error(error, None),
    };
    let headers = reader.headers().map_err(|error| broken(&error))?.clone();
    for header in &headers {
        if !COLUMNS.contains(&header) {
            return Err(TierFileError {
                place: "line 1".into(),
                problem: format!(
                    "no column is called {header:?}; columns are {}",
                    COLUMNS.join(", ")
                ),
            });
        }
    }
    for needed in ["job", "gpu", "seconds"] {
        if !headers.iter().any(|header| header == needed) {
            return Err(TierFileError {
                place: "line 1".into(),
                problem: format!("the header has no column `{needed}`"),
            });
        }
    }
    let mut jobs = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| broken(&error))?;
        let line = record.position().map_or(0, csv::Position::line);
        let cells = Cells {
            headers: &headers,
            record: &record,
            line,
        };
        jobs.push(job(&cells)?);
    }
    Ok(jobs)
}

struct Cells<'a> {
    headers: &'a csv::StringRecord,
    record: &'a csv::StringRecord,
    line: u64,
}

impl Cells<'_> {
    fn text(&self, column: &str) -> &str {
        let place = self.headers.iter().position(|header| header == column);
        place
            .and_then(|place| self.record.get(place))
            .unwrap_or_default()
    }

    fn wrong(&self, column: &str, expected: &str) -> TierFileError {
        TierFileError {
            place: format!("line {}", self.line),
            problem: format!("`{column}` is {:?}; expected {expected}", self.text(column)),
        }
    }

    /// A number that is finite and within bounds; empty is unknown.
    fn number(&self, column: &str, least: f64, most: f64) -> Result<Option<f64>, TierFileError> {
        let text = self.text(column);
        if text.is_empty() {
            return Ok(None);
        }
        match text.parse::<f64>() {
            Ok(value) if value.is_finite() && (least..=most).contains(&value) => Ok(Some(value)),
            _ if most < 1e30 => {
                Err(self.wrong(column, &format!("a number from {least} to {most}")))
            }
            _ => Err(self.wrong(column, &format!("a number of at least {least}"))),
        }
    }

    fn count(&self, column: &str) -> Result<Option<u32>, TierFileError> {
        let text = self.text(column);
        if text.is_empty() {
            return Ok(None);
        }
        match text.parse::<u32>() {
            Ok(count) if (1..=1_000_000).contains(&count) => Ok(Some(count)),
            _ => Err(self.wrong(column, "a whole number of GPUs, at least 1")),
        }
    }
}

/// `m x n x k * count; …`: a count that is not stated is 1.
fn matmuls(cells: &Cells<'_>) -> Result<Vec<(MatmulShape, f64)>, TierFileError> {
    let one = |text: &str| {
        let (sizes, count) = text.split_once('*').unwrap_or((text, "1"));
        let mut sizes = sizes
            .split(['x', '×'])
            .map(|size| size.trim().parse::<u32>().ok().filter(|size| *size > 0));
        let shape = MatmulShape {
            m: sizes.next()??,
            n: sizes.next()??,
            k: sizes.next()??,
        };
        let count = count.trim().parse::<f64>().ok();
        let count = count.filter(|count| count.is_finite() && *count > 0.0)?;
        sizes.next().is_none().then_some((shape, count))
    };
    let all = cells.text("matmuls").split(';').map(str::trim);
    all.filter(|text| !text.is_empty())
        .map(|text| {
            one(text).ok_or_else(|| {
                cells.wrong(
                    "matmuls",
                    "products as tokens x outputs x inputs * count, such as 4096x28672x8192*80, between semicolons",
                )
            })
        })
        .collect()
}

fn job(cells: &Cells<'_>) -> Result<Job, TierFileError> {
    let positive = |column: &str| cells.number(column, 1e-12, 1e30);
    let part = |column: &str| cells.number(column, 0.0, 1e30);
    let precision = match cells.text("precision") {
        "" => None,
        name => Some(
            MatmulPrecision::by_name(name)
                .ok_or_else(|| cells.wrong("precision", "bf16, fp16, fp8 or fp8_block"))?,
        ),
    };
    let name = cells.text("job");
    let measured = match (cells.text("measured_gpu"), positive("measured_s")?) {
        ("", None) => None,
        (gpu, Some(seconds)) if !gpu.is_empty() => Some(MeasuredTier {
            gpu: gpu.into(),
            gpus: cells.count("measured_gpus")?.unwrap_or(1),
            seconds,
        }),
        _ => return Err(cells.wrong("measured_s", "it together with `measured_gpu`, or neither")),
    };
    if name.is_empty() {
        return Err(cells.wrong("job", "a name"));
    }
    if cells.text("gpu").is_empty() {
        return Err(cells.wrong("gpu", "the GPU that it ran on"));
    }
    Ok(Job {
        name: name.into(),
        gpu: cells.text("gpu").into(),
        gpus: cells.count("gpus")?.unwrap_or(1),
        precision,
        seconds: positive("seconds")?
            .ok_or_else(|| cells.wrong("seconds", "seconds of a unit of work"))?,
        compute: part("compute_s")?,
        memory: part("memory_s")?,
        launch: part("launch_s")?,
        communication: part("communication_s")?,
        copies: part("copy_s")?,
        host: part("host_s")?,
        operations: part("flops")?,
        bytes: part("bytes")?,
        kernels: part("kernels")?,
        matmuls: matmuls(cells)?,
        peak_memory: cells
            .number("peak_memory_gib", 0.0, 1e9)?
            .map(|gib| Bytes::from_f64(gib * (1u64 << 30) as f64)),
        busy: cells.number("busy", 0.0, 1.0)?,
        slo: positive("slo_s")?,
        hours: cells.number("hours_per_month", 0.0, 744.0)?,
        measured,
    })
}
