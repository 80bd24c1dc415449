//! Devices that drivers offer by dynamic resource allocation, and the claims on them.

use super::{Text, text::Names};
use crate::objects::{self, AllocatedDevice, ClaimSpec, Consumer, DeviceClassSpec, SliceSpec};

/// Which device: as allocations name it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId {
    pub driver: Text,
    pub pool: Text,
    pub device: Text,
}

impl std::fmt::Display for DeviceId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}/{}", self.driver, self.pool, self.device)
    }
}

/// A slice as the driver wrote it; its quantities are read where they are used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    pub spec: SliceSpec,
}

/// A class of devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Class {
    pub spec: DeviceClassSpec,
}

/// What a claim made of a template asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    pub asks: ClaimSpec,
}

/// A claim on devices: what it asks, what it got, who uses it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    pub uid: Text,
    pub asks: ClaimSpec,
    /// `None`: it has none yet.
    pub got: Option<Box<[Got]>>,
    pub used_by: Box<[Consumer]>,
}

/// A device that a claim got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Got {
    /// The request of the claim that it is for.
    pub request: Text,
    pub device: DeviceId,
    /// It is looked at and not held.
    pub admin: bool,
}

impl Claim {
    pub(super) fn read(object: &objects::ResourceClaim, names: &mut Names) -> Self {
        let allocation = object.status.allocation.as_ref();
        let got = |one: &AllocatedDevice, names: &mut Names| Got {
            request: names.text(&one.request),
            device: DeviceId {
                driver: names.text(&one.driver),
                pool: names.text(&one.pool),
                device: names.text(&one.device),
            },
            admin: one.admin_access,
        };
        Self {
            uid: object.metadata.uid.as_deref().unwrap_or_default().into(),
            asks: object.spec.clone(),
            got: allocation.map(|allocation| {
                let results = allocation.devices.results.iter();
                results.map(|one| got(one, names)).collect()
            }),
            used_by: object.status.reserved_for.clone().into(),
        }
    }
}
