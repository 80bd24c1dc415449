//! What is known beforehand of devices and of their error codes: rows of the catalogue.

use gpuwise_domain::{gpu::MigProfile, telemetry::XidMeaning};
use gpuwise_units::Bytes;
use std::collections::BTreeMap;

/// What the catalogue says of a product.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DeviceFacts {
    pub name: String,
    pub multiprocessors: Option<u32>,
    /// Its MIG profiles; empty where it has none.
    pub profiles: Vec<MigProfile>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Facts {
    /// By the product's name as the source wrote it.
    pub devices: BTreeMap<String, DeviceFacts>,
    pub xids: BTreeMap<u32, XidMeaning>,
    /// Memory of the weights of models that engines name, in 16 bits; absent where a name is not known.
    pub weights: BTreeMap<String, Option<Bytes>>,
}

impl Facts {
    /// What is known of the product of a subject.
    pub fn device(&self, product: Option<&str>) -> Option<&DeviceFacts> {
        self.devices.get(product?)
    }
}
