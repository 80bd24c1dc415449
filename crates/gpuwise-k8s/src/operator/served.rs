//! What of the cluster workloads are served by: how far that is, and what it costs.

use super::{
    seen::{PLAN, State},
    watches::{Own, SERVED},
    workloads::PriceBook,
};
use crate::{
    inventory::Pod,
    resources::GpuPriceBookSpec,
    steer::{PRODUCT, is_accelerator},
};
use kube::api::DynamicObject;
use std::sync::Arc;

impl State {
    /// What an hour of GPUs costs here, where a price book says it.
    pub(super) fn prices(&self) -> Option<PriceBook> {
        let books = self.own::<GpuPriceBookSpec>(Own::Prices);
        let book = books.into_iter().next()?.spec;
        let prices = book.prices.iter();
        Some(PriceBook {
            by_product: prices
                .filter_map(|price| Some((price.product.clone(), price.micros()?)))
                .collect(),
            currency: book.currency,
        })
    }

    /// Whether nodes offer MIG slices.
    pub(super) fn has_slices(&self) -> bool {
        let nodes = self.inventory().nodes.values();
        let mut offered = nodes.flat_map(|node| node.extended.keys());
        offered.any(|name| is_accelerator(name) && name.contains("/mig-"))
    }

    /// Pods of a workload that hold something.
    fn pods_of<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
    ) -> impl Iterator<Item = &'a Arc<Pod>> {
        let all = self.inventory().pods.values();
        all.filter(move |pod| {
            &*pod.namespace == namespace
                && pod.label(SERVED) == Some(name)
                && pod.node.is_some()
                && !pod.phase.ended()
        })
    }

    /// What pods of a workload hold on their nodes by the price book, in millionths an hour; `None`: some of it has
    /// no price there, or is a slice.
    pub(super) fn bill(&self, namespace: &str, name: &str) -> Option<i64> {
        self.bill_of(self.pods_of(namespace, name))
    }

    /// The same of pods of a Deployment that nobody's workload is.
    pub(super) fn bill_of_deployment(&self, namespace: &str, name: &str) -> Option<i64> {
        let inventory = self.inventory();
        let pods = inventory.pods.values().filter(|pod| {
            let holds = pod.node.is_some() && !pod.phase.ended();
            holds && &*pod.namespace == namespace && {
                let of = inventory.workload(pod);
                &*of.kind == "Deployment" && &*of.name == name
            }
        });
        self.bill_of(pods)
    }

    fn bill_of<'a>(&self, pods: impl Iterator<Item = &'a Arc<Pod>>) -> Option<i64> {
        let book = self.prices()?;
        let mut all: i64 = 0;
        for pod in pods {
            let node = self.inventory().node(pod.node.as_deref()?)?;
            let product = node.labels.iter().find(|(key, _)| &***key == PRODUCT)?.1;
            for (resource, count) in &pod.shape.asks.extended {
                if !is_accelerator(resource) {
                    continue;
                }
                if resource.contains("/mig-") {
                    return None;
                }
                let price = book.by_product.get(&**product)?;
                all = all.checked_add(price.checked_mul(i64::try_from(*count).ok()?)?)?;
            }
        }
        Some(all)
    }

    /// The Deployment of a workload.
    fn deployment(&self, namespace: &str, name: &str) -> Option<&DynamicObject> {
        self.objects(Own::Served).find(|one| {
            one.metadata.namespace.as_deref() == Some(namespace)
                && one.metadata.name.as_deref() == Some(name)
        })
    }

    /// Whether what a plan wrote is there as a whole: new pods ready, old ones gone.
    pub(super) fn rolled_out(&self, namespace: &str, name: &str, plan: &str) -> bool {
        let one = self.deployment(namespace, name);
        one.is_some_and(|one| is_rolled_out(one, plan))
    }

    /// The version of the Deployment of a workload, and the replicas that it is to have.
    pub(super) fn replicas(&self, namespace: &str, name: &str) -> Option<(String, u32)> {
        let one = self.deployment(namespace, name)?;
        let number = one.data.pointer("/spec/replicas")?.as_u64()?;
        let version = one.metadata.resource_version.clone()?;
        Some((version, u32::try_from(number).ok()?))
    }

    /// Replicas of a Deployment that this object controls.
    pub(super) fn replicas_of(&self, uid: &str, namespace: &str, name: &str) -> Option<u32> {
        let one = self.deployment(namespace, name)?;
        let mut owners = one.metadata.owner_references.iter().flatten();
        let owned = owners.any(|owner| owner.controller == Some(true) && owner.uid == uid);
        let (_, replicas) = self.replicas(namespace, name).filter(|_| owned)?;
        Some(replicas)
    }
}

/// Whether what a plan wrote is there as a whole: new pods ready, old ones gone.
pub(super) fn is_rolled_out(one: &DynamicObject, plan: &str) -> bool {
    let notes = one.metadata.annotations.as_ref();
    let written = notes
        .and_then(|all| all.get(PLAN))
        .map_or("", String::as_str);
    let number = |path: &str| one.data.pointer(path).and_then(serde_json::Value::as_i64);
    let wanted = number("/spec/replicas").unwrap_or(1);
    let counts = |name: &str| number(&format!("/status/{name}")).unwrap_or(0) == wanted;
    written == plan
        && number("/status/observedGeneration") >= one.metadata.generation
        && ["replicas", "updatedReplicas", "availableReplicas"]
            .into_iter()
            .all(counts)
}
