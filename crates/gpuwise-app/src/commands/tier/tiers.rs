//! What can be chosen from: GPUs, slices and counts with the cheapest price of each.

use crate::catalogue::Loaded;
use gpuwise_domain::{
    gpu::{Device, Gpu, MigProfile},
    offer::{Offer, Terms},
    profile::matmul::Processor,
};
use gpuwise_measure::tier::scaling::Tier;
use gpuwise_operators::Silicon;

/// Numbers of GPUs that are tried.
const COUNTS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

/// The cheapest offer of a GPU: USD an hour of one, and who offers it.
pub(super) fn price_of(offers: &[Offer], gpu: &str) -> Option<(f64, String)> {
    offers
        .iter()
        .filter(|offer| offer.gpu == gpu && offer.gpus() > 0)
        .filter_map(|offer| {
            let hourly = offer.price(Terms::OnDemand)?.0.as_f64();
            let each = hourly / f64::from(offer.gpus());
            Some((each, offer))
        })
        .min_by(|a, b| {
            let name = |offer: &Offer| (offer.provider.clone(), offer.instance.clone());
            a.0.total_cmp(&b.0).then_with(|| name(a.1).cmp(&name(b.1)))
        })
        .map(|(each, offer)| (each, format!("{} {}", offer.provider, offer.instance)))
}

/// So many of a GPU, whole.
pub(super) fn whole(loaded: &Loaded, gpu: &Gpu, gpus: u32) -> Tier {
    let price = price_of(&loaded.catalogue.offers, &gpu.name);
    Tier {
        name: gpu.name.clone(),
        processor: Processor::of(gpu),
        silicon: Some(Silicon::of(&Device::whole(gpu))),
        memory: gpu.memory_visible.or(gpu.memory_reported),
        slice: false,
        gpus,
        link: gpu
            .scale_up
            .as_ref()
            .map(|link| link.bandwidth.get())
            .or(gpu.host_link.map(gpuwise_units::BytesPerSecond::get)),
        hourly: price.as_ref().map(|(each, _)| each * f64::from(gpus)),
        offer: price.map_or_else(String::new, |(_, offer)| offer),
    }
}

/// A slice, at its share of the board's price: the larger of its shares of computing and of memory.
fn slice(loaded: &Loaded, gpu: &Gpu, profile: &MigProfile) -> Tier {
    let device = Device {
        gpu,
        slice: Some(profile),
    };
    let board = whole(loaded, gpu, 1);
    let share = |part: u32, of: u32| f64::from(part) / f64::from(of.max(1));
    let priced = share(profile.compute_slices, profile.board_compute_slices)
        .max(share(profile.memory_slices, profile.board_memory_slices));
    let compute = device.compute_share();
    let mut processor = board.processor;
    processor.peak_bf16 = processor.peak_bf16.map(|peak| peak * compute);
    processor.peak_fp8 = processor.peak_fp8.map(|peak| peak * compute);
    processor.bandwidth *= device.bandwidth_share();
    processor.units = device.units();
    Tier {
        name: device.name(),
        processor,
        silicon: Some(Silicon::of(&device)),
        memory: Some(profile.memory),
        slice: true,
        hourly: board.hourly.map(|hourly| hourly * priced),
        ..board
    }
}

/// What the job runs on now, and everything that has a price, up to twice as many GPUs as it holds now. `only` narrows
/// the others to some GPUs; empty means all.
pub(super) fn all(loaded: &Loaded, now: &Tier, only: &[String]) -> Vec<Tier> {
    let gpus_now = now.gpus;
    let mut tiers = others(loaded, gpus_now, only);
    if !tiers
        .iter()
        .any(|one| one.name == now.name && one.gpus == gpus_now)
    {
        tiers.push(now.clone());
    }
    tiers
}

fn others(loaded: &Loaded, gpus_now: u32, only: &[String]) -> Vec<Tier> {
    let mut tiers = Vec::new();
    for gpu in &loaded.catalogue.gpus {
        if gpu.announced || !(only.is_empty() || only.contains(&gpu.name)) {
            continue;
        }
        let single = whole(loaded, gpu, 1);
        if single.hourly.is_none() {
            continue;
        }
        if gpu.mig {
            for profile in loaded.catalogue.mig_profiles(gpu) {
                // The profile with the media engines is the same to a job; that of the whole board is
                // the board.
                let whole_board = profile.max_instances == 1
                    && profile.compute_slices == profile.board_compute_slices;
                if !profile.profile.contains('+') && !whole_board {
                    tiers.push(slice(loaded, gpu, profile));
                }
            }
        }
        // What ran on one GPU says nothing of several.
        let most = if gpus_now > 1 {
            gpus_now.saturating_mul(2)
        } else {
            1
        };
        let mut counts: Vec<u32> = COUNTS.into_iter().filter(|count| *count <= most).collect();
        if !counts.contains(&gpus_now) {
            counts.push(gpus_now);
        }
        tiers.extend(counts.into_iter().map(|count| whole(loaded, gpu, count)));
    }
    tiers
}
