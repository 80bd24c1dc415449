//! Hosts by name or file, and the constants of what work asks of them.

use crate::{
    catalogue::{self, Loaded, OwnRows},
    error::Problem,
};
use gpuwise_domain::{
    balance::{Balance, HostSystem},
    catalogue::{Catalogue, distance},
    deployment::{Deployment, Rental},
    media::{MediaDeployment, MediaSizing},
    model::Architecture,
    network::InputSize,
    workload::Workload,
};
use gpuwise_read::{catalogue::read_balance, host::read_host};
use gpuwise_size::balance::{BalanceConstants, balance, of_catalogue, of_offer, serving, whole};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The catalogue's constants, with rows of the user's catalogue and of these files over them.
///
/// # Errors
/// When a file cannot be read, or a row of it is wrong.
pub fn constants(loaded: &Loaded, files: &[PathBuf]) -> anyhow::Result<BalanceConstants> {
    let mut rows = Vec::new();
    for (file, text) in catalogue::files(loaded, OwnRows::HostBalance) {
        rows.extend(read_balance(file, text)?);
    }
    for file in files {
        rows.extend(read_balance(&file.display().to_string(), &text(file)?)?);
    }
    Ok(BalanceConstants::new(&rows)?)
}

fn text(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).map_err(|error| {
        Problem::new(format!("cannot read {}", path.display()))
            .because(error)
            .into()
    })
}

/// What the best of a plan asks of the host around its GPUs, beside what the instance that it is
/// rented on has, as far as the catalogue says.
///
/// # Errors
/// When the catalogue's constants cannot be read.
pub fn of_plan(
    deployment: &Deployment,
    architecture: &Architecture,
    workload: &Workload,
    loaded: &Loaded,
) -> anyhow::Result<Balance> {
    let constants = constants(loaded, &[])?;
    let rental = deployment.rental.as_ref();
    let host = rented(rental, &deployment.gpu, &loaded.catalogue, &constants);
    let node = node_gpus(rental, deployment.slice.is_some(), deployment.devices());
    let work = serving(deployment, architecture, workload, node, &constants);
    Ok(balance(work, host, &constants))
}

/// The same for a diffusion, vision or embedding model: `inputs` of such a size for one unit that is counted.
///
/// # Errors
/// When the catalogue's constants cannot be read.
pub fn of_media(
    sizing: &MediaSizing,
    deployment: &MediaDeployment,
    size: &InputSize,
    inputs: f64,
    loaded: &Loaded,
) -> anyhow::Result<Balance> {
    let constants = constants(loaded, &[])?;
    let rental = deployment.rental.as_ref();
    let host = rented(rental, &deployment.gpu, &loaded.catalogue, &constants);
    let node = node_gpus(rental, deployment.slice.is_some(), deployment.devices());
    let work = whole(sizing, deployment, size, inputs, node, &constants);
    Ok(balance(work, host, &constants))
}

/// GPUs, or slices, of the deployment on one instance.
fn node_gpus(rental: Option<&Rental>, sliced: bool, devices: u32) -> u32 {
    let each = rental.map_or(devices, |rental| rental.gpu_thousandths / 1000);
    if sliced { devices } else { each }.max(1)
}

/// The instance that is rented, as far as the catalogue knows it.
fn rented(
    rental: Option<&Rental>,
    gpu: &str,
    catalogue: &Catalogue,
    constants: &BalanceConstants,
) -> HostSystem {
    let gpu = catalogue.gpu(gpu);
    let offer = rental.and_then(|rental| {
        catalogue.offers.iter().find(|offer| {
            offer.provider == rental.provider
                && offer.instance == rental.instance
                && offer.region == rental.region
        })
    });
    let shape = rental.and_then(|rental| {
        catalogue
            .hosts
            .iter()
            .find(|host| host.shape.eq_ignore_ascii_case(&rental.instance))
    });
    match (shape, offer) {
        (Some(shape), _) => of_catalogue(shape, gpu, constants),
        (None, Some(offer)) => of_offer(offer, gpu, constants),
        (None, None) => HostSystem::default(),
    }
}

/// A host: a file, or a shape or instance of the catalogue.
///
/// # Errors
/// When a file cannot be read or says what cannot be, or the catalogue knows no such shape.
pub fn named(
    name: &str,
    catalogue: &Catalogue,
    constants: &BalanceConstants,
) -> anyhow::Result<HostSystem> {
    let path = Path::new(name);
    if path
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("toml"))
    {
        let mut host = read_host(name, &text(path)?)?;
        // A file may leave its GPU's own link to the catalogue.
        let gpu = host.gpu.as_deref().and_then(|gpu| catalogue.gpu(gpu));
        host.pcie = host.pcie.or_else(|| gpu?.host_link);
        return Ok(host);
    }
    if let Some(host) = catalogue
        .hosts
        .iter()
        .find(|host| host.shape.eq_ignore_ascii_case(name))
    {
        return Ok(of_catalogue(host, catalogue.gpu(&host.gpu), constants));
    }
    if let Some(offer) = catalogue
        .offers
        .iter()
        .find(|offer| offer.instance.eq_ignore_ascii_case(name))
    {
        return Ok(of_offer(offer, catalogue.gpu(&offer.gpu), constants));
    }
    let mut like: Vec<(usize, &str)> = catalogue
        .hosts
        .iter()
        .map(|host| {
            (
                distance(&host.shape.to_lowercase(), &name.to_lowercase()),
                host.shape.as_str(),
            )
        })
        .collect();
    like.sort_unstable();
    like.dedup();
    let like: Vec<String> = like
        .into_iter()
        .take(3)
        .map(|(_, shape)| shape.to_owned())
        .collect();
    Err(Problem::new(format!(
        "--host {name}: no shape of the catalogue is called so"
    ))
    .did_you_mean(&like)
    .hint("a host of your own is described in a file: --host host.toml")
    .into())
}
