//! What would make it fit, the cheapest first.

use super::fit::{Demand, Fit};
use gpuwise_domain::{
    catalogue::Catalogue,
    deployment::Rental,
    gpu::{Device, Gpu},
    layout::Layout,
    offer::Terms,
    precision::{CacheFormat, Compute},
    workload::Limits,
};
use gpuwise_size::{
    formats::weights_named,
    search::{cheapest_rental, per_hour},
    setup::Weights,
    sweep,
};
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
        && cache.serves()
    {
        out.push(whole("an FP8 key-value cache (--kv fp8)".into()));
    }
    for format in LOWER {
        let Some(lower) = lower_weights(fit, format) else {
            continue;
        };
        let with_cache = lower_cache(&lower).filter(|_| cache.is_some());
        if lower.serves() {
            out.push(whole(format!(
                "{format} weights (--precision {format}), at some loss of quality"
            )));
            break;
        }
        if with_cache.is_some_and(|both| both.serves()) {
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

/// More of the same GPU, and the cheapest other ones that are rented out, where they cost less: by price.
fn more_gpus(fit: &Fit<'_>, catalogue: &Catalogue) -> Vec<Fix> {
    let device = fit.setup.device;
    let own =
        smallest(fit, device.gpu).map(|layout| (layout, rented(catalogue, device.gpu, layout)));
    let own_price = own.as_ref().and_then(|(_, rented)| rented.as_ref()?.1);
    let others = catalogue.gpus.iter().filter(|gpu| {
        !gpu.announced && gpu.name != device.gpu.name && gpu.vendor == device.gpu.vendor
    });
    let other = others
        .filter_map(|gpu| {
            let layout = smallest(fit, gpu)?;
            let rented = rented(catalogue, gpu, layout)?;
            Some((rented.1?, layout, gpu, rented))
        })
        .min_by_key(|(price, ..)| price.0.micros)
        .filter(|(price, ..)| own_price.is_none_or(|own| price.0.micros < own.0.micros));
    let mut out = Vec::new();
    if let Some((_, layout, gpu, rented)) = other {
        let flags = format!("--gpu '{}'{}", gpu.name, flags_of(layout));
        out.push(whole(gpus(layout, gpu, &flags, Some(&rented))));
    }
    if let Some((layout, rented)) = own {
        // More of a slice is no layout.
        let named = match device.slice {
            Some(_) => format!("--gpu '{}'", device.gpu.name),
            None => String::new(),
        };
        let flags = named + &flags_of(layout);
        out.push(whole(gpus(
            layout,
            device.gpu,
            flags.trim(),
            rented.as_ref(),
        )));
    } else if device.slice.is_some() && fit.with(|setup| setup.device.slice = None).serves() {
        out.push(whole(format!(
            "the whole GPU (--gpu '{}')",
            device.gpu.name
        )));
    }
    out
}

fn flags_of(layout: Layout) -> String {
    let flag = |name: &str, ranks: u32| match ranks {
        0 | 1 => String::new(),
        ranks => format!(" --{name} {ranks}"),
    };
    flag("tp", layout.tensor) + &flag("pp", layout.pipeline)
}

/// `4 × L40S (--tp 4), from 6.20 USD/h (1 × g6e.12xlarge of aws)`.
fn gpus(layout: Layout, gpu: &Gpu, flags: &str, rented: Option<&Rented>) -> String {
    let price = rented.map_or_else(
        || ", which no offer of the catalogue has".into(),
        |(rental, price)| priced(rental, *price),
    );
    format!("{} × {} ({flags}){price}", layout.replica_gpus(), gpu.name)
}

/// `, from 6.20 USD/h (1 × g6e.12xlarge of aws)`.
pub(super) fn priced(rental: &Rental, price: Option<HourlyPrice>) -> String {
    let from = price.map_or_else(
        || ", at a price that is not known".into(),
        |price| {
            let dollars = gpuwise_view::figures::amount(price.0.as_f64());
            format!(", from {dollars} {}/h", price.0.currency)
        },
    );
    let Rental {
        instances,
        instance,
        provider,
        ..
    } = rental;
    format!("{from} ({instances} × {instance} of {})", provider.name())
}

/// The smallest layout of a GPU that fits, with more GPUs where it is the same one.
fn smallest(fit: &Fit<'_>, gpu: &Gpu) -> Option<Layout> {
    let device = Device::whole(gpu);
    let same = gpu.name == fit.setup.device.gpu.name;
    sweep::layouts(&device, fit.setup.architecture)
        .into_iter()
        .filter(|layout| !same || layout.replica_gpus() > fit.gpus())
        .find(|layout| {
            let setup = gpuwise_size::setup::Setup {
                device,
                layout: *layout,
                ..fit.setup.clone()
            };
            let other = fit.with(|own| *own = setup);
            other.serves()
        })
}

/// Instances, and what they cost an hour.
type Rented = (Rental, Option<HourlyPrice>);

fn rented(catalogue: &Catalogue, gpu: &Gpu, layout: Layout) -> Option<Rented> {
    cheapest(
        catalogue,
        &Device::whole(gpu),
        layout.stage_gpus(),
        layout.pipeline,
    )
}

/// The cheapest instances on demand of which each holds the GPUs of a stage; `None` where no offer does.
pub(super) fn cheapest(
    catalogue: &Catalogue,
    device: &Device<'_>,
    gpus: u32,
    stages: u32,
) -> Option<Rented> {
    let limits = Limits::default();
    let rental = cheapest_rental(catalogue, &limits, Terms::OnDemand, device, (stages, gpus))?;
    if rental.instances > stages {
        return None;
    }
    let price = per_hour(&rental);
    Some((rental, price))
}

/// What fits as it is: fewer requests, or shorter ones.
fn less(fit: &Fit<'_>) -> Vec<Fix> {
    let mut out = Vec::new();
    let part = |what: String| Fix { what, whole: false };
    let requests = fit.requests().floor() as u64;
    if requests > 0 && fit.obstacle.is_none() {
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
        fit.under(wanted).serves()
    };
    // No request is longer than the model takes.
    let most = fit.setup.architecture.max_context;
    let most = most.map_or(u64::MAX, |most| most.0);
    let (mut low, mut high) = (0, fit.wanted.context.min(most) / STEP);
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
