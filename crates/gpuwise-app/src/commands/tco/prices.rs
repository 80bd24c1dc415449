//! What a host is rented for: the offer of the deployment, or a price list of the user's own.

use super::subject::Subject;
use crate::error::Problem;
use gpuwise_domain::{
    bill::CostKey,
    deployment::Rental,
    offer::{Offer, Terms},
};
use gpuwise_units::{Currency, Fraction, HourlyPrice};

/// Terms and what a bill calls their price.
const TERMS: [(Terms, CostKey); 3] = [
    (Terms::OnDemand, CostKey::OnDemand),
    (Terms::Reserved, CostKey::Reserved),
    (Terms::Spot, CostKey::Spot),
];

impl Subject {
    /// Prices of hosts like these: of the user's own list where one is given, else of the offer that
    /// the deployment names, at all terms that it has.
    pub(super) fn priced(
        &mut self,
        rental: Option<&Rental>,
        listed: Option<&[Offer]>,
        offers: &[Offer],
        currency: Currency,
    ) -> anyhow::Result<()> {
        if let Some(listed) = listed {
            let offer = self.listed_offer(rental, listed)?;
            let prices = TERMS.map(|(terms, key)| (key, offer.price(terms)));
            let words = format!(
                "{} {}, {}: {}",
                offer.provider, offer.instance, offer.region, offer.source
            );
            self.prices(prices, &words, &offer.date, currency);
            return Ok(());
        }
        let Some(rental) = rental else { return Ok(()) };
        let offer = offers.iter().find(|offer| same(offer, rental));
        let prices = TERMS.map(|(terms, key)| {
            let own = rental.price.filter(|_| rental.terms == terms);
            (
                key,
                own.or_else(|| offer.and_then(|offer| offer.price(terms))),
            )
        });
        let words = format!(
            "{} {}, {}: {}",
            rental.provider, rental.instance, rental.region, rental.source
        );
        self.prices(prices, &words, &rental.date, currency);
        Ok(())
    }

    /// The offer of a list for a host like these: the instance that the deployment names, else the
    /// cheapest on demand of the same GPUs.
    fn listed_offer<'a>(
        &self,
        rental: Option<&Rental>,
        listed: &'a [Offer],
    ) -> anyhow::Result<&'a Offer> {
        let Some(gpu) = &self.gpu else {
            return Err(
                Problem::new("--prices: of which GPU the hosts are is not known")
                    .hint("add --gpu H100")
                    .into(),
            );
        };
        let alike = |offer: &&Offer| {
            let gpus = Fraction::new(offer.gpu_thousandths.into(), 1000);
            offer.gpu == *gpu && gpus == Some(self.gpus_per_host)
        };
        let named = rental.and_then(|rental| {
            let mut alike = listed.iter().filter(alike);
            alike.find(|offer| same(offer, rental))
        });
        let cheapest = || {
            let price = |offer: &Offer| {
                let terms = TERMS.map(|(terms, _)| offer.price(terms));
                let first = terms.into_iter().flatten().next();
                first.map_or(i64::MAX, |price| price.0.micros)
            };
            let name = |offer: &Offer| {
                (
                    offer.provider.clone(),
                    offer.instance.clone(),
                    offer.region.clone(),
                )
            };
            let alike = listed.iter().filter(alike);
            alike.min_by(|a, b| price(a).cmp(&price(b)).then_with(|| name(a).cmp(&name(b))))
        };
        named.or_else(cheapest).ok_or_else(|| {
            let has: Vec<String> = listed
                .iter()
                .map(|offer| {
                    format!(
                        "{} × {}",
                        f64::from(offer.gpu_thousandths) / 1000.0,
                        offer.gpu
                    )
                })
                .collect();
            Problem::new(format!(
                "--prices: no host of {} × {gpu} is listed",
                self.gpus_per_host.plain(3)
            ))
            .hint(format!("listed are {}", has.join(", ")))
            .hint("or give --on-demand 31.46USD/h")
            .into()
        })
    }

    fn prices(
        &mut self,
        prices: [(CostKey, Option<HourlyPrice>); 3],
        source: &str,
        date: &str,
        currency: Currency,
    ) {
        let mut left_out = false;
        for (key, price) in prices {
            let Some(HourlyPrice(money)) = price else {
                continue;
            };
            if money.currency != currency {
                left_out = true;
                continue;
            }
            let value = Fraction::of_money(money);
            self.row(key, [value; 3], Some(currency), date, source);
        }
        if left_out {
            self.notes.push(format!(
                "The offer's prices are not in {currency} and were left out: give --on-demand."
            ));
        }
    }
}

/// Whether an offer is of the instance that is rented.
fn same(offer: &Offer, rental: &Rental) -> bool {
    offer.provider == rental.provider
        && offer.instance == rental.instance
        && offer.region == rental.region
}
