//! What GPUs cost here: by the cluster's price book, else by the lowest offer of the catalogue.

use gpuwise_domain::{catalogue::Catalogue, deployment::Deployment};
use gpuwise_k8s::operator::PriceBook;
use gpuwise_measure::audit::{Market, slice_share};
use gpuwise_units::{Currency, HourlyPrice, Money};
use std::collections::BTreeMap;

/// Prices of a price book by names of the catalogue, of products that the cluster has; the dearest of several.
pub(in super::super) fn book(
    book: &PriceBook,
    products: &BTreeMap<String, Vec<String>>,
) -> BTreeMap<String, HourlyPrice> {
    let Ok(currency) = book.currency.parse::<Currency>() else {
        return BTreeMap::new();
    };
    let mut prices = BTreeMap::new();
    for (gpu, labels) in products {
        let known = labels.iter().filter_map(|label| book.by_product.get(label));
        if let Some(micros) = known.copied().max() {
            prices.insert(gpu.clone(), HourlyPrice(Money { micros, currency }));
        }
    }
    prices
}

pub(super) struct Prices<'a> {
    market: Market<'a>,
    catalogue: &'a Catalogue,
    pub(super) currency: Currency,
}

impl<'a> Prices<'a> {
    pub(super) fn new(
        catalogue: &'a Catalogue,
        given: Option<&PriceBook>,
        products: &BTreeMap<String, Vec<String>>,
    ) -> Self {
        let own = given.map(|given| book(given, products)).unwrap_or_default();
        let currency = given.and_then(|given| given.currency.parse().ok());
        Self {
            market: Market::new(catalogue, &[], &own),
            catalogue,
            currency: currency.unwrap_or(Currency::USD),
        }
    }

    /// What so many replicas cost an hour, in millionths; `None`: a price is unknown, or of another currency than the
    /// book's.
    pub(super) fn of(&self, one: &Deployment, replicas: i32) -> Option<i64> {
        let price = self.market.price(&one.gpu)?.0;
        if price.currency != self.currency {
            return None;
        }
        let gpu = self.catalogue.gpu(&one.gpu)?;
        let share = match &one.slice {
            None => 1.0,
            Some(name) => {
                let mut slices = self.catalogue.mig_profiles(gpu);
                slice_share(slices.find(|slice| slice.profile == *name)?)
            }
        };
        // Of a plan with pools of prefill, these are beside the replicas.
        let beside = one.devices().saturating_sub(one.layout.gpus());
        let each = i64::from(one.layout.replica_gpus());
        let devices = each
            .checked_mul(i64::from(replicas))?
            .checked_add(i64::from(beside))?;
        let board = price.times(devices, 1);
        Some(board.times((share * 1e6).round() as i64, 1_000_000).micros)
    }

    pub(super) const fn money(&self, micros: i64) -> Money {
        Money {
            micros,
            currency: self.currency,
        }
    }
}
