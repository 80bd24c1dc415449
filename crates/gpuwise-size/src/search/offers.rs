//! What the replicas of a candidate cost: instances in their real sizes.

use super::request::Request;
use crate::derive::Amount;
use alloc::{string::String, vec::Vec};
use gpuwise_domain::{
    catalogue::Catalogue,
    deployment::Rental,
    gpu::Device,
    offer::{Offer, Terms},
    provider::Provider,
    reason::Reason,
    workload::Limits,
};
use gpuwise_units::HourlyPrice;

/// Offers of a GPU that the limits allow, cheapest per GPU first, unknown prices last.
pub(crate) fn offers_of<'a>(request: &Request<'a>, gpu: &str) -> Vec<&'a Offer> {
    let limits = &request.workload.limits;
    offers_within(request.catalogue, limits, request.choices.terms, gpu)
}

/// The same for anything that is placed on a GPU.
pub(crate) fn offers_within<'a>(
    catalogue: &'a Catalogue,
    limits: &Limits,
    terms: Terms,
    gpu: &str,
) -> Vec<&'a Offer> {
    let allowed = |offer: &&Offer| {
        offer.gpu == gpu
            && (limits.providers.is_empty()
                || limits
                    .providers
                    .iter()
                    .any(|p| p.eq_ignore_ascii_case(&offer.provider)))
            && (limits.regions.is_empty()
                || limits
                    .regions
                    .iter()
                    .any(|r| offer.region.starts_with(r.as_str())))
            && offer.gpus() >= 1
    };
    let mut out: Vec<&Offer> = catalogue.offers.iter().filter(allowed).collect();
    let per_gpu = |offer: &Offer| match offer.price(terms) {
        Some(price) => price.0.as_f64() / f64::from(offer.gpus()),
        None => f64::INFINITY,
    };
    out.sort_by(|a, b| {
        let name = |offer: &Offer| {
            (
                offer.provider.clone(),
                offer.instance.clone(),
                offer.region.clone(),
            )
        };
        per_gpu(a)
            .total_cmp(&per_gpu(b))
            .then_with(|| name(a).cmp(&name(b)))
    });
    out
}

/// How many slices of a profile, or whole GPUs, an offer or host with so many GPUs has.
fn devices_in(gpus: u32, device: &Device<'_>) -> u32 {
    gpus * device.slice.map_or(1, |slice| slice.max_instances)
}

/// The cheapest way to place so many replicas of so many devices each.
///
/// A replica stays on one instance unless it is larger than the offer and hosts may be joined.
pub(crate) fn cheapest(
    request: &Request<'_>,
    offers: &[&Offer],
    device: &Device<'_>,
    replicas: u32,
    per_replica: u32,
) -> Option<Rental> {
    let (terms, hosts) = (request.choices.terms, request.choices.hosts);
    let limits = &request.workload.limits;
    placed(
        limits,
        offers,
        terms,
        device,
        (replicas, per_replica),
        hosts,
    )
}

/// Hosts of one's own, else the cheapest of these offers, for replicas of so many devices each.
pub(crate) fn placed(
    limits: &Limits,
    offers: &[&Offer],
    terms: Terms,
    device: &Device<'_>,
    (replicas, per_replica): (u32, u32),
    hosts: bool,
) -> Option<Rental> {
    owned(limits, device, replicas, per_replica)
        .or_else(|| rented(offers, terms, device, replicas, per_replica, hosts))
}

/// The cheapest instances of a catalogue that hold so many replicas of so many devices each; a
/// replica may span instances. `None`: no offer has this GPU.
pub fn cheapest_rental(
    catalogue: &Catalogue,
    terms: Terms,
    device: &Device<'_>,
    replicas: u32,
    per_replica: u32,
) -> Option<Rental> {
    let offers: Vec<&Offer> = catalogue
        .offers
        .iter()
        .filter(|offer| offer.gpu == device.gpu.name && offer.gpus() >= 1)
        .collect();
    rented(&offers, terms, device, replicas, per_replica, true)
}

fn rented(
    offers: &[&Offer],
    terms: Terms,
    device: &Device<'_>,
    replicas: u32,
    per_replica: u32,
    hosts: bool,
) -> Option<Rental> {
    let placed = offers.iter().filter_map(|offer| {
        let has = devices_in(offer.gpus(), device);
        let instances = instances(has, replicas, per_replica, hosts)?;
        let price = offer.price(terms);
        let total = price.map_or(f64::INFINITY, |p| p.0.as_f64() * f64::from(instances));
        Some((total, instances, *offer, has))
    });
    let (_, instances, offer, has) =
        placed.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)))?;
    Some(Rental {
        provider: offer.provider.clone().into(),
        instance: offer.instance.clone(),
        region: offer.region.clone(),
        terms,
        instances,
        gpu_thousandths: offer.gpu_thousandths,
        idle: (instances * has).saturating_sub(replicas * per_replica),
        price: offer.price(terms),
        date: offer.date.clone(),
        source: offer.source.clone(),
    })
}

fn instances(has: u32, replicas: u32, per_replica: u32, hosts: bool) -> Option<u32> {
    let per_instance = has / per_replica.max(1);
    if per_instance >= 1 {
        return Some(replicas.div_ceil(per_instance));
    }
    (hosts && has > 0).then(|| replicas * per_replica.div_ceil(has))
}

/// Hosts of one's own: nothing more is paid for them, and what they cost is not known here.
fn owned(limits: &Limits, device: &Device<'_>, replicas: u32, per_replica: u32) -> Option<Rental> {
    let (_, gpus) = limits.owned.iter().find(|(name, gpus)| {
        *name == device.gpu.name && devices_in(*gpus, device) >= replicas * per_replica
    })?;
    Some(Rental {
        provider: Provider::Owned,
        instance: match fabric_of(device) {
            Some(fabric) => alloc::format!("composed on {fabric}"),
            None => String::from("your host"),
        },
        region: String::new(),
        terms: Terms::Reserved,
        instances: 1,
        gpu_thousandths: gpus * 1000,
        idle: devices_in(*gpus, device) - replicas * per_replica,
        price: None,
        date: String::new(),
        source: "as given".into(),
    })
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

/// Why what is rented is beyond the limits on money and providers, what would cure it, and needed over
/// had. What nobody is known to rent out has no price, and what has no price is within no budget; for
/// hosts of one's own nothing more is paid.
pub(crate) fn unaffordable(
    limits: &Limits,
    rental: Option<&Rental>,
) -> Option<(Reason, &'static str, f64)> {
    const OWN_PRICE: &str = "a price of your own (--prices)";
    if rental.is_some_and(Rental::is_owned) {
        return None;
    }
    if rental.is_none() && !(limits.providers.is_empty() && limits.regions.is_empty()) {
        let places = limits.providers.iter().chain(&limits.regions);
        let what = Reason::NotOffered(places.cloned().collect());
        return Some((what, "another --provider or --region, or --prices", 1.0));
    }
    let budget = limits.budget?;
    let Some(hour) = rental.and_then(per_hour) else {
        let what = Reason::UnknownPrice { budget };
        return Some((what, OWN_PRICE, 1.0));
    };
    if hour.0.currency != budget.0.currency {
        let what = Reason::OtherCurrency { hour, budget };
        return Some((what, "a --budget in that currency", 1.0));
    }
    let ratio = hour.0.as_f64() / budget.0.as_f64().max(1e-9);
    (hour.0.micros > budget.0.micros).then(|| {
        let what = Reason::OverBudget { hour, budget };
        (what, "a larger --budget", ratio)
    })
}
