//! What GPUs a pod asks: whole ones, parts, or devices by claims.

use super::{Class, Inventory, Pod, Template, Text};
use crate::objects::{ClaimSpec, DeviceRequest};
use std::sync::Arc;

/// GPUs that a pod asks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GpusAsked {
    /// Units of `nvidia.com/gpu` and its like: GPUs, or turns on them where its node shares them.
    pub whole: u64,
    /// MIG instances by their own resources: the profile, and how many.
    pub slices: Vec<(String, u64)>,
    /// Devices by claims.
    pub devices: Vec<DevicesAsked>,
}

/// Devices that one request of a claim asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DevicesAsked {
    /// The claim, once there is one.
    pub claim: Option<Text>,
    pub request: String,
    pub class: String,
    /// CEL expressions of the request and of its class, all of which hold.
    pub selectors: Vec<String>,
    /// `None`: all that there are.
    pub count: Option<u64>,
    /// Others of which one would do where this is not to be had: classes.
    pub otherwise: Vec<String>,
}

impl GpusAsked {
    pub fn is_none(&self) -> bool {
        self.whole == 0 && self.slices.is_empty() && self.devices.is_empty()
    }
}

/// Resources that count GPUs as whole ones.
pub(crate) const WHOLE: [&str; 4] = [
    "nvidia.com/gpu",
    "nvidia.com/gpu.shared",
    "amd.com/gpu",
    "gpu.intel.com/i915",
];

impl Inventory {
    /// What GPUs a pod asks, whether it has them or not.
    pub fn gpus_asked(&self, pod: &Pod) -> GpusAsked {
        let asks = &pod.shape.asks;
        let slices = asks.extended.iter().filter_map(|(key, count)| {
            let profile = key.strip_prefix("nvidia.com/mig-")?;
            Some((profile.replace(".me", "+me"), *count))
        });
        let mut out = GpusAsked {
            whole: WHOLE
                .iter()
                .fold(0, |sum, key| sum.saturating_add(asks.of(key))),
            slices: slices.collect(),
            devices: Vec::new(),
        };
        for claim in &pod.shape.claims {
            let name = pod.claim(claim);
            let known = name.as_ref();
            let known = known.and_then(|name| self.claims.get(&pod.namespace, name));
            let template = claim.resource_claim_template_name.as_ref();
            let template: Option<&Arc<Template>> =
                template.and_then(|name| self.templates.get(&pod.namespace, name));
            let spec: Option<&ClaimSpec> = known
                .map(|claim| &claim.asks)
                .or_else(|| template.map(|template| &template.asks));
            for request in spec.into_iter().flat_map(|spec| &spec.devices.requests) {
                out.devices.extend(self.asked_by(request, name.as_ref()));
            }
        }
        out
    }

    fn asked_by(&self, request: &DeviceRequest, claim: Option<&Text>) -> Option<DevicesAsked> {
        let (class, own, mode, count) = match (&request.exactly, request.first_available.first()) {
            // Who looks on holds nothing.
            (Some(exact), _) if exact.admin_access => return None,
            (Some(exact), _) => (
                &exact.device_class_name,
                &exact.selectors,
                &exact.allocation_mode,
                exact.count,
            ),
            (None, Some(first)) => (
                &first.device_class_name,
                &first.selectors,
                &first.allocation_mode,
                first.count,
            ),
            (None, None) => return None,
        };
        let of_class = self
            .classes
            .get("", class)
            .map(|class: &Arc<Class>| &class.spec.selectors);
        let selectors = of_class.into_iter().flatten().chain(own);
        let others = request.first_available.iter().skip(1);
        Some(DevicesAsked {
            claim: claim.cloned(),
            request: request.name.clone(),
            class: class.clone(),
            selectors: selectors
                .filter_map(|one| Some(one.cel.as_ref()?.expression.clone()))
                .collect(),
            count: match mode.as_deref() {
                Some("All") => None,
                _ => Some(count.unwrap_or(1)),
            },
            otherwise: others.map(|one| one.device_class_name.clone()).collect(),
        })
    }
}
