//! An optimizer that passes over its parameters once for each operation.

use crate::findings::{
    ledger::{Cause, Ledger},
    lost::Lost,
    rule::{Profile, Rank, Row, Rule, evidence},
    sequences::{Kernel, sequences},
};
use gpuwise_domain::profile::finding::{Finding, FindingDefinition};
use std::collections::BTreeMap;

const CAUSE: Cause = Cause("unfused_optimizer");

const SHARE: Row = Row {
    name: "optimizer_share",
    value: 0.02,
    unit: "share of the span",
    meaning: "time that an optimizer would not take in one pass, from which it is said",
    source: "-",
};

pub(super) const RULE: Rule = Rule {
    definition: FindingDefinition {
        class: "unfused_optimizer",
        title: "optimizer not fused",
        signal: "Within `Optimizer.step#…` of Adam, AdamW, SGD, RMSprop or Adagrad (traces of the PyTorch profiler alone have that range) element-wise or foreach kernels pass over parameters and states one operation at a time, and what one pass would not take is `optimizer_share` of the span or more.",
        advice: "`fused=True` (Adam, AdamW, SGD), `torch.compile(optimizer.step)` for others.",
        gain: "their time, less one pass that reads parameter, gradient and states and writes parameter and states (7 tensors for Adam, 5 for SGD with momentum, RMSprop, Adagrad), at the rate that these kernels reach: that of the fastest operation (high), of the slowest (low).",
        source: "PyTorch documentation, torch.optim, foreach and fused implementations",
    },
    thresholds: &[SHARE],
    charge,
    find,
    ..Rule::EMPTY
};

/// Tensors that one pass reads and writes. SGD is taken with momentum.
const PASSES: [(&str, f64); 5] = [
    ("Adam", 7.0),
    ("AdamW", 7.0),
    ("SGD", 5.0),
    ("RMSprop", 5.0),
    ("Adagrad", 5.0),
];

/// Parts of kernels' names by what they compute, and the tensors that each reads and writes; the first
/// that fits. Source: aten/src/ATen/native/cuda/{PointwiseOpsKernel,Lerp,BinaryMulKernel,ForeachPointwiseOp,
/// ForeachBinaryOpScalar}.cu.
const OPERATIONS: [(&[&str], &str, f64); 13] = [
    (&["addcdiv"], "addcdiv", 4.0),
    (&["addcmul"], "addcmul", 3.0),
    (&["PointwiseOp", "divides"], "addcdiv", 4.0),
    (&["PointwiseOp", "multiplies"], "addcmul", 3.0),
    (&["lerp"], "lerp", 3.0),
    (&["Lerp"], "lerp", 3.0),
    (&["sqrt"], "sqrt", 2.0),
    (&["Sqrt"], "sqrt", 2.0),
    (&["CUDAFunctorOnSelf_add"], "add a number", 2.0),
    (&["Mul"], "mul", 2.0),
    (&["multiplies"], "mul", 2.0),
    (&["CUDAFunctor_add"], "add", 3.0),
    (&["AddFunctor"], "add", 3.0),
];

/// Parts of names of kernels that do all of it in one pass. Source: pytorch FusedAdamKernel.cu,
/// FusedSgdKernel.cu; NVIDIA/apex csrc/multi_tensor_adam.cu.
const FUSED: [&str; 5] = ["FusedAdam", "FusedSgd", "AdamFunctor", "LAMB", "SGDFunctor"];

fn find(profile: &Profile<'_>) -> Vec<Finding> {
    Lost::said(profile, CAUSE, &SHARE, |lost| {
        let sum = |figure: &str| lost.noted(figure).iter().sum::<f64>();
        let (steps, kernels, passes) = (sum("steps"), sum("kernels"), sum("passes"));
        let name = PASSES
            .iter()
            .find(|(name, _)| sum(name) > 0.0)
            .map_or("Adam", |(name, _)| name);
        let statement = format!(
            "{name} passes over parameters and states {:.1} times as often as one pass would, in {:.0} kernels a step: {} could go",
            passes / steps.max(1.0),
            kernels / steps.max(1.0),
            lost.of_the_time()
        );
        let advice = match name {
            "Adam" | "AdamW" => format!(
                "Create it with `torch.optim.{name}(model.parameters(), …, fused=True)` (PyTorch 2.0 or newer)."
            ),
            "SGD" => "Create it with `torch.optim.SGD(model.parameters(), …, fused=True)` (PyTorch 2.3 or newer; before, `foreach=True`).".to_owned(),
            _ => format!(
                "{name} has no fused kernel on GPUs: call `torch.compile(optimizer.step)` in place of `optimizer.step`, or at least create it with `foreach=True`."
            ),
        };
        let more = vec![
            evidence("optimizer_steps", steps, "count", None),
            evidence("optimizer_kernels", kernels, "count", None),
        ];
        lost.finding(1.0, statement, &[&advice], more)
    })
}

/// Kernels of one step of an optimizer.
struct Step<'a> {
    start: i64,
    end: i64,
    name: &'static str,
    tensors: f64,
    kernels: Vec<Kernel<'a>>,
}

fn charge(rank: &Rank<'_>, ledger: &mut Ledger<'_>) {
    let mut steps = steps(rank);
    if steps.is_empty() {
        return;
    }
    for kernel in sequences(rank).into_iter().flatten() {
        let launched = rank.timeline.call_of(kernel.at.work);
        let Some(at) = launched.map(|call| call.start_ns) else {
            continue;
        };
        let after = steps.partition_point(|step| step.start <= at);
        let step = after.checked_sub(1).and_then(|place| steps.get_mut(place));
        if let Some(step) = step.filter(|step| at < step.end)
            && matches!(kernel.kind(), "elementwise" | "optimizer")
            && !ledger.is_spared(kernel.at.place)
        {
            step.kernels.push(kernel);
        }
    }
    let (mut count, mut kernels, mut passes) = (0.0, 0.0, 0.0);
    for step in &steps {
        let Some((slow, fast, times)) = step.fused() else {
            continue;
        };
        count += 1.0;
        kernels += step.kernels.len() as f64;
        passes += times;
        ledger.note(CAUSE, step.name, 1.0);
        let all: f64 = step.kernels.iter().map(Kernel::duration).sum();
        let spared = |of: f64| (1.0 - of / all.max(1.0)).max(0.0);
        let each = step.kernels.iter().map(|kernel| {
            let ns = kernel.duration();
            (kernel.at.place, ns * spared(slow), ns * spared(fast))
        });
        ledger.charge_spared(CAUSE, rank.alone, each);
    }
    ledger.note(CAUSE, "steps", count);
    ledger.note(CAUSE, "kernels", kernels);
    ledger.note(CAUSE, "passes", passes);
}

/// Steps of optimizers of which it is known what one pass moves, in order of time.
fn steps<'a>(rank: &Rank<'_>) -> Vec<Step<'a>> {
    let ranges = rank.timeline.annotations.iter().filter_map(|range| {
        let name = rank.timeline.names.text(range.name);
        let name = name
            .strip_prefix("Optimizer.step#")?
            .strip_suffix(".step")?;
        let (name, tensors) = PASSES.into_iter().find(|(known, _)| *known == name)?;
        Some(Step {
            start: range.start_ns,
            end: range.end_ns,
            name,
            tensors,
            kernels: Vec::new(),
        })
    });
    let mut steps: Vec<Step<'a>> = ranges.collect();
    steps.sort_by_key(|step| step.start);
    steps
}

impl Step<'_> {
    /// Nanoseconds of one pass at the rate of the slowest operation and of the fastest, and how many
    /// times as many tensors are moved now. Nothing where it is fused, or what is computed is not known.
    fn fused(&self) -> Option<(f64, f64, f64)> {
        let fused = |kernel: &Kernel<'_>| FUSED.iter().any(|part| kernel.name().contains(part));
        if self.kernels.iter().any(fused) {
            return None;
        }
        let mut operations: BTreeMap<&str, (f64, f64, f64)> = BTreeMap::new();
        for kernel in &self.kernels {
            let known = OPERATIONS
                .iter()
                .find(|(parts, ..)| parts.iter().all(|part| kernel.name().contains(part)));
            if let Some((_, operation, tensors)) = known {
                let sum = operations.entry(operation).or_insert((0.0, 0.0, *tensors));
                sum.0 += kernel.duration();
                sum.1 += 1.0;
            }
        }
        // Each operation launches as often for every time that it passes over the parameters.
        let most = operations.values().map(|sum| sum.1).fold(0.0, f64::max);
        let regular = operations.values().filter(|sum| sum.1 * 8.0 >= most);
        let launches = regular
            .clone()
            .map(|sum| sum.1)
            .fold(f64::INFINITY, f64::min);
        let of_one = regular
            .clone()
            .map(|(ns, count, tensors)| ns / (tensors * count / launches));
        let slowest = of_one.clone().fold(0.0, f64::max);
        let fastest = of_one.fold(f64::INFINITY, f64::min);
        let moved: f64 = regular
            .map(|(_, count, tensors)| tensors * count / launches)
            .sum();
        (slowest > 0.0).then(|| {
            (
                self.tensors * slowest,
                self.tensors * fastest,
                moved / self.tensors,
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{Made, check, found};

    /// Adam over 20 parameters, after as much other work.
    fn adam(made: &mut Made, kernels: &[(&str, i64)]) {
        made.range("Optimizer.step#Adam.step", 0, 1000);
        let (mut at, mut launched) = (1000, 0);
        for _ in 0..20 {
            for (name, long) in kernels {
                made.kernel(name, at, at + long, at - launched);
                at += long;
                launched += 6;
            }
        }
        made.kernel("some_kernel", at, at + 10_000, at - launched);
    }

    const LOOP: [(&str, i64); 5] = [
        ("vectorized_elementwise_kernel<4, lerp_scalar_kernel>", 30),
        ("vectorized_elementwise_kernel<4, MulFunctor<float>>", 20),
        ("vectorized_elementwise_kernel<4, addcmul_cuda_kernel>", 30),
        ("vectorized_elementwise_kernel<4, sqrt_kernel_cuda>", 20),
        ("vectorized_elementwise_kernel<4, addcdiv_cuda_kernel>", 40),
    ];

    #[test]
    fn unfused_optimizer() {
        check(
            "unfused_optimizer",
            |made| adam(made, &LOOP),
            |made| {
                adam(
                    made,
                    &[("multi_tensor_apply_kernel<FusedAdamMathFunctor<float>>", 70)],
                );
            },
        );
    }

    /// Fourteen tensors are moved where seven would be, all at one rate: half of it goes.
    #[test]
    fn the_gain_is_what_one_pass_does_not_move() {
        let mut made = Made::new();
        adam(&mut made, &LOOP);
        let found = found(&[made]);
        let finding = found
            .iter()
            .find(|one| one.class == "unfused_optimizer")
            .expect("said");
        let lost = finding
            .evidence
            .iter()
            .find(|one| one.figure == "lost_ns")
            .expect("told");
        assert!((lost.value - 1_400_000.0).abs() < 1000.0, "{}", lost.value);
    }
}
