//! On which machines, as flags say it.

use crate::{error::Problem, names, settings};
use anyhow::Context as _;
use gpuwise_domain::{catalogue::Catalogue, gpu::Gpu};
use gpuwise_read::workload as quantities;
use gpuwise_size::training::search::{Machines, Market, cluster};

/// GPUs of a training job at most.
const MOST: u64 = 65_536;

/// Given machines, or what may be rented; beside it the composed GPUs of a fabric, by name and count.
pub(super) fn machines<'a>(
    flags: &settings::MachineFlags,
    catalogue: &'a Catalogue,
    composed: &[(String, u32)],
) -> anyhow::Result<Machines<'a>> {
    if let Some(text) = &flags.gpus {
        return given(text, flags.network.as_deref(), catalogue);
    }
    let mut gpus = flags
        .market
        .gpu
        .iter()
        .map(|name| names::gpu(catalogue, "--gpu", name))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let mut owned = Vec::new();
    for text in &flags.market.owned {
        let (name, count) = quantities::owned(text).context("--owned")?;
        owned.push((names::gpu(catalogue, "--owned", &name)?, count));
    }
    if !composed.is_empty() && gpus.is_empty() && owned.is_empty() {
        let sold = |gpu: &&Gpu| catalogue.offers.iter().any(|offer| offer.gpu == gpu.name);
        gpus.extend(
            catalogue
                .gpus
                .iter()
                .filter(|gpu| !gpu.announced)
                .filter(sold),
        );
    }
    for (name, count) in composed {
        let gpu = names::gpu(catalogue, "--fabric", name)?;
        if !gpus.is_empty() {
            gpus.push(gpu);
        }
        owned.push((gpu, *count));
    }
    names::regions(catalogue, "--region", &flags.market.region)?;
    Ok(Machines::Offered(Market {
        gpus,
        providers: names::providers(catalogue, "--provider", &flags.market.provider)?,
        regions: flags.market.region.clone(),
        owned,
        terms: flags.market.terms.into(),
        most: flags.max_gpus,
    }))
}

/// Reads `64xH100`, `64×H100` or `H100:64`.
fn given<'a>(
    text: &str,
    network: Option<&str>,
    catalogue: &'a Catalogue,
) -> anyhow::Result<Machines<'a>> {
    let wrong = || {
        Problem::new(format!(
            "--gpus {text}: expected how many of which GPU, from 1 to {MOST}"
        ))
        .hint("write it as --gpus 64xH100")
    };
    let trimmed = text.trim();
    let digits = trimmed
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(trimmed.len());
    let (count, rest) = trimmed.split_at(digits);
    let rest = rest.trim_start();
    let name = ['x', 'X', '×', '*']
        .iter()
        .find_map(|times| rest.strip_prefix(*times));
    let (count, name) = match (count, name) {
        (count, Some(name)) if !count.is_empty() => (count, name),
        _ => {
            let (name, count) = trimmed.rsplit_once(':').ok_or_else(wrong)?;
            (count, name)
        }
    };
    let count: u64 = count.trim().parse().map_err(|_| wrong())?;
    if !(1..=MOST).contains(&count) {
        return Err(wrong().into());
    }
    let gpu = names::gpu(catalogue, "--gpus", name.trim())?;
    let mut cluster = cluster(catalogue, gpu, count);
    if let Some(text) = network {
        let gbit: f64 = text.trim().parse().unwrap_or(f64::NAN);
        if !(gbit > 0.0 && gbit < 1e6) {
            return Err(Problem::new(format!(
                "--network {text}: expected Gbit/s of one GPU, such as 400"
            ))
            .into());
        }
        cluster.network = Some(gbit * 1e9 / 8.0);
    }
    Ok(Machines::Given(cluster))
}
