//! Kernels on operands that tensor cores take do not use them.

use crate::findings::{
    ledger::{Cause, Ledger},
    lost::Lost,
    rule::{CERTAIN_KERNEL, Profile, Rank, Row, Rule},
};
use gpuwise_domain::profile::{
    figures::TensorCores,
    finding::{Finding, FindingDefinition},
    timeline::{Timeline, Work},
};

const CAUSE: Cause = Cause("tensor_cores_unused");

/// Dense tensor-core peak over that of FP32 units: V100 125 / 15.7, A100 TF32 156 / 19.5, H100 TF32
/// 494 / 67 (NVIDIA data sheets).
const TENSOR_RATIO: f64 = 8.0;

pub(in crate::findings) const SHARE: Row = Row {
    name: "tensor_cores_share",
    value: 0.1,
    unit: "share of the span",
    meaning: "kernels that could use tensor cores and do not, from which it is said",
    source: "pytorch/kineto tb_plugin torch_tb_profiler/profiler/tensor_core.py",
};

pub(super) const RULE: Rule = Rule {
    definition: FindingDefinition {
        class: "tensor_cores_unused",
        title: "tensor cores unused",
        signal: "Matrix products, convolutions or attention on operands of 16 bits or fewer ran kernels that do not use tensor cores, for `tensor_cores_share` of the span or more, on a GPU that has them.",
        advice: "Dimensions in multiples of 8 (16 for 8-bit types), channels-last, a current cuBLAS or cuDNN.",
        gain: "high: 7/8 of the time (a dense peak 8 times that of FP32 units); low: `certain_kernel` of that.",
        source: "pytorch/kineto tb_plugin tensor_core.py; NVIDIA data sheets of V100, A100, H100",
    },
    thresholds: &[SHARE, CERTAIN_KERNEL],
    charge,
    find,
    same_kernels: true,
    ..Rule::EMPTY
};

fn find(profile: &Profile<'_>) -> Vec<Finding> {
    Lost::said(profile, CAUSE, &SHARE, |lost| {
        let statement = format!(
            "Kernels such as {} do not use tensor cores, though their operands fit: up to {} could go",
            lost.first(),
            lost.of_the_time()
        );
        let advice = format!(
            "For {}: dimensions in multiples of 8, channels-last, {}.",
            lost.listed(),
            profile.stack.libraries()
        );
        lost.finding(1.0, statement, &[&advice], Vec::new())
    })
}

fn charge(rank: &Rank<'_>, ledger: &mut Ledger<'_>) {
    let certain = rank.limits.of(&CERTAIN_KERNEL);
    charge_kernels(rank, CAUSE, Operands::Narrow, certain, ledger);
}

/// Whether operands are of a type of 16 bits or fewer; where that is not stated FP32 is assumed, as
/// most that runs on other units is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Operands {
    Narrow,
    Wide,
}

/// Charges kernels that leave tensor cores of their device unused.
pub(super) fn charge_kernels(
    rank: &Rank<'_>,
    cause: Cause,
    wanted: Operands,
    certain: f64,
    ledger: &mut Ledger<'_>,
) {
    for kernel in rank.ordered.kernels(rank.timeline) {
        if kernel.traits.tensor_cores == TensorCores::Unused
            && has_tensor_cores(rank.timeline, kernel.work)
            && operands(rank.timeline, kernel.work) == wanted
        {
            let duration = kernel.duration() as f64 * rank.alone;
            let lost = duration * (1.0 - 1.0 / TENSOR_RATIO);
            ledger.charge_work(
                cause,
                kernel.place,
                lost as i64,
                ((lost * certain) as i64, lost as i64),
            );
        }
    }
}

/// Tensor cores came with compute capability 7.0 (NVIDIA Volta).
fn has_tensor_cores(timeline: &Timeline, work: &Work) -> bool {
    timeline
        .device_of(work)
        .and_then(|device| device.compute_capability)
        .is_some_and(|(major, _)| major >= 7)
}

fn operands(timeline: &Timeline, work: &Work) -> Operands {
    let operands = timeline
        .operator_of(work)
        .and_then(|operator| timeline.operands.get(operator.operands.get()?));
    let narrow = |name: &String| {
        let name = name.to_ascii_lowercase();
        name.contains("half") || name.contains("bfloat16") || name.contains("float8")
    };
    match operands {
        Some(operands) if operands.types.iter().any(narrow) => Operands::Narrow,
        _ => Operands::Wide,
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{check, products};

    #[test]
    fn tensor_cores_unused() {
        check(
            "tensor_cores_unused",
            |made| products(made, "c10::Half", (8, 0)),
            |made| products(made, "float", (8, 0)),
        );
    }
}
