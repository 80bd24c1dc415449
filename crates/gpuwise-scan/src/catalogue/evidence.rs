//! Published measurements: `evidence.csv`, compressed or not.

use super::{CatalogueError, row};
use crate::traffic::decompress;
use gpuwise_domain::evidence::EvidenceRow;

/// Far above any table of measurements.
const LIMIT: u64 = 64 << 20;

row! {
    Row => EvidenceRow {
        model: String => model,
        gpu: String => gpu,
        gpus: Option<u32> => gpus,
        tp: Option<u32> => tensor,
        dp: Option<u32> => data,
        precision: String => precision,
        engine: String => engine,
        isl: Option<f64> => input,
        osl: Option<f64> => output,
        load: String => load,
        metric: String => metric,
        unit: String => unit,
        value: f64 => value,
        runs: Option<u32> => runs = runs.unwrap_or(1),
        note: Option<String> => note = note.unwrap_or_default(),
        source: String => source,
    }
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
        rows.push(row.into());
    }
}
