//! From a profile on one tier to the time on another: each part scales with what bounds it.
//!
//! Computing and memory-bound time scale as [operator functions](super::carried) say of products that are
//! so bound, or of the job's own; with peak and bandwidth where these say nothing. Both and copies scale
//! with the number of GPUs too; communication with the link between GPUs, copies with the link to the
//! host. Launches and the host's own time stay. What ran on one GPU is not spread over several.

use super::carried::{Ratios, ratios};
use gpuwise_domain::{
    profile::matmul::{MatmulPrecision, MatmulShape, Processor},
    tier::{Job, Scaling},
};
use gpuwise_operators::{Functions, Silicon};
use gpuwise_units::Bytes;

/// Something that can be rented and run on.
#[derive(Debug, Clone, PartialEq)]
pub struct Tier {
    /// Its name for people: GPU and slice.
    pub name: String,
    /// The GPU's, or the slice's, figures.
    pub processor: Processor,
    /// The same as operators look at it; nothing is asked of them without.
    pub silicon: Option<Silicon>,
    pub memory: Option<Bytes>,
    /// Whether it is a slice of a GPU.
    pub slice: bool,
    pub gpus: u32,
    /// Bandwidth of one to its peers, bytes/s.
    pub link: Option<f64>,
    /// USD an hour for all of them; unknown is not 0.
    pub hourly: Option<f64>,
    /// Who rents it out at this price.
    pub offer: String,
}

/// Where a unit of work's seconds go.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Parts {
    pub compute: f64,
    /// Bound by device memory.
    pub memory: f64,
    pub launch: f64,
    pub communication: f64,
    pub copies: f64,
    pub host: f64,
}

impl Parts {
    pub fn total(&self) -> f64 {
        self.compute + self.memory + self.launch + self.communication + self.copies + self.host
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scaled {
    /// Seconds of a unit of work.
    pub seconds: f64,
    /// The lower end of the 80 % range.
    pub low: f64,
    pub high: f64,
    pub parts: Parts,
    /// What operator functions say of its kernels; peaks and bandwidths alone where they say nothing.
    pub carried: Option<Ratios>,
}

/// Why a time cannot be scaled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unscaled {
    #[error("where its time goes is not known: state compute_s and memory_s, or flops and bytes")]
    Parts,
    /// The parts are longer than the whole.
    #[error("its parts sum to more than its time")]
    Sum,
    /// The tier lacks the precision.
    #[error("no peak in its precision is known of {0}")]
    Precision(String),
    #[error("it ran on {0}: nothing is carried over to {1}")]
    Vendor(String, String),
    #[error("it ran on one GPU: what several would say to one another is not known")]
    Alone,
    #[error("the link between GPUs is not known of {0}")]
    Link(String),
}

/// Parts that may be short of the whole by this share through rounding.
const ROUNDING: f64 = 0.01;

/// Where a job's time goes on the tier it was profiled on. What the stated parts leave is computing and
/// memory by FLOPs and bytes where these are stated, and the host's where compute and memory are.
///
/// # Errors
/// When it cannot be told.
pub fn parts(job: &Job, on: &Processor) -> Result<Parts, Unscaled> {
    let stated = |part: Option<f64>| part.unwrap_or(0.0);
    let mut parts = Parts {
        compute: stated(job.compute),
        memory: stated(job.memory),
        launch: stated(job.launch),
        communication: stated(job.communication),
        copies: stated(job.copies),
        host: stated(job.host),
    };
    let rest = job.seconds - parts.total();
    if rest < -ROUNDING * job.seconds {
        return Err(Unscaled::Sum);
    }
    let rest = rest.max(0.0);
    if job.compute.is_some() || job.memory.is_some() {
        parts.host += rest;
        return Ok(parts);
    }
    let precision = job.precision.unwrap_or(MatmulPrecision::Bf16);
    let (operations, bytes) = match (job.operations, job.bytes) {
        (None, None) if job.matmuls.is_empty() => return Err(Unscaled::Parts),
        (None, None) => products(job, precision),
        (operations, bytes) => (stated(operations), stated(bytes)),
    };
    let peak = on
        .peak(precision)
        .ok_or_else(|| Unscaled::Precision(job.gpu.clone()))?;
    let (compute, memory) = (operations / peak, bytes / on.bandwidth);
    // The longer of the two rules: cubes share out the time as the smooth roofline does.
    let (c, m) = (compute * compute * compute, memory * memory * memory);
    if c + m > 0.0 {
        parts.compute = rest * c / (c + m);
        parts.memory = rest * m / (c + m);
    } else {
        parts.host += rest;
    }
    Ok(parts)
}

/// Operations and bytes of a job's products.
fn products(job: &Job, precision: MatmulPrecision) -> (f64, f64) {
    let sum = |of: &dyn Fn(MatmulShape) -> f64| {
        let products = job.matmuls.iter();
        products.map(|(shape, count)| count * of(*shape)).sum()
    };
    (
        sum(&MatmulShape::operations),
        sum(&|shape| shape.bytes(precision)),
    )
}

/// A job's time on another tier.
///
/// # Errors
/// When it cannot be told, and why.
pub fn scale(
    job: &Job,
    from: &Tier,
    to: &Tier,
    scaling: &Scaling,
    functions: &Functions,
) -> Result<Scaled, Unscaled> {
    let old = parts(job, &from.processor)?;
    if from.processor.vendor != to.processor.vendor {
        return Err(Unscaled::Vendor(
            from.processor.vendor.clone(),
            to.processor.vendor.clone(),
        ));
    }
    if from.gpus == 1 && to.gpus > 1 {
        return Err(Unscaled::Alone);
    }
    let spread_out = f64::from(from.gpus) / f64::from(to.gpus.max(1));
    let precision = job.precision.unwrap_or(MatmulPrecision::Bf16);
    let peak = |tier: &Tier| {
        tier.processor
            .peak(precision)
            .ok_or_else(|| Unscaled::Precision(tier.name.clone()))
    };
    // What it cannot compute in at all it cannot run, however little of the time that takes.
    let peaks = peak(from)? / peak(to)?;
    let communication = if to.gpus <= 1 {
        0.0
    } else if old.communication > 0.0 {
        let link = |tier: &Tier| tier.link.ok_or_else(|| Unscaled::Link(tier.name.clone()));
        let (of, n) = (f64::from(from.gpus.max(2)), f64::from(to.gpus));
        // A ring moves 2(n − 1)/n of the data through each link.
        old.communication * link(from)? / link(to)? * ((n - 1.0) / n) / ((of - 1.0) / of)
    } else {
        0.0
    };
    let host_link = match (from.processor.host_link, to.processor.host_link) {
        (Some(from), Some(to)) => from / to,
        _ => 1.0,
    };
    let carried = ratios(job, from, to, functions);
    let bandwidths = from.processor.bandwidth / to.processor.bandwidth;
    let (compute, memory) = carried.map_or((peaks, bandwidths), |ratios| {
        (ratios.compute.value, ratios.memory.value)
    });
    let new = Parts {
        compute: old.compute * spread_out * compute,
        memory: old.memory * spread_out * memory,
        launch: old.launch,
        communication,
        copies: old.copies * spread_out * host_link,
        host: old.host,
    };
    let (low, high) = ends(&new, carried.as_ref(), range(from, to, scaling));
    Ok(Scaled {
        seconds: new.total(),
        low,
        high,
        parts: new,
        carried,
    })
}

/// The ends of a time's range. What operators say of the job's own products is known as well as they
/// know it; of kernels that are only bound alike, no better than scaled times are.
fn ends(new: &Parts, carried: Option<&Ratios>, scaled: (f64, f64)) -> (f64, f64) {
    let moved = new.communication + new.copies;
    let still = new.launch + new.host;
    let kernels = |of: fn(&Ratios) -> (f64, f64)| match carried {
        None => scaled,
        Some(ratios) if ratios.own => of(ratios),
        Some(ratios) => {
            let (low, high) = of(ratios);
            (low.min(scaled.0), high.max(scaled.1))
        }
    };
    let compute = kernels(|r| {
        (
            r.compute.low / r.compute.value,
            r.compute.high / r.compute.value,
        )
    });
    let memory = kernels(|r| {
        (
            r.memory.low / r.memory.value,
            r.memory.high / r.memory.value,
        )
    });
    let end = |compute: f64, memory: f64, others: f64| {
        new.compute * compute + new.memory * memory + moved * others + still
    };
    (
        end(compute.0, memory.0, scaled.0),
        end(compute.1, memory.1, scaled.1),
    )
}

/// Between what bounds actual over scaled times lie.
fn range(from: &Tier, to: &Tier, scaling: &Scaling) -> (f64, f64) {
    let same = from.processor == to.processor;
    if same && from.gpus == to.gpus {
        (1.0, 1.0)
    } else if from.processor.generation == to.processor.generation {
        scaling.kin
    } else {
        scaling.generations
    }
}
