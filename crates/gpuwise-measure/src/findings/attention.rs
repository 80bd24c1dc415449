//! Attention that is not fused: a softmax between two batched products, and what a fused kernel would take.

use super::sequences::Kernel;
use crate::operators::{LAUNCH_NS, Reach};
use gpuwise_size::speed::MOST_BANDWIDTH;

/// Kernels between softmax and product on either side: scale, mask, dropout, cast.
const MOST_BETWEEN: usize = 4;
/// Rows and columns of the smallest tile that fused kernels compute. Source: Dao-AILab/flash-attention,
/// kernel traits.
const TILE: f64 = 64.0;
/// The backward pass of a fused kernel computes five products where two times two were.
const RECOMPUTED: f64 = 1.25;

/// What is computed between queries, keys and values.
pub(super) struct Attention<'a> {
    first: Kernel<'a>,
    between: Vec<Kernel<'a>>,
    second: Kernel<'a>,
    sizes: Option<Sizes>,
    backward: bool,
}

/// Batches with heads, queries, keys; sizes of a head on either side.
#[derive(Clone, Copy)]
struct Sizes {
    batch: f64,
    queries: f64,
    keys: f64,
    heads: [f64; 2],
}

impl<'a> Attention<'a> {
    /// Around a softmax, where it is one of attention.
    pub(super) fn around(kernels: &[Kernel<'a>], at: usize) -> Option<Self> {
        let softmax = kernels.get(at).filter(|kernel| is_softmax(kernel))?;
        let before = kernels.get(..at)?.iter().rev();
        let (first, mut between) = product_and_between(before)?;
        between.reverse();
        between.push(*softmax);
        let (second, after) = product_and_between(kernels.get(at + 1..)?.iter())?;
        between.extend(after);
        let mut found = Self {
            first,
            between,
            second,
            sizes: None,
            backward: softmax.name().to_ascii_lowercase().contains("backward"),
        };
        if let (Some(made), Some(read)) = (batched(&first), batched(&second)) {
            found.sizes = Some(sizes(made, read)?);
        }
        if let Some(scores) = found.sizes.map(Sizes::scores) {
            // Copies of values and the like stay.
            found
                .between
                .retain(|kernel| kernel.largest().is_none_or(|(count, _)| count >= scores));
        }
        Some(found)
    }

    pub(super) fn parts(&self) -> Vec<Kernel<'a>> {
        let products = [self.first, self.second].into_iter();
        products.chain(self.between.iter().copied()).collect()
    }

    fn between_ns(&self) -> f64 {
        self.between.iter().map(Kernel::duration).sum()
    }

    fn products_ns(&self) -> f64 {
        self.first.duration() + self.second.duration()
    }

    /// Which part of a kernel goes where `total` nanoseconds go: what lies between the products first.
    pub(super) fn share(&self, total: f64, kernel: &Kernel<'_>) -> f64 {
        let of_between = total.min(self.between_ns());
        let places = [self.first.at.place, self.second.at.place];
        if places.contains(&kernel.at.place) {
            (total - of_between) / self.products_ns().max(1.0)
        } else {
            of_between / self.between_ns().max(1.0)
        }
    }

    pub(super) fn score_bytes(&self) -> Option<f64> {
        let (_, width) = self.first.largest()?;
        Some(self.sizes?.scores() * width)
    }

    /// Nanoseconds that a fused kernel spares, at least and at most: where it reaches these shares of the
    /// dense peak. Without sizes or device nothing is certain, and at most what lies between goes.
    pub(super) fn spared(&self, reach: Option<&Reach<'_>>, (slow, fast): (f64, f64)) -> (f64, f64) {
        let all = self.between_ns() + self.products_ns();
        let fused = |share: f64, tile: f64| {
            let (reach, sizes) = (reach?, self.sizes?);
            let width = self.first.largest()?.1;
            let peak = reach.peak(self.first.precision()?)?;
            let computing = sizes.flops(tile) * self.recomputed() / (peak * share);
            Some((computing.max(moving(reach, sizes, width)) * 1e9).max(LAUNCH_NS))
        };
        match (fused(fast, 1.0), fused(slow, TILE)) {
            (Some(fast), Some(slow)) => ((all - slow).max(0.0), (all - fast).max(0.0)),
            _ => (0.0, self.between_ns()),
        }
    }

    fn recomputed(&self) -> f64 {
        if self.backward { RECOMPUTED } else { 1.0 }
    }
}

/// Seconds in which queries, keys, values and results are moved.
fn moving(reach: &Reach<'_>, sizes: Sizes, width: f64) -> f64 {
    let rows = 2.0 * (sizes.queries + sizes.keys);
    let wide = sizes.heads.into_iter().fold(0.0, f64::max);
    sizes.batch * rows * wide * width / (reach.bandwidth() * MOST_BANDWIDTH)
}

impl Sizes {
    fn scores(self) -> f64 {
        self.batch * self.queries * self.keys
    }

    /// Operations of both products, queries and keys in whole tiles.
    fn flops(self, tile: f64) -> f64 {
        let whole = |rows: f64| (rows / tile).ceil() * tile;
        let [one, other] = self.heads;
        2.0 * self.batch * whole(self.queries) * whole(self.keys) * (one + other)
    }
}

/// A softmax, but not that of a loss.
fn is_softmax(kernel: &Kernel<'_>) -> bool {
    let name = kernel.name().to_ascii_lowercase();
    let loss = |name: &str| name.contains("logsoftmax") || name.contains("log_softmax");
    name.contains("softmax")
        && !loss(&name)
        && !kernel.operator().is_some_and(loss)
        && kernel.kind() != "attention"
}

/// The next matrix product and the kernels before it, where those could work on scores.
fn product_and_between<'k, 'a: 'k>(
    kernels: impl Iterator<Item = &'k Kernel<'a>>,
) -> Option<(Kernel<'a>, Vec<Kernel<'a>>)> {
    let mut between = Vec::new();
    for kernel in kernels {
        if kernel.is_gemm() {
            let batched = kernel
                .operator()
                .is_none_or(|name| PRODUCTS.contains(&name));
            return batched.then_some((*kernel, between));
        }
        let works_on_scores = matches!(
            kernel.kind(),
            "elementwise" | "layout" | "random" | "indexing"
        );
        if !works_on_scores || between.len() == MOST_BETWEEN {
            return None;
        }
        between.push(*kernel);
    }
    None
}

/// Operators that multiply a batch of matrices.
const PRODUCTS: [&str; 4] = ["aten::bmm", "aten::baddbmm", "aten::matmul", "aten::einsum"];

/// Batch, rows and columns of both operands.
fn batched(kernel: &Kernel<'_>) -> Option<[[f64; 3]; 2]> {
    let shapes = &kernel.operands()?.shapes;
    let from = usize::from(kernel.operator() == Some("aten::baddbmm"));
    let of = |place: usize| match shapes.get(place)?.as_slice() {
        [batch, rows, columns] => Some([*batch as f64, *rows as f64, *columns as f64]),
        _ => None,
    };
    Some([of(from)?, of(from + 1)?])
}

/// Sizes of attention, where the first product makes what the second reads. Of the backward pass some
/// multiply the other way round, or transposed.
fn sizes(made: [[f64; 3]; 2], read: [[f64; 3]; 2]) -> Option<Sizes> {
    let [[batch, queries, head], [_, _, keys]] = made;
    let scores = |[of, rows, columns]: [f64; 3]| {
        same(of, batch)
            && (same(rows, queries) && same(columns, keys)
                || same(rows, keys) && same(columns, queries))
    };
    let [left, right] = read;
    let out = match (scores(left), scores(right)) {
        (true, _) => right[2],
        (false, true) => left[1],
        _ => return None,
    };
    Some(Sizes {
        batch,
        queries,
        keys,
        heads: [head, out],
    })
}

/// Counts are whole.
fn same(one: f64, other: f64) -> bool {
    (one - other).abs() < 0.5
}
