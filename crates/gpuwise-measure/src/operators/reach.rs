//! What a device reaches at best.

use gpuwise_domain::{
    gpu::{Gpu, PeakRates},
    profile::timeline::{Device, Timeline, Work},
};
use gpuwise_units::FlopPerSecond;
use std::collections::BTreeMap;

/// A product of matrices: m × k by k × n, in a precision as the catalogue names it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Product {
    pub m: f64,
    pub n: f64,
    pub k: f64,
    pub precision: &'static str,
}

/// What is known of GPUs by the names that files state.
#[derive(Clone, Copy)]
pub struct Gpus<'a> {
    pub rows: &'a BTreeMap<String, Gpu>,
    /// Which of them it is where the file does not say.
    pub stated: Option<&'a Gpu>,
    /// Seconds of a product by measured operator functions; none where it was measured on no GPU of
    /// the generation.
    pub measured: &'a dyn Fn(&Gpu, Product) -> Option<f64>,
}

/// The device whose operators are measured.
pub(crate) struct Reach<'a> {
    pub(crate) gpu: &'a Gpu,
    pub(super) device: Option<&'a Device>,
    measured: &'a dyn Fn(&Gpu, Product) -> Option<f64>,
}

impl Reach<'_> {
    pub(crate) fn measured(&self, product: Product) -> Option<f64> {
        (self.measured)(self.gpu, product)
    }

    /// Dense peak in operations a second.
    pub(crate) fn peak(&self, precision: &str) -> Option<f64> {
        peak(&self.gpu.peak, precision)
    }

    pub(crate) fn bandwidth(&self) -> f64 {
        self.gpu.bandwidth.get()
    }

    pub(super) fn multiprocessors(&self) -> Option<u64> {
        let stated = self.device.and_then(|device| device.multiprocessors);
        stated.or(self.gpu.units).map(u64::from)
    }
}

pub(crate) fn peak(rates: &PeakRates, precision: &str) -> Option<f64> {
    let rate = match precision {
        "fp32" => rates.fp32,
        "tf32" => rates.tf32.or(rates.fp32),
        "fp16" => rates.fp16.or(rates.fp32),
        "bf16" => rates.bf16.or(rates.fp32),
        "fp8" => rates.fp8,
        "int8" => rates.int8,
        _ => None,
    };
    rate.map(FlopPerSecond::get).filter(|rate| *rate > 0.0)
}

/// The product of the devices that worked, where it is one.
pub(crate) fn device<'a>(
    timeline: &'a Timeline,
    kernels: &[(usize, &Work)],
    gpus: &Gpus<'a>,
) -> Option<Reach<'a>> {
    let mut found: Option<&Device> = None;
    for (_, work) in kernels {
        let device = timeline.device_of(work)?;
        if found.is_some_and(|known| known.name != device.name) {
            return None;
        }
        found = Some(device);
    }
    let name = found.and_then(|device| device.name.as_deref());
    let row = name.and_then(|name| gpus.rows.get(name));
    Some(Reach {
        gpu: gpus.stated.or(row)?,
        device: found,
        measured: gpus.measured,
    })
}
