//! What operator functions say of a job's products on two tiers: how many times as long they take
//! there. The functions are those by which plans are priced, and those that `--evaluate` judges.

use super::{
    scaling::Tier,
    timings::{ENGINE, format},
};
use gpuwise_domain::{
    profile::matmul::{MatmulPrecision, MatmulShape},
    tier::Job,
};
use gpuwise_operators::{Basis, Functions, Prediction, Silicon};

/// Seconds there over seconds here.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    pub value: f64,
    /// The lower end of the 80 % range.
    pub low: f64,
    pub high: f64,
    /// What the time rests on that is known less well.
    pub basis: Basis,
}

/// Times of a job's kernels there over those here, by what bounds them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratios {
    pub compute: Ratio,
    pub memory: Ratio,
    /// Whether they are of the job's own products; else of ones that are bound as its kernels are.
    pub own: bool,
}

/// Beyond this, as the high end of a range over the low one, a time is as good as unknown.
pub const WIDEST: f64 = 3.0;

/// Whether what a time rests on tells enough for a ranking: the GPU, its generation or its family was
/// timed. Where it was another family alone, predictions of what is left out are off by up to 27 % in the
/// median, in directions that nothing tells (docs/reference/tier-accuracy.md).
pub fn trusted(basis: Basis) -> bool {
    basis <= Basis::Family
}

/// A large product, which the peak bounds, and one of a few tokens, which the memory bounds.
const COMPUTE: [f64; 3] = [8192.0, 8192.0, 8192.0];
const MEMORY: [f64; 3] = [16.0, 8192.0, 8192.0];

/// Products with how often each is computed.
type Products = Vec<([f64; 3], f64)>;

/// What functions say of the job's kernels on both tiers; `None` where one of them is like nothing that
/// was timed.
pub fn ratios(job: &Job, from: &Tier, to: &Tier, functions: &Functions) -> Option<Ratios> {
    let precision = job.precision.unwrap_or(MatmulPrecision::Bf16);
    let (from, to) = (from.silicon.as_ref()?, to.silicon.as_ref()?);
    let of = |products: &Products| ratio(products, precision, from, to, functions);
    if let Some(own) = own(job, precision) {
        let ratio = of(&own)?;
        return Some(Ratios {
            compute: ratio,
            memory: ratio,
            own: !job.matmuls.is_empty(),
        });
    }
    Some(Ratios {
        compute: of(&vec![(COMPUTE, 1.0)])?,
        memory: of(&vec![(MEMORY, 1.0)])?,
        own: false,
    })
}

/// The job's products where they are stated, or one like its mean kernel where FLOPs, bytes and kernels
/// are.
fn own(job: &Job, precision: MatmulPrecision) -> Option<Products> {
    if !job.matmuls.is_empty() {
        let sizes = |shape: MatmulShape| [shape.m, shape.n, shape.k].map(f64::from);
        let products = job.matmuls.iter();
        return Some(
            products
                .map(|(shape, count)| (sizes(*shape), *count))
                .collect(),
        );
    }
    let kernels = job.kernels.filter(|kernels| *kernels >= 1.0)?;
    let (operations, bytes) = (job.operations? / kernels, job.bytes? / kernels);
    if operations <= 0.0 || bytes <= 0.0 {
        return None;
    }
    // Of n × n weights and m tokens: 2·m·n² FLOP, and n² operands where m is less than n.
    let operands = bytes / precision.operand_bytes();
    let tokens = operations / (2.0 * operands);
    let width = libm::sqrt(operands);
    let sizes = if tokens < width {
        [tokens.max(1.0), width, width]
    } else {
        [libm::cbrt(operations / 2.0); 3]
    };
    Some(vec![(
        sizes.map(libm::round).map(|size| size.max(1.0)),
        kernels,
    )])
}

fn ratio(
    products: &Products,
    precision: MatmulPrecision,
    from: &Silicon,
    to: &Silicon,
    functions: &Functions,
) -> Option<Ratio> {
    let on = |silicon: &Silicon| -> Option<Prediction> {
        let mut sum: Option<Prediction> = None;
        for (sizes, count) in products {
            let one = functions
                .product(silicon, ENGINE, format(precision), *sizes)
                .ok()?;
            // They are off together.
            let add = |sum: f64, one: f64| sum + count * one;
            let before = sum.unwrap_or(Prediction {
                seconds: 0.0,
                low: 0.0,
                high: 0.0,
                basis: one.basis,
            });
            sum = Some(Prediction {
                seconds: add(before.seconds, one.seconds),
                low: add(before.low, one.low),
                high: add(before.high, one.high),
                basis: before.basis.max(one.basis),
            });
        }
        sum.filter(|sum| sum.seconds > 0.0)
    };
    let (here, there) = (on(from)?, on(to)?);
    let value = there.seconds / here.seconds;
    let basis = here.basis.max(there.basis);
    if from == to {
        return Some(Ratio {
            value: 1.0,
            low: 1.0,
            high: 1.0,
            basis,
        });
    }
    // Both are off on their own.
    let log = |a: f64, b: f64| libm::log(a / b);
    let down = libm::hypot(log(there.seconds, there.low), log(here.high, here.seconds));
    let up = libm::hypot(log(there.high, there.seconds), log(here.seconds, here.low));
    (libm::exp(up + down) <= WIDEST).then(|| Ratio {
        value,
        low: value * libm::exp(-down),
        high: value * libm::exp(up),
        basis,
    })
}
