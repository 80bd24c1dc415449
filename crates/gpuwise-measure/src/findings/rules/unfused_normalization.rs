//! LayerNorm and RMSNorm by their formulas: a kernel for each operation, each over memory.

use crate::{
    findings::{
        ledger::{Cause, Ledger},
        lost::Lost,
        rule::{CERTAIN_KERNEL, Profile, Rank, Row, Rule, evidence},
        sequences::{Kernel, sequences},
        stack::Framework,
    },
    operators::LAUNCH_NS,
};
use gpuwise_domain::profile::finding::{Finding, FindingDefinition};
use gpuwise_size::speed::MOST_BANDWIDTH;
use std::ops::Range;

const CAUSE: Cause = Cause("unfused_normalization");

const SHARE: Row = Row {
    name: "normalization_share",
    value: 0.03,
    unit: "share of the span",
    meaning: "time that normalizations would not take in one kernel each, from which it is said",
    source: "-",
};

pub(super) const RULE: Rule = Rule {
    definition: FindingDefinition {
        class: "unfused_normalization",
        title: "normalization not fused",
        signal: "Kernels of a stream are, one after another, a square, a mean, a root and a product (RMSNorm, LayerNorm by their formulas, with the casts and products around them), by the operators that launched them, else by their names; in one kernel each they would spare `normalization_share` of the span or more.",
        advice: "The framework's own operator (`torch.nn.RMSNorm`, `LayerNorm`), torch.compile of the module, or a fused kernel (Transformer Engine, Apex, Liger).",
        gain: "high: their time, less one kernel that reads the input and writes the result at memory bandwidth (without shapes or GPU: less the longest kernel of each); low: `certain_kernel` of the time in which the rest of their bytes is moved at full bandwidth (0 without).",
        source: "Ba et al., Layer Normalization (2016); Zhang and Sennrich, Root Mean Square Layer Normalization (2019); NVIDIA, CUDA C++ Best Practices Guide, memory throughput",
    },
    thresholds: &[SHARE, CERTAIN_KERNEL],
    charge,
    find,
    same_kernels: true,
    ..Rule::EMPTY
};

fn find(profile: &Profile<'_>) -> Vec<Finding> {
    Lost::said(profile, CAUSE, &SHARE, |lost| {
        let certain = profile.limits.of(&CERTAIN_KERNEL);
        let sum = |figure: &str| lost.noted(figure).iter().sum::<f64>();
        let (count, kernels) = (sum("normalizations"), sum("kernels"));
        let statement = format!(
            "{count} normalizations are computed by {:.1} kernels each, every one through memory: up to {} could go",
            kernels / count.max(1.0),
            lost.of_the_time()
        );
        let more = vec![
            evidence("normalizations", count, "count", None),
            evidence("normalization_kernels", kernels, "count", None),
        ];
        lost.finding(certain, statement, &[advice(profile)], more)
    })
}

fn advice(profile: &Profile<'_>) -> &'static str {
    let stack = profile.stack;
    match stack.framework {
        Some(Framework::PyTorch) if stack.is_amd() => {
            "Write `torch.nn.RMSNorm` or `torch.nn.LayerNorm` in place of the formula, and `torch.compile` the module, which makes one Triton kernel of it on ROCm as well; models of transformers: Liger's `apply_liger_kernel_to_…`."
        }
        Some(Framework::PyTorch) => {
            "Write `torch.nn.LayerNorm` or, from PyTorch 2.8 on with a kernel of its own, `torch.nn.RMSNorm` in place of the formula; before, `torch.compile` the module, or take `transformer_engine.pytorch.RMSNorm`. Models of transformers: Liger's `apply_liger_kernel_to_…`."
        }
        Some(Framework::Xla) => {
            "Put the normalization under the `jax.jit` of its layer: XLA makes one fusion of it, unless a custom call or a transfer stands between."
        }
        None => "Compute each normalization in one kernel.",
    }
}

/// What one kernel does of a normalization.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Square,
    Mean,
    Root,
    Multiply,
    Add,
    Cast,
}

/// By the operator that launched it, without the `_` of those in place.
const OPERATORS: [(&str, Step); 12] = [
    ("aten::pow", Step::Square),
    ("aten::square", Step::Square),
    ("aten::mean", Step::Mean),
    ("aten::rsqrt", Step::Root),
    ("aten::sqrt", Step::Root),
    ("aten::mul", Step::Multiply),
    ("aten::div", Step::Multiply),
    ("aten::add", Step::Add),
    ("aten::sub", Step::Add),
    ("aten::copy", Step::Cast),
    ("aten::_to_copy", Step::Cast),
    ("aten::clone", Step::Cast),
];

/// Else by a part of the kernel's name; the first that fits. Source: aten/src/ATen/native/cuda/{PowKernel,
/// ReduceMomentKernel,UnaryOpsKernel,BinaryMulKernel,BinaryDivTrueKernel,CUDAFunctor_add,Copy}.cu.
const NAMES: [(&str, Step); 9] = [
    ("pow_tensor", Step::Square),
    ("MeanOps", Step::Mean),
    ("sqrt_kernel", Step::Root),
    ("MulFunctor", Step::Multiply),
    ("DivFunctor", Step::Multiply),
    ("CUDAFunctor_add", Step::Add),
    ("CUDAFunctorOnSelf_add", Step::Add),
    ("CUDAFunctorOnOther_add", Step::Add),
    ("copy_kernel", Step::Cast),
];

fn step(kernel: &Kernel<'_>) -> Option<Step> {
    let name = kernel.name();
    if name.starts_with("triton_") || kernel.is_gemm() {
        return None;
    }
    if let Some(operator) = kernel.operator() {
        let plain = operator.strip_suffix('_').unwrap_or(operator);
        let known = OPERATORS.iter().find(|(known, _)| *known == plain);
        if let Some((_, step)) = known {
            return Some(*step);
        }
        if operator.starts_with("aten::") {
            return None;
        }
    }
    let known = NAMES.iter().find(|(part, _)| name.contains(part));
    known.map(|(_, step)| *step)
}

/// The kernels of a normalization whose root is at a place; none where it is another root, as that of
/// an optimizer.
fn around(steps: &[Option<Step>], root: usize) -> Option<Range<usize>> {
    let at = |place: Option<usize>| place.and_then(|place| steps.get(place).copied().flatten());
    if at(Some(root)) != Some(Step::Root) {
        return None;
    }
    let back = |place: usize, by: usize| place.checked_sub(by);
    // The small number under the root.
    let mut mean = back(root, 1)?;
    if at(Some(mean)) == Some(Step::Add) {
        mean = back(mean, 1)?;
    }
    let square = back(mean, 1)?;
    if at(Some(mean)) != Some(Step::Mean) || at(Some(square)) != Some(Step::Square) {
        return None;
    }
    let mut first = square;
    // LayerNorm takes the mean away first.
    let centred = at(back(first, 1)) == Some(Step::Add) && at(back(first, 2)) == Some(Step::Mean);
    if centred {
        first -= 2;
    }
    if at(back(first, 1)) == Some(Step::Cast) {
        first -= 1;
    }
    let mut next = root + 1;
    if centred && at(Some(next)) == Some(Step::Add) {
        next += 1;
    }
    if at(Some(next)) != Some(Step::Multiply) {
        return None;
    }
    next += 1;
    // Cast, weight, cast, and a bias of LayerNorm.
    for wanted in [Step::Cast, Step::Multiply, Step::Cast] {
        if at(Some(next)) == Some(wanted) {
            next += 1;
        }
    }
    if centred && at(Some(next)) == Some(Step::Add) {
        next += 1;
    }
    Some(first..next)
}

fn charge(rank: &Rank<'_>, ledger: &mut Ledger<'_>) {
    let (mut count, mut all_kernels) = (0.0, 0.0);
    for sequence in sequences(rank) {
        let steps: Vec<Option<Step>> = sequence.iter().map(step).collect();
        let mut from = 0;
        for root in 0..steps.len() {
            let Some(range) = around(&steps, root).filter(|range| range.start >= from) else {
                continue;
            };
            let kernels = sequence.get(range.clone()).unwrap_or_default();
            if kernels
                .iter()
                .any(|kernel| ledger.is_spared(kernel.at.place))
            {
                continue;
            }
            from = range.end;
            let (low, high) = spared(rank, kernels);
            let all: f64 = kernels.iter().map(Kernel::duration).sum();
            count += 1.0;
            all_kernels += kernels.len() as f64;
            let each = kernels.iter().map(|kernel| {
                let share = kernel.duration() / all.max(1.0);
                (kernel.at.place, share * low, share * high)
            });
            ledger.charge_spared(CAUSE, rank.alone, each);
        }
    }
    ledger.note(CAUSE, "normalizations", count);
    ledger.note(CAUSE, "kernels", all_kernels);
}

/// Nanoseconds that one kernel would spare, at least and at most.
fn spared(rank: &Rank<'_>, kernels: &[Kernel<'_>]) -> (f64, f64) {
    let all: f64 = kernels.iter().map(Kernel::duration).sum();
    let longest = kernels.iter().map(Kernel::duration).fold(0.0, f64::max);
    let known = rank.reach.as_ref().and_then(|reach| {
        let bytes: f64 = kernels.iter().map(Kernel::bytes).sum::<Option<f64>>()?;
        let (count, first) = kernels.first()?.largest()?;
        let (_, last) = kernels.last()?.largest()?;
        let outside = (count * (first + last)).min(bytes);
        let fused = outside / (reach.bandwidth() * MOST_BANDWIDTH) * 1e9;
        let high = (all - fused.max(LAUNCH_NS)).max(0.0);
        let inside = bytes - outside;
        let at_rate = (inside / reach.bandwidth() * 1e9).min(all * inside / bytes.max(1.0));
        Some((at_rate.min(high), high))
    });
    known.unwrap_or((0.0, all - longest))
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{Made, check, found_on, shaped};

    const WHOLE: &[u64] = &[16384, 4096];
    const SMALL: &[u64] = &[16384, 1];

    /// A layer's RMSNorm by its formula and a product; without the mean of squares it is none.
    fn layers(made: &mut Made, whole: bool) {
        for round in 0..10 {
            let mut at = round * 854 + 10;
            let mut next = |operator: &str, shapes: &[&[u64]], kernel: &str, long| {
                shaped(made, operator, shapes, kernel, at, at + long);
                at += long;
            };
            next(
                "aten::pow",
                &[WHOLE],
                "vectorized_elementwise_kernel<pow_tensor_scalar>",
                100,
            );
            if whole {
                next("aten::mean", &[WHOLE], "reduce_kernel<MeanOps<float>>", 50);
            } else {
                next("aten::mm", &[WHOLE, &[4096, 4096]], "sm90_xmma_gemm", 50);
            }
            next(
                "aten::add",
                &[SMALL],
                "vectorized_elementwise_kernel<CUDAFunctorOnSelf_add>",
                2,
            );
            next(
                "aten::rsqrt",
                &[SMALL],
                "vectorized_elementwise_kernel<rsqrt_kernel_cuda>",
                2,
            );
            next(
                "aten::mul",
                &[WHOLE, SMALL],
                "elementwise_kernel<MulFunctor<float>>",
                100,
            );
            next(
                "aten::mul",
                &[&[4096], WHOLE],
                "elementwise_kernel<MulFunctor<float>>",
                100,
            );
            next("aten::mm", &[WHOLE, &[4096, 4096]], "sm90_xmma_gemm", 500);
        }
    }

    #[test]
    fn unfused_normalization() {
        check(
            "unfused_normalization",
            |made| layers(made, true),
            |made| layers(made, false),
        );
    }

    /// Of what is moved, 128 MiB are read and 128 written at least.
    #[test]
    fn the_gain_is_what_is_not_moved() {
        let mut made = Made::new();
        layers(&mut made, true);
        let (low, high) = found_on("H100 SXM5 80GB", made, "unfused_normalization");
        let tensor = 16384.0 * 4096.0 * 2.0;
        let fused = 2.0 * tensor / (3350e9 * 0.95) * 1e9;
        let span = 10.0 * 854e3;
        assert!(
            (high - 10.0 * (354e3 - fused) / span).abs() < 0.003,
            "{high}"
        );
        assert!(low > 0.0 && low < high, "{low}");
    }

    /// The root of an optimizer's second moment is followed by a quotient, and has no mean before it.
    #[test]
    fn an_optimizer_is_no_normalization() {
        let mut made = Made::new();
        for round in 0..10 {
            let at = round * 100 + 10;
            for (place, name) in [(0, "aten::mul"), (25, "aten::sqrt"), (50, "aten::div")] {
                shaped(
                    &mut made,
                    name,
                    &[WHOLE],
                    "multi_tensor_apply_kernel",
                    at + place,
                    at + place + 25,
                );
            }
        }
        let said = crate::findings::testing::classes(&[made]);
        assert!(
            !said.contains(&"unfused_normalization".to_owned()),
            "{said:?}"
        );
    }
}
