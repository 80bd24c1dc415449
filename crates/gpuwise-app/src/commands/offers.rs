//! `gpuwise offers`: what can be rented.

use super::{Context, Exit, sources::Sources};
use crate::{
    catalogue,
    error::Problem,
    names,
    settings::{OfferOrder, Offers},
};
use anyhow::Context as _;
use gpuwise_domain::offer::{Offer, Terms};
use gpuwise_units::HourlyPrice;
use gpuwise_view::{
    figures,
    table::{Cell, Column, Table},
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

fn table(offers: &[&Offer]) -> Table {
    let mut table = Table::new(vec![
        Column::left("provider", "provider"),
        Column::left("instance", "instance").wrap(11),
        Column::left("region", "region").priority(90).wrap(7),
        Column::left("gpu", "GPU").wrap(10),
        Column::right("gpus", "GPUs"),
        Column::right("usd_per_hour", "on demand").unit("USD/h"),
        Column::right("reserved_usd_per_hour", "reserved")
            .unit("USD/h")
            .priority(40),
        Column::right("spot_usd_per_hour", "spot")
            .unit("USD/h")
            .priority(50),
        Column::right("usd_per_gpu_hour", "per GPU")
            .unit("USD/h")
            .priority(85),
        Column::left("date", "prices of").priority(55),
        Column::left("source", "source").priority(95),
        Column::raw("vcpus"),
        Column::raw("ram_gb"),
    ])
    .when_empty("No offer is like this.");
    let mut sources = Sources::default();
    for offer in offers {
        let money = |price: Option<HourlyPrice>| {
            Cell::of(price, |price| {
                Cell::new(figures::hourly(price), price.0.as_f64())
            })
        };
        let gpus = f64::from(offer.gpu_thousandths) / 1000.0;
        let each = offer.on_demand.map(|price| price.0.as_f64() / gpus);
        table.push(vec![
            Cell::text(&offer.provider),
            Cell::text(&offer.instance),
            if offer.region.is_empty() {
                Cell::missing()
            } else {
                Cell::text(&offer.region)
            },
            Cell::text(&offer.gpu),
            Cell::new(figures::number(gpus), gpus),
            money(offer.on_demand),
            money(offer.reserved),
            money(offer.spot),
            Cell::of(each, |each| Cell::new(figures::amount(each), each)),
            date(&offer.date),
            sources.cell(&offer.source),
            Cell::of(offer.vcpus, |vcpus| Cell::count(vcpus.into())),
            Cell::of(offer.memory, |memory| {
                Cell::new(figures::bytes(memory), memory.as_f64() / 1e9)
            }),
        ]);
    }
    if offers.iter().any(|offer| offer.on_demand.is_none()) {
        table.footnote("– is a price that no list we read gives; it is not 0.");
    }
    sources.footnotes(&mut table);
    table
}

/// The day of a price list; what is no day is said in one word.
fn date(text: &str) -> Cell {
    match text.split_once('(') {
        _ if text.is_empty() => Cell::missing(),
        Some((word, _)) => Cell::new(word, text),
        None => Cell::text(text),
    }
}
