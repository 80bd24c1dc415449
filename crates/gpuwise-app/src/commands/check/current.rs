//! What runs: GPUs, hosts, layout, price, by flags or as a saved deployment says.

use crate::{catalogue::Loaded, error::Problem, host, names, settings};
use anyhow::Context as _;
use gpuwise_domain::{
    balance::HostSystem,
    deployment::{Deployment, Saved},
    gpu::{Device, Gpu},
    layout::Layout,
    offer::Terms,
    verdict::Current,
    workload::Limits,
};
use gpuwise_read::{host as read, workload as quantities};
use gpuwise_size::{
    balance::BalanceConstants,
    search::{cheapest_rental, per_hour},
};
use gpuwise_units::HourlyPrice;

/// GPUs of a host where nothing says how many it has.
const USUAL_HOST: u32 = 8;

/// What runs, with its host where one is known.
pub(super) struct Runs {
    pub(super) current: Current,
    pub(super) host: Option<HostSystem>,
    pub(super) notes: Vec<String>,
}

impl Runs {
    /// Reads what runs.
    pub(super) fn read(
        flags: &settings::CurrentFlags,
        saved: Option<&Saved>,
        loaded: &Loaded,
        limits: &settings::LimitFlags,
        constants: &BalanceConstants,
    ) -> anyhow::Result<Self> {
        let catalogue = &loaded.catalogue;
        let surrounding = flags
            .host
            .as_deref()
            .map(|name| host::named(name, catalogue, constants))
            .transpose()?;
        let deployment = saved.map(|saved| &saved.deployment);
        let (count, gpu) = gpus(flags, deployment, surrounding.as_ref(), loaded)?;
        if let Some(own) = surrounding.as_ref().and_then(|host| host.gpu.as_deref())
            && names::gpu(catalogue, "--host", own)?.name != gpu.name
        {
            return Err(
                Problem::new(format!("--host has {own}, --current {}", gpu.name))
                    .hint("name the same GPU in both")
                    .into(),
            );
        }
        let of_host = surrounding.as_ref().and_then(|host| host.gpus);
        let each = of_host.unwrap_or(USUAL_HOST).min(count);
        if count % each != 0 {
            return Err(Problem::new(format!(
                "--current: {count} GPUs are no whole hosts of {each}"
            ))
            .hint(format!(
                "give a multiple of {each}, or a --host with another number of GPUs"
            ))
            .into());
        }
        let stated = flags
            .price
            .as_deref()
            .map(quantities::budget)
            .transpose()
            .context("--price")?;
        let of_saved = || price_of_saved(deployment?);
        let (price, price_source) = match (stated, of_saved()) {
            (Some(price), _) => (Some(price), "as given".into()),
            (None, Some(price)) => price,
            (None, None) => listed(loaded, flags.host.as_deref(), gpu, each, limits),
        };
        let mut notes = Vec::new();
        if price.is_none() {
            notes.push(format!(
                "no offer has {each} × {}: what runs has no price; --price 20USD/h gives one",
                gpu.name
            ));
        }
        let layout = flags
            .tp
            .map(Layout::tensor)
            .or(deployment.map(|one| one.layout));
        if let Some(layout) = layout.filter(|layout| layout.replica_gpus() > count) {
            return Err(Problem::new(format!(
                "one replica takes {} GPUs, {count} are there",
                layout.replica_gpus()
            ))
            .hint("a smaller --tp, or more GPUs in --current")
            .into());
        }
        Ok(Self {
            current: Current {
                gpu: gpu.name.clone(),
                gpus_per_host: each,
                hosts: count / each,
                layout,
                price,
                price_source,
            },
            host: surrounding,
            notes,
        })
    }
}

fn gpus<'a>(
    flags: &settings::CurrentFlags,
    deployment: Option<&Deployment>,
    host: Option<&HostSystem>,
    loaded: &'a Loaded,
) -> anyhow::Result<(u32, &'a Gpu)> {
    let catalogue = &loaded.catalogue;
    if let Some(text) = flags.current.as_deref() {
        let (count, name) =
            read::running(text).map_err(|what| Problem::new(format!("--current: {what}")))?;
        return Ok((count, names::gpu(catalogue, "--current", &name)?));
    }
    if let Some(deployment) = deployment {
        if deployment.slice.is_some() {
            return Err(Problem::new(
                "the saved deployment runs on slices of a GPU; whole GPUs are judged",
            )
            .hint("say what it runs on with --current, such as 1xH100")
            .into());
        }
        let gpu = names::gpu(catalogue, "--deployment", &deployment.gpu)?;
        let rented = deployment.rental.as_ref().map(|rental| {
            rental
                .instances
                .saturating_mul(rental.gpu_thousandths / 1000)
        });
        return Ok((rented.unwrap_or(0).max(deployment.devices()).max(1), gpu));
    }
    if let Some((count, name)) = host.and_then(|host| Some((host.gpus?, host.gpu.as_deref()?))) {
        return Ok((count.max(1), names::gpu(catalogue, "--host", name)?));
    }
    Err(Problem::new("nothing says what runs")
        .hint("--current 8xH100, a --host that names its GPUs, or --deployment deployment.json")
        .into())
}

fn price_of_saved(deployment: &Deployment) -> Option<(Option<HourlyPrice>, String)> {
    let rental = deployment.rental.as_ref()?;
    let price = rental.price?;
    Some((
        Some(price),
        format!(
            "{} {}, list of {}",
            rental.provider, rental.instance, rental.date
        ),
    ))
}

/// What the catalogue's offers say of a host: of this name, else the cheapest instance that holds as many GPUs, which
/// is what a plan of as many is priced at.
fn listed(
    loaded: &Loaded,
    name: Option<&str>,
    gpu: &Gpu,
    each: u32,
    limits: &settings::LimitFlags,
) -> (Option<HourlyPrice>, String) {
    let terms: Terms = limits.market.terms.into();
    let allowed = Limits {
        providers: limits.market.provider.clone(),
        regions: limits.market.region.clone(),
        ..Limits::default()
    };
    let catalogue = &loaded.catalogue;
    let of_name = catalogue.offers.iter().filter(|offer| {
        let named = name.is_some_and(|name| offer.instance.eq_ignore_ascii_case(name));
        let from = &offer.provider;
        let providers = &allowed.providers;
        named
            && offer.gpu == gpu.name
            && (providers.is_empty() || providers.iter().any(|one| one.eq_ignore_ascii_case(from)))
            && (allowed.regions.is_empty()
                || allowed
                    .regions
                    .iter()
                    .any(|one| offer.region.starts_with(one)))
    });
    let priced = of_name.filter_map(|offer| Some((offer.price(terms)?, offer)));
    if let Some((price, offer)) = priced.min_by_key(|(price, _)| price.0.micros) {
        let source = format!(
            "{} {}, list of {}",
            offer.provider, offer.instance, offer.date
        );
        return (Some(price), source);
    }
    let device = Device::whole(gpu);
    let rental = cheapest_rental(catalogue, &allowed, terms, &device, (1, each));
    let Some((rental, price)) = rental.and_then(|one| per_hour(&one).map(|price| (one, price)))
    else {
        return (None, String::new());
    };
    let idle = match rental.idle {
        0 => String::new(),
        idle => format!(", of whose GPUs {idle} stay idle"),
    };
    let count = match rental.instances {
        1 => String::new(),
        several => format!("{several} × "),
    };
    (
        Some(price),
        format!(
            "{count}{} {}{idle}, list of {}",
            rental.provider, rental.instance, rental.date
        ),
    )
}
