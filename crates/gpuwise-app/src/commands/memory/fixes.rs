//! What would make it fit, the cheapest first.

use super::fit::{Demand, Fit, tensor_layouts};
use gpuwise_domain::{
    catalogue::Catalogue,
    gpu::Gpu,
    layout::Layout,
    precision::{CacheFormat, Compute},
};
use gpuwise_size::{formats::weights_named, setup::Weights};
use gpuwise_units::HourlyPrice;

/// Weight formats that are tried where the weights are of 16 bits, by what they usually lose.
const LOWER: [&str; 2] = ["fp8", "int4"];

/// Something that would make it fit.
#[derive(Debug, Clone)]
pub struct Fix {
    /// In a clause, with the flag that does it.
    pub what: String,
    /// Whether everything that was asked then fits; else what fits without changing the setup.
    pub whole: bool,
}

/// Fixes of a setup that does not fit: those that cost nothing, then precision, then GPUs by price,
/// then asking for less.
pub(super) fn fixes(fit: &Fit<'_>, catalogue: &Catalogue) -> Vec<Fix> {
    let mut out = Vec::new();
    let cache = lower_cache(fit);
    if let Some(cache) = &cache
        && cache.fits()
    {
        out.push(whole("an FP8 key-value cache (--kv fp8)".into()));
    }
    for format in LOWER {
        let Some(lower) = lower_weights(fit, format) else {
            continue;
        };
        let with_cache = lower_cache(&lower).filter(|_| cache.is_some());
        if lower.fits() {
            out.push(whole(format!(
                "{format} weights (--precision {format}), at some loss of quality"
            )));
            break;
        }
        if with_cache.is_some_and(|both| both.fits()) {
            out.push(whole(format!(
                "{format} weights and an FP8 cache (--precision {format} --kv fp8), at some loss of quality"
            )));
            break;
        }
    }
    out.extend(more_gpus(fit, catalogue));
    out.extend(less(fit));
    out
}

fn whole(what: String) -> Fix {
    Fix { what, whole: true }
}

fn lower_cache<'a>(fit: &Fit<'a>) -> Option<Fit<'a>> {
    let gpu = fit.setup.device.gpu;
    let can = gpu.peak.of(Compute::Fp8).is_some() && fit.setup.cache == CacheFormat::HALF;
    can.then(|| fit.with(|setup| setup.cache = CacheFormat::FP8))
}

fn lower_weights<'a>(fit: &Fit<'a>, format: &str) -> Option<Fit<'a>> {
    let architecture = fit.setup.architecture;
    let published = fit.setup.weights == Weights::published(architecture)
        && fit.setup.weights.quantization.is_none();
    let silicon = format != "fp8" || fit.setup.device.gpu.peak.of(Compute::Fp8).is_some();
    let weights = weights_named(architecture, format).filter(|_| published && silicon)?;
    Some(fit.with(|setup| setup.weights = weights))
}

/// More of the same GPU, and the cheapest other one of which one to eight are enough, where that
/// costs less: by price, unknown ones last.
fn more_gpus(fit: &Fit<'_>, catalogue: &Catalogue) -> Vec<Fix> {
    let device = fit.setup.device;
    let priced = |gpu: &Gpu| {
        let layout = smallest(fit, gpu)?;
        let price =
            cheapest(catalogue, gpu).map(|price| price.saturating_mul(i64::from(layout.tensor)));
        Some((price, layout))
    };
    let own = priced(device.gpu);
    let own_price = own.and_then(|(price, _)| price);
    let others = catalogue.gpus.iter().filter(|gpu| {
        !gpu.announced && gpu.name != device.gpu.name && gpu.vendor == device.gpu.vendor
    });
    let other = others
        .filter_map(|gpu| {
            let (price, layout) = priced(gpu)?;
            Some((price?, layout, gpu))
        })
        .min_by_key(|(price, ..)| *price)
        .filter(|(price, ..)| own_price.is_none_or(|own| *price < own));
    let mut out = Vec::new();
    if let Some((price, layout, gpu)) = other {
        let flags = format!("--gpu '{}'{}", gpu.name, tensor_flag(layout));
        out.push(whole(gpus(layout, gpu, flags.trim(), Some(price))));
    }
    if let Some((price, layout)) = own {
        out.push(whole(gpus(
            layout,
            device.gpu,
            tensor_flag(layout).trim(),
            price,
        )));
    } else if device.slice.is_some() && fit.with(|setup| setup.device.slice = None).fits() {
        out.push(whole(format!(
            "the whole GPU (--gpu '{}')",
            device.gpu.name
        )));
    }
    out
}

fn tensor_flag(layout: Layout) -> String {
    if layout.tensor > 1 {
        format!(" --tp {}", layout.tensor)
    } else {
        String::new()
    }
}

/// `4 × L40S (--tp 4), from 6.20 USD/h`.
fn gpus(layout: Layout, gpu: &Gpu, flags: &str, price: Option<i64>) -> String {
    let price = price.map_or_else(String::new, |micros| {
        let dollars = gpuwise_view::figures::amount(micros as f64 / 1e6);
        format!(", from {dollars} USD/h")
    });
    format!("{} × {} ({flags}){price}", layout.tensor, gpu.name)
}

/// The smallest tensor-parallel layout of a GPU that fits.
fn smallest(fit: &Fit<'_>, gpu: &Gpu) -> Option<Layout> {
    let device = gpuwise_domain::gpu::Device::whole(gpu);
    let same = gpu.name == fit.setup.device.gpu.name;
    tensor_layouts(&device, fit.setup.architecture)
        .filter(|layout| !same || layout.tensor > fit.gpus())
        .find(|layout| {
            let setup = gpuwise_size::setup::Setup {
                device,
                layout: *layout,
                ..fit.setup.clone()
            };
            let other = fit.with(|own| *own = setup);
            other.fits() && other.obstacle.is_none()
        })
}

/// The least that a GPU costs an hour on demand, in millionths of a dollar.
fn cheapest(catalogue: &Catalogue, gpu: &Gpu) -> Option<i64> {
    let offers = catalogue
        .offers
        .iter()
        .filter(|offer| offer.gpu == gpu.name && offer.gpus() > 0);
    offers
        .filter_map(|offer| {
            let HourlyPrice(price) = offer.on_demand?;
            Some(price.micros.saturating_mul(1000) / i64::from(offer.gpu_thousandths))
        })
        .min()
}

/// What fits as it is: fewer requests, or shorter ones.
fn less(fit: &Fit<'_>) -> Vec<Fix> {
    let mut out = Vec::new();
    let part = |what: String| Fix { what, whole: false };
    let requests = fit.requests().floor() as u64;
    if requests > 0 {
        out.push(part(format!(
            "{requests} such concurrent requests (--concurrency {requests})"
        )));
    }
    if let Some(context) = longest(fit) {
        out.push(part(format!(
            "requests of {context} tokens (--context {context})"
        )));
    }
    out
}

/// The longest context, to 256 tokens, at which the asked number of requests fits.
fn longest(fit: &Fit<'_>) -> Option<u64> {
    const STEP: u64 = 256;
    let fits = |steps: u64| {
        let wanted = Demand {
            context: steps * STEP,
            ..fit.wanted
        };
        fit.under(wanted).fits()
    };
    let (mut low, mut high) = (0, fit.wanted.context / STEP);
    while low < high {
        let middle = (low + high).div_ceil(2);
        if fits(middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    (low > 0).then_some(low * STEP)
}
