//! Attention by a softmax between two batched matrix products: scores go through memory.

use crate::findings::{
    attention::Attention,
    ledger::{Cause, Ledger},
    lost::Lost,
    rule::{Profile, Rank, Row, Rule, evidence},
    sequences::sequences,
    stack::Framework,
};
use gpuwise_domain::profile::finding::{Finding, FindingDefinition};

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
        None => {
            "Compute attention in one kernel (FlashAttention), which keeps the scores on the chip."
        }
    }
}

fn charge(rank: &Rank<'_>, ledger: &mut Ledger<'_>) {
    let reached = (rank.limits.of(&SLOW), rank.limits.of(&FAST));
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
            let (low, high) = attention.spared(rank.reach.as_ref(), reached);
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
            shaped(
                made,
                "aten::_softmax",
                &[VALUES[0]],
                softmax,
                at + 490,
                at + 1490,
            );
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
            |made| {
                layers(
                    made,
                    "cunn_SoftMaxForward<LogSoftMaxForwardEpilogue>",
                    "aten::bmm",
                );
            },
        );
    }

    /// 2 × 16 × 4096² × 128 operations take 92 µs at 75 % of 989 TFLOPS and 198 µs at 35 %; of ten times
    /// 1990 µs in a span of 19,990 the rest goes.
    #[test]
    fn the_gain_is_what_a_fused_kernel_does_not_take() {
        let mut made = Made::new();
        layers(
            &mut made,
            "cunn_SoftMaxForward<8, c10::BFloat16>",
            "aten::bmm",
        );
        let (low, high) = found_on("H100 SXM5 80GB", made, "unfused_attention");
        assert!(
            (high - 10.0 * (1990.0 - 92.6) / 19_990.0).abs() < 0.01,
            "{high}"
        );
        assert!(
            (low - 10.0 * (1990.0 - 198.5) / 19_990.0).abs() < 0.01,
            "{low}"
        );
    }
}
