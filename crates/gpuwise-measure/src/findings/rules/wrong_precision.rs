//! Kernels compute in FP32 where less suffices.

use super::tensor_cores_unused::{Operands, SHARE, charge_kernels};
use crate::findings::{
    ledger::{Cause, Ledger},
    lost::Lost,
    rule::{Profile, Rank, Row, Rule},
    stack::Framework,
};
use gpuwise_domain::profile::finding::{Finding, FindingDefinition};

const CAUSE: Cause = Cause("wrong_precision");

const CERTAIN_TF32: Row = Row {
    name: "certain_ampere",
    value: 0.4,
    unit: "share of the gain",
    meaning: "what TF32, a switch on compute capability 8.0 and later, is known to bring; before it precision has to be changed in the model, of which nothing is certain",
    source: "NVIDIA, Accelerating AI Training with NVIDIA TF32 Tensor Cores (2021)",
};

pub(super) const RULE: Rule = Rule {
    definition: FindingDefinition {
        class: "wrong_precision",
        title: "FP32 where less suffices",
        signal: "Matrix products, convolutions or attention ran in FP32 on units other than tensor cores for `tensor_cores_share` of the span or more, on a GPU that has them.",
        advice: "TF32 (torch.backends.cuda.matmul.allow_tf32) on Ampere and later, or BF16 and FP16 by autocast, where accuracy allows.",
        gain: "high: 7/8 of the time; low: `certain_ampere` of that from compute capability 8.0 on, else 0.",
        source: "PyTorch documentation, CUDA semantics, TF32; NVIDIA data sheets of V100, A100, H100",
    },
    thresholds: &[SHARE, CERTAIN_TF32],
    charge,
    find,
    same_kernels: true,
    ..Rule::EMPTY
};

fn find(profile: &Profile<'_>) -> Vec<Finding> {
    Lost::said(profile, CAUSE, &SHARE, |lost| {
        let certain = certain(profile);
        let statement = format!(
            "Kernels such as {} compute in FP32 without tensor cores: up to {} could go",
            lost.first(),
            lost.of_the_time()
        );
        let advice = format!("For {}: {}.", lost.listed(), switches(profile));
        lost.finding(certain, statement, &[&advice], Vec::new())
    })
}

/// How a lower precision is asked for, where accuracy allows it.
fn switches(profile: &Profile<'_>) -> &'static str {
    let tf32 = certain(profile) > 0.0 && !profile.stack.is_amd();
    match (profile.stack.framework, tf32) {
        (Some(Framework::PyTorch), true) => {
            "TF32 (`torch.backends.cuda.matmul.allow_tf32 = True`, `cudnn.allow_tf32`), or `torch.autocast` with BF16 or FP16"
        }
        (Some(Framework::PyTorch), false) => "`torch.autocast` with BF16 or FP16",
        (Some(Framework::Xla), true) => {
            "`jax.default_matmul_precision(\"tensorfloat32\")`, or BF16 operands"
        }
        (Some(Framework::Xla), false) => "BF16 operands",
        (None, true) => "TF32, or BF16 or FP16 operands",
        (None, false) => "BF16 or FP16 operands",
    }
}

/// TF32 is a switch where the device has it; before, precision must change in the model, and nothing
/// is certain.
fn certain(profile: &Profile<'_>) -> f64 {
    let capabilities = profile.signals.iter().map(|one| one.compute_capability);
    let mut has_tf32 = capabilities.map(|one| one.is_some_and(|(major, _)| major >= 8));
    if !profile.stack.is_amd() && has_tf32.all(|has| has) {
        profile.limits.of(&CERTAIN_TF32)
    } else {
        0.0
    }
}

fn charge(rank: &Rank<'_>, ledger: &mut Ledger<'_>) {
    // How much of it is certain depends on all ranks' devices.
    charge_kernels(rank, CAUSE, Operands::Wide, 1.0, ledger);
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{check, products};

    #[test]
    fn wrong_precision() {
        check(
            "wrong_precision",
            |made| products(made, "float", (8, 0)),
            |made| products(made, "float", (6, 1)),
        );
    }
}
