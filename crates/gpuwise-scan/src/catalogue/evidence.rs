//! Published measurements: `evidence.csv`, compressed or not.

use super::CatalogueError;
use crate::traffic::decompress;
use gpuwise_domain::evidence::EvidenceRow;
use serde::Deserialize;

/// Far above any table of measurements.
const LIMIT: u64 = 64 << 20;

#[derive(Deserialize)]
struct Row {
    model: String,
    gpu: String,
    gpus: Option<u32>,
    tp: Option<u32>,
    dp: Option<u32>,
    precision: String,
    engine: String,
    isl: Option<f64>,
    osl: Option<f64>,
    load: String,
    metric: String,
    unit: String,
    value: f64,
    runs: Option<u32>,
    note: Option<String>,
    source: String,
}

/// Reads published measurements from CSV, gzip or plain, with the columns `model, gpu, gpus, tp,
/// dp, precision, engine, isl, osl, load, metric, unit, value, runs, note, source`.
///
/// # Errors
/// When the bytes are damaged, a row is not of this form, or its value is no positive number.
pub fn read_evidence(file: &str, bytes: &[u8]) -> Result<Vec<EvidenceRow>, CatalogueError> {
    let wrong = |place: String, problem: String| CatalogueError::new(file, place, problem);
    let plain = decompress(bytes, LIMIT)
        .map_err(|error| wrong("the whole file".into(), error.to_string()))?;
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .from_reader(plain.as_ref());
    let headers = reader
        .headers()
        .map_err(|error| wrong("line 1".into(), error.to_string()))?
        .clone();
    let mut rows = Vec::new();
    let mut record = csv::StringRecord::new();
    loop {
        let line = reader.position().line();
        let place = || format!("line {line}");
        match reader.read_record(&mut record) {
            Ok(true) => {}
            Ok(false) => return Ok(rows),
            Err(error) => return Err(wrong(place(), error.to_string())),
        }
        let row: Row = record
            .deserialize(Some(&headers))
            .map_err(|error| wrong(place(), error.to_string()))?;
        if !row.value.is_finite() || row.value <= 0.0 {
            return Err(wrong(
                place(),
                format!("`value` must be a positive number, found {}", row.value),
            ));
        }
        if row.source.is_empty() {
            return Err(wrong(
                place(),
                "`source` is empty: say where the row comes from".into(),
            ));
        }
        rows.push(noun(row));
    }
}

fn noun(row: Row) -> EvidenceRow {
    EvidenceRow {
        model: row.model,
        gpu: row.gpu,
        gpus: row.gpus,
        tensor: row.tp,
        data: row.dp,
        precision: row.precision,
        engine: row.engine,
        input: row.isl,
        output: row.osl,
        load: row.load,
        metric: row.metric,
        unit: row.unit,
        value: row.value,
        runs: row.runs.unwrap_or(1),
        note: row.note.unwrap_or_default(),
        source: row.source,
    }
}
