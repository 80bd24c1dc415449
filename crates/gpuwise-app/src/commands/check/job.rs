//! A job by its figures: samples that are read, decoded, copied; gradients that are exchanged.

use super::current::Runs;
use crate::{error::Problem, settings};
use anyhow::Context as _;
use gpuwise_domain::balance::{CoreWork, HostWork};
use gpuwise_read::workload as quantities;
use gpuwise_size::balance::{BalanceConstants, Known};
use gpuwise_units::{Bytes, Parameters};

/// Bytes of a normalized image of 224 × 224 in 32 bits.
const IMAGE: u64 = 224 * 224 * 3 * 4;
/// Bytes of a gradient as it is exchanged, in 32 bits.
const GRADIENT: f64 = 4.0;
/// Share of a training step that is its backward pass, behind which gradients hide.
const BACKWARD: f64 = 2.0 / 3.0;

/// The work of one node in one batch.
pub(super) fn work(
    flags: &settings::JobFlags,
    runs: &Runs,
    constants: &BalanceConstants,
) -> anyhow::Result<HostWork> {
    let size = |text: &Option<String>, flag: &'static str| -> anyhow::Result<Option<Bytes>> {
        text.as_deref().map(str::parse).transpose().context(flag)
    };
    let rate = flags.samples.as_deref().unwrap_or_default();
    let rate = quantities::rate(rate).context("--samples")?.get();
    let stored = size(&flags.stored, "--stored")?;
    let copied = size(&flags.copied, "--copied")?.unwrap_or(Bytes::new(IMAGE));
    let held = size(&flags.holds, "--holds")?;
    if flags.core_ms.is_some_and(|ms| !(0.0..=1e7).contains(&ms)) {
        return Err(Problem::new("--core-ms: expected milliseconds from 0 to 10,000,000").into());
    }
    if stored.is_none() && flags.core_ms.is_none() {
        return Err(
            Problem::new("--samples: nothing says what loading one takes")
                .hint("--stored 110kB for images, or --core-ms 4 for anything else")
                .into(),
        );
    }
    let parameters: Option<Parameters> = flags
        .gradients
        .as_deref()
        .map(str::parse)
        .transpose()
        .context("--gradients")?;
    let gpus = runs.current.gpus_per_host;
    let batch = f64::from(flags.batch) * f64::from(gpus);
    let seconds = f64::from(flags.batch) / rate;
    let stored = stored.map_or(0.0, Bytes::as_f64) * batch;
    let images = if flags.core_ms.is_some() { 0.0 } else { stored };
    let stated = flags.core_ms.map_or(0.0, |ms| ms * 1e-3 * batch);
    // A ring over nodes sends each gradient out twice, but for the part that stays.
    let nodes = f64::from(flags.nodes);
    let ring = 2.0 * (nodes - 1.0) / nodes;
    let training = parameters.is_some();
    Ok(HostWork {
        name: format!(
            "{} samples of a GPU",
            flags.samples.as_deref().unwrap_or_default()
        ),
        seconds,
        gpus,
        nodes: flags.nodes,
        processes: gpus,
        cores: CoreWork {
            images: Bytes::from_f64(images),
            stated,
            ..CoreWork::default()
        },
        stored: Bytes::from_f64(stored),
        copied: Bytes::from_f64(copied.as_f64() * batch),
        group: 1,
        sent: Bytes::from_f64(parameters.map_or(0.0, |count| count.0 as f64 * GRADIENT * ring)),
        hidden: if training { BACKWARD } else { 0.0 },
        held: held.unwrap_or_else(|| {
            Bytes::from_f64(constants.get(Known::ProcessMemory) * f64::from(gpus))
        }),
        node_price: runs.current.price,
        ..HostWork::default()
    })
}
