//! Deployments that serve beside one another.

use crate::{error::Problem, simulation};
use gpuwise_domain::{
    deployment::Deployment,
    scale::{ScaleSample, ScaleVariant},
};
use gpuwise_scale::mix::{self, Choice};
use gpuwise_units::{HourlyPrice, Money};
use std::path::{Path, PathBuf};

/// Hours of the 30 days that a cost is said for.
const MONTH_HOURS: f64 = 720.0;
/// What money is multiplied by, exactly: thousandths.
const THOUSANDTHS: i64 = 1000;

/// Deployments and what their cheapest mix costs; nothing where one stands alone.
#[derive(Default)]
pub(super) struct Mixed {
    pub(super) variants: Vec<ScaleVariant>,
    pub(super) per_month: Option<Money>,
}

/// Requests a second that one replica sustains within the SLO.
pub(super) fn sustained(path: &Path, of: &Deployment) -> anyhow::Result<f64> {
    let rate = of.headroom.rate / f64::from(of.layout.replicas);
    if rate.is_finite() && rate > 0.0 {
        return Ok(rate);
    }
    Err(Problem::new(format!(
        "{}: no rate is known that it sustains",
        path.display()
    ))
    .hint("plan with --rate and an SLO, and save that")
    .into())
}

/// What each deployment costs alone, and the cheapest mix of them, for as much as ours has serving at each time.
pub(super) fn mixed(
    of: &Deployment,
    path: &Path,
    beside: &[PathBuf],
    samples: &[ScaleSample],
) -> anyhow::Result<Mixed> {
    if beside.is_empty() {
        return Ok(Mixed::default());
    }
    let rate = sustained(path, of)?;
    let mut variants = vec![variant(path, of)?];
    for path in beside {
        variants.push(variant(path, &simulation::read(path)?.deployment)?);
    }
    let offered = variants.iter().map(|one| Choice {
        rate: one.rate,
        price: one.per_hour.0.as_f64(),
        most: u32::MAX,
    });
    let offered: Vec<Choice> = offered.collect();
    let count = samples.len().max(1) as f64;
    let mut alone = vec![0.0; variants.len()];
    for sample in samples {
        let needed = f64::from(sample.serving) * rate;
        let counts = mix::cheapest(needed, &offered).unwrap_or_default();
        let each = variants.iter_mut().zip(&offered).zip(&mut alone);
        for (((one, offer), alone), replicas) in each.zip(counts) {
            one.mixed += f64::from(replicas) / count;
            *alone += (needed / offer.rate - 1e-9).ceil() / count;
        }
    }
    for (one, alone) in variants.iter_mut().zip(alone) {
        one.alone_per_month = monthly(one.per_hour, alone);
    }
    let each = variants
        .iter()
        .map(|one| monthly(one.per_hour, one.mixed).micros);
    let micros = each.sum();
    let currency = variants.first().map(|one| one.per_hour.0.currency);
    Ok(Mixed {
        per_month: currency.map(|currency| Money { micros, currency }),
        variants,
    })
}

/// A deployment as one of several.
fn variant(path: &Path, of: &Deployment) -> anyhow::Result<ScaleVariant> {
    let wrong = |what: &str| Problem::new(format!("{}: {what}", path.display()));
    let price = of.cost.per_hour.ok_or_else(|| {
        wrong("nothing is known of its price").hint("plan with a provider, or prices of one's own")
    })?;
    let rate = sustained(path, of)?;
    let per_hour = each(price, of.layout.replicas);
    Ok(ScaleVariant {
        gpu: of.gpu.clone(),
        gpus: of.layout.replica_gpus(),
        rate,
        per_hour,
        alone_per_month: monthly(per_hour, 0.0),
        mixed: 0.0,
    })
}

/// Of all replicas' price that of one.
pub(super) fn each(price: HourlyPrice, replicas: u32) -> HourlyPrice {
    HourlyPrice(price.0.times(1, i64::from(replicas.max(1))))
}

/// For 30 days so many replicas in the mean.
pub(super) fn monthly(price: HourlyPrice, replicas: f64) -> Money {
    let thousandths = (replicas * MONTH_HOURS * THOUSANDTHS as f64).round() as i64;
    price.0.times(thousandths, THOUSANDTHS)
}
