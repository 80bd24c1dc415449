//! What runs: GPUs, hosts, layout, price, by flags or as a saved deployment says.

use crate::{catalogue::Loaded, error::Problem, host, names, settings};
use anyhow::Context as _;
use gpuwise_domain::{
    balance::HostSystem,
    deployment::{Deployment, Rental, Saved},
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
use gpuwise_view::plan::words;

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
        let layout = flags
            .tp
            .map(Layout::tensor)
            .or(deployment.map(|one| one.layout));
        if let Some(layout) = layout.filter(|layout| layout.replica_gpus() > count) {
            return Err(Problem::new(format!(
                "one replica takes {} GPUs, {count} are there",
                layout.replica_gpus()
            ))
            .hint(format!(
                "--current '{}x{}', or a layout of {count} GPUs such as --tp {count}",
                layout.replica_gpus(),
                gpu.name
            ))
            .into());
        }
        let hosts = count / each;
        // Replicas that are known are rented as a plan rents them, others as whole hosts.
        let replica = layout.map_or(each, |layout| layout.replica_gpus());
        let replicas = if count.is_multiple_of(replica) {
            (count / replica, replica)
        } else {
            (hosts, each)
        };
        let deployment = deployment.filter(|_| flags.current.is_none());
        let market = &limits.market;
        let known = host_price(flags, deployment, (gpu, hosts, replicas), (loaded, market))?;
        let (price, price_source) = known.map_or_else(
            || (None, String::new()),
            |(price, source)| (Some(price), source),
        );
        let mut notes = Vec::new();
        if price.is_none() {
            notes.push(format!(
                "no offer has {each} × {}: what runs has no price; --price 20USD/h gives one",
                gpu.name
            ));
        }
        Ok(Self {
            current: Current {
                gpu: gpu.name.clone(),
                gpus_per_host: each,
                hosts,
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
    Err(Problem::new("no flag says on which GPUs it runs")
        .hint("--current 8xH100, a --host that names its GPUs, or --deployment deployment.json")
        .into())
}

/// The price of one of so many hosts, and where from: as stated, as planned, else as listed. `None`: nothing says one.
fn host_price(
    flags: &settings::CurrentFlags,
    deployment: Option<&Deployment>,
    (gpu, hosts, replicas): (&Gpu, u32, (u32, u32)),
    (loaded, market): (&Loaded, &settings::MarketFlags),
) -> anyhow::Result<Option<(HourlyPrice, String)>> {
    let stated = flags.price.as_deref().map(quantities::budget).transpose();
    if let Some(price) = stated.context("--price")? {
        if price.0.micros == 0 {
            return Err(Problem::new("--price 0: expected a price above 0")
                .hint("leave it out where it is not known: hosts are counted then")
                .into());
        }
        return Ok(Some((price, "as given".into())));
    }
    let of_one = |(all, source): (HourlyPrice, String)| {
        let one = HourlyPrice(all.0.times(1, i64::from(hosts)));
        (one, source)
    };
    if let Some(saved) = deployment.and_then(price_of_saved) {
        return Ok(Some(of_one(saved)));
    }
    let host = listed_host(loaded, flags.host.as_deref(), gpu, market);
    Ok(host.or_else(|| listed(loaded, gpu, replicas, market).map(of_one)))
}

/// What all instances of a saved deployment cost together, and where from.
fn price_of_saved(deployment: &Deployment) -> Option<(HourlyPrice, String)> {
    let rental = deployment.rental.as_ref()?;
    Some((per_hour(rental)?, source_of(rental)))
}

/// What the catalogue's offers say of a host of this name: its price, and where from.
fn listed_host(
    loaded: &Loaded,
    name: Option<&str>,
    gpu: &Gpu,
    market: &settings::MarketFlags,
) -> Option<(HourlyPrice, String)> {
    let name = name?;
    let terms: Terms = market.terms.into();
    let (providers, regions) = (&market.provider, &market.region);
    let of_name = loaded.catalogue.offers.iter().filter(|offer| {
        offer.instance.eq_ignore_ascii_case(name)
            && offer.gpu == gpu.name
            && (providers.is_empty()
                || providers
                    .iter()
                    .any(|one| one.eq_ignore_ascii_case(&offer.provider)))
            && (regions.is_empty() || regions.iter().any(|one| offer.region.starts_with(one)))
    });
    let priced = of_name.filter_map(|offer| Some((offer.price(terms)?, offer)));
    let (price, offer) = priced.min_by_key(|(price, _)| price.0.micros)?;
    Some((price, source_of(&Rental::of(offer, terms, 1, 0))))
}

/// What the cheapest instances cost together that hold so many replicas of so many GPUs each, which is what a plan of
/// as many is priced at, and where from.
fn listed(
    loaded: &Loaded,
    gpu: &Gpu,
    replicas: (u32, u32),
    market: &settings::MarketFlags,
) -> Option<(HourlyPrice, String)> {
    let allowed = Limits {
        providers: market.provider.clone(),
        regions: market.region.clone(),
        ..Limits::default()
    };
    let device = Device::whole(gpu);
    let terms: Terms = market.terms.into();
    let rental = cheapest_rental(&loaded.catalogue, &allowed, terms, &device, replicas)?;
    Some((per_hour(&rental)?, source_of(&rental)))
}

fn source_of(rental: &Rental) -> String {
    let idle = match rental.idle {
        0 => String::new(),
        idle => format!(", of whose GPUs {idle} stay idle"),
    };
    let count = match rental.instances {
        1 => String::new(),
        several => format!("{several} × "),
    };
    let (provider, instance, day) = (&rental.provider, &rental.instance, words::priced(rental));
    format!("{count}{provider} {instance}{idle}{day}")
}
