//! Matrix products of a rank by their sizes, and what its device reaches for them.

use super::{
    ledger::{Cause, Ledger},
    rule::Rank,
    sequences::{Kernel, sequences},
};
use crate::operators::{self, LAUNCH_NS, Reach, product};
use gpuwise_size::speed::{MOST_BANDWIDTH, MOST_COMPUTE};

/// A product of matrices, or a batch of them, and the kernel that takes most of it.
pub(super) struct Product<'a> {
    pub(super) kernel: Kernel<'a>,
    /// Nanoseconds of all kernels of the operator.
    pub(super) ns: f64,
    pub(super) sizes: Option<Sizes>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sizes {
    pub(super) batch: f64,
    pub(super) m: f64,
    pub(super) n: f64,
    pub(super) k: f64,
    /// Bytes of an element.
    pub(super) width: f64,
    pub(super) precision: &'static str,
}

/// The least time of a product on a device.
#[derive(Debug, Clone, Copy)]
pub(super) struct Least {
    pub(super) ns: f64,
    /// By measured times of its generation; otherwise by peak and bandwidth, which no kernel may reach.
    pub(super) measured: bool,
}

/// Products in order of time, stream by stream, that no other fix shortens.
pub(super) fn products<'a>(rank: &Rank<'a>, ledger: &Ledger<'_>) -> Vec<Product<'a>> {
    let mut found: Vec<Product<'a>> = Vec::new();
    for sequence in sequences(rank) {
        let mut before: Option<Kernel<'a>> = None;
        for kernel in sequence {
            let ns = kernel.duration();
            let continues = before.is_some_and(|before| before.same_operator(&kernel));
            before = Some(kernel);
            match found.last_mut().filter(|_| continues) {
                Some(last) if last.kernel.same_operator(&kernel) => {
                    last.ns += ns;
                    if kernel.is_gemm() && ns > last.kernel.duration() {
                        last.kernel = kernel;
                    }
                }
                _ if kernel.is_gemm() && !ledger.is_spared(kernel.at.place) => {
                    found.push(Product {
                        kernel,
                        ns,
                        sizes: sizes(&kernel),
                    });
                }
                _ => {}
            }
        }
    }
    found
}

fn sizes(kernel: &Kernel<'_>) -> Option<Sizes> {
    let (name, operands) = (kernel.operator()?, kernel.operands()?);
    let precision = kernel.precision()?;
    let (_, width) = kernel.largest()?;
    let [batch, m, n, k] = match product(name, operands) {
        Some([m, n, k]) => [1.0, m, n, k],
        None => batched(name, operands)?,
    };
    Some(Sizes {
        batch,
        m,
        n,
        k,
        width,
        precision,
    })
}

fn batched(name: &str, operands: &gpuwise_domain::profile::timeline::Operands) -> Option<[f64; 4]> {
    let from = match name {
        "aten::bmm" => 0,
        "aten::baddbmm" => 1,
        _ => return None,
    };
    match (
        operands.shapes.get(from)?.as_slice(),
        operands.shapes.get(from + 1)?.as_slice(),
    ) {
        ([batch, m, k], [_, rows, n]) if k == rows => {
            Some([*batch as f64, *m as f64, *n as f64, *k as f64])
        }
        _ => None,
    }
}

impl Sizes {
    pub(super) fn flops(&self) -> f64 {
        2.0 * self.batch * self.m * self.n * self.k
    }

    pub(super) fn bytes(&self) -> f64 {
        let elements = self.m * self.k + self.k * self.n + self.m * self.n;
        self.batch * elements * self.width
    }

    /// The least time on a device.
    pub(super) fn least(&self, reach: &Reach<'_>) -> Option<Least> {
        let peak = reach.peak(self.precision)?;
        let computing = self.flops() / (peak * MOST_COMPUTE);
        let moving = self.bytes() / (reach.bandwidth() * MOST_BANDWIDTH);
        let roofline = (computing.max(moving) * 1e9).max(LAUNCH_NS);
        let (m, n, k) = (self.m, self.n, self.k);
        let precision = self.precision;
        let one = (self.batch < 1.5).then_some(operators::Product { m, n, k, precision });
        let measured = one.and_then(|product| reach.measured(product));
        Some(match measured {
            Some(seconds) => Least {
                ns: roofline.max(seconds * 1e9),
                measured: true,
            },
            None => Least {
                ns: roofline,
                measured: false,
            },
        })
    }
}

impl Product<'_> {
    /// Charges what is over `least`, of its longest kernel; where that was not measured nothing of it is
    /// certain. Whether there was anything.
    pub(super) fn charge_over(
        &self,
        least: Least,
        cause: Cause,
        rank: &Rank<'_>,
        ledger: &mut Ledger<'_>,
    ) -> bool {
        let high = (self.ns - least.ns).clamp(0.0, self.kernel.duration());
        if high > 0.0 {
            let low = if least.measured { high } else { 0.0 };
            let one = [(self.kernel.at.place, low, high)];
            ledger.charge_spared(cause, rank.alone, one.into_iter());
        }
        high > 0.0
    }
}
