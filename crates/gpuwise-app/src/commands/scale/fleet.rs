//! A file of variants, filled in by saved deployments and the price list.

use super::{
    starts::Seen,
    variants::{each, sustained},
};
use crate::{commands::Context, error::Problem, questions::read_text, simulation};
use gpuwise_domain::{
    offer::Offer,
    scale::{ScaleFleet, ScaleOffer},
};
use gpuwise_read::scaling::read_scaling;
use gpuwise_scale::{
    fluid::Service,
    variant::{Price, Spot, Variant},
};
use gpuwise_sim::fleet::KernelMachines;
use gpuwise_units::{Currency, HourlyPrice, Nanoseconds};
use std::path::{Path, PathBuf};

/// A file of variants as it is run.
pub(super) struct Filled {
    pub(super) file: ScaleFleet,
    pub(super) variants: Vec<Variant>,
    pub(super) currency: Currency,
}

/// Reads a file of variants; what it leaves out is the service's.
pub(super) fn read(context: &Context, path: &Path, service: &Service) -> anyhow::Result<Filled> {
    let shown = path.display().to_string();
    let file = read_scaling(&shown, &read_text(path)?)?;
    let offers = if file.variants.iter().any(|one| one.offer.is_some()) {
        crate::catalogue::load(&context.app.overrides)?
            .catalogue
            .offers
    } else {
        Vec::new()
    };
    let filling = Filling {
        shown: &shown,
        beside: path.parent().unwrap_or(Path::new("")),
        offers: &offers,
        service,
    };
    KernelMachines::new(&file.machines, &file.losses, 0)
        .map_err(|error| Problem::new(shown.clone()).because(error))?;
    let variants = file.variants.iter().map(|one| filling.variant(one));
    let variants = variants.collect::<anyhow::Result<Vec<_>>>()?;
    let mut currencies = Vec::new();
    for (_, price) in &variants {
        if !currencies.contains(&price.0.currency) {
            currencies.push(price.0.currency);
        }
    }
    let [currency] = currencies.as_slice() else {
        return Err(Problem::new(format!("{shown}: prices are in several currencies")).into());
    };
    Ok(Filled {
        currency: *currency,
        variants: variants.into_iter().map(|(one, _)| one).collect(),
        file,
    })
}

struct Filling<'a> {
    shown: &'a str,
    /// Where deployments lie that are named.
    beside: &'a Path,
    offers: &'a [Offer],
    service: &'a Service,
}

/// What a deployment or the price list says of a variant.
#[derive(Default)]
struct Known {
    pool: Option<String>,
    gpus: Option<u32>,
    rate: Option<f64>,
    service: Option<f64>,
    price: Option<HourlyPrice>,
    start: Option<Nanoseconds>,
    wake: Option<Nanoseconds>,
}

fn time(seconds: f64) -> Nanoseconds {
    Nanoseconds((seconds * 1e9) as u64)
}

impl Filling<'_> {
    fn wrong(&self, one: &ScaleOffer, what: &str) -> Problem {
        Problem::new(format!("{}: variant {}: {what}", self.shown, one.name))
    }

    fn deployed(&self, name: &str) -> anyhow::Result<Known> {
        let path: PathBuf = self.beside.join(name);
        let of = simulation::read(&path)?.deployment;
        let (start, wake) = Seen::default().usual(&of)?;
        Ok(Known {
            pool: Some(of.gpu.clone()),
            gpus: Some(of.layout.replica_gpus()),
            rate: Some(sustained(&path, &of)?),
            service: Some(of.figures.end_to_end.value),
            price: of
                .cost
                .per_hour
                .map(|price| each(price, of.layout.replicas)),
            start: Some(start),
            wake: Some(wake),
        })
    }

    /// The price of as many GPUs of an instance as a replica takes.
    fn offered(
        &self,
        one: &ScaleOffer,
        name: &str,
        gpus: u32,
    ) -> anyhow::Result<(String, HourlyPrice)> {
        let words: Vec<&str> = name.split_whitespace().collect();
        let found = self.offers.iter().find(|offer| {
            words.as_slice()
                == [
                    offer.provider.as_str(),
                    offer.instance.as_str(),
                    offer.region.as_str(),
                ]
        });
        let Some(offer) = found else {
            return Err(self
                .wrong(one, &format!("the price list has no offer {name:?}"))
                .hint("provider, instance and region, as `gpuwise offers` lists them")
                .into());
        };
        let price = if one.spot.is_some() {
            offer.spot
        } else {
            offer.on_demand
        };
        let Some(price) = price else {
            let what = format!(
                "the price list knows no {} price of {name:?}",
                if one.spot.is_some() {
                    "spot"
                } else {
                    "on-demand"
                }
            );
            return Err(self.wrong(one, &what).into());
        };
        if offer.gpus() == 0 || !gpus.is_multiple_of(offer.gpus()) {
            let what = format!(
                "a replica of {gpus} GPUs is no number of instances of {}",
                offer.gpus()
            );
            return Err(self.wrong(one, &what).into());
        }
        let instances = i64::from(gpus / offer.gpus());
        Ok((offer.gpu.clone(), HourlyPrice(price.0.times(instances, 1))))
    }

    fn variant(&self, one: &ScaleOffer) -> anyhow::Result<(Variant, HourlyPrice)> {
        let known = one.deployment.as_deref().map(|name| self.deployed(name));
        let mut known = known.transpose()?.unwrap_or_default();
        let gpus = one.gpus.or(known.gpus).unwrap_or(1);
        if let Some(name) = &one.offer {
            let (gpu, price) = self.offered(one, name, gpus)?;
            known.price = Some(price);
            known.pool.get_or_insert(gpu);
        }
        let price = one.price.or(known.price).ok_or_else(|| {
            self.wrong(one, "nothing says its price")
                .hint("price = \"0.70USD/h\", an offer, or a deployment")
        })?;
        let rate = one.rate.or(known.rate).ok_or_else(|| {
            self.wrong(one, "nothing says what it serves")
                .hint("rate = requests a second, or a deployment")
        })?;
        let usual = |pool: String| {
            if one.spot.is_some() {
                format!("{pool} spot")
            } else {
                pool
            }
        };
        let pool = known.pool.unwrap_or_else(|| one.name.clone());
        let first = Price {
            from: Nanoseconds(0),
            per_hour: price.0.as_f64(),
        };
        let later = one.later.iter().map(|(from, price)| Price {
            from: *from,
            per_hour: price.0.as_f64(),
        });
        let variant = Variant {
            name: one.name.clone(),
            pool: one.pool.clone().unwrap_or_else(|| usual(pool)),
            gpus,
            rate,
            service: one
                .service
                .or(known.service)
                .unwrap_or(self.service.service),
            prices: std::iter::once(first).chain(later).collect(),
            start: one
                .start
                .or(known.start)
                .unwrap_or(time(self.service.start)),
            wake: one.wake.or(known.wake).unwrap_or(time(self.service.wake)),
            warm_cost: one.warm_cost.unwrap_or(self.service.warm_cost),
            spot: one.spot.map(|spot| Spot {
                notice: spot.notice,
                share: spot.together,
                a_day: spot.a_day,
                outage: spot.outage,
            }),
        };
        Ok((variant, price))
    }
}
