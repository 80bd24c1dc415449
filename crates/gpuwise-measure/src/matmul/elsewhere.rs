//! The time of a product on a processor that nobody timed, from what similar processors leave of
//! their rooflines.

use super::physics;
use gpuwise_domain::profile::matmul::{MatmulPrecision, MatmulShape, Processor};

/// How donors are weighed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Carry {
    /// Distance at which a donor of the same generation counts 1/e of the nearest.
    pub near: f64,
    /// The same among donors of other generations, where there is none of the same.
    pub far: f64,
    /// What |ln| of the peaks' ratio counts beside that of peak over bandwidth.
    pub peak: f64,
    /// What another minor capability adds.
    pub minor: f64,
    /// How far apart peaks may be, as |ln| of their ratio, where kernels differ from chip to chip
    /// (FP8 with block scales).
    pub same_chip: f64,
}

impl Default for Carry {
    /// Chosen by leaving processors out (`docs/reference/tier-accuracy.md`).
    fn default() -> Self {
        Self {
            near: 0.1,
            far: 0.2,
            peak: 0.25,
            minor: 0.05,
            same_chip: 0.05,
        }
    }
}

/// Why nothing is said of a processor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Abstention {
    /// Nothing is known of this vendor's processors.
    #[error("no processor of {0} was timed")]
    Vendor(String),
    /// The silicon has no such precision, or its peak is not known.
    #[error("no peak in {0} is known of it")]
    Peak(&'static str),
    /// Kernels of this precision differ too much from architecture to architecture.
    #[error("{0} kernels differ from architecture to architecture, and none like it was timed")]
    Architecture(&'static str),
    #[error("nothing was timed in {0}")]
    Nothing(&'static str),
}

/// How far apart two processors are: |ln| of the ratios of their balances (peak over bandwidth) and,
/// less, of their peaks, and a step for another minor capability. What lies behind a roofline follows
/// which side of it a product is on, so the balance counts most.
fn distance(
    a: &Processor,
    b: &Processor,
    precision: MatmulPrecision,
    carry: &Carry,
) -> Option<f64> {
    let peaks = libm::log(a.peak(precision)? / b.peak(precision)?);
    let balances = peaks - libm::log(a.bandwidth / b.bandwidth);
    let step = if a.capability == b.capability {
        0.0
    } else {
        carry.minor
    };
    Some(balances.abs() + carry.peak * peaks.abs() + step)
}

/// Whether both are of one generation and differ in no more than a stepping.
pub fn kin(a: &Processor, b: &Processor) -> bool {
    let major = |p: &Processor| p.capability.map(|(major, _)| major);
    a.generation == b.generation && major(a) == major(b)
}

/// Weights of donors for a processor, which sum to 1: those of the same generation, or all of the
/// vendor's where there is none, each exp(−(distance − least)/reach).
///
/// # Errors
/// When nothing can be carried over, and why.
pub fn weights(
    target: &Processor,
    donors: &[(usize, &Processor)],
    precision: MatmulPrecision,
    carry: &Carry,
) -> Result<Vec<(usize, f64)>, Abstention> {
    let Some(peak) = target.peak(precision) else {
        return Err(Abstention::Peak(precision.name()));
    };
    let same_vendor = |donor: &&(usize, &Processor)| donor.1.vendor == target.vendor;
    if !donors.is_empty() && !donors.iter().any(|donor| same_vendor(&donor)) {
        return Err(Abstention::Vendor(target.vendor.clone()));
    }
    let measured = |same: bool| -> Vec<(usize, f64)> {
        donors
            .iter()
            .filter(same_vendor)
            .filter(|(_, donor)| !same || kin(target, donor))
            .filter_map(|(at, donor)| Some((*at, distance(target, donor, precision, carry)?)))
            .collect()
    };
    let (mut near, mut reach) = (measured(true), carry.near);
    if precision == MatmulPrecision::Fp8Block {
        near.retain(|(at, _)| {
            let donor = donors.iter().find(|(donor, _)| donor == at);
            let other = donor.and_then(|(_, donor)| donor.peak(precision));
            other.is_some_and(|other| libm::log(other / peak).abs() <= carry.same_chip)
        });
        if near.is_empty() {
            return Err(Abstention::Architecture(precision.name()));
        }
    } else if near.is_empty() {
        (near, reach) = (measured(false), carry.far);
    }
    if near.is_empty() {
        return Err(Abstention::Nothing(precision.name()));
    }
    let least = near.iter().map(|(_, d)| *d).fold(f64::INFINITY, f64::min);
    let mut sum = 0.0;
    for (_, weight) in &mut near {
        *weight = libm::exp(-(*weight - least) / reach);
        sum += *weight;
    }
    for (_, weight) in &mut near {
        *weight /= sum;
    }
    Ok(near)
}

/// Seconds on `target` from the seconds that donors take, and the spread between what they say.
pub fn carried(
    target: &Processor,
    donors: &[(f64, f64, &Processor)],
    precision: MatmulPrecision,
    shape: MatmulShape,
) -> Option<(f64, f64)> {
    let roofline = physics::seconds(target, precision, shape)?;
    let (mut sum, mut square, mut total) = (0.0, 0.0, 0.0);
    for (weight, seconds, donor) in donors {
        let left = libm::log(seconds / physics::seconds(donor, precision, shape)?);
        sum += weight * left;
        square += weight * left * left;
        total += weight;
    }
    if total <= 0.0 {
        return None;
    }
    let middle = sum / total;
    let spread = (square / total - middle * middle).max(0.0).sqrt();
    Some((roofline * libm::exp(middle), spread))
}
