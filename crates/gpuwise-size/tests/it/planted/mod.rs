//! Systems with a planted cause. What is true of them is found by simulators of their own, which
//! share no function with what is judged.

pub(crate) mod cases;
mod server;
mod stations;
pub(crate) mod systems;

use gpuwise_domain::offer::Offer;

/// The seed of the systems that balance and verdict were developed on.
pub(crate) const DEVELOP: u64 = 1;

/// What one provider rents out in one region, of the catalogue.
pub(crate) fn offers() -> Vec<Offer> {
    let mut offers = crate::fixture::catalogue().offers;
    offers.retain(|offer| offer.provider == "aws" && offer.region == "us-east-1");
    offers
}
