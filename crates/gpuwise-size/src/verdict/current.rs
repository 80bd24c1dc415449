//! What runs, sized as a plan with nothing but its own GPUs to choose from.

use crate::search::{Fixed, Request, plan};
use alloc::{format, string::String, vec, vec::Vec};
use gpuwise_domain::{
    balance::HostSystem,
    catalogue::Catalogue,
    deployment::{Cost, Deployment, Dropped},
    layout::Layout,
    offer::{Offer, Terms},
    provider::Provider,
    verdict::Current,
    workload::{Limits, Workload},
};
use gpuwise_units::HourlyPrice;

/// A layout counts as worse than another on the same GPUs from this factor on.
const MUCH_MORE: f64 = 1.25;

/// What runs, as sized.
pub(crate) struct Sized {
    /// With as many hosts as the load needs; `None`: it cannot keep the SLO with any.
    pub(crate) deployment: Option<Deployment>,
    pub(crate) hosts_needed: u32,
    /// A way to spread the model over the same GPUs that sustains much more, where it runs otherwise.
    pub(crate) spread_otherwise: Option<Deployment>,
    /// Why it cannot, where it cannot, the nearest first.
    pub(crate) dropped: Vec<Dropped>,
    pub(crate) notes: Vec<String>,
}

pub(crate) fn sized(request: &Request<'_>, current: &Current, host: Option<&HostSystem>) -> Sized {
    let (catalogue, notes) = with_host(request.catalogue, current, host);
    let workload = Workload {
        limits: Limits {
            gpus: vec![current.gpu.clone()],
            spare_replicas: request.workload.limits.spare_replicas,
            ..Limits::default()
        },
        ..request.workload.clone()
    };
    let mut own = Request {
        catalogue: &catalogue,
        workload: &workload,
        ..request.clone()
    };
    own.choices.terms = Terms::OnDemand;
    own.choices.slices = false;
    own.choices.hosts = false;
    own.choices.replica_gpus = Some(current.gpus_per_host);
    own.choices.disaggregated = false;
    own.choices.why_not = vec![current.gpu.clone()];
    let settings = own.choices.fixed.clone().unwrap_or_default();
    own.choices.fixed = Some(Fixed {
        layout: None,
        ..settings.clone()
    });
    let free = plan(&own);
    let fits = |deployments: &[Deployment]| {
        let placed = |deployment: &&Deployment| {
            deployment
                .rental
                .as_ref()
                .is_some_and(|rental| rental.price.is_some())
        };
        deployments.iter().find(placed).cloned()
    };
    let best = fits(&free.ranked);
    let (mut deployment, mut dropped, mut spread_otherwise) = (best, free.dropped, None);
    if let Some(layout) = current.layout {
        let replica = layout.replica_gpus().max(1);
        let replicas = (current.gpus() / replica).max(1);
        own.choices.fixed = Some(Fixed {
            layout: Some(Layout { replicas, ..layout }),
            ..settings
        });
        let fixed = plan(&own);
        let as_it_runs = fits(&fixed.ranked);
        spread_otherwise = deployment.filter(|other| {
            let sustains =
                |one: &Deployment| one.headroom.rate / f64::from(one.layout.gpus().max(1));
            keeps(other, current)
                && other.layout != layout
                && as_it_runs
                    .as_ref()
                    .is_none_or(|own| sustains(other) > MUCH_MORE * sustains(own))
        });
        deployment = as_it_runs;
        dropped = fixed.dropped;
    }
    let hosts_needed = deployment.as_ref().map_or(0, hosts_needed);
    if current.price.is_none() {
        // The price by which hosts were counted is none.
        let counted = deployment.iter_mut().chain(&mut spread_otherwise);
        counted.for_each(unpriced);
    }
    Sized {
        deployment,
        hosts_needed,
        spread_otherwise,
        dropped,
        notes,
    }
}

fn unpriced(deployment: &mut Deployment) {
    deployment.cost = Cost::default();
    if let Some(rental) = &mut deployment.rental {
        rental.price = None;
    }
}

/// Hosts that a deployment needs for the load: those that it stands on, and more where they bear less
/// than is asked, as a layout that is given may.
fn hosts_needed(deployment: &Deployment) -> u32 {
    let stands_on = deployment
        .rental
        .as_ref()
        .map_or(0, |rental| rental.instances);
    let sustains = deployment.headroom.factor.clamp(1e-6, 1.0);
    libm::ceil(f64::from(stands_on) / sustains - 1e-9) as u32
}

/// Whether a deployment fits the hosts that there are.
fn keeps(deployment: &Deployment, current: &Current) -> bool {
    (1..=current.hosts).contains(&hosts_needed(deployment))
}

/// The catalogue with nothing on offer but hosts like those that run, linked as they are.
fn with_host(
    catalogue: &Catalogue,
    current: &Current,
    host: Option<&HostSystem>,
) -> (Catalogue, Vec<String>) {
    let mut notes = Vec::new();
    // A price that is not known still lets hosts be counted.
    let one = HourlyPrice::usd("1").ok();
    let price = current.price.or(one);
    let mut gpus: Vec<_> = catalogue
        .gpus
        .iter()
        .filter(|gpu| gpu.name == current.gpu)
        .cloned()
        .collect();
    for gpu in &mut gpus {
        let Some(host) = host else { continue };
        if host.fast_link == Some(true) && gpu.scale_up.is_none() {
            gpu.scale_up = gpu.bridge.take();
        }
        if host.fast_link == Some(false) && gpu.scale_up.take().is_some() {
            notes.push(format!(
                "{}: its GPUs are joined by PCIe alone, as the host says",
                gpu.name
            ));
        }
        gpu.host_link = host.pcie.or(gpu.host_link);
    }
    let offer = Offer {
        provider: Provider::Running.name().into(),
        instance: String::new(),
        region: String::new(),
        gpu: current.gpu.clone(),
        gpu_thousandths: current.gpus_per_host.saturating_mul(1000),
        vcpus: None,
        memory: None,
        on_demand: price,
        reserved: None,
        spot: None,
        date: String::new(),
        source: current.price_source.clone(),
    };
    let reduced = Catalogue {
        gpus,
        offers: vec![offer],
        quality: catalogue.quality.clone(),
        ..Catalogue::default()
    };
    (reduced, notes)
}
