//! What published benchmarks run, of networks that are run whole.

use super::{CatalogueError, tables::rows};
use gpuwise_domain::{media::MediaBenchmark, network::InputSize, precision::Compute};
use serde::Deserialize;

#[derive(Deserialize)]
struct Row {
    benchmark: String,
    network: String,
    width: Option<u64>,
    height: Option<u64>,
    steps: Option<u64>,
    guided: Option<bool>,
    text_tokens: Option<u64>,
    seconds: Option<f64>,
    written_tokens: Option<u64>,
    windows: Option<f64>,
    inputs: f64,
    compute: String,
    source: String,
}

/// Reads `media_benchmarks.csv`.
///
/// # Errors
/// When a row is not of this form, or names a format that is not known.
pub fn read_media_benchmarks(
    file: &str,
    text: &str,
) -> Result<Vec<MediaBenchmark>, CatalogueError> {
    let convert = |(line, row): (u64, Row)| {
        let wrong = |problem: String| CatalogueError::new(file, format!("line {line}"), problem);
        let compute = match row.compute.as_str() {
            "" => None,
            "fp8" => Some(Compute::Fp8),
            "int8" => Some(Compute::Int8),
            "fp16" => Some(Compute::Half),
            other => {
                return Err(wrong(format!(
                    "compute is {other:?}; expected fp8, int8, fp16 or nothing"
                )));
            }
        };
        if !(row.inputs.is_finite() && row.inputs > 0.0) {
            return Err(wrong(format!(
                "inputs is {}; expected more than 0",
                row.inputs
            )));
        }
        Ok(MediaBenchmark {
            prefix: row.benchmark,
            network: row.network,
            input: InputSize {
                width: row.width,
                height: row.height,
                steps: row.steps,
                guided: row.guided,
                text_tokens: row.text_tokens,
                seconds: row.seconds,
                written_tokens: row.written_tokens,
                windows: row.windows,
                ..InputSize::default()
            },
            inputs: row.inputs,
            compute,
            source: row.source,
        })
    };
    rows(file, text)?.into_iter().map(convert).collect()
}
