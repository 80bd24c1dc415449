//! `gpuwise offers`: what can be rented.

use super::{Context, Exit, sources::Sources};
use crate::{
    catalogue,
    error::Problem,
    names,
    settings::{OfferOrder, Offers},
};
use anyhow::Context as _;
use gpuwise_domain::{
    offer::{Offer, Terms},
    price::Price,
};
use gpuwise_units::HourlyPrice;
use gpuwise_view::{
    record::{self, Shown},
    table::Table,
};
use std::cmp::Ordering;

pub fn run(context: &Context, flags: &Offers) -> anyhow::Result<Exit> {
    let loaded = catalogue::load(&context.app.overrides.with_prices(&flags.prices))?;
    let catalogue = &loaded.catalogue;
    let gpu = flags
        .gpu
        .as_deref()
        .map(|name| names::device(catalogue, "GPU", name).map(|device| device.gpu))
        .transpose()?;
    let providers = names::providers(catalogue, "--provider", &flags.provider)?;
    names::regions(catalogue, "--region", &flags.region)?;
    let most = flags.max_price.as_deref().map(price).transpose()?;
    let terms = flags.terms.into();
    let mut offers: Vec<&Offer> = catalogue
        .offers
        .iter()
        .filter(|offer| gpu.is_none_or(|gpu| offer.gpu == gpu.name))
        .filter(|offer| providers.is_empty() || providers.contains(&offer.provider))
        .filter(|offer| {
            flags.region.is_empty()
                || flags
                    .region
                    .iter()
                    .any(|prefix| offer.region.starts_with(prefix))
        })
        .filter(|offer| {
            most.is_none_or(|most| {
                offer
                    .price(terms)
                    .is_some_and(|price| price.0.micros <= most.0.micros)
            })
        })
        .collect();
    offers.sort_by(|a, b| ordered(flags.sort, terms, a, b));
    let table = table(&offers);
    context.table(&table)?;
    Ok(if table.is_empty() {
        Exit::No
    } else {
        Exit::Yes
    })
}

fn price(text: &str) -> anyhow::Result<HourlyPrice> {
    let hourly = if text.contains('/') {
        text.to_owned()
    } else {
        format!("{text}/h")
    };
    let price = gpuwise_read::workload::budget(&hourly).context("--max-price")?;
    if price.0.currency == gpuwise_units::Currency::USD {
        return Ok(price);
    }
    Err(Problem::new(format!(
        "--max-price is in {}, prices are in USD",
        price.0.currency
    ))
    .hint("convert it to USD at a rate of your choice")
    .into())
}

/// Unknown prices come last, whatever the order.
fn ordered(order: OfferOrder, terms: Terms, a: &Offer, b: &Offer) -> Ordering {
    let whole = |offer: &Offer| offer.price(terms).map(|price| price.0.micros);
    let each = |offer: &Offer| {
        whole(offer)
            .map(|micros| micros.saturating_mul(1000) / i64::from(offer.gpu_thousandths.max(1)))
    };
    let known_first =
        |a: Option<i64>, b: Option<i64>| a.is_none().cmp(&b.is_none()).then(a.cmp(&b));
    let by_name =
        || (&a.provider, &a.instance, &a.region).cmp(&(&b.provider, &b.instance, &b.region));
    match order {
        OfferOrder::GpuPrice => known_first(each(a), each(b)),
        OfferOrder::Price => known_first(whole(a), whole(b)),
        OfferOrder::Provider => Ordering::Equal,
        OfferOrder::Gpu => a.gpu.cmp(&b.gpu).then(known_first(each(a), each(b))),
    }
    .then_with(by_name)
}

/// What one GPU of an offer costs on demand.
pub(super) fn each(offer: &Offer) -> Option<Price> {
    let HourlyPrice(whole) = offer.price(Terms::OnDemand)?;
    let each = whole.times(1000, i64::from(offer.gpu_thousandths.max(1)));
    Some(Price::hourly(HourlyPrice(each)).as_of(day(offer)))
}

/// The day of its price list, where it says one.
fn day(offer: &Offer) -> Option<&str> {
    let begins = offer.date.starts_with(|c: char| c.is_ascii_digit());
    begins.then_some(offer.date.as_str())
}

/// An offer, with the number of its source below the table.
struct Row<'a> {
    offer: &'a Offer,
    source: usize,
}

gpuwise_view::record!(Row<'_>, "Offer", |of| {
    let price = |r: &Self, price: Option<HourlyPrice>| {
        price.map(|price| Price::hourly(price).as_of(day(r.offer)))
    };
    of.field("provider", |r| &r.offer.provider)
        .title("provider");
    of.field("instance", |r| &r.offer.instance)
        .title("instance")
        .wrap(11);
    let region = |r: &Self| Some(r.offer.region.clone()).filter(|region| !region.is_empty());
    of.field("region", region)
        .title("region")
        .priority(90)
        .wrap(7);
    of.field("gpu", |r| &r.offer.gpu).title("GPU").wrap(10);
    of.field("gpus", |r| f64::from(r.offer.gpu_thousandths) / 1000.0)
        .title("GPUs");
    of.field("price_per_hour", |r| price(r, r.offer.on_demand))
        .title("on demand")
        .unit("USD/h");
    of.field("reserved_price_per_hour", |r| price(r, r.offer.reserved))
        .title("reserved")
        .unit("USD/h")
        .priority(40);
    of.field("spot_price_per_hour", |r| price(r, r.offer.spot))
        .title("spot")
        .unit("USD/h")
        .priority(50);
    of.field("price_per_gpu_hour", |r| each(r.offer))
        .title("per GPU")
        .unit("USD/h")
        .priority(85);
    let date = of.noun().map(|r| date(r.offer));
    of.field("date", |r| &r.offer.date)
        .title("price as of")
        .priority(55)
        .seen(date);
    let source = of.noun().map(|r| format!("[{}]", r.source).into());
    of.field("source", |r| &r.offer.source)
        .title("source")
        .priority(95)
        .seen(source);
    of.field("vcpus", |r| r.offer.vcpus);
    of.field("ram_gb", |r| {
        r.offer.memory.map(|memory| memory.as_f64() / 1e9)
    });
});

pub(crate) fn schema(answer: &str) -> String {
    record::rows_schema::<Row<'_>>(answer, "Instances that can be rented, with prices")
}

fn table(offers: &[&Offer]) -> Table {
    let mut sources = Sources::default();
    let mut rows: Vec<Row<'_>> = Vec::new();
    for offer in offers {
        let source = sources.number(&offer.source);
        rows.push(Row { offer, source });
    }
    let mut table = record::table(&rows).when_empty("No offer is like this.");
    if offers.iter().any(|offer| offer.on_demand.is_none()) {
        table.footnote("– is a price that no list we read gives; it is not 0.");
    }
    sources.footnotes(&mut table);
    table
}

/// The day of a price list, where it is known.
fn date(offer: &Offer) -> Shown {
    match day(offer) {
        _ if offer.date.is_empty() => Shown::Missing,
        Some(day) => day.into(),
        None => "(unknown)".into(),
    }
}
