//! Deployments that serve beside one another.

use super::{
    decisions::Log,
    mixes::{Asked, Asking},
    starts::Seen,
};
use crate::{error::Problem, simulation};
use gpuwise_domain::{
    deployment::Deployment,
    scale::{ScaleMix, ScaleSample, ScaleVariant},
};
use gpuwise_scale::{
    cover::{self, Choice},
    fluid::Service,
    step::Form,
    variant::{Price, Variant},
};
use gpuwise_units::{Currency, HourlyPrice, Money, Nanoseconds};
use std::path::{Path, PathBuf};

/// Hours of the 30 days that a cost is said for.
const MONTH_HOURS: f64 = 720.0;
/// What money is multiplied by, exactly: thousandths.
const THOUSANDTHS: i64 = 1000;

/// Deployments and what their cheapest mix costs; nothing where one stands alone.
#[derive(Default)]
pub(super) struct Mixed {
    pub(super) variants: Vec<ScaleVariant>,
    /// The same as they are run.
    kinds: Vec<Variant>,
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
    service: &Service,
    seen: &Seen,
) -> anyhow::Result<Mixed> {
    if beside.is_empty() {
        return Ok(Mixed::default());
    }
    let rate = sustained(path, of)?;
    let mut variants = vec![variant(path, of)?];
    let mut kinds = Vec::new();
    for one in &variants {
        kinds.push(kind(of, one, service, seen)?);
    }
    let seen = seen.beside();
    for path in beside {
        let of = simulation::read(path)?.deployment;
        let one = variant(path, &of)?;
        kinds.push(kind(&of, &one, service, &seen)?);
        variants.push(one);
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
        let counts = cover::cheapest(needed, &offered).unwrap_or_default();
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
        kinds,
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

/// The same as it is run: a replica of another GPU starts and wakes in what its own bytes take.
fn kind(
    of: &Deployment,
    one: &ScaleVariant,
    service: &Service,
    seen: &Seen,
) -> anyhow::Result<Variant> {
    let (start, wake) = seen.usual(of)?;
    let stated = Nanoseconds((service.start * 1e9) as u64);
    let name = format!("{} × {}", one.gpus, one.gpu);
    Ok(Variant {
        pool: one.gpu.clone(),
        gpus: one.gpus,
        rate: one.rate,
        service: of.figures.end_to_end.value,
        prices: vec![Price {
            from: Nanoseconds(0),
            per_hour: one.per_hour.0.as_f64(),
        }],
        start: start.min(stated),
        wake,
        warm_cost: service.warm_cost,
        spot: None,
        name,
    })
}

impl Mixed {
    /// Each deployment alone under our controller, and all of them; nothing where one stands alone.
    pub(super) fn replayed(&self, asking: &Asking<'_>, seed: u64) -> Vec<ScaleMix> {
        let currency = self.variants.first().map(|one| one.per_hour.0.currency);
        let asked = Asked {
            variants: &self.kinds,
            gpus: &[],
            per_hour: None,
            currency: currency.unwrap_or(Currency::USD),
            form: Form::Flow,
            engines: None,
            machines: (&[], &[]),
            seed,
        };
        if self.kinds.is_empty() {
            return Vec::new();
        }
        asked.rows(asking, &mut Log::default())
    }
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
