//! Tables of timed matrix products: `system, gemm_dtype (or dtype), m, n, k, latency_ms (or ms)`. Of a
//! table that names engines, those of vLLM are read: its kernels are those of the vendors' libraries.

use crate::table_error;
use gpuwise_domain::profile::matmul::{MatmulPrecision, MatmulShape, TimedMatmul};

/// What is wrong with a table of timed products.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct MatmulTableError {
    /// Line in the file, from 1.
    pub line: u64,
    /// What is wrong and what would be right.
    pub problem: String,
}

/// A table, and what of it was not read.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MatmulTable {
    /// The rows, in order.
    pub rows: Vec<TimedMatmul>,
    /// Rows of precisions that are not known here and of other engines, by name, each with its count.
    pub skipped: Vec<(String, u64)>,
}

const COLUMNS: [(&str, &[&str]); 6] = [
    ("system", &["system", "gpu"]),
    ("gemm_dtype", &["gemm_dtype", "dtype", "precision"]),
    ("m", &["m"]),
    ("n", &["n"]),
    ("k", &["k"]),
    ("latency_ms", &["latency_ms", "ms", "latency"]),
];

/// The engine whose rows are read of a table that names engines.
const ENGINE: &str = "vllm";

fn skip(skipped: &mut Vec<(String, u64)>, name: &str) {
    match skipped.iter_mut().find(|(known, _)| known == name) {
        Some((_, count)) => *count += 1,
        None => skipped.push((name.into(), 1)),
    }
}

/// Reads a table of timed products.
///
/// # Errors
/// When a column is missing, a size is no whole number above 0, or a time is no number above 0.
pub fn read_matmuls(text: &str) -> Result<MatmulTable, MatmulTableError> {
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .from_reader(text.trim_start_matches('\u{feff}').as_bytes());
    let broken = |error: &csv::Error| MatmulTableError {
        line: error.position().map_or(1, csv::Position::line),
        problem: table_error(error, None),
    };
    let headers = reader.headers().map_err(|error| broken(&error))?.clone();
    let mut places = [0usize; 6];
    for (place, (name, spellings)) in places.iter_mut().zip(COLUMNS) {
        *place = headers
            .iter()
            .position(|header| spellings.contains(&header))
            .ok_or_else(|| MatmulTableError {
                line: 1,
                problem: format!(
                    "the header has no column `{name}`; expected system, gemm_dtype, m, n, k, latency_ms"
                ),
            })?;
    }
    let engine = headers.iter().position(|header| header == "engine");
    let mut table = MatmulTable::default();
    for record in reader.records() {
        let record = record.map_err(|error| broken(&error))?;
        let line = record.position().map_or(0, csv::Position::line);
        let [system, dtype, m, n, k, time] =
            places.map(|place| record.get(place).unwrap_or_default());
        let wrong = |what: &str, cell: &str| MatmulTableError {
            line,
            problem: format!("`{what}` is {cell:?}; expected a number above 0"),
        };
        let size = |what: &str, cell: &str| {
            cell.parse::<u32>()
                .ok()
                .filter(|size| *size > 0)
                .ok_or_else(|| wrong(what, cell))
        };
        let engine = engine.and_then(|place| record.get(place));
        let other = engine.filter(|engine| *engine != ENGINE);
        let precision = match (other, MatmulPrecision::by_name(dtype)) {
            (None, Some(precision)) => precision,
            (other, _) => {
                skip(&mut table.skipped, other.unwrap_or(dtype));
                continue;
            }
        };
        let milliseconds = time
            .parse::<f64>()
            .ok()
            .filter(|time| time.is_finite() && *time > 0.0)
            .ok_or_else(|| wrong("latency_ms", time))?;
        table.rows.push(TimedMatmul {
            system: system.into(),
            precision,
            shape: MatmulShape {
                m: size("m", m)?,
                n: size("n", n)?,
                k: size("k", k)?,
            },
            seconds: milliseconds * 1e-3,
        });
    }
    Ok(table)
}
