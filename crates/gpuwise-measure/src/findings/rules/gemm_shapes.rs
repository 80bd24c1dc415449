//! Matrix products whose rows do not begin where tensor cores load from.

use crate::{
    findings::{
        ledger::{Cause, Ledger},
        lost::Lost,
        products::{Product, Sizes, products},
        rule::{CERTAIN_KERNEL, Profile, Rank, Row, Rule, evidence},
        stack::Framework,
    },
    operators::multiple,
};
use gpuwise_domain::profile::finding::{Finding, FindingDefinition};

const CAUSE: Cause = Cause("gemm_shapes");

const SHARE: Row = Row {
    name: "gemm_shapes_share",
    value: 0.03,
    unit: "share of the span",
    meaning: "time that matrix products would not take with padded dimensions, from which it is said",
    source: "-",
};

pub(super) const RULE: Rule = Rule {
    definition: FindingDefinition {
        class: "gemm_shapes",
        title: "shapes of matrix products",
        signal: "Matrix products in 16 bits, TF32 or 8 bits ran a kernel for operands that are not aligned (`align1`, `align2`, `align4` in its name), or have a result whose rows are no multiple of 16 bytes, and what they would not take with that dimension padded is `gemm_shapes_share` of the span or more. Needs shapes of operators (`record_shapes=True`) and a GPU of the catalogue.",
        advice: "Pad the dimension: vocabulary to a multiple of 64, hidden sizes and sequence lengths to 8 (16-bit types) or 16 (8-bit).",
        gain: "high: their time, less the time for the padded shape by measured operator functions, else by peak and bandwidth; low: `certain_kernel` of it where it is by measured functions, else 0.",
        source: "NVIDIA, Matrix Multiplication Background User's Guide, tensor core requirements; NVIDIA/cutlass, operand alignment",
    },
    thresholds: &[SHARE, CERTAIN_KERNEL],
    charge,
    find,
    same_kernels: true,
    ..Rule::EMPTY
};

/// Dimensions of this size and more are vocabularies, which have a way of their own to be padded.
const VOCABULARY: f64 = 20_000.0;

fn find(profile: &Profile<'_>) -> Vec<Finding> {
    Lost::said(profile, CAUSE, &SHARE, |lost| {
        let certain = profile.limits.of(&CERTAIN_KERNEL);
        let sum = |figure: &str| lost.noted(figure).iter().copied().fold(0.0, f64::max);
        let (dimension, multiple) = (sum("dimension"), sum("multiple"));
        let padded = (dimension / multiple.max(1.0)).ceil() * multiple;
        let statement = format!(
            "{} matrix products have a dimension that is no multiple of {multiple:.0}, {dimension:.0} first: up to {} could go, most of it {}",
            lost.count,
            lost.of_the_time(),
            lost.first()
        );
        let advice = match profile.stack.framework {
            Some(Framework::PyTorch) if dimension >= VOCABULARY => format!(
                "Pad the vocabulary of {dimension:.0} to a multiple of 64: `model.resize_token_embeddings(pad_to_multiple_of=64)` in transformers, or `vocab_size = {:.0}`; targets never name the added rows.",
                (dimension / 64.0).ceil() * 64.0
            ),
            Some(Framework::PyTorch) => format!(
                "Pad {dimension:.0} to {padded:.0}: `torch.nn.functional.pad(x, (0, {:.0}))` before the product, a layer of that width, or sequences by `pad_to_multiple_of={multiple:.0}` of the tokenizer's collator.",
                padded - dimension
            ),
            _ => format!("Pad {dimension:.0} to {padded:.0}, a multiple of {multiple:.0}."),
        };
        let more = vec![evidence("dimension", dimension, "elements", None)];
        lost.finding(certain, statement, &[&advice], more)
    })
}

fn charge(rank: &Rank<'_>, ledger: &mut Ledger<'_>) {
    let Some(reach) = &rank.reach else { return };
    let mut most = (0.0, 0.0, 0.0);
    for product in products(rank, ledger) {
        let Some((dimension, multiple, padded)) = padded(&product) else {
            continue;
        };
        let Some(least) = padded.least(reach) else {
            continue;
        };
        if product.charge_over(least, CAUSE, rank, ledger) && product.ns - least.ns > most.0 {
            most = (product.ns - least.ns, dimension, multiple);
        }
    }
    ledger.note(CAUSE, "dimension", most.1);
    ledger.note(CAUSE, "multiple", most.2);
}

/// The dimension that is not aligned, the multiple that it should be of, and the padded product.
fn padded(product: &Product<'_>) -> Option<(f64, f64, Sizes)> {
    let sizes = product.sizes?;
    let multiple = multiple(sizes.precision)? as f64;
    let odd = |size: f64| size % multiple != 0.0;
    let loads = alignment(product.kernel.name());
    let aligned = loads.is_some_and(|loads| loads >= multiple);
    if aligned || (loads.is_none() && !odd(sizes.n)) {
        return None;
    }
    let dimension = [sizes.n, sizes.k, sizes.m]
        .into_iter()
        .find(|size| odd(*size))?;
    let whole = |size: f64| (size / multiple).ceil() * multiple;
    let padded = Sizes {
        m: whole(sizes.m),
        n: whole(sizes.n),
        k: whole(sizes.k),
        ..sizes
    };
    Some((dimension, multiple, padded))
}

/// Elements that a kernel of CUTLASS loads at once, by its name.
fn alignment(name: &str) -> Option<f64> {
    let (_, after) = name.split_once("align")?;
    let digits = after
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(after.len());
    after.get(..digits)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{EARLY, Made, classes_on, found_on, shaped};

    /// The last layer of a language model of 50,257 words, or of 50,304.
    fn head(words: u64, kernel: &str) -> Made {
        let mut made = Made::new();
        for round in 0..10 {
            let at = round * 10_000 + 10;
            let shapes: [&[u64]; 2] = [&[8192, 768], &[768, words]];
            shaped(&mut made, "aten::mm", &shapes, kernel, at, at + 4000);
            made.kernel("some_kernel", at + 4000, at + 10_000, EARLY);
        }
        made
    }

    const ONE: &str = "cutlass_80_tensorop_bf16_s16816gemm_bf16_128x128_nn_align1";

    #[test]
    fn gemm_shapes() {
        let said = |made| classes_on("H100 SXM5 80GB", made).contains(&"gemm_shapes".to_owned());
        assert!(said(head(50_257, ONE)));
        assert!(!said(head(50_304, "nvjet_tst_128x256")));
    }

    /// 2 × 8192 × 768 × 50264 operations take 719 µs at 89 % of 989 TFLOPS, and its bytes 290: of 4000 µs
    /// of every 10,000 the rest may go.
    #[test]
    fn the_gain_is_what_the_padded_shape_does_not_take() {
        let (low, high) = found_on("H100 SXM5 80GB", head(50_257, ONE), "gemm_shapes");
        assert!((high - 0.3281).abs() < 0.002 && low == 0.0, "{low} {high}");
    }
}
