//! Timed single matmuls, which anchor achieved rates before any engine is looked at.

use crate::fit::Row;
use anyhow::{Context, bail};
use gpuwise_domain::{catalogue::Catalogue, gpu::Device, precision::Compute};
use gpuwise_size::{
    constants::Constants,
    micro::{self, Matmul},
};

/// Of the many sizes that were timed, every so-manieth is enough.
const EVERY: usize = 13;
/// What one counts beside a measured row of serving.
const WEIGHT: f64 = 0.15;

#[derive(Debug, Clone)]
pub struct Anchor<'a> {
    pub matmul: Matmul<'a>,
    /// Seconds.
    measured: f64,
}

impl Anchor<'_> {
    pub fn row(&self, constants: &Constants) -> Row {
        let place = constants.place(&self.matmul.device.gpu.generation, micro::BUCKET);
        Row {
            generation: place.generation,
            bucket: place.bucket,
            joint: None,
            weight: WEIGHT,
            target: self.measured.ln(),
        }
    }
}

/// Reads `system,dtype,m,n,k,latency_ms` rows of large matmuls in BF16 and FP8.
pub(crate) fn read_anchors<'a>(
    text: &str,
    catalogue: &'a Catalogue,
) -> anyhow::Result<Vec<Anchor<'a>>> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let mut kept = Vec::new();
    let mut seen = 0usize;
    for (line, record) in reader.records().enumerate() {
        let record = record.with_context(|| format!("line {}", line + 2))?;
        let number = |at: usize| -> anyhow::Result<f64> {
            let cell = record.get(at).unwrap_or("");
            cell.parse()
                .with_context(|| format!("line {}: {cell:?} is not a number", line + 2))
        };
        let compute = match record.get(1) {
            Some("bf16" | "float16" | "bfloat16") => Compute::Half,
            Some("fp8") => Compute::Fp8,
            Some(_) => continue,
            None => bail!("line {}: too few columns", line + 2),
        };
        let (tokens, rows, columns) = (number(2)?, number(3)?, number(4)?);
        if rows < 512.0 || columns < 512.0 || rows * columns > 2.0e9 || tokens > 20_000.0 {
            continue;
        }
        let system = record.get(0).unwrap_or("").replace('_', " ");
        let Some(gpu) = catalogue.gpu(&system) else {
            continue;
        };
        seen += 1;
        if !seen.is_multiple_of(EVERY) {
            continue;
        }
        kept.push(Anchor {
            matmul: Matmul {
                device: Device::whole(gpu),
                compute,
                tokens,
                rows,
                columns,
            },
            measured: number(5)? * 1e-3,
        });
    }
    Ok(kept)
}
