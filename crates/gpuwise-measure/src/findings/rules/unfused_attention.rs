//! Attention by a softmax between two batched matrix products: scores go through memory.

use crate::{
    findings::{
        ledger::{Cause, Ledger},
        lost::Lost,
        rule::{Profile, Rank, Row, Rule, evidence},
        sequences::{Kernel, sequences},
        stack::Framework,
    },
    operators::{LAUNCH_NS, Reach},
};
use gpuwise_domain::profile::finding::{Finding, FindingDefinition};
use gpuwise_size::speed::MOST_BANDWIDTH;

const CAUSE: Cause = Cause("unfused_attention");

const SHARE: Row = Row {
    name: "attention_share",
    value: 0.05,
    unit: "share of the span",
    meaning: "time that attention would not take in one kernel, from which unfused attention is said",
    source: "-",
};

const FAST: Row = Row {
    name: "fused_attention_fast",
    value: 0.75,
    unit: "share of the dense peak",
    meaning: "what a fused attention kernel reaches at best",
    source: "Shah et al., FlashAttention-3 (2024): 75 % of H100's peak; Dao, FlashAttention-2 (2023): 73 % of A100's",
};

const SLOW: Row = Row {
    name: "fused_attention_slow",
    value: 0.35,
    unit: "share of the dense peak",
    meaning: "what a fused attention kernel reaches where it is not made for the GPU, tiles filled up",
    source: "Shah et al., FlashAttention-3 (2024): FlashAttention-2 reaches 35 % of H100's peak",
};

/// Kernels between softmax and product on either side: scale, mask, dropout, cast.
const MOST_BETWEEN: usize = 4;
/// Rows and columns of the smallest tile that fused kernels compute. Source: Dao-AILab/flash-attention,
/// kernel traits.
const TILE: f64 = 64.0;
/// The backward pass of a fused kernel computes five products where two times two were.
const RECOMPUTED: f64 = 1.25;

pub(super) const RULE: Rule = Rule {
    definition: FindingDefinition {
        class: "unfused_attention",
        title: "attention not fused",
        signal: "A softmax between two batched matrix products on one stream (scale, mask, dropout and casts between them), for `attention_share` of the span or more. Where shapes of operators are recorded (`record_shapes=True`), the first product makes the scores that the second reads; without them nothing is certain.",
        advice: "FlashAttention: scaled_dot_product_attention, attn_implementation=\"sdpa\", jax.nn.dot_product_attention(implementation=\"cudnn\").",
        gain: "products and what lies between them, less a fused kernel for the same shapes: at `fused_attention_fast` of the dense peak and queries, keys, values and results at memory bandwidth (high), at `fused_attention_slow` with whole tiles (low). Without shapes or GPU: what lies between the products (high), 0 (low).",
        source: "Dao et al., FlashAttention (2022); Dao, FlashAttention-2 (2023); Shah et al., FlashAttention-3 (2024)",
    },
    thresholds: &[SHARE, FAST, SLOW],
    charge,
    find,
    same_kernels: true,
    ..Rule::EMPTY
};

fn find(profile: &Profile<'_>) -> Vec<Finding> {
    Lost::said(profile, CAUSE, &SHARE, |lost| {
        let sum = |figure: &str| lost.noted(figure).iter().sum::<f64>();
        let (calls, bytes) = (sum("softmax_calls"), sum("score_bytes"));
        let statement = format!(
            "{calls} softmax calls lie between two batched matrix products each, attention that is not fused: up to {} could go, most of it {}",
            lost.of_the_time(),
            lost.first()
        );
        let mut more = vec![evidence("softmax_calls", calls, "count", None)];
        if bytes > 0.0 {
            more.push(evidence("score_bytes", bytes, "bytes", None));
        }
        lost.finding(1.0, statement, &[advice(profile)], more)
    })
}

fn advice(profile: &Profile<'_>) -> &'static str {
    match profile.stack.framework {
        Some(Framework::PyTorch) => {
            "Replace `softmax(q @ k.transpose(-2, -1) * scale + mask) @ v` by `torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)`, in FP16 or BF16; a model of transformers by `from_pretrained(…, attn_implementation=\"sdpa\")`, and one whose scores are biased by `torch.nn.attention.flex_attention`."
        }
        Some(Framework::Xla) => {
            "Call `jax.nn.dot_product_attention(q, k, v, implementation=\"cudnn\")` in place of the products and the softmax."
        }
        None => "Compute attention in one kernel (FlashAttention), which keeps the scores on the chip.",
    }
}

/// What is computed between queries, keys and values.
struct Attention<'a> {
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

fn charge(rank: &Rank<'_>, ledger: &mut Ledger<'_>) {
    let (mut calls, mut bytes) = (0.0, 0.0);
    for kernels in sequences(rank) {
        for at in 0..kernels.len() {
            let Some(attention) = Attention::around(&kernels, at) else {
                continue;
            };
            let parts = attention.parts();
            if parts.iter().any(|kernel| ledger.is_spared(kernel.at.place)) {
                continue;
            }
            calls += 1.0;
            bytes += attention.score_bytes().unwrap_or(0.0);
            let (low, high) = attention.spared(rank);
            let spared = parts.into_iter().map(|kernel| {
                let of = |total| attention.share(total, &kernel) * kernel.duration();
                (kernel.at.place, of(low), of(high))
            });
            ledger.charge_spared(CAUSE, rank.alone, spared.collect::<Vec<_>>().into_iter());
        }
    }
    ledger.note(CAUSE, "softmax_calls", calls);
    ledger.note(CAUSE, "score_bytes", bytes);
}

impl<'a> Attention<'a> {
    /// Around a softmax, where it is one of attention.
    fn around(kernels: &[Kernel<'a>], at: usize) -> Option<Self> {
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
            backward: softmax.name.to_ascii_lowercase().contains("backward"),
        };
        if let (Some(made), Some(read)) = (batched(&first), batched(&second)) {
            found.sizes = Some(sizes(made, read)?);
        }
        if let Some(scores) = found.sizes.map(|sizes| sizes.scores()) {
            // Copies of values and the like stay.
            found.between.retain(|kernel| kernel.largest().is_none_or(|(count, _)| count >= scores));
        }
        Some(found)
    }

    fn parts(&self) -> Vec<Kernel<'a>> {
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
    fn share(&self, total: f64, kernel: &Kernel<'_>) -> f64 {
        let of_between = total.min(self.between_ns());
        let places = [self.first.at.place, self.second.at.place];
        if places.contains(&kernel.at.place) {
            (total - of_between) / self.products_ns().max(1.0)
        } else {
            of_between / self.between_ns().max(1.0)
        }
    }

    fn score_bytes(&self) -> Option<f64> {
        let (_, width) = self.first.largest()?;
        Some(self.sizes?.scores() * width)
    }

    /// Nanoseconds that a fused kernel spares, at least and at most.
    fn spared(&self, rank: &Rank<'_>) -> (f64, f64) {
        let all = self.between_ns() + self.products_ns();
        let fused = |share: f64, tile: f64| {
            let (reach, sizes) = (rank.reach.as_ref()?, self.sizes?);
            let width = self.first.largest()?.1;
            let peak = reach.peak(self.first.precision()?)?;
            let computing = sizes.flops(tile) * self.recomputed() / (peak * share);
            Some((computing.max(moving(reach, sizes, width)) * 1e9).max(LAUNCH_NS))
        };
        let fast = fused(rank.limits.of(&FAST), 1.0);
        let slow = fused(rank.limits.of(&SLOW), TILE);
        match (fast, slow) {
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
    let name = kernel.name.to_ascii_lowercase();
    let loss = |name: &str| name.contains("logsoftmax") || name.contains("log_softmax");
    name.contains("softmax")
        && !loss(&name)
        && !kernel.operator.is_some_and(loss)
        && kernel.kind != "attention"
}

/// The next matrix product and the kernels before it, where those could work on scores.
fn product_and_between<'k, 'a: 'k>(
    kernels: impl Iterator<Item = &'k Kernel<'a>>,
) -> Option<(Kernel<'a>, Vec<Kernel<'a>>)> {
    let mut between = Vec::new();
    for kernel in kernels {
        if kernel.is_gemm() {
            let batched = kernel.operator.is_none_or(|name| PRODUCTS.contains(&name));
            return batched.then_some((*kernel, between));
        }
        let works_on_scores = matches!(kernel.kind, "elementwise" | "layout" | "random" | "indexing");
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
    let shapes = &kernel.operands?.shapes;
    let from = usize::from(kernel.operator == Some("aten::baddbmm"));
    let of = |place: usize| match shapes.get(place)?.as_slice() {
        [batch, rows, columns] => Some([*batch as f64, *rows as f64, *columns as f64]),
        _ => None,
    };
    Some([of(from)?, of(from + 1)?])
}

/// Sizes of attention, where the first product makes what the second reads.
fn sizes(made: [[f64; 3]; 2], read: [[f64; 3]; 2]) -> Option<Sizes> {
    let [[batch, queries, head], [_, _, keys]] = made;
    let [[_, rows, columns], [_, _, out]] = read;
    let scores = queries * keys;
    if rows * columns == scores && read[0][0] == batch {
        return Some(Sizes { batch, queries, keys, heads: [head, out] });
    }
    // Of the backward pass some multiply the other way round.
    let [_, [of_batch, rows, columns]] = read;
    (rows * columns == scores && of_batch == batch).then_some(Sizes {
        batch,
        queries,
        keys,
        heads: [head, read[0][1]],
    })
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{Made, check, found_on, shaped};

    const SCORES: [&[u64]; 2] = [&[16, 4096, 64], &[16, 64, 4096]];
    const VALUES: [&[u64]; 2] = [&[16, 4096, 4096], &[16, 4096, 64]];

    /// Ten layers of attention, whose softmax takes half of the time.
    fn layers(made: &mut Made, softmax: &str, second: &str) {
        for round in 0..10 {
            let at = round * 2000 + 10;
            let product = "cutlass_80_tensorop_bf16_s16816gemm";
            shaped(made, "aten::bmm", &SCORES, product, at, at + 490);
            shaped(made, "aten::_softmax", &[VALUES[0]], softmax, at + 490, at + 1490);
            shaped(made, second, &VALUES, product, at + 1490, at + 1990);
        }
    }

    #[test]
    fn unfused_attention() {
        check(
            "unfused_attention",
            |made| layers(made, "cunn_SoftMaxForward<8, c10::BFloat16>", "aten::bmm"),
            // The softmax of a router of experts is followed by a product of its own.
            |made| layers(made, "cunn_SoftMaxForward<8, c10::BFloat16>", "aten::mm"),
        );
        check(
            "unfused_attention",
            |made| layers(made, "softmax_warp_forward", "aten::bmm"),
            |made| layers(made, "cunn_SoftMaxForward<LogSoftMaxForwardEpilogue>", "aten::bmm"),
        );
    }

    /// 2 × 16 × 4096² × 128 operations take 92 µs at 75 % of 989 TFLOPS and 198 µs at 35 %; of ten times
    /// 1990 µs in a span of 19,990 the rest goes.
    #[test]
    fn the_gain_is_what_a_fused_kernel_does_not_take() {
        let mut made = Made::new();
        layers(&mut made, "cunn_SoftMaxForward<8, c10::BFloat16>", "aten::bmm");
        let (low, high) = found_on("H100 SXM5 80GB", made, "unfused_attention");
        assert!((high - 10.0 * (1990.0 - 92.6) / 19_990.0).abs() < 0.01, "{high}");
        assert!((low - 10.0 * (1990.0 - 198.5) / 19_990.0).abs() < 0.01, "{low}");
    }
}
