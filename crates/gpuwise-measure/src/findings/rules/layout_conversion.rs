//! Kernels that only move tensors from one memory layout to another.

use crate::{
    figures::names::Remembered,
    findings::{
        ledger::{Cause, Ledger},
        lost::Lost,
        rule::{CERTAIN_KERNEL, Profile, Rank, Row, Rule},
    },
};
use gpuwise_domain::profile::finding::{Finding, FindingDefinition};

const CAUSE: Cause = Cause("layout_conversion");

const SHARE: Row = Row {
    name: "layout_share",
    value: 0.03,
    unit: "share of the span",
    meaning: "time in kernels that convert between channels-first and channels-last, from which it is said",
    source: "-",
};

/// What cuDNN and MIOpen call them.
const NAMES: [&str; 3] = ["nchwToNhwc", "nhwcToNchw", "batched_transpose_"];

pub(super) const RULE: Rule = Rule {
    definition: FindingDefinition {
        class: "layout_conversion",
        title: "layout conversion",
        signal: "Kernels of cuDNN or MIOpen that convert tensors between channels-first and channels-last (`nchwToNhwc`, `nhwcToNchw`, `batched_transpose`) take `layout_share` of the span or more.",
        advice: "Keep model and inputs in channels-last: `to(memory_format=torch.channels_last)`.",
        gain: "high: their time; low: `certain_kernel` of it.",
        source: "PyTorch performance tuning guide, channels-last memory format; NVIDIA, Convolutional Layers User's Guide, tensor layouts",
    },
    thresholds: &[SHARE, CERTAIN_KERNEL],
    charge,
    find,
    ..Rule::EMPTY
};

fn find(profile: &Profile<'_>) -> Vec<Finding> {
    Lost::said(profile, CAUSE, &SHARE, |lost| {
        let (share, first, count) = (lost.of_the_time(), lost.first(), lost.count);
        let statement = format!(
            "{count} kernels that only change the layout of tensors took {share}, most of it {first}"
        );
        let advice = if profile.stack.is_pytorch() {
            "Keep the model and its inputs in channels-last (`model.to(memory_format=torch.channels_last)`, and the same of the batch), so that convolutions need no transposes around them; an operator between them that falls back to channels-first brings them back."
        } else {
            "Keep the model and its inputs in channels-last (NHWC), so that convolutions need no transposes around them."
        };
        lost.finding(1.0, statement, &[advice], Vec::new())
    })
}

fn charge(rank: &Rank<'_>, ledger: &mut Ledger<'_>) {
    let mut known = Remembered::new(&rank.timeline.names);
    let certain = rank.limits.of(&CERTAIN_KERNEL);
    for kernel in rank.ordered.kernels(rank.timeline) {
        let name = kernel.work.name;
        if known.of(name, |name| NAMES.iter().any(|one| name.contains(one))) {
            let time = kernel.duration() as f64 * rank.alone;
            ledger.charge_work(
                CAUSE,
                kernel.place,
                time as i64,
                ((time * certain) as i64, time as i64),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{Made, check};

    #[test]
    fn layout_conversion() {
        let convolutions = |made: &mut Made, converted: i64| {
            for round in 0..10 {
                let at = round * 1000 + 10;
                made.kernel(
                    "cudnn::ops::nchwToNhwcKernel<float>",
                    at,
                    at + converted,
                    500,
                );
                made.kernel("some_kernel", at + converted, at + 1000, 500);
            }
        };
        check(
            "layout_conversion",
            |made| convolutions(made, 100),
            |made| convolutions(made, 10),
        );
    }
}
