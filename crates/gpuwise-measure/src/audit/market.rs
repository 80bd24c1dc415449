//! What there is to hold, and what it costs.

use gpuwise_domain::{
    catalogue::Catalogue,
    gpu::{Device, Gpu, MigProfile},
    offer::Terms,
    precision::Compute,
    usage::ResourceRequest,
};
use gpuwise_units::{Bytes, HourlyPrice};
use std::collections::BTreeMap;

/// GPUs that may be proposed, and prices of one for an hour.
#[derive(Debug, Clone)]
pub struct Market<'a> {
    catalogue: &'a Catalogue,
    /// Catalogue names of GPUs that may be proposed in place of others.
    candidates: Vec<&'a Gpu>,
    prices: BTreeMap<String, HourlyPrice>,
}

/// What one device takes of its board.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Portion {
    /// The share at least.
    pub low: f64,
    /// The share at most.
    pub high: f64,
    /// What the board costs an hour.
    pub price: Option<HourlyPrice>,
}

/// A device as the catalogue knows it.
#[derive(Debug, Clone, Copy)]
pub(super) struct CatalogueDevice<'a> {
    pub(super) gpu: &'a Gpu,
    pub(super) slice: Option<&'a MigProfile>,
    /// Its memory as the driver reports it.
    pub(super) memory: Bytes,
    /// Which share of its board it takes and costs.
    pub(super) share: f64,
}

impl CatalogueDevice<'_> {
    pub(super) fn device(&self) -> Device<'_> {
        Device {
            gpu: self.gpu,
            slice: self.slice,
        }
    }

    /// Matrix rate in half precision, which most work is in.
    pub(super) fn rate(&self) -> Option<f64> {
        self.device()
            .peak(Compute::Half)
            .map(gpuwise_units::FlopPerSecond::get)
    }

    pub(super) fn bandwidth(&self) -> f64 {
        self.device().bandwidth().get()
    }
}

/// The share of its board that a slice takes: the larger of its shares of compute and of memory,
/// since what it leaves of either cannot be had without the other.
pub fn slice_share(slice: &MigProfile) -> f64 {
    let of = |part: u32, whole: u32| f64::from(part) / f64::from(whole.max(1));
    of(slice.compute_slices, slice.board_compute_slices)
        .max(of(slice.memory_slices, slice.board_memory_slices))
}

impl<'a> Market<'a> {
    /// A market of these GPUs, by catalogue name; prices of one's own by catalogue name, else the
    /// lowest on-demand price of one GPU among all offers.
    pub fn new(
        catalogue: &'a Catalogue,
        candidates: &[String],
        own_prices: &BTreeMap<String, HourlyPrice>,
    ) -> Self {
        let mut prices: BTreeMap<String, HourlyPrice> = BTreeMap::new();
        for offer in &catalogue.offers {
            let Some(price) = offer.price(Terms::OnDemand) else {
                continue;
            };
            if offer.gpu_thousandths == 0 {
                continue;
            }
            let one = HourlyPrice(price.0.times(1000, i64::from(offer.gpu_thousandths)));
            let known = prices.entry(offer.gpu.clone()).or_insert(one);
            *known = (*known).min(one);
        }
        prices.extend(own_prices.iter().map(|(gpu, price)| (gpu.clone(), *price)));
        let named = |gpu: &&Gpu| candidates.contains(&gpu.name);
        Self {
            catalogue,
            candidates: catalogue.gpus.iter().filter(named).collect(),
            prices,
        }
    }

    /// The price of one GPU for an hour.
    pub fn price(&self, gpu: &str) -> Option<HourlyPrice> {
        self.prices.get(gpu).copied()
    }

    /// What one device of a workload takes of a board: shared with others only its part of it, and of a
    /// MIG instance of untold profile from the smallest to the largest.
    pub fn portion(&self, asked: &ResourceRequest) -> Portion {
        let board = asked.gpu.as_deref().and_then(|gpu| self.catalogue.gpu(gpu));
        let held = |profile: &str| Some(self.held(&board?.name, Some(profile))?.share);
        let known = match &asked.slice {
            _ if asked.slice_untold => None,
            Some(profile) => held(profile),
            None => Some(1.0),
        };
        let (low, high) = known.map_or_else(|| self.any_slice(board), |share| (share, share));
        let among = f64::from(asked.shared_by.max(1));
        Portion {
            low: low / among,
            high: high / among,
            price: board.and_then(|gpu| self.price(&gpu.name)),
        }
    }

    /// The share of the smallest slice of a board, and of the largest.
    fn any_slice(&self, board: Option<&'a Gpu>) -> (f64, f64) {
        let slices = board.into_iter().flat_map(|gpu| self.slices(gpu));
        let shares: Vec<f64> = slices.map(slice_share).collect();
        (
            shares.iter().copied().reduce(f64::min).unwrap_or(0.0),
            shares.iter().copied().reduce(f64::max).unwrap_or(1.0),
        )
    }

    /// Whether two names are of one GPU.
    pub fn same_gpu(&self, a: &str, b: &str) -> bool {
        match (self.catalogue.gpu(a), self.catalogue.gpu(b)) {
            (Some(a), Some(b)) => a.name == b.name,
            _ => a == b,
        }
    }

    pub(super) fn candidates(&self) -> impl Iterator<Item = &'a Gpu> {
        self.candidates.iter().copied()
    }

    pub(super) fn slices(&self, gpu: &'a Gpu) -> impl Iterator<Item = &'a MigProfile> {
        // Slices with media engines, graphics or half the copies cost another slice its own.
        self.catalogue
            .mig_profiles(gpu)
            .filter(|slice| !slice.profile.contains(['+', '-']))
    }

    /// A device by its names.
    pub(super) fn held(&self, gpu: &str, slice: Option<&str>) -> Option<CatalogueDevice<'a>> {
        let gpu = self.catalogue.gpu(gpu)?;
        let Some(profile) = slice else {
            return Self::whole(gpu);
        };
        let slice = self
            .catalogue
            .mig
            .iter()
            .find(|known| known.gpus.contains(&gpu.name) && known.profile == profile)?;
        Some(Self::sliced(gpu, slice))
    }

    pub(super) fn whole(gpu: &'a Gpu) -> Option<CatalogueDevice<'a>> {
        let sold = Bytes::from_f64(gpu.memory_marketing_gb * 1e9);
        let memory = gpu.memory_reported.unwrap_or(sold);
        (memory.count() > 0).then_some(CatalogueDevice {
            gpu,
            slice: None,
            memory,
            share: 1.0,
        })
    }

    pub(super) fn sliced(gpu: &'a Gpu, slice: &'a MigProfile) -> CatalogueDevice<'a> {
        CatalogueDevice {
            gpu,
            slice: Some(slice),
            memory: slice.memory,
            share: slice_share(slice),
        }
    }
}
