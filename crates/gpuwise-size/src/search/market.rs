//! Where GPUs come from: hosts of one's own, else the cheapest instances in their real sizes.

use crate::derive::Amount;
use alloc::{format, string::String, vec::Vec};
use gpuwise_domain::{
    catalogue::Catalogue,
    deployment::Rental,
    gpu::Device,
    offer::{Offer, Terms},
    provider::Provider,
    workload::Limits,
};
use gpuwise_units::HourlyPrice;

/// What may be used of a catalogue's offers, and what is owned.
#[derive(Debug, Clone)]
pub(crate) struct Market<'a> {
    pub(crate) catalogue: &'a Catalogue,
    /// Only these providers; empty: all.
    pub(crate) providers: &'a [String],
    /// Only regions that begin with one of these; empty: all.
    pub(crate) regions: &'a [String],
    /// GPUs of one's own, by name.
    pub(crate) owned: Vec<(&'a str, u32)>,
    pub(crate) terms: Terms,
}

impl<'a> Market<'a> {
    pub(crate) fn new(catalogue: &'a Catalogue, limits: &'a Limits, terms: Terms) -> Self {
        let owned = limits.owned.iter();
        Self {
            catalogue,
            providers: &limits.providers,
            regions: &limits.regions,
            owned: owned.map(|(name, gpus)| (name.as_str(), *gpus)).collect(),
            terms,
        }
    }

    /// Offers of a GPU that are allowed, cheapest per GPU first, unknown prices last.
    pub(crate) fn offers(&self, gpu: &str) -> Vec<&'a Offer> {
        let one_of = |all: &[String], is: &dyn Fn(&str) -> bool| {
            all.is_empty() || all.iter().any(|one| is(one))
        };
        let allowed = |offer: &&Offer| {
            offer.gpu == gpu
                && offer.gpus() >= 1
                && one_of(self.providers, &|p| p.eq_ignore_ascii_case(&offer.provider))
                && one_of(self.regions, &|r| offer.region.starts_with(r))
        };
        let mut out: Vec<&Offer> = self.catalogue.offers.iter().filter(allowed).collect();
        let per_gpu = |offer: &Offer| match offer.price(self.terms) {
            Some(price) => price.0.as_f64() / f64::from(offer.gpus()),
            None => f64::INFINITY,
        };
        out.sort_by(|a, b| {
            let cheaper = per_gpu(a).total_cmp(&per_gpu(b));
            cheaper.then_with(|| name(a).cmp(&name(b)))
        });
        out
    }

    /// GPUs of this name that are one's own.
    pub(crate) fn owned(&self, gpu: &str) -> impl Iterator<Item = u32> {
        let own = self.owned.iter().filter(move |(name, _)| *name == gpu);
        own.map(|(_, gpus)| *gpus)
    }

    /// Hosts of one's own, else the cheapest of these offers, for replicas of so many devices each. `across`: a replica
    /// that is larger than any instance may extend over several.
    pub(crate) fn rent(
        &self,
        offers: &[&Offer],
        device: &Device<'_>,
        (replicas, per_replica): (u32, u32),
        across: bool,
    ) -> Option<Rental> {
        let wanted = replicas.saturating_mul(per_replica);
        let own = self
            .owned(&device.gpu.name)
            .find(|gpus| devices_in(*gpus, device) >= wanted);
        match own {
            Some(gpus) => Some(of_ones_own(gpus, device, wanted)),
            None => rented(offers, self.terms, device, (replicas, per_replica), across),
        }
    }
}

fn name(offer: &Offer) -> (&str, &str, &str) {
    (&offer.provider, &offer.instance, &offer.region)
}

/// How many slices of a profile, or whole GPUs, an offer or host with so many GPUs has.
fn devices_in(gpus: u32, device: &Device<'_>) -> u32 {
    gpus.saturating_mul(device.slice.map_or(1, |slice| slice.max_instances))
}

/// The cheapest instances of a catalogue that hold so many replicas of so many devices each. A replica stays on one
/// host where any is large enough, else it extends over whole hosts of the largest instance, because smaller ones are
/// not joined by a fast network. `None`: no offer has this GPU.
pub fn cheapest_rental(
    catalogue: &Catalogue,
    limits: &Limits,
    terms: Terms,
    device: &Device<'_>,
    replicas: (u32, u32),
) -> Option<Rental> {
    let offers = Market::new(catalogue, limits, terms).offers(&device.gpu.name);
    rented(&offers, terms, device, replicas, true)
}

fn rented(
    offers: &[&Offer],
    terms: Terms,
    device: &Device<'_>,
    (replicas, per_replica): (u32, u32),
    across: bool,
) -> Option<Rental> {
    let largest = offers.iter().map(|offer| offer.gpus()).max()?;
    let on_one_host = devices_in(largest, device) >= per_replica;
    if !on_one_host && !across {
        return None;
    }
    let placed = offers.iter().filter_map(|offer| {
        let has = devices_in(offer.gpus(), device);
        let joins = !on_one_host && offer.gpus() == largest;
        let instances = instances(has, (replicas, per_replica), joins)?;
        let price = offer.price(terms);
        let total = price.map_or(f64::INFINITY, |p| p.0.as_f64() * f64::from(instances));
        Some((total, instances, *offer, has))
    });
    let (_, instances, offer, has) =
        placed.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)))?;
    let idle = (instances * has).saturating_sub(replicas * per_replica);
    Some(Rental::of(offer, terms, instances, idle))
}

fn instances(has: u32, (replicas, per_replica): (u32, u32), joins: bool) -> Option<u32> {
    let per_instance = has / per_replica.max(1);
    if per_instance >= 1 {
        return Some(replicas.div_ceil(per_instance));
    }
    (joins && has > 0).then(|| replicas * per_replica.div_ceil(has))
}

/// Hosts of one's own: nothing more is paid for them, and what they cost is not known here.
fn of_ones_own(gpus: u32, device: &Device<'_>, wanted: u32) -> Rental {
    Rental {
        provider: Provider::Owned,
        instance: match fabric_of(device) {
            Some(fabric) => format!("composed on {fabric}"),
            None => String::from("your host"),
        },
        region: String::new(),
        terms: Terms::Reserved,
        instances: 1,
        gpu_thousandths: gpus.saturating_mul(1000),
        idle: devices_in(gpus, device) - wanted,
        price: None,
        date: String::new(),
        source: "as given".into(),
    }
}

/// The fabric that a composed GPU is on.
fn fabric_of<'a>(device: &Device<'a>) -> Option<&'a str> {
    let link = device.gpu.scale_up.as_ref()?;
    link.fabric.is_some().then_some(link.name.as_str())
}

/// Money an hour for all instances; unknown where the price is.
pub fn per_hour(rental: &Rental) -> Option<HourlyPrice> {
    let price = rental.price?;
    Some(HourlyPrice(price.0.times(i64::from(rental.instances), 1)))
}

/// Currency units per 10⁶ tokens: the hour's price is split by the time that prompts and answers take,
/// then spread over the tokens that are served in it.
pub(crate) fn per_million<A: Amount>(hour: A, share: A, tokens_a_second: A) -> A {
    hour * share * A::number(1e6) / (A::number(3600.0) * tokens_a_second)
}
